/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A polled ping-pong of two processes, each on a processor of its own. test_steady.py traces it:
 * getppid() marks where a window of messages begins and ends.
 */
#include "rig.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UP = 20000, WINDOWS = 20, WINDOW = 5000 };

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	REQUIRE(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void post(struct end *e)
{
	struct ibv_sge sge = {(uintptr_t)e->buf, 64, e->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
	struct ibv_send_wr *bad;

	REQUIRE(ibv_post_send(e->qp, &wr, &bad) == 0);
}

static void wait_for(struct end *e, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	do {
		while (ibv_poll_cq(e->cq, 1, &wc) == 0)
			;
		REQUIRE(wc.status == IBV_WC_SUCCESS);
	} while (wc.opcode != opcode);
}

static void rounds(struct end *e, bool first, int n)
{
	for (int i = 0; i < n; i++) {
		if (first)
			post(e);
		wait_for(e, IBV_WC_RECV);
		end_recv(e, 0, 1024, 64);
		if (!first)
			post(e);
	}
}

int main(int argc, char **argv)
{
	bool first = argc == 1;
	struct end_address mine, theirs;
	struct end e;
	int fd = 3;
	char ready;

	if (first)
		spawn_self(&fd, "second", NULL);
	pin(first ? 0 : 1);
	end_open(&e, NULL);
	end_qp(&e, false);
	mine = end_address(&e);
	exchange(fd, &mine, &theirs, sizeof(mine));
	end_connect(&e, &theirs);
	for (int i = 0; i < 4; i++)
		end_recv(&e, 0, 1024, 64);
	exchange(fd, "r", &ready, 1);
	rounds(&e, first, WARM_UP);
	for (int i = 0; i < WINDOWS; i++) {
		getppid();
		rounds(&e, first, WINDOW);
		getppid();
	}
	exchange(fd, "d", &ready, 1);
	end_close(&e, true);
	if (first)
		wait(NULL);
	return 0;
}
