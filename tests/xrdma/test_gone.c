/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * K4 within an epoch: a key that a peer may still use is not another's, on a NIC that issues a
 * freed number again at once. The registration stays until the peer has let go of its key.
 */
#include "breaks.h"

#include "xrdma/channel.h"
#include "xrdma/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT = 65536, N_SLOTS = 64, BYTES = 100 };

static const char untouched[BYTES];
static bool no_rereg; /* the device cannot change rights in place */

int __real_ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len,
			int access);
int __wrap_ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len,
			int access);

int __wrap_ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len,
			int access)
{
	if (no_rereg)
		return IBV_REREG_MR_ERR_CMD;
	return __real_ibv_rereg_mr(mr, flags, pd, addr, len, access);
}

/* A region that the client has the key of, in remote. */
static struct xrdma_region *exported(struct rig *r)
{
	struct xrdma_region *region =
		rig_export(r, SLOT, N_SLOTS, XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE);

	rig_until(r, region->uses == 0); /* the server knows that it has been told */
	return region;
}

/* The same, of a new rig. Its key is *ret_key to the client. */
static struct xrdma_region *begin(struct rig *r, const char *options,
				  struct xrdma_remote_region **ret_key)
{
	struct xrdma_region *region;

	rig_open(r, options);
	rig_connect(r);
	region = exported(r);
	*ret_key = r->side[RIG_CLIENT].remote;
	return region;
}

static struct xrdma_region *another(struct rig *r, const struct xrdma_region *like)
{
	struct xrdma_region *region;

	assert_int_equal(xrdma_region_new(r->side[RIG_SERVER].ctx, &like->attr, &region), 0);
	return region;
}

static uint32_t newest_key(struct rig *r)
{
	struct xrdma_channel *ch = inside(r, RIG_SERVER);

	return ch->exports[ch->n_exports - 1].key->rkey;
}

static uint64_t lingering(const struct rig *r)
{
	return rig_stat(r->side[RIG_SERVER].ctx, "regions_lingering");
}

/* What the client's put to slot 0 comes to; not polled before it is accepted. */
static int put(struct rig *r, struct xrdma_remote_region *remote)
{
	struct xrdma_channel *ch = r->side[RIG_CLIENT].ch;
	struct xrdma_msg *m = rig_msg(ch, BYTES, 1);
	struct rig_call c = {0};
	int ret = xrdma_put(ch, remote, 0, 0, m, rig_done, &c);

	if (!ret) {
		rig_until(r, c.ended);
		ret = c.status;
	}
	xrdma_msg_free(m);
	return ret;
}

static void k4_the_number_is_not_issued_while_a_peer_has_it(void **state)
{
	struct xrdma_region *gone, *foreign;
	struct xrdma_remote_region *stale;
	struct rig r;

	gone = begin(&r, NULL, &stale);
	r.stalled[RIG_CLIENT] = true;
	assert_int_equal(xrdma_region_free(gone), 0);
	assert_int_equal(lingering(&r), 1);
	foreign = another(&r, gone); /* gone is not free()d yet: its like is still known */
	assert_int_equal(xrdma_region_export(foreign, inside(&r, RIG_SERVER), 2), 0);
	assert_int_not_equal(newest_key(&r), stale->key.rkey);

	/* Who does not know yet writes where nobody looks any more, and breaks nothing. */
	r.stalled[RIG_CLIENT] = false;
	assert_int_equal(put(&r, stale), 0);
	assert_memory_equal(xrdma_region_slot(foreign, 0), untouched, BYTES);
	rig_until(&r, lingering(&r) == 0);
	assert_int_equal(put(&r, stale), -ESTALE);
	assert_non_null(strstr(xrdma_last_error(), "freed the region"));
	assert_int_equal(r.side[RIG_CLIENT].n_broken, 0);
	rig_close(&r);
}

/* And so it would be, had the peer not been told before the number is another's. */
static void k4_the_silent_coincidence_within_an_epoch(void **state)
{
	struct xrdma_region_attr attr;
	struct xrdma_remote_region *stale;
	struct xrdma_region *foreign;
	struct rig r;

	foreign = begin(&r, NULL, &stale);
	attr = foreign->attr;
	assert_int_equal(xrdma_region_free(foreign), 0);
	rig_until(&r, lingering(&r) == 0);
	assert_int_equal(xrdma_region_new(r.side[RIG_SERVER].ctx, &attr, &foreign), 0);
	assert_int_equal(xrdma_region_export(foreign, inside(&r, RIG_SERVER), 2), 0);
	assert_int_equal(newest_key(&r), stale->key.rkey); /* the NIC does it: see the top */
	assert_int_equal(put(&r, stale), -ESTALE);
	assert_memory_equal(xrdma_region_slot(foreign, 0), untouched, BYTES);

	stale->gone = false;                                        /* as if it were not told */
	stale->key.addr = (uintptr_t)xrdma_region_slot(foreign, 0); /* where the old one was */
	assert_int_equal(put(&r, stale), 0);
	assert_memory_not_equal(xrdma_region_slot(foreign, 0), untouched, BYTES);
	assert_int_equal(xrdma_channel_epoch(r.side[RIG_CLIENT].ch), 1);
	rig_close(&r);
}

