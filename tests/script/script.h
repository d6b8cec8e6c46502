/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs scripts against one engine: what is posted, what arrives, and what must come of it, at exact
 * times. README in this folder describes the language.
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "base/clock.h"
#include "engine/engine.h"
#include "wire/packet.h"

#include <setjmp.h>
#include <stdio.h>

enum {
	MAX_TOKENS = 96,
	MAX_MRS = 16,
	MAX_MWS = 4,
	MAX_QPS = 8,
	MAX_FRAMES = 4096,
	MAX_PAYLOAD = 70000,
};

struct line {
	const char *file;
	unsigned number;
	char text[4096];
	char buf[4096]; /* text, cut into the tokens */
	char *token[MAX_TOKENS];
	unsigned n;
	unsigned at; /* the next token to read */
};

struct region {
	char name[16];
	uint8_t *mem;
	size_t mapped; /* on demand: bytes that nobody may touch but region_open()'s caller; else 0
			*/
	bool gone;     /* nor is there anything */
	uint64_t len;
	uint64_t iova;
	struct urxe_mr *mr;
};

struct window {
	char name[16];
	struct urxe_mw *mw;
};

/* A packet the engine has sent and the script has not looked at. */
struct sent {
	uint64_t at_ns;
	uint32_t len;
	uint8_t *bytes;
	uint8_t tclass;
};

struct stage {
	struct line line;
	uint64_t now;
	bool hold; /* the link has no room */
	struct urxe_engine *engine;
	struct urxe_pd *pd;
	struct urxe_pd *other_pd;
	struct urxe_cq *scq, *rcq;
	struct urxe_srq *srq;
	struct urxe_xrcd *xrcd;
	struct urxe_ah *ah;
	struct urxe_txq txq;
	struct urxe_qp *qp[MAX_QPS];
	enum ibv_qp_type type[MAX_QPS];
	unsigned n_qps;
	unsigned current;
	struct region region[MAX_MRS];
	unsigned n_regions;
	struct window window[MAX_MWS];
	unsigned n_windows;
	struct sent sent[MAX_FRAMES];
	unsigned n_sent, n_seen;
	jmp_buf on_failure;
};

/* ---- line.c: tokens -------------------------------------------------------------------------- */

bool line_split(struct line *l); /* false: nothing on it */
const char *next_token(struct stage *s);
bool accept(struct stage *s, const char *word); /* take the token if it is this one */
bool more(const struct stage *s);
uint64_t next_number(struct stage *s); /* 10, 0x10, -1, A+16, A.rkey, A.lkey, qpn */
uint64_t next_duration(struct stage *s, const char *token);
unsigned next_rights(struct stage *s);
struct region *next_place(struct stage *s, uint64_t *ret_off); /* A+16 */
struct window *next_window(struct stage *s);

/*
 * Bytes: "text", or hex 0a0b, or u64 7 (as the host has it), or zero N, or len N [from K]: N bytes
 * of the pattern from its Kth.
 */
uint32_t next_bytes(struct stage *s, uint8_t *ret_bytes, uint32_t cap);
uint8_t pattern(uint64_t index);

_Noreturn void fail(struct stage *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- stage.c: the engine and its objects ----------------------------------------------------- */

void stage_init(struct stage *s);
void stage_fini(struct stage *s);
void stage_pump(struct stage *s);
struct urxe_qp *stage_qp(struct stage *s);

/* Whoever looks at a region's memory does so between these. */
void region_open(const struct region *r);
void region_close(const struct region *r);

void cmd_cq(struct stage *s);
void cmd_srq(struct stage *s);
void cmd_xrc_srq(struct stage *s);
void cmd_srq_free(struct stage *s);
void cmd_srq_limit(struct stage *s);
void cmd_qp(struct stage *s);
void cmd_use(struct stage *s);
void cmd_mr(struct stage *s);
void cmd_dereg(struct stage *s);
void cmd_vanish(struct stage *s);
void cmd_mw(struct stage *s);
void cmd_mw_free(struct stage *s);
void cmd_fill(struct stage *s);
void cmd_modify(struct stage *s);
void cmd_destroy(struct stage *s);
void cmd_hold(struct stage *s);
void cmd_release(struct stage *s);
void cmd_elapse(struct stage *s, const char *duration);

/* If the line ends in "=> ENAME", err must be that, else 0. */
void expect_result(struct stage *s, int err);

/* ---- post.c: work requests ------------------------------------------------------------------- */

void cmd_post(struct stage *s);
void cmd_recv(struct stage *s);
void cmd_srq_recv(struct stage *s);

/* ---- packet.c: what arrives and what is sent ------------------------------------------------- */

void cmd_inject(struct stage *s);
void cmd_sent(struct stage *s);
void cmd_sent_after_acks(struct stage *s);

/* ---- outcome.c: completions, events, memory -------------------------------------------------- */

void cmd_wc(struct stage *s);
void cmd_rwc(struct stage *s);
void cmd_arm(struct stage *s);
void cmd_notify(struct stage *s);
void cmd_async(struct stage *s);
void cmd_state(struct stage *s);
void cmd_mem(struct stage *s);
void cmd_counter(struct stage *s);

#endif
