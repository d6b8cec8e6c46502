/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocations that fail on purpose, in a program linked with scarce.c and scarce_args: malloc and
 * its like, and mmap. Only those of the thread that has begun count; others go on as ever.
 */
#ifndef TEST_SCARCE_H
#define TEST_SCARCE_H

#include <stdbool.h>

/* Counts from here on, and refuses the nth (from 1; 0: none), with ENOMEM. */
void scarce_begin(long nth);
/* No longer. What was counted can still be asked for. */
void scarce_end(void);

/* For wrappers of other functions: one more; must it fail? */
bool scarce_refuse(void);

bool scarce_refused(void); /* the nth was reached */
long scarce_calls(void);
long scarce_live(void); /* allocated since the begin and not freed */

#endif
