/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind {
	TEXT,   /* const char * */
	CHOICE, /* an enum, whose values number the choices */
	NUMBER, /* uint32_t, or uint64_t */
	POWER2, /* uint32_t */
};

enum { NO_LIMIT = 0 }; /* fw_ver is at offset 0 of ibv_device_attr and not a limit */

struct setting {
	const char *name;
	const char *unit; /* TEXT: what is expected */
	const char *doc;
	const char *example;        /* TEXT */
	const char *const *choices; /* CHOICE, NULL-terminated */
	uint64_t min, max, def;     /* def of CHOICE: its number */
	size_t limit;               /* where ibv_device_attr has the default, an int; or NO_LIMIT */
	enum kind kind;
	size_t offset, size; /* in struct urxe_settings */
};

static const char *const real_modes[] = {"beside", "hide", NULL};
static const char *const link_modes[] = {"auto", "udp", NULL};
static const char *const ecn_modes[] = {"off", "on", NULL};
static const char *const key_modes[] = {"fresh", "reuse", NULL};
static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

#define FIELD(member)                                                                              \
	.offset = offsetof(struct urxe_settings, member),                                          \
	.size = sizeof(((struct urxe_settings *)NULL)->member)
#define LIMIT(member) .limit = offsetof(struct ibv_device_attr, member), .min = 1

static const struct setting table[] = {
	{"URXE_NETDEV", "interface names, comma-separated",
	 "Make devices of these interfaces only, in this order. Unset: of all that\n"
	 "are up and have an address, loopback last.",
	 .example = "eth0,lo", .kind = TEXT, FIELD(netdev)},
	{"URXE_REAL", "", "Real RDMA devices stay visible before ours, or are hidden.",
	 .choices = real_modes, .def = URXE_REAL_BESIDE, .kind = CHOICE, FIELD(real)},
	{"URXE_LINK", "",
	 "How peers of the same network namespace are reached: auto uses shared\n"
	 "memory; udp sends real packets to them too, and must be set on both\n"
	 "sides.",
	 .choices = link_modes, .def = URXE_LINK_AUTO, .kind = CHOICE, FIELD(link)},
	{"URXE_MTU", "bytes",
	 "Upper bound of the active MTU; the interface's own MTU bounds it too.", .min = 256,
	 .max = 4096, .def = 4096, .kind = POWER2, FIELD(mtu)},
	{"URXE_UDP_PORT", "", "UDP port of RoCEv2. Peers must agree; real NICs know only 4791.",
	 .min = 1, .max = 65535, .def = 4791, .kind = NUMBER, FIELD(udp_port)},
	{"URXE_RCVBUF", "bytes",
	 "UDP receive buffer to ask for; the kernel grants at most\n"
	 "net.core.rmem_max.",
	 .min = 65536, .max = 1 << 30, .def = 4 << 20, .kind = NUMBER, FIELD(rcvbuf_bytes)},
	{"URXE_SNDBUF", "bytes",
	 "UDP send buffer to ask for; the kernel grants at most net.core.wmem_max.", .min = 65536,
	 .max = 1 << 30, .def = 4 << 20, .kind = NUMBER, FIELD(sndbuf_bytes)},
	{"URXE_WINDOW", "packets",
	 "Unacknowledged packets of one QP over UDP at most, and what half of\n"
	 "the granted URXE_RCVBUF holds.",
	 .min = 1, .max = 65536, .def = 1024, .kind = NUMBER, FIELD(window_pkts)},
	{"URXE_ECN", "",
	 "Congestion control of RC, UC and XRC over UDP: switches may mark packets\n"
	 "instead of dropping them, and who hears of it sends more slowly (DCQCN).",
	 .choices = ecn_modes, .def = URXE_ECN_ON, .kind = CHOICE, FIELD(ecn)},
	{"URXE_SPIN", "microseconds",
	 "How long the fallback thread polls before it sleeps, while the program\n"
	 "does not poll.",
	 .min = 0, .max = 1000000, .def = 20, .kind = NUMBER, FIELD(spin_us)},
	{"URXE_SEED", "",
	 "Fixes the free choices (first keys, QP numbers), to repeat a run. 0:\n"
	 "from the kernel.",
	 .min = 0, .max = UINT64_MAX, .def = 0, .kind = NUMBER, FIELD(seed)},
	{"URXE_KEYS", "",
	 "fresh: a freed lkey or rkey number stays unused for long. reuse: it is\n"
	 "issued again at once, to rehearse what a stale key does then.",
	 .choices = key_modes, .def = URXE_KEYS_FRESH, .kind = CHOICE, FIELD(keys)},
	{"URXE_PCAP", "file name, %p being the process number",
	 "Record every packet in this pcapng file, or pipe, for Wireshark: those of\n"
	 "shared memory too, as the RoCEv2 packets that they stand for.",
	 .example = "/tmp/urxe-%p.pcapng", .kind = TEXT, FIELD(pcap)},
	{"URXE_LOG", "", "What urxe reports on standard error.", .choices = log_levels,
	 .def = LOG_WARN, .kind = CHOICE, FIELD(log)},
	{"URXE_MAX_QP", "", "Device limit: queue pairs.", .max = 1 << 20, .kind = NUMBER,
	 FIELD(max_qp), LIMIT(max_qp)},
	{"URXE_MAX_CQ", "", "Device limit: completion queues.", .max = 1 << 20, .kind = NUMBER,
	 FIELD(max_cq), LIMIT(max_cq)},
	{"URXE_MAX_MR", "", "Device limit: memory regions.", .max = 1 << 24, .kind = NUMBER,
	 FIELD(max_mr), LIMIT(max_mr)},
	{"URXE_MAX_PD", "", "Device limit: protection domains.", .max = 1 << 20, .kind = NUMBER,
	 FIELD(max_pd), LIMIT(max_pd)},
	{"URXE_MAX_SRQ", "", "Device limit: shared receive queues.", .max = 1 << 20, .kind = NUMBER,
	 FIELD(max_srq), LIMIT(max_srq)},
	{"URXE_MAX_AH", "", "Device limit: address handles.", .max = 1 << 20, .kind = NUMBER,
	 FIELD(max_ah), LIMIT(max_ah)},
	{"URXE_MAX_QP_WR", "work requests", "Device limit: depth of a send or receive queue.",
	 .max = 1 << 20, .kind = NUMBER, FIELD(max_qp_wr), LIMIT(max_qp_wr)},
	{"URXE_MAX_CQE", "completions", "Device limit: depth of a completion queue.",
	 .max = 1 << 24, .kind = NUMBER, FIELD(max_cqe), LIMIT(max_cqe)},
	{"URXE_MAX_SGE", "", "Device limit: scatter/gather entries of a work request.",
	 .max = URXE_FRAME_IOV, .kind = NUMBER, FIELD(max_sge), LIMIT(max_sge)},
	{"URXE_MAX_INLINE", "bytes", "Device limit: inline data of a work request.", .min = 0,
	 .max = 4096, .def = 1024, .kind = NUMBER, FIELD(max_inline)},
	{"URXE_MAX_RD_ATOMIC", "", "Device limit: outstanding READs and atomics of a QP.",
	 .max = 128, .kind = NUMBER, FIELD(max_rd_atomic), LIMIT(max_qp_rd_atom)},
};

