/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entry points that answer from the device alone, as a program linked to libibverbs meets them:
 * results, errno and error conventions. Run with liburxe.so preloaded.
 */
#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Exported by libibverbs and declared in no installed header. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static struct ibv_context *context;
static struct ibv_port_attr port;

static struct ibv_device *find_urxe(struct ibv_device **list)
{
	for (; *list; list++) {
		if (strncmp(ibv_get_device_name(*list), "urxe", 4) == 0)
			return *list;
	}
	return NULL;
}

static int open_first(void **state)
{
	int n = -1;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_device *device;

	assert_non_null(list);
	assert_true(n > 0);
	assert_null(list[n]);
	device = find_urxe(list);
	assert_non_null(device);
	context = ibv_open_device(device);
	ibv_free_device_list(list);
	assert_non_null(context);
	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_true(port.gid_tbl_len > 0);
	return 0;
}

static int close_it(void **state)
{
	return ibv_close_device(context);
}

static void devices_outlive_their_lists(void **state)
{
	struct ibv_device **first = ibv_get_device_list(NULL), **second = ibv_get_device_list(NULL);
	struct ibv_device *device = find_urxe(first);

	assert_ptr_equal(find_urxe(second), device);
	ibv_free_device_list(first);
	assert_true(ibv_get_device_guid(device) != 0);
	assert_int_equal(ibv_get_device_index(device), -1);
	ibv_free_device_list(second);
	assert_ptr_equal(context->device, device);
}

/* R49: zero ids fail conformance tests, and librdmacm tells devices apart by GUID. */
static void attributes_identify_the_device(void **state)
{
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(context, &attr), 0);
	assert_true(attr.node_guid != 0 && attr.sys_image_guid != 0 && attr.vendor_id != 0);
	assert_true(attr.fw_ver[0] != '\0');
	assert_true(attr.node_guid == ibv_get_device_guid(context->device));
	assert_int_equal(attr.phys_port_cnt, 1);
	/* Windows of type 2 are of one kind. */
	assert_int_equal(attr.device_cap_flags &
				 (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B),
			 IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

/* Of the slots the first n_gids are in use: nothing has changed since the devices were found. */
static int n_gids(void)
{
	struct ibv_gid_entry table[64];
	ssize_t n = ibv_query_gid_table(context, table, 64, 0);

	assert_in_range(n, 1, 64);
	return (int)n;
}

static void gid_tables_agree(void **state)
{
	struct ibv_gid_entry table[64], entry;
	int n = n_gids(), type;
	union ibv_gid gid;

	assert_int_equal(ibv_query_gid_table(context, table, 64, 0), n);
	for (int i = 0; i < n; i++) {
		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0), 0);
		assert_int_equal(ibv_query_gid_type(context, 1, (unsigned)i, &type), 0);
		assert_memory_equal(&entry, &table[i], sizeof(entry));
		assert_memory_equal(&entry.gid, &gid, sizeof(gid));
		assert_int_equal(entry.gid_index, i);
		assert_int_equal(entry.port_num, 1);
		assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_true(entry.ndev_ifindex > 0);
		assert_int_equal(type, 1);
	}
}

/* As libibverbs has it of a kernel's device. */
static void empty_gid_slots(void **state)
{
	int i = port.gid_tbl_len - 1, type = 7;
	union ibv_gid gid, zero = {0};
	struct ibv_gid_entry entry;
	char name[64], buf[64];

	if (n_gids() > i) {
		print_message("every slot of the GID table is in use\n");
		skip();
	}
	memset(&gid, 1, sizeof(gid));
	assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
	assert_memory_equal(&gid, &zero, sizeof(gid));
	assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid_type(context, 1, (unsigned)i, &type), 0);
	assert_int_equal(type, 0);
	snprintf(name, sizeof(name), "ports/1/gids/%d", i);
	assert_int_equal(ibv_read_sysfs_file(context->device->ibdev_path, name, buf, sizeof(buf)),
			 39);
	assert_string_equal(buf, "0000:0000:0000:0000:0000:0000:0000:0000");
	snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%d", i);
	assert_int_equal(ibv_read_sysfs_file(context->device->ibdev_path, name, buf, sizeof(buf)),
			 -1);
	assert_int_equal(errno, EINVAL);
}

