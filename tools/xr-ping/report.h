/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XR_PING_REPORT_H
#define XR_PING_REPORT_H

#include "pinger.h"

#include <jansson.h>

void xr_report_probe(const struct xr_pinger *p, const struct xr_probe *probe);
void xr_report_summary(const struct xr_pinger *p, uint64_t now);

/* New references; NULL: out of memory. */
json_t *xr_report_json(const struct xr_pinger *p, uint64_t now);
json_t *xr_report_probe_json(const struct xr_probe *probe);

#endif
