/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 as zlib's crc32() computes it: polynomial 0x04c11db7 reflected, start and result inverted.
 * By isa-l; for long data on processors with VPCLMULQDQ and AVX2, for which isa-l of Debian 12 has
 * nothing (it wants AVX-512), by code of ours that takes twice as much at a time.
 */
#ifndef URXE_WIRE_CRC_H
#define URXE_WIRE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what crc stands for, followed by data. */
uint32_t urxe_crc(uint32_t crc, const void *data, size_t len);

#endif
