/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the last call of this thread failed, in one sentence for a person: what is wrong, what was
 * expected, what to do. Backs xrdma_last_error(). Never allocates.
 */
#ifndef XRDMA_ERROR_H
#define XRDMA_ERROR_H

enum { XR_ERROR_BYTES = 512 };

/* Keeps the text and returns err, so that a failure is one statement: return xr_error(-EINVAL,
 * "..."). Text that does not fit is cut. */
int xr_error(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for what busy programs meet all the time: "<n> <what>", put into words only when
 * somebody asks for them. what: a constant. */
int xr_error_counted(int err, unsigned n, const char *what);

/* What the system says of a negative errno value, and what to do about it where that is known.
 * Valid until the thread's next call. */
const char *xr_system_error(int err);

#endif
