/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The AETH syndrome (IBA 9.7.5.1, tables 44-46): two class bits over five bits of value.
 */
#ifndef URXE_WIRE_AETH_H
#define URXE_WIRE_AETH_H

#include <stdint.h>

enum aeth_class {
	AETH_ACK = 0x00,
	AETH_RNR = 0x20,
	AETH_NAK = 0x60,
	AETH_CLASS_MASK = 0x60,
	AETH_VALUE_MASK = 0x1f,
};

enum aeth_nak_code {
	NAK_PSN_SEQ_ERR = 0,
	NAK_INVALID_REQ = 1,
	NAK_REM_ACCESS_ERR = 2,
	NAK_REM_OP_ERR = 3,
	NAK_INVALID_RD_REQ = 4,
};

/* An ACK with this credit value says that the responder does no end-to-end flow control. */
#define AETH_CREDIT_INVALID 0x1f

/* Largest encodable credit count that is not above n receive WQEs: values 0..30 (IBA table 45). */
uint8_t aeth_credit_encode(uint32_t n);

/* Credits that value 0..30 stands for. */
uint32_t aeth_credit_decode(uint8_t value);

/* RNR NAK timer value 0..31 in nanoseconds (IBA table 46): 0 is 655.36 ms, 1 is 10 us. */
uint64_t aeth_rnr_ns(uint8_t value);

/* Local ACK timeout value 1..31 in nanoseconds: 4.096 us * 2^value (IBA 9.7.6.1.3); 0: never. */
uint64_t aeth_timeout_ns(uint8_t value);

#endif
