/* SPDX-License-Identifier: BSD-2-Clause */
/* A device follows its interface: port state, GID table, events. In a network namespace of its own.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

/* Exported by libibverbs, declared nowhere. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static struct ibv_context *context;

static void skip_all(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(77);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		skip_all(path);
	close(fd);
}

static void sh(const char *command)
{
	if (system(command)) {
		fprintf(stderr, "failed: %s\n", command);
		exit(1);
	}
}

/* urxe0 is v0, joined to v1; 192.0.2.1 and fd01::1. */
static void make_network(void)
{
	char map[32];
	unsigned uid = getuid(), gid = getgid();

	if (system("command -v ip >/dev/null"))
		skip_all("iproute2 is not installed");
	if (unshare(CLONE_NEWNET)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
			skip_all("network namespaces are not permitted");
		write_file("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", uid);
		write_file("/proc/self/uid_map", map);
		snprintf(map, sizeof(map), "0 %u 1", gid);
		write_file("/proc/self/gid_map", map);
	}
	if (system("ip link add v0 type veth peer name v1"))
		skip_all("no veth interface can be made");
	sh("ip link set lo up; ip link set v1 up; ip link set v0 addrgenmode none up;"
	   "ip addr add 192.0.2.1/24 dev v0; ip addr add fd01::1/64 dev v0 nodad");
}

/* The next event, which has to come. */
static enum ibv_event_type next_event(void)
{
	struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	ibv_ack_async_event(&event);
	if (event.event_type != IBV_EVENT_COMM_EST)
		assert_int_equal(event.element.port_num, 1);
	return event.event_type;
}

/* Others may come before: one change of an interface is several of its addresses. */
static void await(enum ibv_event_type type)
{
	while (next_event() != type)
		;
}

static void expect_port(enum ibv_port_state state, const char *text)
{
	struct ibv_port_attr attr;
	char buf[32];

	assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	assert_int_equal(attr.state, state);
	assert_true(ibv_read_sysfs_file(context->device->ibdev_path, "ports/1/state", buf,
					sizeof(buf)) > 0);
	assert_string_equal(buf, text);
}

/* The index of an address in the GID table, or -1. */
static int index_of(const char *address)
{
	union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}}, gid;
	struct ibv_port_attr attr;

	if (strchr(address, ':'))
		assert_int_equal(inet_pton(AF_INET6, address, wanted.raw), 1);
	else
		assert_int_equal(inet_pton(AF_INET, address, wanted.raw + 12), 1);
	assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	for (int i = 0; i < attr.gid_tbl_len; i++) {
		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		if (memcmp(&gid, &wanted, sizeof(gid)) == 0)
			return i;
	}
	return -1;
}

/* Until the table has it: events of what changed before may come first. */
static int await_address(const char *address)
{
	int index;

	while ((index = index_of(address)) < 0)
		await(IBV_EVENT_GID_CHANGE);
	return index;
}

static int open_device(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	return context ? 0 : -1;
}

static int close_device(void **state)
{
	return ibv_close_device(context);
}

static void test_down_and_up(void **state)
{
	expect_port(IBV_PORT_ACTIVE, "4: ACTIVE");
	sh("ip link set v0 down");
	await(IBV_EVENT_PORT_ERR);
	expect_port(IBV_PORT_DOWN, "1: DOWN");
	sh("ip link set v0 up");
	await(IBV_EVENT_PORT_ACTIVE);
	expect_port(IBV_PORT_ACTIVE, "4: ACTIVE");
	sh("ip link set v1 down"); /* the cable is out */
	await(IBV_EVENT_PORT_ERR);
	expect_port(IBV_PORT_DOWN, "1: DOWN");
	sh("ip link set v1 up");
	await(IBV_EVENT_PORT_ACTIVE);
	expect_port(IBV_PORT_ACTIVE, "4: ACTIVE");
	sh("ip addr replace fd01::1/64 dev v0 nodad"); /* IPv6 forgets its addresses at "down" */
	if (index_of("fd01::1") < 0)
		await(IBV_EVENT_GID_CHANGE);
}

/* The last event is the last state, also of a program that did not look in between. */
static void test_unread_events(void **state)
{
	enum ibv_event_type last, type;
	struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_port_attr attr;

	for (int i = 0; i < 3; i++) {
		sh("ip link set v0 down");
		do
			assert_int_equal(ibv_query_port(context, 1, &attr), 0);
		while (attr.state != IBV_PORT_DOWN);
		sh("ip link set v0 up");
		do
			assert_int_equal(ibv_query_port(context, 1, &attr), 0);
		while (attr.state != IBV_PORT_ACTIVE);
	}
	last = IBV_EVENT_DEVICE_FATAL;
	do {
		type = next_event();
		if (type != IBV_EVENT_GID_CHANGE)
			last = type;
	} while (poll(&p, 1, 500) > 0);
	assert_int_equal(last, IBV_EVENT_PORT_ACTIVE);
	sh("ip addr replace fd01::1/64 dev v0 nodad");
	await(IBV_EVENT_GID_CHANGE);
}

