/* SPDX-License-Identifier: BSD-2-Clause */
/* K1, K2, K3: regions: registered once, exported once, named by slot. */
#include "rig.h"

#include <errno.h>
#include <string.h>

enum { SLOT = 65536, N_SLOTS = 4096 };

static struct xrdma_region *exported(struct rig *r, unsigned rights)
{
	return rig_export(r, SLOT, N_SLOTS, rights);
}

static void k2_put_send_slot_get(void **state)
{
	struct xrdma_remote_region *remote;
	struct rig_call c = {0}, back = {0};
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	region = exported(&r, XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE);
	remote = r.side[RIG_CLIENT].remote;
	assert_int_equal(xrdma_remote_region_tag(remote), RIG_TAG);
	assert_int_equal(xrdma_remote_region_slots(remote), N_SLOTS);
	assert_int_equal(xrdma_remote_region_slot_bytes(remote), SLOT);

	assert_int_equal(xrdma_put(ch, remote, 4095, 0, rig_msg(ch, SLOT, 5), rig_done, &c), 0);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, 0);
	assert_int_equal(xrdma_send_slot(ch, remote, 4095, SLOT), 0);
	rig_until(&r, r.side[RIG_SERVER].n_msgs == 1);
	m = r.side[RIG_SERVER].msgs[0];
	assert_int_equal(xrdma_msg_slot(m), 4095);
	assert_ptr_equal(xrdma_msg_data(m), xrdma_region_slot(region, 4095)); /* no copy */
	assert_true(rig_is(m, SLOT, 5));
	assert_int_equal(xrdma_region_free(region), -EBUSY);
	xrdma_msg_free(m);
	r.side[RIG_SERVER].n_msgs = 0;

	assert_int_equal(xrdma_get(ch, remote, 4095, 8, rig_msg(ch, 100, 0), rig_done, &back), 0);
	rig_until(&r, back.ended);
	assert_int_equal(back.status, 0);
	assert_memory_equal(xrdma_msg_data(back.reply), (char *)xrdma_region_slot(region, 4095) + 8,
			    100);
	xrdma_msg_free(back.reply);
	xrdma_msg_free(c.reply);
	rig_close(&r);
}

static void k1_rights_are_kept(void **state)
{
	struct rig_call c = {0};
	struct xrdma_channel *ch;
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	exported(&r, XRDMA_REMOTE_READ);
	assert_int_equal(
		xrdma_put(ch, r.side[RIG_CLIENT].remote, 0, 0, rig_msg(ch, 10, 1), rig_done, &c),
		0);
	rig_until(&r, c.ended && r.side[RIG_CLIENT].n_recovered);
	assert_int_equal(c.status, -EACCES);
	assert_int_equal(r.side[RIG_CLIENT].why_broken, -EACCES);
	xrdma_msg_free(c.reply);
	rig_send(ch, 100, 3); /* the operation has failed, the channel has not */
	rig_expect(&r, RIG_SERVER, 100, 3);
	/* K6: this is what it is counted as, once; what was flushed with it is not. */
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "wc_access"), 1);
	rig_close(&r);
}

/* Its memory goes when the peer knows, which breaks nothing. */
static void a_region_freed_is_out_of_reach(void **state)
{
	struct xrdma_remote_region *remote;
	struct rig_call c = {0};
	struct xrdma_region *region;
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	region = exported(&r, XRDMA_REMOTE_READ);
	remote = r.side[RIG_CLIENT].remote;
	rig_until(&r, xrdma_region_free(region) == 0); /* when the export is acknowledged */
	assert_int_equal(rig_stat(r.side[RIG_SERVER].ctx, "regions_lingering"), 1);
	rig_until(&r, rig_stat(r.side[RIG_SERVER].ctx, "regions_lingering") == 0);
	m = rig_msg(ch, 10, 1);
	assert_int_equal(xrdma_get(ch, remote, 0, 0, m, rig_done, &c), -ESTALE);
	xrdma_msg_free(m);
	assert_int_equal(r.side[RIG_CLIENT].n_broken + r.side[RIG_SERVER].n_broken, 0);
	rig_close(&r);
}

/* On a device that cannot revoke a key within an epoch its operations wait for the next. */
static void assert_refused(int status)
{
	if (status != -ESTALE)
		assert_int_equal(status, -EACCES);
}

