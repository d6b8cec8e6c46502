/* SPDX-License-Identifier: BSD-2-Clause */
/* base/log.h, speaking as xrdma. */
#ifndef XRDMA_LOG_H
#define XRDMA_LOG_H

#define LOG_SOURCE log_xrdma
#include "base/log.h"

#endif
