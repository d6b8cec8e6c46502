/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The applications: one on each host that takes part. That of host 0 listens and has a region, the
 * others dial it. All send, call, put and get; every message tells who sent it as its how manieth,
 * the rest of its bytes follow from that.
 */
#ifndef XSIM_APP_H
#define XSIM_APP_H

#include "sim.h"

#include "xrdma/channel.h"
#include "xrdma/xrdma.h"

enum { SLOTS = 128, SLOT_BYTES = 6144, LARGEST = 100000, MOST_ENDS = 512 };

enum kind { KIND_ONE_WAY, KIND_REQUEST, KIND_REPLY, KIND_SLOT };
enum answer_how { ANSWER_NOW, ANSWER_LATER, ANSWER_NEVER };

/* At the start of every payload. */
struct label {
	uint32_t end, number, kind, how;
};

struct app {
	struct proc proc;
	struct xrdma_context *ctx;
	int fd;
	struct xrdma_listener *listener;
	struct xrdma_region *region, *decoy;
	uint32_t tag; /* of region: no other ever has it */
	uint64_t busy_until;
	bool again; /* was polled: not armed */
};

/* One end of a channel. */
struct end {
	struct app *app;
	struct xrdma_channel *ch; /* NULL: closed */
	struct end *peer;         /* once something came from it */
	uint32_t serial;
	bool dialed, connected, broken, mocked, closed, close_asked;
	int status;
	enum xr_ch_state seen;
	uint32_t sent, received; /* messages, accepted and delivered */
	uint32_t epoch, ops_left;
	uint64_t our_token, their_token; /* by which its peer is known */
	struct xrdma_remote_region *remote;
	struct list ops;
};

/* A call or a one-sided operation. */
struct op {
	struct list link;
	struct end *end;
	uint32_t number, slot;
	struct xrdma_remote_region *remote;
	enum { OP_CALL, OP_PUT, OP_GET } what;
	enum answer_how how;
	bool ended, has_deadline, cancelled;
	int status;
	uint64_t id;
};

struct world {
	struct app *apps[N_HOSTS]; /* NULL: none there now */
	struct end *ends[MOST_ENDS];
	uint32_t n_ends, n_procs;
	bool harsh;   /* channels may end */
	bool brief;   /* and no fault lasts for long */
	bool lossy;   /* messages may be lost on purpose */
	bool rights;  /* regions are freed while they are in use */
	bool fails;   /* completions may have any status */
	bool refuses; /* NICs may bring up no queue pairs for a while */
	bool calm;    /* and nothing else happens */
	bool quiet;   /* no more faults, no more traffic */
	bool over;    /* channels close */
	uint32_t window, recovery_ms, n_clients, n_ops, n_slots, n_regions;
	uint32_t meant_for[SLOTS]; /* the tag of the region that was put to */
	bool reuse, shared, revokes;
	bool mock;          /* TCP may take over */
	uint32_t n_lines;   /* channels that each client dials */
	uint32_t max_dials; /* of them at once */
	uint32_t seed;
	uint64_t turns;
};

extern struct world world;

/* ---- processes: app.c ---- */

void app_start(unsigned host);
/* Without a word: its memory is gone, the system closes its sockets; or not even that. */
void app_kill(unsigned host, bool power);
/* Its last call. */
void app_close(struct app *app);
void app_dial(struct app *app);
void app_close_end(struct end *e);
/* In the name of its process. */
void app_enter(struct app *app);
struct end *end_new(struct app *app, struct xrdma_channel *ch);
void app_on_msg(struct xrdma_channel *ch, struct xrdma_msg *m, void *arg);
void app_on_region(struct xrdma_channel *ch, struct xrdma_remote_region *remote, void *arg);
struct end *end_of(struct app *app, struct xrdma_channel *ch);
void app_new_region(struct app *app);

/* ---- traffic: traffic.c ---- */

void traffic_start(struct end *e);
/* Is everything that was asked for answered, and consumed? */
bool traffic_done(const struct end *e);

/* ---- oracle: oracle.c ---- */

void oracle_event(struct end *e, enum xrdma_event event, int status);
void oracle_end_of_run(void);
/* When all processes have ended. */
void oracle_nothing_left(void);
bool content_right(const struct label *label, const void *data, size_t len);
void content_fill(const struct label *label, void *data, size_t len);

/* ---- faults: script.c ---- */

void script_start(void);
void script_state_changed(struct end *e);
void script_end(void);

#endif
