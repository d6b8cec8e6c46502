/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every byte that libxrdma moves, checked at both ends: calls of all sizes with several in flight,
 * messages the other way, slots of a region put, announced and got.
 *
 *	xr_bytes -l [-k CHANNELS] [-b MS] ADDRESS     serve, until so many channels have closed; a
 *	                                              handler blocks once for so long
 *	xr_bytes [-r] [-c CHANNELS] [-n CALLS] [-w MS] [-p MS] ADDRESS
 *	                                              calls for each channel; -r: one that fails is
 *	                                              dialed again; -w: wait before closing them,
 *	                                              or for SIGUSR1; -p: pause between calls,
 *	                                              and end at SIGUSR1
 *
 * -s BYTES, of both: no message is larger. What a message must be follows from its channel's seed
 *and its number. Exit status: 0 all right, 1 set-up, 2 wrong bytes, 3 a channel failed. "figures:"
 *lines tell what is held.
 */
#include "base/clock.h"
#include "base/rng.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xrdma/xrdma.h>

enum {
	IN_FLIGHT = 4,
	SLOTS = 256,
	SLOT_BYTES = 128 << 10,
	SLOT_EVERY = 8,
	NOTE_EVERY = 5,
	REDIAL_MS = 50
};
enum stream { CALL, REPLY, NOTE, SLOT }; /* kinds of content: each has numbers of its own */
enum { SET_UP = 1, WRONG = 2, FAILED = 3 };

/* What a client says first. */
struct greeting {
	uint64_t seed;
	uint32_t slot;
};

struct call {
	struct end *end;
	uint32_t number;
	bool busy;
};

struct end {
	struct xrdma_channel *ch;
	struct xrdma_remote_region *remote;
	uint64_t seed;
	uint32_t slot;
	bool greeted;
	uint32_t begun, ended; /* calls */
	uint32_t notes, slots; /* so far, of either side */
	bool slot_busy, to_dial, finished;
	uint32_t slot_free_after; /* so many replies */
	struct call calls[IN_FLIGHT];
};

static struct xrdma_context *ctx;
static struct xrdma_region *region; /* the server's */
static uint32_t n_channels = 1, n_calls = 200, n_closed, n_pending;
static uint64_t n_bytes;
static size_t largest = SIZE_MAX;
static uint32_t block_ms, wait_ms, pause_ms, n_finished;
static volatile sig_atomic_t ending, asked;
static bool serving, redial;
static int result;

/* ---- contents ---- */

static uint64_t seed_of(const struct end *end, enum stream stream, uint32_t number)
{
	return end->seed + (uint64_t)stream * 0x100000000 + number;
}

static size_t len_of(const struct end *end, enum stream stream, uint32_t number)
{
	static const size_t lens[] = {0,    1,     63,    64,      100,          4096,
				      4097, 65536, 65537, 1 << 20, (3 << 20) + 5};
	const size_t n = sizeof(lens) / sizeof(lens[0]);
	struct rng rng = {seed_of(end, stream, number) ^ 0x5a5a};

	size_t len = stream == NOTE   ? rng_below(&rng, 200)
		     : stream == SLOT ? 1 + rng_below(&rng, SLOT_BYTES)
				      : lens[rng_below(&rng, (uint32_t)n)];

	return len < largest ? len : largest;
}

static void fill(uint8_t *p, size_t len, uint64_t seed)
{
	struct rng rng = {seed};

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = rng_next(&rng);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

static void stop(int status)
{
	if (result == 0)
		result = status;
	xrdma_stop(ctx);
}

static void check(const struct end *end, enum stream stream, uint32_t number, struct xrdma_msg *m)
{
	static const char *const names[] = {"call", "reply", "note", "slot"};
	size_t len = len_of(end, stream, number);
	const uint8_t *p = xrdma_msg_data(m);
	struct rng rng = {seed_of(end, stream, number)};

	n_bytes += len;
	if (xrdma_msg_len(m) != len) {
		printf("%s %u: %zu bytes, not %zu\n", names[stream], number, xrdma_msg_len(m), len);
		stop(WRONG);
		return;
	}
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = rng_next(&rng);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8)) {
			printf("%s %u: wrong at byte %zu of %zu\n", names[stream], number, i, len);
			stop(WRONG);
			return;
		}
	}
}

static void require(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, xrdma_last_error());
	exit(SET_UP);
}

/* NULL: memory is spent, or the channel has begun to close. */
static struct xrdma_msg *make(const struct end *end, enum stream stream, uint32_t number)
{
	size_t len = len_of(end, stream, number);
	struct xrdma_msg *m;

