/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrdma/error.h"

#include "xrdma/log.h"
#include "xrdma/xrdma.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct log_source log_xrdma = {.name = "xrdma", .threshold = LOG_WARN};

static _Thread_local char last_error[XR_ERROR_BYTES] = "no error so far";

int xr_error(int err, const char *fmt, ...)
{
	char text[XR_ERROR_BYTES]; /* an argument may be the last error itself */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(last_error, text, sizeof(text));
	return err;
}

const char *xrdma_last_error(void)
{
	return last_error;
}
