/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided, with verbs alone: who owns the memory told its address and key beforehand and takes no
 * part: no receive, no completion, it has to be told by other means that there is something.
 * verbs_write: own the memory. verbs_write SERVER: write to it, and read it back.
 */
#include "verbs_common.h"

#include <stdio.h>
#include <string.h>

static void transfer(struct end *e, enum ibv_wr_opcode opcode, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->buf, len, e->mr->lkey};
	struct ibv_send_wr wr = {.opcode = opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = e->theirs.addr,
					     .rkey = e->theirs.rkey}},
			   *bad;

	check(ibv_post_send(e->qp, &wr, &bad) == 0, "ibv_post_send");
	end_wait(e);
}

int main(int argc, char **argv)
{
	static struct end e;

	/* The rights peers need, and no more. */
	end_open(&e, argc == 1 ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ : 0);
	end_connect(&e, argc == 1 ? NULL : argv[1]);
	if (argc == 1) {
		end_sync(&e); /* the other means */
		printf("in my memory there is: %s\n", e.buf);
	} else {
		strcpy(e.buf, "written from afar");
		transfer(&e, IBV_WR_RDMA_WRITE, 64);
		memset(e.buf, 0, sizeof(e.buf));
		transfer(&e, IBV_WR_RDMA_READ, 64);
		printf("read back: %s\n", e.buf);
		end_sync(&e);
	}
	end_close(&e);
	return 0;
}