static void test_gid_table(void **state)
{
	int first = index_of("192.0.2.1"), sixth = index_of("fd01::1"), second, third;

	assert_int_equal(first, 0);
	assert_true(sixth > 0);
	sh("ip addr add 192.0.2.2/24 dev v0");
	second = await_address("192.0.2.2");
	assert_true(second > 0);
	sh("ip addr add 192.0.2.3/24 dev v0");
	third = await_address("192.0.2.3");
	sh("ip addr del 192.0.2.2/24 dev v0");
	while (index_of("192.0.2.2") >= 0)
		await(IBV_EVENT_GID_CHANGE);
	/* Who lives stays where it is, and who comes back finds its place. */
	assert_int_equal(index_of("192.0.2.1"), first);
	assert_int_equal(index_of("fd01::1"), sixth);
	assert_int_equal(index_of("192.0.2.3"), third);
	sh("ip addr add 192.0.2.4/24 dev v0");
	await_address("192.0.2.4");
	sh("ip addr add 192.0.2.2/24 dev v0");
	assert_int_equal(await_address("192.0.2.2"), second);
	assert_int_equal(index_of("192.0.2.3"), third);
}

static void expect_mtu(enum ibv_mtu mtu)
{
	struct ibv_port_attr attr;

	for (unsigned tries = 0; tries < 10000; tries++) {
		assert_int_equal(ibv_query_port(context, 1, &attr), 0);
		if (attr.active_mtu == mtu)
			return;
		usleep(1000);
	}
	assert_int_equal(attr.active_mtu, mtu);
}

/* One in INIT. */
static void open_init(struct end *e)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	end_open(e, context);
	end_qp(e, false);
	assert_int_equal(
		ibv_modify_qp(e->qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
}

/* Connected to one of this interface. */
static int to_rtr(const struct end *e, enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = mtu,
				   .dest_qp_num = 1,
				   .ah_attr = {.is_global = 1, .port_num = 1}};

	attr.ah_attr.grh.sgid_index = (uint8_t)index_of("192.0.2.1");
	assert_int_equal(
		ibv_query_gid(context, 1, attr.ah_attr.grh.sgid_index, &attr.ah_attr.grh.dgid), 0);
	return ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

/* Before this process has the port another has it, and does not share it. */
static void test_taken_port(void **state)
{
	const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(4791)};
	int stranger = socket(AF_INET6, SOCK_DGRAM, 0);
	struct end e;

	assert_int_equal(bind(stranger, (const struct sockaddr *)&any, sizeof(any)), 0);
	open_init(&e);
	assert_int_equal(to_rtr(&e, IBV_MTU_1024), EADDRINUSE);
	close(stranger);
	assert_int_equal(to_rtr(&e, IBV_MTU_1024), 0);
	end_close(&e, false);
}

/* An MTU that has grown can be used by the next connection, one that has shrunk no more. */
static void test_mtu(void **state)
{
	struct end e;

	open_init(&e);
	expect_mtu(IBV_MTU_1024);
	assert_int_equal(to_rtr(&e, IBV_MTU_2048), EINVAL);
	sh("ip link set v0 mtu 3000");
	expect_mtu(IBV_MTU_2048);
	assert_int_equal(to_rtr(&e, IBV_MTU_2048), 0);
	sh("ip link set v0 mtu 400");
	expect_mtu(IBV_MTU_256);
	sh("ip link set v0 mtu 1500; ip addr replace fd01::1/64 dev v0 nodad"); /* below 1280 no
										   IPv6 */
	expect_mtu(IBV_MTU_1024);
	await(IBV_EVENT_GID_CHANGE);
	end_close(&e, false);
}

/* Traffic with an address that came after the device had been opened: URXE_LINK is udp here. */
static void test_new_address(void **state)
{
	struct end a, b;
	struct ibv_wc wc;

	end_open(&a, context);
	end_open(&b, context);
	end_qp(&a, false);
	end_qp(&b, false); /* opens the links */
	sh("ip addr add 192.0.2.9/24 dev v0");
	a.gid_index = (uint8_t)await_address("192.0.2.9");
	pair_connect(&a, &b);
	end_recv(&b, 0, 0, 64);
	{
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr *bad;

		assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	}
	end_wait(&a, &wc, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	end_wait(&b, &wc, 1);
	end_close(&b, false);
	end_close(&a, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken_port),  cmocka_unit_test(test_gid_table),
		cmocka_unit_test(test_mtu),         cmocka_unit_test(test_new_address),
		cmocka_unit_test(test_down_and_up), cmocka_unit_test(test_unread_events),
	};

	make_network();
	setenv("URXE_NETDEV", "v0", 1);
	setenv("URXE_LINK", "udp", 1);
	return cmocka_run_group_tests(tests, open_device, close_device);
}
