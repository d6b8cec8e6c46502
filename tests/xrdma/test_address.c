/* SPDX-License-Identifier: BSD-2-Clause */
#include "../unit/unit.h"

#include "xrdma/address.h"
#include "xrdma/xrdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void addresses_parse(void **state)
{
	static const struct {
		const char *text, *host;
		int port; /* -1: not an address */
	} rows[] = {
		{"localhost:80", "localhost", 80},
		{"192.0.2.1:65535", "192.0.2.1", 65535},
		{"[::1]:0", "::1", 0},
		{"[2001:db8::1]:7471", "2001:db8::1", 7471},
		{"*:7471", "", 7471},
		{"**:7471", "**", 7471},
		{"a:1", "a", 1},
		{"localhost", NULL, -1},
		{"localhost:", NULL, -1},
		{":80", NULL, -1},
		{"", NULL, -1},
		{"::1:80", NULL, -1},
		{"[::1]", NULL, -1},
		{"[]:80", NULL, -1},
		{"[:80", "[", 80}, /* a name like another: the look-up refuses it */
		{"[::1:80", NULL, -1},
		{"::1]:80", NULL, -1},
		{"h:65536", NULL, -1},
		{"h:123456", NULL, -1},
		{"h:8o", NULL, -1},
		{"h:-1", NULL, -1},
		{NULL, NULL, -1},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct xr_address a = {.port = 7};
		int err = xr_address_parse(rows[i].text, &a);

		if (err != (rows[i].port < 0 ? -EINVAL : 0))
			fail_msg("%s: %d", rows[i].text, err);
		if (err) {
			assert_int_equal(a.port, 7);
			assert_non_null(strstr(xrdma_last_error(), "for example 192.0.2.1:7471"));
		} else {
			assert_string_equal(a.host, rows[i].host);
			assert_int_equal(a.port, rows[i].port);
		}
	}
}

static void hosts_have_a_longest_length(void **state)
{
	char text[XR_HOST_BYTES + 8];
	struct xr_address a;

	memset(text, 'h', sizeof(text));
	strcpy(text + XR_HOST_BYTES, ":1");
	assert_int_equal(xr_address_parse(text, &a), -EINVAL);
	strcpy(text + XR_HOST_BYTES - 1, ":1");
	assert_int_equal(xr_address_parse(text, &a), 0);
	assert_int_equal(strlen(a.host), XR_HOST_BYTES - 1);
}

static void check(const struct sockaddr *addr, const char *raw_text, bool loopback,
		  const char *text)
{
	struct in6_addr raw = xr_address_raw(addr), expected;
	char formatted[XR_ADDRESS_BYTES];

	assert_int_equal(inet_pton(AF_INET6, raw_text, &expected), 1);
	assert_memory_equal(&raw, &expected, sizeof(raw));
	assert_int_equal(xr_address_is_loopback(&raw), loopback);
	xr_address_format(addr, formatted);
	assert_string_equal(formatted, text);
}

static void socket_addresses(void **state)
{
	static const struct {
		const char *host, *raw, *text;
		bool loopback;
	} rows[] = {
		{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1:80", false},
		{"127.1.2.3", "::ffff:127.1.2.3", "127.1.2.3:80", true},
		{"::1", "::1", "[::1]:80", true},
		{"2001:db8::7f", "2001:db8::7f", "[2001:db8::7f]:80", false},
		{"::102:304", "::102:304", "[::1.2.3.4]:80", false},
		{"0:0:1::1", "0:0:1::1", "[0:0:1::1]:80", false},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1:80", false},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(80)};
		struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(80)};

		if (inet_pton(AF_INET, rows[i].host, &v4.sin_addr) == 1) {
			check((struct sockaddr *)&v4, rows[i].raw, rows[i].loopback, rows[i].text);
		} else {
			inet_pton(AF_INET6, rows[i].host, &v6.sin6_addr);
			check((struct sockaddr *)&v6, rows[i].raw, rows[i].loopback, rows[i].text);
		}
	}
}

/* IPv6 addresses that begin or end like loopback or mapped ones. */
static void near_misses_are_not_loopback(void **state)
{
	static const char *const texts[] = {
		"1::1",
		"0:0:1::1",
		"::1:0:0:1",
		"::2",
		"1::ffff:7f00:1",
		"0:0:1::ffff:7f00:1",
		"::fffe:127.0.0.1",
		"::127.0.0.1",
		"::ffff:126.255.255.255",
		"::ffff:128.0.0.1",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		struct in6_addr raw;

		if (inet_pton(AF_INET6, texts[i], &raw) != 1)
			fail_msg("%s", texts[i]);
		assert_false(xr_address_is_loopback(&raw));
	}
}

static void other_families_are_nothing(void **state)
{
	struct sockaddr_in unknown = {.sin_family = AF_UNIX};
	struct in6_addr raw = xr_address_raw((struct sockaddr *)&unknown);

	assert_true(IN6_IS_ADDR_UNSPECIFIED(&raw));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_parse),
		cmocka_unit_test(hosts_have_a_longest_length),
		cmocka_unit_test(socket_addresses),
		cmocka_unit_test(near_misses_are_not_loopback),
		cmocka_unit_test(other_families_are_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
