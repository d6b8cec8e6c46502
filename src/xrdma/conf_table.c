/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/conf_priv.h"
#include "xrdma/filter.h"

#include <assert.h>

static const char *const auto_on_off[] = {"auto", "on", "off", NULL};
static const char *const mem_windows[] = {"off", "type1", "type2", NULL};
static const char *const transports[] = {"auto", "force-rdma", "force-tcp", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

#define FIELD(member)                                                                              \
	.name = #member, .offset = offsetof(struct xr_conf, member),                               \
	.size = sizeof(((struct xr_conf *)NULL)->member)
#define PATH .type = XR_STRING, .unit = "a file name", .max = XR_PATH_BYTES - 1, .text = ""

const struct xr_option xr_options[] = {
	/* device and path */
	{FIELD(device), .type = XR_STRING, .unit = "a device name, or auto", .min = 1,
	 .max = XR_NAME_BYTES - 1, .text = "auto", .example = "mlx5_0",
	 .doc = "Verbs device. auto: that of the best GID."},
	{FIELD(gid), .type = XR_STRING, .unit = "a GID index, its address, or auto", .min = 1,
	 .max = XR_NAME_BYTES - 1, .text = "auto", .example = "192.0.2.1",
	 .doc = "Local GID. auto: RoCE v2, not link-local, best in the subnet of the peer."},
	{FIELD(port), .type = XR_U32, .min = 1, .max = 255, .or_auto = true,
	 .doc = "Port of the device. auto: that of the best GID."},
	{FIELD(mtu), .type = XR_POWER2, .unit = "bytes", .min = 256, .max = 4096, .def = 4096,
	 .doc = "Most payload of a packet; the active MTU of both ports bounds it too."},
	{FIELD(timeout), .type = XR_U32, .min = 1, .max = 31, .def = 14,
	 .doc = "Time to wait for the peer's NIC, 4.096 us * 2^n, before a resend."},
	{FIELD(retry_cnt), .type = XR_U32, .unit = "resends", .min = 0, .max = 7, .def = 6,
	 .doc = "Resends before the peer's NIC counts as gone. The kernel's rxe takes 7 for no "
		"end, as of rnr_retry: a dead peer is never found."},
	{FIELD(rnr_retry), .type = XR_U32, .unit = "resends", .min = 0, .max = 7, .def = 7,
	 .doc = "Resends when the receiver is not ready, which cannot happen; 7: no end."},
	{FIELD(min_rnr_timer), .type = XR_U32, .min = 1, .max = 31, .def = 12,
	 .doc = "Wait that a receiver not ready asks for, as encoded by InfiniBand: 12 is "
		"0.64 ms. (0 would be 655 ms.)"},
	{FIELD(traffic_class), .type = XR_U32, .min = 0, .max = 255, .def = 0,
	 .doc = "IP traffic class of the packets: DSCP * 4 + ECN bits."},
	{FIELD(hop_limit), .type = XR_U32, .unit = "hops", .min = 1, .max = 255, .def = 64,
	 .doc = "IP hop limit of the packets."},
	{FIELD(max_rd_atomic), .type = XR_U32, .unit = "READs", .min = 1, .max = 128, .def = 16,
	 .doc = "READs of a channel in flight at the NIC; the devices of both sides bound it too."},
	{FIELD(max_inline), .type = XR_BYTES, .unit = "bytes", .min = 0, .max = 4096, .def = 256,
	 .doc = "Message up to which the NIC gets the data with the request; the device bounds it "
		"too."},

	/* messages and flow */
	{FIELD(window), .type = XR_U32, .unit = "messages", .min = 1, .max = 4096, .def = 64,
	 .doc = "Messages per direction that the other application has not consumed. The smaller "
		"of both sides."},
	{FIELD(control), .type = XR_U32, .unit = "messages", .min = 4, .max = 128, .def = 8,
	 .doc = "Control messages per direction in flight. The smaller of both sides."},
	{FIELD(small_bytes), .type = XR_BYTES, .unit = "bytes", .min = 64, .max = 65536,
	 .def = 4096,
	 .doc = "Up to this a message is one SEND; a larger one is announced and READ by the "
		"receiver. The smaller of both sides."},
	{FIELD(frag_bytes), .type = XR_BYTES, .unit = "bytes", .min = 4096, .max = 1 << 30,
	 .def = 65536,
	 .doc = "Large messages move in fragments of this size, small ones up to 256 KiB at once. "
		"The smaller of both sides."},
	{FIELD(max_msg), .type = XR_BYTES, .unit = "bytes", .min = 4096, .max = UINT32_MAX,
	 .def = 1 << 30,
	 .doc = "Largest message. The smaller of both sides; 7/8 of rx_budget_bytes bounds it "
		"too."},
	{FIELD(max_calls), .type = XR_U32, .unit = "requests", .min = 16, .max = 65536, .def = 1024,
	 .doc = "Requests of a channel without a reply."},
	{FIELD(queue_depth), .type = XR_U32, .unit = "messages", .min = 1, .max = 1 << 20,
	 .def = 4096, .runtime = true,
	 .doc = "Messages that wait in a channel for its window before a send says EAGAIN."},
	{FIELD(max_wr), .type = XR_U32, .unit = "work requests", .min = 16, .max = 65536,
	 .def = 512,
	 .doc = "Sends and fragments of a context at the NIC; the rest waits its turn."},
	{FIELD(signal_every), .type = XR_U32, .unit = "work requests", .min = 1, .max = 1024,
	 .def = 16, .doc = "Of this many sends one asks for a completion."},
	{FIELD(max_channels), .type = XR_U32, .unit = "channels", .min = 1, .max = 1 << 20,
	 .def = 8192, .doc = "Channels of a context."},
	{FIELD(srq), .type = XR_ENUM, .choices = auto_on_off, .def = XR_CHOICE_AUTO,
	 .doc = "Receive buffers shared by all channels, so that memory does not grow with their "
		"number. auto: when there are many channels."},
	{FIELD(srq_max), .type = XR_U32, .unit = "receives", .min = 64, .max = 1 << 20,
	 .def = 16384, .doc = "Receives posted in the shared queue."},

	/* progress */
	{FIELD(idle_us), .type = XR_U32, .unit = "microseconds", .min = 0, .max = 10000000,
	 .def = 100, .runtime = true, .doc = "xrdma_run() sleeps after this long without traffic."},
	{FIELD(housekeeping_us), .type = XR_U32, .unit = "microseconds", .min = 10, .max = 1000000,
	 .def = 1000, .runtime = true, .doc = "How often busy polling looks at sockets."},
	{FIELD(ack_delay_us), .type = XR_U32, .unit = "microseconds", .min = 0, .max = 1000000,
	 .def = 200, .runtime = true,
	 .doc = "An acknowledgement waits this long, and at most twice, for a message to ride on."},

	/* connection */
	{FIELD(connect_timeout_ms), .type = XR_U32, .unit = "milliseconds", .min = 1,
	 .max = 3600000, .def = 10000, .runtime = true,
	 .doc = "For all of the set-up of a channel, and for each step of the peer after it."},
	{FIELD(peer_timeout_ms), .type = XR_U32, .unit = "milliseconds", .min = 100, .max = 3600000,
	 .def = 20000, .doc = "A peer whose TCP is silent this long is gone."},
	{FIELD(max_pending), .type = XR_U32, .unit = "connections", .min = 1, .max = 65536,
	 .def = 1024, .runtime = true,
	 .doc = "Connections accepted and not set up yet; those over it are refused."},
	{FIELD(max_dials), .type = XR_U32, .unit = "connections", .min = 1, .max = 65536,
	 .def = 128, .runtime = true,
	 .doc = "Connections of a context being dialed at once, until the peer answers over them; "
		"others wait their turn, first ones and recoveries alternately."},
	{FIELD(keepalive_ms), .type = XR_U32, .unit = "milliseconds", .min = 0, .max = 86400000,
	 .def = 5000, .runtime = true,
	 .doc = "After so long without a sign of the peer its NIC is asked for one, or up to an "
		"eighth sooner, with others at once; 0: never."},
	{FIELD(qp_cache), .type = XR_U32, .unit = "queue pairs", .min = 0, .max = 65536, .def = 64,
	 .doc = "Queue pairs of closed channels kept for new ones."},
	{FIELD(recovery_ms), .type = XR_U32, .unit = "milliseconds", .min = 0, .max = 86400000,
	 .def = 120000, .runtime = true,
	 .doc = "A broken channel is closed if it is not recovered for so long; 0: at once."},
	{FIELD(backoff_min_ms), .type = XR_U32, .unit = "milliseconds", .min = 1, .max = 60000,
	 .def = 10, .runtime = true,
	 .doc = "Wait before a recovery that has failed is tried again; doubles each time."},
	{FIELD(backoff_max_ms), .type = XR_U32, .unit = "milliseconds", .min = 1, .max = 600000,
	 .def = 1000, .runtime = true, .doc = "Longest wait between attempts to recover."},
	{FIELD(transport), .type = XR_ENUM, .choices = transports, .def = XR_TRANSPORT_AUTO,
	 .doc = "What carries messages. auto: RDMA, and while that does not work the TCP "
		"connection of the set-up, if the peer agrees; force-tcp: never RDMA; force-rdma: "
		"never TCP."},
	{FIELD(mock_after), .type = XR_U32, .unit = "attempts", .min = 0, .max = 1000, .def = 3,
	 .runtime = true,
	 .doc = "So often RDMA must fail to set up or recover a channel before TCP takes over; 0: "
		"at the first break."},
	{FIELD(mock_back_after), .type = XR_U32, .unit = "probes", .min = 1, .max = 1000, .def = 3,
	 .runtime = true,
	 .doc = "So many probes of RDMA in a row must succeed before it takes over from TCP."},
	{FIELD(mock_probe_ms), .type = XR_U32, .unit = "milliseconds", .min = 1, .max = 3600000,
	 .def = 1000, .runtime = true,
	 .doc = "Time between probes of RDMA; up to eight times as long while they fail."},
	{FIELD(tls), .type = XR_ENUM, .choices = auto_on_off, .def = XR_CHOICE_AUTO,
	 .doc = "TLS 1.3 of the connection that exchanges keys. auto: required, except between two "
		"loopback addresses. off: plain TCP; whoever listens learns the keys."},
	{FIELD(tls_cert), PATH, .example = "/etc/xrdma/cert.pem",
	 .doc = "Our certificate, followed by those between it and the authority (PEM)."},
	{FIELD(tls_key), PATH, .example = "/etc/xrdma/key.pem",
	 .doc = "The private key of tls_cert (PEM)."},
	{FIELD(tls_ca), PATH, .example = "/etc/xrdma/ca.pem",
	 .doc = "Authorities that certificates of peers are checked against (PEM). A server that "
		"has it demands a certificate of each client."},
	{FIELD(tls_name), .type = XR_STRING, .unit = "a host name or an address", .min = 0,
	 .max = XR_NAME_BYTES - 1, .text = "", .example = "storage.example.com",
	 .doc = "Name that the server's certificate must have. Empty: the host of the address "
		"connected to."},
	{FIELD(tls_psk), .type = XR_HEX, .unit = "hexadecimal digits, an even number", .min = 32,
	 .max = 2 * XR_PSK_BYTES, .text = "", .example = "$(openssl rand -hex 32)",
	 .doc = "Secret key that both sides know, in place of certificates."},
	{FIELD(tls_psk_identity), .type = XR_STRING, .unit = "a name", .min = 1, .max = 127,
	 .text = "xrdma", .example = "rack7", .doc = "Name of tls_psk, sent in clear."},

	/* memory */
	{FIELD(tx_budget_bytes), .type = XR_BYTES, .unit = "bytes", .min = 4 << 20,
	 .max = UINT64_C(1) << 40, .def = 512 << 20,
	 .doc = "Most registered memory for messages to send; grows and shrinks on demand."},
	{FIELD(rx_budget_bytes), .type = XR_BYTES, .unit = "bytes", .min = 4 << 20,
	 .max = UINT64_C(1) << 40, .def = 512 << 20,
	 .doc = "Most registered memory for messages received; grows and shrinks on demand."},
	{FIELD(slab_bytes), .type = XR_BYTES, .unit = "bytes", .min = 2 << 20, .max = 1 << 30,
	 .def = 4 << 20,
	 .doc = "Memory is registered in units of this; whole huge pages are best."},
	{FIELD(slabs_min), .type = XR_U32, .unit = "slabs", .min = 0, .max = 65536, .def = 1,
	 .doc = "Slabs per direction that are kept although idle."},
	{FIELD(trim_ms), .type = XR_U32, .unit = "milliseconds", .min = 1, .max = 3600000,
	 .def = 1000, .runtime = true, .doc = "A slab idle this long is given back."},
	{FIELD(regcache_entries), .type = XR_U32, .unit = "registrations", .min = 1, .max = 65536,
	 .def = 256, .doc = "Registrations of callers' memory that are kept."},
	{FIELD(regcache_bytes), .type = XR_BYTES, .unit = "bytes", .min = 4096,
	 .max = UINT64_C(1) << 40, .def = UINT64_C(1) << 30,
	 .doc = "Callers' memory that is kept registered."},
	{FIELD(huge), .type = XR_ENUM, .choices = auto_on_off, .def = XR_CHOICE_AUTO,
	 .doc = "Huge pages. auto: if there are any, and counted (memory_huge_bytes); on: reserved "
		"ones, or fail."},
	{FIELD(numa), .type = XR_U32, .unit = "NUMA node", .min = 0, .max = 1023, .or_auto = true,
	 .doc = "Where memory lies, if there is room. auto: near the device."},
	{FIELD(guard), .type = XR_BOOL,
	 .doc = "Each message ends at a page that must not be touched: finds writes out of bounds, "
		"slowly."},
	{FIELD(odp), .type = XR_BOOL,
	 .doc = "Register callers' memory and regions for on-demand paging where the device offers "
		"it, and counted (odp_registrations)."},
	{FIELD(mem_windows), .type = XR_ENUM, .choices = mem_windows, .def = XR_MEM_WINDOWS_OFF,
	 .doc = "Large messages are shown to the peer by memory windows: a new key for each, to "
		"its "
		"bytes alone, dead when it was read. type2: invalidated by the peer's answer."},

	/* watching and testing */
	{FIELD(filter), .type = XR_STRING, .unit = "rules", .min = 0, .max = XR_PATH_BYTES - 1,
	 .text = "", .example = "drop:out:type=REQ:p=0.01:n=3,delay=500:in", .runtime = true,
	 .check = xr_filter_check,
	 .doc = "Faults on purpose: drop, delay=US, duplicate, corrupt or fail=STATUS, each with "
		"conditions in, out, ch=, type=, p=, n=, after= behind colons; seed=N."},
	{FIELD(trace), .type = XR_BOOL,
	 .doc = "Requests and replies may carry times, if the peer has it on too; off: not a byte "
		"more."},
	{FIELD(trace_sample), .type = XR_U32, .unit = "calls", .min = 0, .max = 1000000, .def = 64,
	 .runtime = true, .doc = "Of this many calls one is traced, if trace is on; 0: none."},
	{FIELD(trace_file), PATH, .example = "/tmp/trace",
	 .doc = "Write what is traced to FILE.PID.NUMBER.json, for a trace viewer."},
	{FIELD(slow_poll_us), .type = XR_U32, .unit = "microseconds", .min = 0, .max = 60000000,
	 .def = 0, .runtime = true,
	 .doc = "Count and report when busy polling comes by later than this, handlers included; "
		"0: not watched."},
	{FIELD(slow_handler_us), .type = XR_U32, .unit = "microseconds", .min = 0, .max = 60000000,
	 .def = 0, .runtime = true,
	 .doc = "Count and report callbacks for messages that take longer; 0: not watched."},
	{FIELD(monitor), .type = XR_BOOL, .def = 1,
	 .doc = "Figures in shared memory, for other programs of the same user to read."},
	{FIELD(log), .type = XR_ENUM, .choices = log_levels, .def = LOG_WARN, .runtime = true,
	 .doc = "What is reported on standard error. Of the process: who opens or sets last, "
		"decides."},
};

const unsigned xr_n_options = sizeof(xr_options) / sizeof(xr_options[0]);

static_assert(sizeof(xr_options) / sizeof(xr_options[0]) <= XR_OPTIONS_MAX, "xrdma_conf.source");