	if (xrdma_msg_new(end->ch, len, &m))
		return NULL;
	fill(xrdma_msg_data(m), len, seed_of(end, stream, number));
	return m;
}

/* ---- figures ---- */

/* But UDP sockets: the NIC opens one the first time that it takes a source port, of a bounded set.
 */
static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned n = 0;

	while (dir && (entry = readdir(dir))) {
		int type = 0;
		socklen_t len = sizeof(type);

		n += getsockopt(atoi(entry->d_name), SOL_SOCKET, SO_TYPE, &type, &len) != 0 ||
		     type != SOCK_DGRAM;
	}
	if (dir)
		closedir(dir);
	return n;
}

static void print_figures(const char *when)
{
	static const char *const names[] = {"qps",          "channels",       "receives_posted",
					    "sends_posted", "messages_held",  "memory_regions",
					    "wc_rnr",       "protocol_errors"};
	uint64_t value;

	printf("figures: %s:", when);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		require(xrdma_stat_by_name(ctx, names[i], &value), names[i]);
		printf(" %s %llu", names[i], (unsigned long long)value);
	}
	printf(" fds %u\n", count_fds());
	fflush(stdout);
}

static void figures_if_asked(void)
{
	if (asked)
		print_figures("now");
	asked = 0;
}

static void print_counted(void)
{
	static const char *const names[] = {"breaks", "recoveries", "redials",
					    "resent", "wc_rnr",     "stale_epochs"};
	uint64_t value;

	printf("counted:");
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		require(xrdma_stat_by_name(ctx, names[i], &value), names[i]);
		printf(" %s %llu", names[i], (unsigned long long)value);
	}
	printf("\n");
	fflush(stdout);
}

/* ---- server ---- */

static void answer(struct end *end, struct xrdma_msg *request)
{
	uint32_t number = end->begun++;
	struct xrdma_msg *reply, *note;

	check(end, CALL, number, request);
	reply = make(end, REPLY, number);
	if (!reply || xrdma_reply(request, reply)) {
		xrdma_msg_free(reply);
		xrdma_msg_free(request);
		return;
	}
	if (number % NOTE_EVERY)
		return;
	note = make(end, NOTE, end->notes);
	if (note && xrdma_send_msg(end->ch, note))
		xrdma_msg_free(note);
	end->notes++;
}

static void served(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg)
{
	struct end *end = xrdma_channel_user(ch);
	struct greeting greeting;

	if (block_ms && end->begun == 50) {
		printf("blocks\n");
		fflush(stdout);
		usleep(block_ms * 1000);
		block_ms = 0;
	}

	if (!end->greeted) {
		memcpy(&greeting, xrdma_msg_data(msg), sizeof(greeting));
		end->seed = greeting.seed;
		end->slot = greeting.slot;
		end->greeted = true;
		xrdma_msg_free(msg);
	} else if (xrdma_msg_slot(msg) >= 0) {
		check(end, SLOT, end->slots++, msg);
		xrdma_msg_free(msg);
	} else {
		answer(end, msg);
	}
}

static void tell(const struct xrdma_channel *ch, enum xrdma_event event, int status)
{
	static const char *const names[] = {[XRDMA_BROKEN] = "broken",
					    [XRDMA_RECOVERED] = "recovered",
					    [XRDMA_MOCKED] = "mocked",
					    [XRDMA_UNMOCKED] = "unmocked"};

	printf("%s: %s, epoch %u\n", names[event], strerror(-status), xrdma_channel_epoch(ch));
	fflush(stdout);
}

static void server_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	if (event == XRDMA_CONNECTED) {
		struct end *end = calloc(1, sizeof(*end));

		require(end ? 0 : -1, "calloc");
		end->ch = ch;
		xrdma_channel_set_user(ch, end);
		require(xrdma_region_export(region, ch, 7), "xrdma_region_export");
		return;
	}
	if (event != XRDMA_CLOSED) {
		tell(ch, event, status);
		return;
	}
	free(xrdma_channel_user(ch));
	printf("channel %u closed: %s\n", ++n_closed, status ? strerror(-status) : "in good order");
	xrdma_stop(ctx);
}

static void serve(const char *address, uint32_t channels)
{
	const struct xrdma_handlers handlers = {.on_msg = served, .on_event = server_event};
	const struct xrdma_region_attr attr = {.slot_bytes = SLOT_BYTES,
					       .n_slots = SLOTS,
					       .rights = XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE,
					       .numa_node = -1};
	struct xrdma_listener *listener;

	require(xrdma_region_new(ctx, &attr, &region), "xrdma_region_new");
	require(xrdma_listen(ctx, address, &handlers, NULL, &listener), "xrdma_listen");
	print_figures("listening");
	while (result == 0 && n_closed < channels) {
		uint32_t n = n_closed;

		xrdma_run(ctx, 3000);
		print_figures(n != n_closed ? "after a channel" : asked ? "now" : "idle");
		asked = 0;
	}
	print_counted();
}

