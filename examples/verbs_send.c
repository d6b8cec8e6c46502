/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two-sided, with verbs alone: the receiver posts a buffer, the sender a message, both get a
 * completion. verbs_send: wait for one. verbs_send SERVER: send one.
 */
#include "verbs_common.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	static struct end e;
	struct ibv_sge sge = {.length = sizeof(e.buf)};

	end_open(&e, IBV_ACCESS_LOCAL_WRITE);
	sge.addr = (uintptr_t)e.buf;
	sge.lkey = e.mr->lkey;
	if (argc == 1) {
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

		/* Before the sender can send: nobody waits for a receiver that is not ready. */
		check(ibv_post_recv(e.qp, &wr, &bad) == 0, "ibv_post_recv");
		end_connect(&e, NULL);
		printf("received %u bytes: %s\n", end_wait(&e).byte_len, e.buf);
	} else {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad;

		end_connect(&e, argv[1]);
		strcpy(e.buf, "hello from the other side");
		sge.length = (uint32_t)strlen(e.buf) + 1;
		check(ibv_post_send(e.qp, &wr, &bad) == 0, "ibv_post_send");
		end_wait(&e); /* the buffer is ours again */
		printf("sent\n");
	}
	end_sync(&e);
	end_close(&e);
	return 0;
}
