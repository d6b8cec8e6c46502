/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What xr-ping sends to xr-ping -l: requests that begin with a u32 in network order. A probe is
 *that, a u32 of its own, and bytes; it comes back as it is. An order is followed by a JSON text
 *
 *	{"targets": ["HOST:PORT"...], "count": N, "interval_ns": N, "timeout_ns": N, "size": N}
 *
 * and its reply is an array, for each target what xr_report_json() makes.
 */
#ifndef XR_PING_WIRE_H
#define XR_PING_WIRE_H

#include <stdint.h>

#define XR_PING_MAGIC  UINT32_C(0x58525049) /* "XRPI" */
#define XR_ORDER_MAGIC UINT32_C(0x58524f52) /* "XROR" */

enum { XR_ORDER_MAX = 65536, XR_ORDER_MAX_COUNT = 100000 };

#endif