/* ---- client ---- */

static void go_on(struct end *end);

static void got(struct xrdma_channel *ch, int status, struct xrdma_msg *m, void *arg)
{
	struct end *end = arg;

	n_pending--;
	end->slot_busy = false;
	if (status == 0)
		check(end, SLOT, end->slots++, m);
	xrdma_msg_free(m);
	if (status == 0)
		go_on(end);
}

/* The slot is filled: tell the server, and read it back. */
static void put(struct xrdma_channel *ch, int status, struct xrdma_msg *m, void *arg)
{
	struct end *end = arg;
	size_t len = xrdma_msg_len(m);

	n_pending--;
	xrdma_msg_free(m);
	end->slot_busy = status == 0;
	if (status)
		return;
	require(xrdma_send_slot(ch, end->remote, end->slot, len), "xrdma_send_slot");
	/* Then there is one among them whose call came after this message. */
	end->slot_free_after = end->begun + 1;
	require(xrdma_msg_new(ch, len, &m), "xrdma_msg_new");
	memset(xrdma_msg_data(m), 0, len);
	require(xrdma_get(ch, end->remote, end->slot, 0, m, got, end), "xrdma_get");
	n_pending++;
}

static void use_slot(struct end *end)
{
	struct xrdma_msg *m = make(end, SLOT, end->slots);

	require(m ? 0 : -1, "xrdma_msg_new");
	require(xrdma_put(end->ch, end->remote, end->slot, 0, m, put, end), "xrdma_put");
	end->slot_busy = true;
	n_pending++;
}

static void replied(struct xrdma_channel *ch, int status, struct xrdma_msg *reply, void *arg)
{
	struct call *call = arg;

	n_pending--;
	call->busy = false;
	call->end->ended++;
	if (status == 0)
		check(call->end, REPLY, call->number, reply);
	xrdma_msg_free(reply);
	if (status == 0 && !pause_ms)
		go_on(call->end);
}

static void begin(struct end *end, struct call *call)
{
	struct xrdma_msg *m = make(end, CALL, end->begun);

	require(m ? 0 : -1, "xrdma_msg_new");
	*call = (struct call){end, end->begun++, true};
	require(xrdma_call(end->ch, m, 0, replied, call, NULL), "xrdma_call");
	n_pending++;
}

static void finish(struct end *end)
{
	end->finished = true;
	if (wait_ms == 0)
		xrdma_channel_close(end->ch);
	else if (++n_finished == n_channels)
		xrdma_stop(ctx);
}

static void go_on(struct end *end)
{
	for (unsigned i = 0; i < IN_FLIGHT && end->begun < n_calls; i++) {
		if (!end->calls[i].busy)
			begin(end, &end->calls[i]);
	}
	if (end->remote && !end->slot_busy && !ending && end->ended >= end->slot_free_after &&
	    end->slots < end->ended / SLOT_EVERY)
		use_slot(end);
	else if (end->ended == end->begun && end->begun >= n_calls && !end->slot_busy)
		finish(end);
}

static void note_came(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg)
{
	struct end *end = arg;

	check(end, NOTE, end->notes++, msg);
	xrdma_msg_free(msg);
}

static void region_came(struct xrdma_channel *ch, struct xrdma_remote_region *remote, void *arg)
{
	struct end *end = arg;

	end->remote = remote;
	if (xrdma_remote_region_tag(remote) != 7 || xrdma_remote_region_slots(remote) != SLOTS)
		stop(WRONG);
	go_on(end);
}

/* All that was begun has ended before the channel does. */
static void check_ended(const struct end *end)
{
	bool busy = end->slot_busy;

	for (unsigned i = 0; i < IN_FLIGHT; i++)
		busy |= end->calls[i].busy;
	if (!busy)
		return;
	printf("an operation has not ended with its channel\n");
	stop(WRONG);
}

