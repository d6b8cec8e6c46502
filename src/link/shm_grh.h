/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Global Route Header (IBA 8.3) as the shared-memory link carries it: in front of packets whose
 * receiver must learn the path.
 */
#ifndef URXE_LINK_SHM_GRH_H
#define URXE_LINK_SHM_GRH_H

#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

/* For a packet of len bytes from the BTH to the last pad byte. ce: mark it in the ECN bits. */
void urxe_shm_grh_put(uint8_t grh[GRH_LEN], const struct urxe_path *path, uint32_t len, bool ce);

/*
 * From a private copy. False: not a GRH in front of an IBA transport header. The source port, which
 * a GRH has no room for, comes out as 0.
 */
bool urxe_shm_grh_get(const uint8_t grh[GRH_LEN], struct urxe_path *ret_path, bool *ret_ce);

#endif
