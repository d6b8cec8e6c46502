/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a key, step by step, between two contexts of one program: a region is registered with
 * the rights it needs, its key crosses to the peer once, is used by slot, and ends with the region,
 * when the peer has let go of it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xrdma/xrdma.h>

static struct xrdma_context *owner, *user;
static struct xrdma_channel *at_owner, *at_user;
static struct xrdma_remote_region *remote;
static bool arrived, ended;
static int status;

static void require(int ret)
{
	if (ret == 0)
		return;
	fprintf(stderr, "key_exchange: %s\n", xrdma_last_error());
	exit(1);
}

static void poll_until(const bool *flag)
{
	while (!*flag) {
		xrdma_poll(owner);
		xrdma_poll(user);
	}
}

static void on_msg(struct xrdma_channel *ch, struct xrdma_msg *msg, void *arg)
{
	printf("4. the owner is told of slot %d and reads there: \"%s\"\n", xrdma_msg_slot(msg),
	       (char *)xrdma_msg_data(msg));
	xrdma_msg_free(msg);
	arrived = true;
}

static void on_region(struct xrdma_channel *ch, struct xrdma_remote_region *r, void *arg)
{
	remote = r;
	printf("2. the user learns the key: region %u, %u slots of %zu bytes\n",
	       xrdma_remote_region_tag(r), xrdma_remote_region_slots(r),
	       xrdma_remote_region_slot_bytes(r));
	arrived = true;
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int why, void *arg)
{
	if (event == XRDMA_CONNECTED) {
		*(struct xrdma_channel **)arg = ch;
		arrived = at_owner && at_user;
	} else if (event == XRDMA_CLOSED) {
		*(struct xrdma_channel **)arg = NULL;
	}
}

static void done(struct xrdma_channel *ch, int why, struct xrdma_msg *msg, void *arg)
{
	status = why;
	ended = true;
	xrdma_msg_free(msg);
}

/* What came of it. */
static const char *put(const char *text, uint32_t slot)
{
	struct xrdma_msg *msg;

	require(xrdma_msg_new(at_user, strlen(text) + 1, &msg));
	strcpy(xrdma_msg_data(msg), text);
	ended = false;
	status = xrdma_put(at_user, remote, slot, 0, msg, done, NULL);
	if (status)
		xrdma_msg_free(msg);
	else
		poll_until(&ended);
	return status ? strerror(-status) : "done";
}

static bool lingers(void)
{
	uint64_t n;

	require(xrdma_stat_by_name(owner, "regions_lingering", &n));
	return n > 0;
}

int main(void)
{
	const struct xrdma_handlers handlers = {on_msg, on_region, on_event};
	const struct xrdma_region_attr attr = {
		.slot_bytes = 4096, .n_slots = 256, .rights = XRDMA_REMOTE_WRITE, .numa_node = -1};
	struct xrdma_listener *listener;
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	char address[32];

	require(xrdma_open(NULL, &owner));
	require(xrdma_open(NULL, &user));
	require(xrdma_listen(owner, "127.0.0.1:0", &handlers, &at_owner, &listener));
	snprintf(address, sizeof(address), "127.0.0.1:%d", xrdma_listener_port(listener));
	require(xrdma_connect(user, address, &handlers, &at_user, &ch));
	poll_until(&arrived);

	require(xrdma_region_new(owner, &attr, &region));
	printf("1. the owner registers 1 MiB that peers may write, not read\n");
	arrived = false;
	require(xrdma_region_export(region, at_owner, 7));
	poll_until(&arrived);

	printf("3. the user writes to slot 42: %s\n", put("hello", 42));
	arrived = false;
	require(xrdma_send_slot(at_user, remote, 42, 6));
	poll_until(&arrived);

	require(xrdma_region_free(region));
	printf("5. the region is freed; the user, who does not know yet, writes where nobody "
	       "looks: "
	       "%s\n",
	       put("too late", 42));
	while (lingers()) {
		xrdma_poll(owner);
		xrdma_poll(user);
	}
	printf("6. now it knows and the memory is gone; it writes once more: %s\n",
	       put("much too late", 42));
	xrdma_close(user);
	xrdma_close(owner);
	return status == 0;
}