/* K8: at once, for one peer and not for another; the region itself stays. */
static void k8_an_export_is_revoked(void **state)
{
	struct xrdma_remote_region *remote, *others;
	struct xrdma_channel *ch, *other;
	struct rig_call c = {0};
	struct xrdma_region *region;
	struct xrdma_msg *m;
	struct rig r;

	rig_open(&r, NULL);
	other = rig_connect(&r);
	region = exported(&r, XRDMA_REMOTE_READ);
	others = r.side[RIG_CLIENT].remote;
	ch = rig_connect(&r);
	r.side[RIG_CLIENT].remote = NULL;
	assert_int_equal(xrdma_region_export(region, r.side[RIG_SERVER].ch, 1), 0);
	rig_until(&r, r.side[RIG_CLIENT].remote);
	remote = r.side[RIG_CLIENT].remote;
	assert_int_equal(xrdma_region_revoke(region, r.side[RIG_SERVER].ch), 0);
	m = rig_msg(ch, 10, 1);
	assert_int_equal(xrdma_get(ch, remote, 0, 0, m, rig_done, &c), 0);
	rig_until(&r, c.ended && r.side[RIG_CLIENT].n_recovered);
	assert_refused(c.status);
	assert_int_equal(rig_stat(r.side[RIG_CLIENT].ctx, "wc_access"), c.status == -EACCES);
	/* The new epoch has no key for it. */
	rig_until(&r, xrdma_get(ch, remote, 0, 0, m, rig_done, &c) == -ESTALE);
	xrdma_msg_free(m);
	m = rig_msg(other, 10, 1);
	c.ended = false;
	assert_int_equal(xrdma_get(other, others, 0, 0, m, rig_done, &c), 0);
	rig_until(&r, c.ended);
	assert_int_equal(c.status, 0);
	xrdma_msg_free(c.reply);
	/* For the other, too, now; and before it was told of the region. */
	r.side[RIG_CLIENT].remote = NULL;
	assert_int_equal(xrdma_region_export(region, r.side[RIG_SERVER].ch, 2), 0);
	assert_int_equal(xrdma_region_revoke(region, NULL), 0);
	m = rig_msg(other, 10, 1);
	c.ended = false;
	assert_int_equal(xrdma_get(other, others, 0, 0, m, rig_done, &c), 0);
	rig_until(&r, c.ended && r.side[RIG_CLIENT].remote);
	assert_refused(c.status);
	xrdma_msg_free(c.reply);
	rig_until(&r, xrdma_region_free(region) == 0);
	rig_close(&r);
}

static void bad_parameters(void **state)
{
	struct xrdma_region_attr attr = {.slot_bytes = 64, .n_slots = 65537, .numa_node = -1};
	struct xrdma_remote_region *remote;
	struct xrdma_region *region;
	struct rig_call c = {0};
	struct xrdma_channel *ch;
	struct xrdma_msg *m;
	struct rig r;

	rig_open(&r, NULL);
	ch = rig_connect(&r);
	assert_int_equal(xrdma_region_new(r.side[0].ctx, &attr, &region), -EINVAL);
	attr.n_slots = 0;
	assert_int_equal(xrdma_region_new(r.side[0].ctx, &attr, &region), -EINVAL);
	attr = (struct xrdma_region_attr){.slot_bytes = SIZE_MAX / 2, .n_slots = 3};
	assert_int_equal(xrdma_region_new(r.side[0].ctx, &attr, &region), -EINVAL);
	attr = (struct xrdma_region_attr){.slot_bytes = 64, .n_slots = 1, .numa_node = 1023};
	assert_int_equal(xrdma_region_new(r.side[0].ctx, &attr, &region), -EINVAL);
	region = exported(&r, XRDMA_REMOTE_READ);
	remote = r.side[RIG_CLIENT].remote;
	assert_null(xrdma_region_slot(region, N_SLOTS));
	m = rig_msg(ch, 100, 1);
	assert_int_equal(xrdma_get(ch, remote, N_SLOTS, 0, m, rig_done, &c), -EINVAL);
	assert_int_equal(xrdma_get(ch, remote, 0, SLOT - 99, m, rig_done, &c), -EINVAL);
	assert_int_equal(xrdma_get(ch, remote, 0, SIZE_MAX, m, rig_done, &c), -EINVAL);
	assert_int_equal(xrdma_get(ch, remote, 0, 0, m, NULL, &c), -EINVAL);
	assert_int_equal(xrdma_get(ch, NULL, 0, 0, m, rig_done, &c), -EINVAL); /* not told yet */
	assert_non_null(strstr(xrdma_last_error(), "it comes with on_region"));
	assert_int_equal(xrdma_send_slot(ch, remote, 0, SLOT + 1), -EINVAL);
	assert_int_equal(xrdma_get(ch, remote, 0, SLOT - 100, m, rig_done, &c), 0);
	rig_until(&r, c.ended);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(k2_put_send_slot_get),
		cmocka_unit_test(k1_rights_are_kept),
		cmocka_unit_test(a_region_freed_is_out_of_reach),
		cmocka_unit_test(k8_an_export_is_revoked),
		cmocka_unit_test(bad_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