/* The peer lets go when its operations under way have ended, and not before. */
static void operations_under_way_end_first(void **state)
{
	static struct rig_call calls[N_SLOTS];
	struct xrdma_remote_region *remote;
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct rig r;

	region = begin(&r, "frag_bytes=4K", &remote);
	ch = r.side[RIG_CLIENT].ch;
	for (unsigned i = 0; i < N_SLOTS; i++)
		assert_int_equal(
			xrdma_put(ch, remote, i, 0, rig_msg(ch, SLOT, i), rig_done, &calls[i]), 0);
	assert_int_equal(xrdma_region_free(region), 0);
	rig_until(&r, remote->gone);
	assert_int_not_equal(remote->in_flight, 0);
	rig_send(inside(&r, RIG_SERVER), 10, 1); /* what comes after it waits with it */
	while (lingering(&r)) {
		rig_poll(&r);
		assert_true(lingering(&r) || remote->in_flight == 0);
		assert_true(r.side[RIG_CLIENT].n_msgs == 0 || remote->in_flight == 0);
	}
	for (unsigned i = 0; i < N_SLOTS; i++) {
		assert_true(calls[i].ended);
		assert_int_equal(calls[i].status, 0);
		xrdma_msg_free(calls[i].reply);
	}
	rig_expect(&r, RIG_CLIENT, 10, 1);
	rig_close(&r);
}

/* Told to many, it goes with the last; a peer that is dead holds nothing. */
static void each_peer_lets_go(void **state)
{
	uint64_t registered;
	struct xrdma_region *region;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	rig_poll_for(&r, 20);
	registered = rig_stat(r.side[RIG_SERVER].ctx, "memory_regions");
	region = exported(&r);
	rig_connect(&r);
	assert_int_equal(xrdma_region_export(region, inside(&r, RIG_SERVER), 1), 0);
	rig_until(&r, region->uses == 0);
	assert_int_equal(region->keys, 2);
	r.stalled[RIG_CLIENT] = true;
	assert_int_equal(xrdma_region_free(region), 0);
	xrdma_channel_close(inside(&r, RIG_CLIENT));
	rig_poll_for(&r, 5);
	assert_int_equal(region->keys, 2);
	xrdma_close(r.side[RIG_CLIENT].ctx);
	r.side[RIG_CLIENT].ctx = NULL;
	rig_until(&r, lingering(&r) == 0);
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "memory_regions"), registered);
	rig_close(&r);
}

/* With the epoch all its keys end; the peer hears of it in the next. */
static void a_break_ends_it_too(void **state)
{
	struct xrdma_remote_region *stale;
	struct xrdma_region *region;
	struct rig r;

	region = begin(&r, NULL, &stale);
	r.stalled[RIG_CLIENT] = true;
	assert_int_equal(xrdma_region_free(region), 0);
	break_qp(&r, RIG_SERVER);
	rig_until(&r, r.side[RIG_SERVER].n_broken);
	assert_int_equal(lingering(&r), 0);
	r.stalled[RIG_CLIENT] = false;
	rig_until(&r, r.side[RIG_CLIENT].n_recovered && stale->gone);
	assert_int_equal(put(&r, stale), -ESTALE);
	rig_close(&r);
}

/* Operations that wait for the keys of a new epoch, of which theirs is none. */
static void operations_that_wait_are_refused(void **state)
{
	struct xrdma_remote_region *remote;
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct rig_call c = {0};
	struct rig r;

	region = begin(&r, NULL, &remote);
	ch = r.side[RIG_CLIENT].ch;
	break_qp(&r, RIG_CLIENT);
	rig_until(&r, r.side[RIG_CLIENT].n_broken);
	assert_int_equal(xrdma_put(ch, remote, 0, 0, rig_msg(ch, BYTES, 1), rig_done, &c), 0);
	assert_int_equal(xrdma_region_free(region), 0);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, -ESTALE);
	xrdma_msg_free(c.reply);
	rig_until(&r, lingering(&r) == 0);
	rig_close(&r);
}

/* It cannot be told, so the registration stays until its channel breaks or ends. */
static void a_peer_of_an_earlier_version(void **state)
{
	struct xrdma_remote_region *stale;
	struct xrdma_region *region;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r);
	for (unsigned i = 0; i < 2; i++) {
		inside(&r, RIG_SERVER)->theirs.flags &= ~(uint32_t)XR_HELLO_GONE;
		region = exported(&r);
		stale = r.side[RIG_CLIENT].remote;
		assert_int_equal(xrdma_region_free(region), 0);
		rig_send(inside(&r, RIG_SERVER), 10, 1);
		rig_expect(&r, RIG_CLIENT, 10, 1);
		assert_int_equal(put(&r, stale), 0);
		assert_int_equal(lingering(&r), 1);
		if (i == 0)
			break_qp(&r, RIG_CLIENT);
		else
			xrdma_channel_close(inside(&r, RIG_CLIENT));
		rig_until(&r, lingering(&r) == 0);
		if (i == 0)
			rig_until(&r, r.side[0].n_recovered && r.side[1].n_recovered);
	}
	rig_until(&r, r.side[RIG_SERVER].n_closed);
	assert_int_equal(r.side[RIG_SERVER].status, 0);
	rig_close(&r);
}

