/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/error.h"

#include "xrdma/log.h"
#include "xrdma/xrdma.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct log_source log_xrdma = {.name = "xrdma", .threshold = LOG_WARN};

static _Thread_local char last_error[XR_ERROR_BYTES] = "no error so far";
/* Of xr_error_counted(), until somebody asks; what NULL: last_error has it. */
static _Thread_local struct {
	unsigned n;
	const char *what;
} counted;

int xr_error(int err, const char *fmt, ...)
{
	char text[XR_ERROR_BYTES]; /* an argument may be the last error itself */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(last_error, text, sizeof(text));
	counted.what = NULL;
	return err;
}

int xr_error_counted(int err, unsigned n, const char *what)
{
	counted.n = n;
	counted.what = what;
	return err;
}

static const struct {
	int err;
	const char *text;
} remedies[] = {
	{-ECONNREFUSED, "is a server listening there?"},
	{-ENETUNREACH, "is the address right, and is there a route to it (`ip route`)?"},
	{-EHOSTUNREACH, "is the address right, and that machine up?"},
	{-ETIMEDOUT, "is the address right, that machine up, and the port open in firewalls?"},
	{-EADDRINUSE, "end the program that has it (`ss -ltnp` shows which), or take another port"},
	{-EADDRNOTAVAIL, "expected an address of this machine (`ip address`), or * for all"},
	{-EMFILE, "raise the limit of open files (`ulimit -n`, RLIMIT_NOFILE)"},
};

const char *xr_system_error(int err)
{
	static _Thread_local char text[128];
	const char *remedy = NULL;

	for (unsigned i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++) {
		if (remedies[i].err == err)
			remedy = remedies[i].text;
	}
	snprintf(text, sizeof(text), "%s%s%s", strerror(-err), remedy ? ": " : "",
		 remedy ? remedy : "");
	return text;
}

const char *xrdma_last_error(void)
{
	if (counted.what)
		(void)xr_error(0, "%u %s", counted.n, counted.what);
	return last_error;
}
