/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/mem_limits.h"

#include "xrdma/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct text {
	char s[24];
};

static struct text size_text(uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct text t;
	double value = (double)bytes / 1024;
	unsigned unit = 0;

	if (bytes == XR_UNLIMITED) {
		snprintf(t.s, sizeof(t.s), "unlimited");
	} else if (bytes < 1024) {
		snprintf(t.s, sizeof(t.s), "%" PRIu64 " bytes", bytes);
	} else {
		while (value >= 1024) {
			value /= 1024;
			unit++;
		}
		snprintf(t.s, sizeof(t.s), "%.4g %s", value, units[unit]);
	}
	return t;
}

int xr_limits_check(const struct xr_limits *limits, uint64_t n_mrs, uint64_t bytes)
{
	if (!bytes)
		return xr_error(-EINVAL, "a memory region of 0 bytes cannot be registered");
	if (bytes > limits->max_mr_bytes)
		return xr_error(-E2BIG,
				"%s are to be one memory region; the device allows %s "
				"(max_mr_size): use several smaller ones",
				size_text(bytes).s, size_text(limits->max_mr_bytes).s);
	if (n_mrs >= limits->max_mr)
		return xr_error(-ENOMEM,
				"one more memory region is needed; the device allows %" PRIu64
				" (max_mr) and this context has %" PRIu64
				": raise slab_bytes or lower regcache_entries, so that fewer are "
				"needed",
				limits->max_mr, n_mrs);
	return 0;
}

static int no_memory(const struct xr_limits *limits, uint64_t n_mrs, uint64_t bytes)
{
	uint64_t left = limits->memlock_bytes > limits->locked_bytes
				? limits->memlock_bytes - limits->locked_bytes
				: 0;

	if (bytes > left)
		return xr_error(-ENOMEM,
				"%s could not be locked for a memory region: RLIMIT_MEMLOCK is %s "
				"(hard limit %s), %s are locked already; raise it: ulimit -l "
				"unlimited in the shell, memlock in /etc/security/limits.conf, "
				"LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 "
				"for a container",
				size_text(bytes).s, size_text(limits->memlock_bytes).s,
				size_text(limits->memlock_max_bytes).s,
				size_text(limits->locked_bytes).s);
	return xr_error(-ENOMEM,
			"%s could not be registered: memory, or the device, is exhausted; this "
			"context has %" PRIu64 " memory regions, the device allows %" PRIu64
			" in all processes together (max_mr); RLIMIT_MEMLOCK is %s and not the "
			"cause",
			size_text(bytes).s, n_mrs, limits->max_mr,
			size_text(limits->memlock_bytes).s);
}

int xr_limits_explain(const struct xr_limits *limits, int err, uint64_t n_mrs, uint64_t bytes)
{
	switch (err) {
	case -ENOMEM:
		return no_memory(limits, n_mrs, bytes);
	case -EFAULT:
		return xr_error(err,
				"%s could not be registered: not all of it is mapped memory, or it "
				"is read-only and the rights would let it be written",
				size_text(bytes).s);
	default:
		return xr_error(err, "the device refused a memory region of %s: %s",
				size_text(bytes).s, strerror(-err));
	}
}