/* Dead at once; its number is another's no sooner than that of a region freed. */
static void k8_revoked_it_is_dead_and_not_free(void **state)
{
	struct xrdma_remote_region *stale;
	struct xrdma_region *region;
	struct rig r;

	region = begin(&r, NULL, &stale);
	assert_int_equal(xrdma_region_revoke(region, NULL), 0);
	assert_int_equal(xrdma_region_export(region, inside(&r, RIG_SERVER), 2), 0);
	assert_int_not_equal(newest_key(&r), stale->key.rkey);
	assert_int_equal(put(&r, stale), -EACCES);
	assert_memory_equal(xrdma_region_slot(region, 0), untouched, BYTES);
	/* That broke the channel, and with the epoch it is over. */
	rig_until(&r, r.side[RIG_CLIENT].n_recovered && r.side[RIG_CLIENT].remote != stale &&
			      !inside(&r, RIG_CLIENT)->rec.keys_due);
	assert_int_equal(put(&r, stale), -ESTALE);
	assert_int_equal(put(&r, r.side[RIG_CLIENT].remote), 0);

	/* Who hears of it in time breaks nothing. */
	stale = r.side[RIG_CLIENT].remote;
	rig_until(&r, region->uses == 0);
	assert_int_equal(xrdma_region_revoke(region, NULL), 0);
	rig_until(&r, region->keys == 0);
	assert_int_equal(put(&r, stale), -ESTALE);
	assert_int_equal(r.side[RIG_CLIENT].n_broken, 1);
	assert_int_equal(xrdma_region_free(region), 0);
	assert_int_equal(lingering(&r), 0);
	rig_close(&r);
}

/* Where rights cannot be taken from a registration, the epoch ends. */
static void k8_revoked_on_a_device_without(void **state)
{
	struct xrdma_remote_region *stale;
	struct xrdma_region *region;
	struct rig r;

	region = begin(&r, NULL, &stale);
	no_rereg = true;
	assert_int_equal(xrdma_region_revoke(region, inside(&r, RIG_SERVER)), 0);
	no_rereg = false;
	assert_int_equal(region->keys, 0);
	rig_until(&r, r.side[RIG_CLIENT].n_recovered && r.side[RIG_SERVER].n_recovered);
	assert_int_equal(r.side[RIG_SERVER].why_broken, -EKEYREVOKED);
	rig_until(&r, !inside(&r, RIG_CLIENT)->rec.keys_due);
	assert_int_equal(put(&r, stale), -ESTALE);
	assert_memory_equal(xrdma_region_slot(region, 0), untouched, BYTES);
	rig_close(&r);
}

/* Nobody knows a key that is still to be told: nothing is to be waited for. */
static void revoked_before_it_is_told(void **state)
{
	struct xrdma_region_attr attr = {.slot_bytes = SLOT,
					 .n_slots = N_SLOTS,
					 .rights = XRDMA_REMOTE_WRITE,
					 .numa_node = -1};
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, NULL);
	assert_int_equal(xrdma_region_new(r.side[RIG_CLIENT].ctx, &attr, &region), 0);
	assert_int_equal(xrdma_connect(r.side[RIG_CLIENT].ctx, r.address, &rig_handlers,
				       &r.side[RIG_CLIENT], &ch),
			 0);
	assert_int_equal(xrdma_region_export(region, ch, RIG_TAG), 0);
	assert_int_equal(xrdma_region_revoke(region, ch), 0);
	assert_int_equal(region->keys, 0);
	rig_until(&r, r.side[RIG_SERVER].remote);
	assert_true(r.side[RIG_SERVER].remote->gone);
	rig_until(&r, xrdma_region_free(region) == 0);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k4_the_number_is_not_issued_while_a_peer_has_it),
		cmocka_unit_test(k4_the_silent_coincidence_within_an_epoch),
		cmocka_unit_test(operations_under_way_end_first),
		cmocka_unit_test(each_peer_lets_go),
		cmocka_unit_test(a_break_ends_it_too),
		cmocka_unit_test(operations_that_wait_are_refused),
		cmocka_unit_test(a_peer_of_an_earlier_version),
		cmocka_unit_test(k8_revoked_it_is_dead_and_not_free),
		cmocka_unit_test(k8_revoked_on_a_device_without),
		cmocka_unit_test(revoked_before_it_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
