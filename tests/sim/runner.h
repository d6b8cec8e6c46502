/* SPDX-License-Identifier: BSD-2-Clause */
/* What main.c needs of a simulator. */
#ifndef SIM_RUNNER_H
#define SIM_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

/* One run; false: something was wrong, and was said. *ret_hash is the same for the same seed. */
bool world_run(uint64_t seed, bool trace, uint64_t *ret_hash);

#endif