static void gid_errors_have_their_conventions(void **state)
{
	uint32_t end = (uint32_t)port.gid_tbl_len;
	struct ibv_gid_entry entry = {.gid_index = 77};
	union ibv_gid gid;
	int type;

	assert_int_equal(ibv_query_gid_ex(context, 1, end, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, UINT32_MAX, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 0, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
	assert_int_equal(_ibv_query_gid_ex(context, 1, 0, &entry, 0, sizeof(entry) - 1), EINVAL);
	assert_int_equal(ibv_query_gid_table(context, &entry, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(context, &entry, 1, 1), -EINVAL);
	assert_int_equal(entry.gid_index, 77);
	errno = 0;
	assert_int_equal(ibv_query_gid_type(context, 1, end, &type), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_query_gid(context, 1, (int)end, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
}

/* Programs of later releases pass larger entries. */
static void larger_gid_entries_are_filled_up_with_zero(void **state)
{
	struct {
		struct ibv_gid_entry entry;
		uint64_t later;
	} large = {.later = 1};

	assert_int_equal(_ibv_query_gid_ex(context, 1, 0, &large.entry, 0, sizeof(large)), 0);
	assert_int_equal(large.entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(large.later, 0);
}

static void pkeys(void **state)
{
	assert_int_equal(ibv_get_pkey_index(context, 1, htons(0xffff)), 0);
	errno = 0;
	assert_int_equal(ibv_get_pkey_index(context, 1, htons(0x1234)), -1);
	assert_int_equal(errno, EINVAL);
}

static int read_attribute(const char *name, char *buf, size_t size)
{
	errno = 0;
	return ibv_read_sysfs_file(context->device->ibdev_path, name, buf, size);
}

static void sysfs_attributes(void **state)
{
	char buf[64], last[64];

	assert_int_equal(read_attribute("board_id", buf, sizeof(buf)), 4);
	assert_string_equal(buf, "urxe");
	assert_int_equal(read_attribute("board_id", buf, 3), 2);
	assert_string_equal(buf, "ur");
	assert_int_equal(read_attribute("ports/1/gid_attrs/types/0", buf, sizeof(buf)), 7);
	assert_string_equal(buf, "RoCE v2");
	assert_int_equal(read_attribute("ports/1/gids/0", buf, sizeof(buf)), 39);
	assert_int_equal(read_attribute("node_guid", buf, sizeof(buf)), 19);
	snprintf(last, sizeof(last), "ports/1/gid_attrs/types/%d", port.gid_tbl_len);
	assert_int_equal(read_attribute(last, buf, sizeof(buf)), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(read_attribute("ports/1/gids/", buf, sizeof(buf)), -1);
	assert_int_equal(read_attribute("ports/1/gids/-0", buf, sizeof(buf)), -1);
	assert_int_equal(read_attribute("ports/1/gids/0/x", buf, sizeof(buf)), -1);
	assert_int_equal(read_attribute("no_such", buf, sizeof(buf)), -1);
	/* Not ours: the file system's. */
	assert_true(ibv_read_sysfs_file("/proc/self", "comm", buf, sizeof(buf)) > 0);
}

static void set_mapped(union ibv_gid *gid, uint32_t addr_be)
{
	memset(gid->raw, 0, 10);
	memset(gid->raw + 10, 0xff, 2);
	memcpy(gid->raw + 12, &addr_be, 4);
}

/* The 40 bytes in front of a datagram that came over IPv4, with noise where nothing is defined. */
static void make_ipv4_grh(uint8_t grh[40], const char *src, const uint8_t dst[4])
{
	uint8_t *ip = grh + 20;
	uint32_t sum = 0;

	memset(grh, 0x66, 20); /* looks like IPv6 */
	memset(ip, 0, 20);
	ip[0] = 0x45;
	ip[1] = 0x68;
	ip[8] = 64;
	ip[9] = 17;
	assert_int_equal(inet_pton(AF_INET, src, ip + 12), 1);
	memcpy(ip + 16, dst, 4);
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~(sum + (sum >> 16)) & 0xffff;
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void datagrams_over_ipv4_can_be_answered(void **state)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_ah_attr attr;
	union ibv_gid own, peer;
	uint8_t grh[40];

	assert_int_equal(ibv_query_gid(context, 1, 0, &own), 0);
	if (own.raw[10] != 0xff)
		skip(); /* no IPv4 here */
	make_ipv4_grh(grh, "198.51.100.7", own.raw + 12);
	set_mapped(&peer, inet_addr("198.51.100.7"));
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)grh, &attr), 0);
	assert_memory_equal(&attr.grh.dgid, &peer, sizeof(peer));
	assert_int_equal(attr.grh.sgid_index, 0);
	assert_int_equal(attr.grh.traffic_class, 0x68);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);

	errno = 0;
	wc.wc_flags = 0;
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	wc.wc_flags = IBV_WC_GRH;
	assert_int_equal(ibv_init_ah_from_wc(context, 2, &wc, (struct ibv_grh *)grh, &attr), -1);
	make_ipv4_grh(grh, "198.51.100.7", (const uint8_t[]){198, 51, 100, 8});
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)grh, &attr), -1);
}