static void client_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct end *end = arg;
	struct greeting greeting = {end->seed, end->slot};
	struct xrdma_msg *m;

	if (event == XRDMA_CONNECTED) {
		require(xrdma_msg_new(ch, sizeof(greeting), &m), "xrdma_msg_new");
		memcpy(xrdma_msg_data(m), &greeting, sizeof(greeting));
		require(xrdma_send_msg(ch, m), "xrdma_send_msg");
		printf("connected: epoch %u\n", xrdma_channel_epoch(ch));
		fflush(stdout);
		go_on(end);
		return;
	}
	if (event != XRDMA_CLOSED) {
		tell(ch, event, status);
		return;
	}
	if (status) {
		printf("closed: %d: %s\n", status, xrdma_last_error());
		fflush(stdout);
	}
	if (status && redial) {
		check_ended(end);
		end->to_dial = true;
		return;
	}
	if (status) {
		result = result ? result : FAILED;
	} else if (!ending && (end->notes != (n_calls + NOTE_EVERY - 1) / NOTE_EVERY ||
			       end->slots < n_calls / (8 * SLOT_EVERY))) {
		printf("%u notes and %u slots are too few\n", end->notes, end->slots);
		result = WRONG;
	}
	if (++n_closed == n_channels)
		xrdma_stop(ctx);
}

/* From the first message on. */
static void dial_again(struct end *ends, const char *address, const struct xrdma_handlers *handlers)
{
	for (uint32_t i = 0; i < n_channels; i++) {
		if (!ends[i].to_dial)
			continue;
		ends[i] = (struct end){.seed = ends[i].seed, .slot = ends[i].slot};
		require(xrdma_connect(ctx, address, handlers, &ends[i], &ends[i].ch),
			"xrdma_connect");
	}
}

static void call_again(struct end *ends)
{
	if (ending)
		n_calls = 0;
	for (uint32_t i = 0; i < n_channels; i++) {
		if (ends[i].remote && !ends[i].finished)
			go_on(&ends[i]);
	}
}

static void wait_and_close(const struct end *ends)
{
	printf("waiting\n");
	fflush(stdout);
	xrdma_run(ctx, (int)wait_ms);
	for (uint32_t i = 0; i < n_channels; i++) {
		if (ends[i].finished)
			xrdma_channel_close(ends[i].ch);
	}
	xrdma_run(ctx, -1);
}

static void run_client(const char *address)
{
	const struct xrdma_handlers handlers = {
		.on_msg = note_came, .on_region = region_came, .on_event = client_event};
	struct end *ends = calloc(n_channels, sizeof(*ends));
	uint64_t began = clock_now_ns();

	require(ends ? 0 : -1, "calloc");
	print_figures("before");
	for (uint32_t i = 0; i < n_channels; i++) {
		ends[i].seed = (uint64_t)getpid() << 40 ^ (uint64_t)i << 20;
		ends[i].slot = i % SLOTS;
		require(xrdma_connect(ctx, address, &handlers, &ends[i], &ends[i].ch),
			"xrdma_connect");
	}
	while ((redial || pause_ms) && n_closed < n_channels && result == 0) {
		xrdma_run(ctx, pause_ms ? (int)pause_ms : REDIAL_MS);
		dial_again(ends, address, &handlers);
		if (pause_ms)
			call_again(ends);
		figures_if_asked();
	}
	if (!redial && !pause_ms)
		xrdma_run(ctx, -1);
	if (wait_ms && n_closed < n_channels)
		wait_and_close(ends);
	print_figures("after");
	print_counted();
	if (n_pending) {
		printf("%u operations have not ended\n", n_pending);
		result = WRONG;
	}
	if (result == 0)
		printf("every byte right: %llu in %llu ms\n", (unsigned long long)n_bytes,
		       (unsigned long long)((clock_now_ns() - began) / NSEC_PER_MSEC));
	free(ends);
}

static void told(int number)
{
	ending |= number == SIGUSR1;
	asked |= number == SIGUSR2;
	xrdma_stop(ctx);
}

int main(int argc, char **argv)
{
	uint32_t served_channels = UINT32_MAX;

	for (int c; (c = getopt(argc, argv, "lrk:b:w:p:s:c:n:")) != -1;) {
		if (c == 'l')
			serving = true;
		else if (c == 'r')
			redial = true;
		else if (c == 'b')
			block_ms = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 'w')
			wait_ms = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 'p')
			pause_ms = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 's')
			largest = strtoul(optarg, NULL, 0);
		else if (c == 'k')
			served_channels = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 'c')
			n_channels = (uint32_t)strtoul(optarg, NULL, 0);
		else if (c == 'n')
			n_calls = (uint32_t)strtoul(optarg, NULL, 0);
		else
			return SET_UP;
	}
	if (optind != argc - 1)
		return SET_UP;
	require(xrdma_open(NULL, &ctx), "xrdma_open");
	signal(SIGUSR1, told);
	signal(SIGUSR2, told);
	if (serving)
		serve(argv[optind], served_channels);
	else
		run_client(argv[optind]);
	xrdma_close(ctx);
	return result;
}
