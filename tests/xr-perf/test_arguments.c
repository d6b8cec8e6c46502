/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and addresses as the command lines of the tools take them. */
#include "common/arguments.h"

#include "../unit/unit.h"

#include <errno.h>
#include <string.h>

static void numbers(void **state)
{
	static const struct {
		const char *text;
		int ret;
		uint64_t value;
	} rows[] = {
		{"0", 0, 0},
		{"64", 0, 64},
		{"4K", 0, 4096},
		{"4k", 0, 4096},
		{"1M", 0, 1 << 20},
		{"2G", 0, (uint64_t)2 << 30},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"17179869184G", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1X", -EINVAL, 0},
		{"1KK", -EINVAL, 0},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t value = 0;

		assert_int_equal(xr_parse_bytes(rows[i].text, &value), rows[i].ret);
		assert_int_equal(value, rows[i].value);
	}
}

static void addresses(void **state)
{
	static const struct {
		const char *text, *host, *joined; /* host NULL: refused */
	} rows[] = {
		{"storage7", "storage7", "storage7:7480"},
		{"storage7:1", "storage7", "storage7:1"},
		{"192.0.2.1:65535", "192.0.2.1", "192.0.2.1:65535"},
		{"fd00::1", "fd00::1", "[fd00::1]:7480"},
		{"[fd00::1]", "[fd00::1]", "[fd00::1]:7480"},
		{"[fd00::1]:99", "[fd00::1]", "[fd00::1]:99"},
		{"", NULL, NULL},
		{":99", NULL, NULL},
		{"a:0", NULL, NULL},
		{"a:65536", NULL, NULL},
		{"a:b", NULL, NULL},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char host[XR_ADDRESS_BYTES], joined[XR_ADDRESS_BYTES];
		uint32_t port = 7480;

		if (!rows[i].host) {
			assert_int_equal(xr_address_split(rows[i].text, host, &port), -EINVAL);
			continue;
		}
		assert_int_equal(xr_address_split(rows[i].text, host, &port), 0);
		assert_string_equal(host, rows[i].host);
		xr_address_join(host, port, joined);
		assert_string_equal(joined, rows[i].joined);
	}
}

static void the_longest_address(void **state)
{
	char text[XR_ADDRESS_BYTES + 1], host[XR_ADDRESS_BYTES], joined[XR_ADDRESS_BYTES];
	uint32_t port = 65535;
	size_t longest = 0;

	for (size_t len = 1; len < sizeof(text); len++) {
		memset(text, 'x', len);
		text[len] = '\0';
		if (xr_address_split(text, host, &port) == 0)
			longest = len;
	}
	assert_in_range(longest, 250, XR_ADDRESS_BYTES - 6);
	text[longest] = '\0';
	assert_int_equal(xr_address_split(text, host, &port), 0);
	xr_address_join(host, port, joined);
	assert_int_equal(strlen(joined), longest + 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(addresses),
		cmocka_unit_test(the_longest_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