static void datagrams_over_ipv6_can_be_answered(void **state)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {.version_tclass_flow = htonl(0x6a812345)};
	struct ibv_ah_attr attr;

	assert_int_equal(inet_pton(AF_INET6, "2001:db8::7", grh.sgid.raw), 1);
	assert_int_equal(ibv_query_gid(context, 1, n_gids() - 1, &grh.dgid), 0);
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), 0);
	assert_memory_equal(&attr.grh.dgid, &grh.sgid, sizeof(grh.sgid));
	assert_int_equal(attr.grh.sgid_index, n_gids() - 1);
	assert_int_equal(attr.grh.traffic_class, 0xa8);
	assert_int_equal(attr.grh.flow_label, 0x12345);
	grh.version_tclass_flow = htonl(0x5a812345);
	assert_int_equal(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), -1);
}

#define ASSERT_NULL_EOPNOTSUPP(call)                                                               \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(call);                                                                 \
		assert_int_equal(errno, EOPNOTSUPP);                                               \
	} while (0)

static void refusals_have_their_conventions(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	char page[64];
	struct ibv_mr *mr;
	int fd = open("/dev/null", O_RDONLY), fds[2];

	assert_non_null(pd);
	mr = ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	ASSERT_NULL_EOPNOTSUPP(ibv_reg_dmabuf_mr(pd, 0, 64, 0, fd, 0));
	ASSERT_NULL_EOPNOTSUPP(ibv_import_pd(context, 0));
	ASSERT_NULL_EOPNOTSUPP(ibv_import_mr(pd, 0));
	ASSERT_NULL_EOPNOTSUPP(ibv_import_dm(context, 0));
	assert_int_equal(pipe(fds), 0);
	ASSERT_NULL_EOPNOTSUPP(ibv_import_device(fds[0]));
	ASSERT_NULL_EOPNOTSUPP(ibv_import_device(-1));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	close(fds[0]);
	close(fds[1]);
	close(fd);
}

static void names(void **state)
{
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_string_equal(ibv_wc_status_str(9999), "unknown");
	assert_non_null(ibv_event_type_str(IBV_EVENT_CQ_ERR));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_outlive_their_lists),
		cmocka_unit_test(attributes_identify_the_device),
		cmocka_unit_test(gid_tables_agree),
		cmocka_unit_test(empty_gid_slots),
		cmocka_unit_test(gid_errors_have_their_conventions),
		cmocka_unit_test(larger_gid_entries_are_filled_up_with_zero),
		cmocka_unit_test(pkeys),
		cmocka_unit_test(sysfs_attributes),
		cmocka_unit_test(datagrams_over_ipv4_can_be_answered),
		cmocka_unit_test(datagrams_over_ipv6_can_be_answered),
		cmocka_unit_test(refusals_have_their_conventions),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, open_first, close_it);
}
