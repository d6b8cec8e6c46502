/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 as zlib's crc32() computes it: polynomial 0x04c11db7 reflected, start and result inverted.
 * On processors with VPCLMULQDQ, and AVX2 or AVX-512, by code of ours, which needs nothing but
 * whole blocks; elsewhere by isa-l.
 */
#ifndef URXE_WIRE_CRC_H
#define URXE_WIRE_CRC_H

#include <stddef.h>
#include <stdint.h>

enum { CRC_BLOCK = 16 };

/*
 * The CRC of head, at least one block, followed by data; both are whole blocks. The start is not
 * inverted but 0: zeros in front change nothing, and to start with a CRC c is to have ~c, its least
 * significant byte first, xored into the first four bytes.
 */
uint32_t urxe_crc(const uint8_t *head, size_t head_len, const uint8_t *data, size_t len);

#endif