/* Names that others than this table understand: the help, and urxe-run. */
static const char *const not_ours[] = {"URXE_HELP", "URXE_LIB"};

enum { N_SETTINGS = sizeof(table) / sizeof(table[0]), TEXT_BYTES = 128 };

static uint64_t default_of(const struct setting *s, const struct ibv_device_attr *limits)
{
	int limit;

	if (s->limit == NO_LIMIT)
		return s->def;
	memcpy(&limit, (const char *)limits + s->limit, sizeof(limit));
	return (uint64_t)limit;
}

static void store(const struct setting *s, uint64_t value, struct urxe_settings *settings)
{
	uint32_t narrow = (uint32_t)value;
	char *field = (char *)settings + s->offset;

	if (s->size == sizeof(value))
		memcpy(field, &value, sizeof(value));
	else
		memcpy(field, &narrow, sizeof(narrow));
}

static void format_value(const struct setting *s, uint64_t value, char text[TEXT_BYTES])
{
	if (s->kind == TEXT)
		snprintf(text, TEXT_BYTES, "%s", s->example);
	else if (s->kind == CHOICE)
		snprintf(text, TEXT_BYTES, "%s", s->choices[value]);
	else
		snprintf(text, TEXT_BYTES, "%" PRIu64, value);
}

/* "a, b or c" from the items that next() yields. */
static void append_item(char text[TEXT_BYTES], const char *item, bool first, bool last)
{
	size_t len = strlen(text);

	snprintf(text + len, TEXT_BYTES - len, "%s%s", first ? "" : last ? " or " : ", ", item);
}

