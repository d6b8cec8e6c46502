/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules for faults: what a text means, which message they strike, what a wrong text is told. */
#include "../unit/unit.h"

#include "xrdma/filter.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static struct xr_filter parsed(const char *text)
{
	struct xr_filter f;

	if (xr_filter_parse(text, &f))
		fail_msg("\"%s\": %s", text, xrdma_last_error());
	return f;
}

static void a_rule_says_what_and_when(void **state)
{
	struct xr_filter f = parsed(
		"drop:out:type=REQ+RSP:p=0.25:n=3:after=10:ch=7,delay=500:in,fail=RNR_RETRY_EXC");
	const struct xr_rule *r = f.rules;

	assert_int_equal(f.n, 3);
	assert_int_equal(r->fault, XR_FAULT_DROP);
	assert_int_equal(r->directions, XR_DIR_OUT);
	assert_int_equal(r->types, 1U << XR_REQ | 1U << XR_RSP);
	assert_true(r->odds == UINT64_C(1) << 30);
	assert_int_equal(r->left, 3);
	assert_int_equal(r->after, 10);
	assert_true(r->one_channel && r->channel == 7);
	assert_int_equal(r[1].fault, XR_FAULT_DELAY);
	assert_int_equal(r[1].argument, 500);
	assert_int_equal(r[1].directions, XR_DIR_IN);
	assert_int_equal(r[2].argument, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(r[2].directions, XR_DIR_IN | XR_DIR_OUT);
	assert_int_equal(parsed("").n, 0);
	assert_true(parsed("drop:p=1").rules[0].odds == UINT64_C(1) << 32);
}

/* The READ that proves a path of RDMA: what a rehearsal of TCP in its place begins with. */
static void a_probe_is_struck_if_named(void **state)
{
	struct xr_filter all = parsed("drop"), probes = parsed("fail=RETRY_EXC:type=PROBE");
	struct xr_filter never;

	assert_null(xr_filter_match(&all, XR_DIR_OUT, 0, XR_FILTER_PROBE));
	assert_null(xr_filter_match(&probes, XR_DIR_OUT, 0, XR_MSG));
	assert_non_null(xr_filter_match(&probes, XR_DIR_OUT, 0, XR_FILTER_PROBE));
	assert_int_equal(xr_filter_parse("delay=5:type=MSG+PROBE", &never), -EINVAL);
	assert_non_null(strstr(xrdma_last_error(), "a PROBE can only fail"));
}

/* ACK and BYE are not numbered: a lost one is found by nobody, so they must be asked for. */
static void control_messages_are_struck_if_named(void **state)
{
	struct xr_filter all = parsed("drop"), acks = parsed("drop:type=ACK");

	for (int t = XR_MSG; t < XR_N_TYPES; t++) {
		assert_true(!!xr_filter_match(&all, XR_DIR_OUT, 0, t) ==
			    (t != XR_ACK && t != XR_BYE));
		assert_true(!!xr_filter_match(&acks, XR_DIR_IN, 0, t) == (t == XR_ACK));
	}
}

static void direction_and_channel_are_minded(void **state)
{
	struct xr_filter f = parsed("drop:in:ch=5");

	assert_null(xr_filter_match(&f, XR_DIR_OUT, 5, XR_MSG));
	assert_null(xr_filter_match(&f, XR_DIR_IN, 4, XR_MSG));
	assert_non_null(xr_filter_match(&f, XR_DIR_IN, 5, XR_MSG));
}

static void it_strikes_after_and_so_often(void **state)
{
	struct xr_filter f = parsed("drop:after=2:n=3,corrupt");
	char seen[9] = {0};

	for (unsigned i = 0; i < 8; i++) {
		const struct xr_rule *r = xr_filter_match(&f, XR_DIR_OUT, 0, XR_MSG);

		seen[i] = r->fault == XR_FAULT_DROP ? 'd' : 'c';
	}
	assert_string_equal(seen, "ccdddccc");
}

static unsigned struck(const char *text, char pattern[1001])
{
	struct xr_filter f = parsed(text);
	unsigned n = 0;

	for (unsigned i = 0; i < 1000; i++) {
		pattern[i] = xr_filter_match(&f, XR_DIR_OUT, 0, XR_MSG) ? 'x' : '.';
		n += pattern[i] == 'x';
	}
	pattern[1000] = '\0';
	return n;
}

static void a_seed_repeats_it(void **state)
{
	char a[1001], b[1001];
	unsigned n = struck("seed=42,drop:p=0.3", a);

	assert_in_range(n, 250, 350);
	struck("drop:p=0.3,seed=42", b);
	assert_string_equal(a, b);
	struck("drop:p=0.3,seed=43", b);
	assert_string_not_equal(a, b);
	assert_int_equal(struck("drop:p=0", a), 0);
	assert_int_equal(struck("drop:p=1.0", a), 1000);
}

static void a_wrong_text_is_explained(void **state)
{
	static const char *const rows[][2] = {
		{"lose", "\"lose\" is no action: expected drop"},
		{"drop:sideways", "\"sideways\" is no condition: expected in, out"},
		{"drop:q=1", "\"q=\" is no condition"},
		{"drop:p=1.5", "p=1.5: expected a probability from 0 to 1"},
		{"drop:p=.5", "a probability"},
		{"drop:p=0.", "a probability"},
		{"drop:p=12", "a probability"},
		{"drop:p=0.5x", "a probability"},
		{"drop:p=0.1234567890", "a probability"},
		{"drop:n=3x", "expected a number"},
		{"drop:n=99999999999999999999", "expected a number"},
		{"drop:n=-1", "n=-1: expected a number"},
		{"drop:n", "\"n\" is no condition"},
		{"drop:ch=4294967296", "expected a number"},
		{"drop:type=PING", "MSG, REQ, RSP"},
		{"drop:type=", "MSG, REQ, RSP"},
		{"drop=1", "drop takes no value"},
		{"delay", "delay= takes microseconds"},
		{"delay=60000001", "delay= takes microseconds"},
		{"fail", "RETRY_EXC"},
		{"fail=OOPS", "not \"OOPS\""},
		{"seed=x", "seed= takes a number"},
		{"drop,", "an empty rule"},
		{",drop", "an empty rule"},
	};
	struct xr_filter f = parsed("drop");

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(xr_filter_parse(rows[i][0], &f), -EINVAL);
		if (!strstr(xrdma_last_error(), rows[i][1]))
			fail_msg("%s: %s", rows[i][0], xrdma_last_error());
		assert_int_equal(f.n, 1); /* untouched */
	}
}

static void there_is_an_end_to_rules_and_length(void **state)
{
	char text[600] = "";
	struct xr_filter f;

	for (unsigned i = 0; i < XR_RULES_MAX; i++)
		strcat(text, i ? ",drop" : "drop");
	assert_int_equal(parsed(text).n, XR_RULES_MAX);
	strcat(text, ",drop");
	assert_int_equal(xr_filter_parse(text, &f), -EINVAL);
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(xr_filter_parse(text, &f), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rule_says_what_and_when),
		cmocka_unit_test(control_messages_are_struck_if_named),
		cmocka_unit_test(a_probe_is_struck_if_named),
		cmocka_unit_test(direction_and_channel_are_minded),
		cmocka_unit_test(it_strikes_after_and_so_often),
		cmocka_unit_test(a_seed_repeats_it),
		cmocka_unit_test(a_wrong_text_is_explained),
		cmocka_unit_test(there_is_an_end_to_rules_and_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