static void format_range(const struct setting *s, char text[TEXT_BYTES])
{
	char number[24];

	text[0] = '\0';
	switch (s->kind) {
	case TEXT:
		break;
	case CHOICE:
		for (unsigned i = 0; s->choices[i]; i++)
			append_item(text, s->choices[i], i == 0, !s->choices[i + 1]);
		break;
	case POWER2:
		for (uint64_t v = s->min; v <= s->max; v *= 2) {
			snprintf(number, sizeof(number), "%" PRIu64, v);
			append_item(text, number, v == s->min, v == s->max);
		}
		break;
	case NUMBER:
		snprintf(text, TEXT_BYTES, "%" PRIu64 "..%" PRIu64, s->min, s->max);
		break;
	}
	if (s->unit[0] != '\0')
		snprintf(text + strlen(text), TEXT_BYTES - strlen(text), "%s%s",
			 text[0] != '\0' ? " " : "", s->unit);
}

static int parse_number(const struct setting *s, const char *text, uint64_t *ret_value)
{
	char *end;
	uint64_t value;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0' || value < s->min || value > s->max)
		return -EINVAL;
	if (s->kind == POWER2 && (value & (value - 1)) != 0)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

static int parse_choice(const struct setting *s, const char *text, uint64_t *ret_value)
{
	for (unsigned i = 0; s->choices[i]; i++) {
		if (strcmp(s->choices[i], text) == 0) {
			*ret_value = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_setting(const struct setting *s, const char *text, struct urxe_settings *settings)
{
	uint64_t value;
	int err;

	if (s->kind == TEXT) {
		if (text[0] == '\0')
			return -EINVAL;
		memcpy((char *)settings + s->offset, &text, sizeof(text));
		return 0;
	}
	err = s->kind == CHOICE ? parse_choice(s, text, &value) : parse_number(s, text, &value);
	if (err)
		return err;
	store(s, value, settings);
	return 0;
}

static bool is_named(const char *var, const char *name)
{
	size_t len = strlen(name);

	return strncmp(var, name, len) == 0 && var[len] == '=';
}

static int parse_variable(const char *var, const struct ibv_device_attr *limits,
			  struct urxe_settings *settings)
{
	char range[TEXT_BYTES], example[TEXT_BYTES];

	for (unsigned i = 0; i < sizeof(not_ours) / sizeof(not_ours[0]); i++) {
		if (is_named(var, not_ours[i]))
			return 0;
	}
	for (unsigned i = 0; i < N_SETTINGS; i++) {
		const struct setting *s = &table[i];

		if (!is_named(var, s->name))
			continue;
		if (parse_setting(s, var + strlen(s->name) + 1, settings) == 0)
			return 0;
		format_range(s, range);
		format_value(s, default_of(s, limits), example);
		log_error("%s: expected %s, for example %s=%s; no urxe device is offered", var,
			  range, s->name, example);
		return -EINVAL;
	}
	log_error("%s: there is no such setting; `urxe-run --settings` lists them, for example "
		  "URXE_MTU=1024; no urxe device is offered",
		  var);
	return -EINVAL;
}

int urxe_settings_parse(char *const *env, struct urxe_settings *ret_settings)
{
	struct ibv_device_attr limits;
	int err = 0;

	memset(ret_settings, 0, sizeof(*ret_settings));
	urxe_limits_default(&limits);
	for (unsigned i = 0; i < N_SETTINGS; i++) {
		if (table[i].kind != TEXT)
			store(&table[i], default_of(&table[i], &limits), ret_settings);
	}
	for (; *env; env++) {
		if (strncmp(*env, "URXE_", strlen("URXE_")) == 0 &&
		    parse_variable(*env, &limits, ret_settings))
			err = -EINVAL;
	}
	return err;
}

static void print_indented(FILE *out, const char *text)
{
	for (size_t len; *text != '\0'; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		fprintf(out, "    %.*s\n", (int)len, text);
	}
}

void urxe_settings_print(FILE *out)
{
	struct ibv_device_attr limits;
	char range[TEXT_BYTES], value[TEXT_BYTES];

	urxe_limits_default(&limits);
	for (unsigned i = 0; i < N_SETTINGS; i++) {
		const struct setting *s = &table[i];

		format_range(s, range);
		format_value(s, default_of(s, &limits), value);
		if (s->kind == TEXT)
			fprintf(out, "%s (%s; example: %s)\n", s->name, range, value);
		else
			fprintf(out, "%s (%s; default: %s)\n", s->name, range, value);
		print_indented(out, s->doc);
	}
}

static struct urxe_settings settings;
static bool settings_valid;

static void read_environment(void)
{
	settings_valid = urxe_settings_parse(environ, &settings) == 0;
	log_set_threshold(settings.log);
}

const struct urxe_settings *urxe_settings(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
	return &settings;
}

bool urxe_settings_valid(void)
{
	urxe_settings();
	return settings_valid;
}
