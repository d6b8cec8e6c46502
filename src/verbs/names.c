/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of the enums of libibverbs: the real one's where it is there, so that what people
 * search for is found; ours, in the words of the specification, where it is not.
 */
#include "verbs/export.h"
#include "verbs/real.h"

#include <infiniband/verbs.h>

#define TEXT_OF(table, value)                                                                      \
	((size_t)(value) < sizeof(table) / sizeof((table)[0]) && (table)[value] ? (table)[value]   \
										: "unknown")

static const char *const wc_status_names[] = {
	[IBV_WC_SUCCESS] = "success",
	[IBV_WC_LOC_LEN_ERR] = "message does not fit the local buffers",
	[IBV_WC_LOC_QP_OP_ERR] = "local QP cannot do this operation",
	[IBV_WC_LOC_EEC_OP_ERR] = "local EE context cannot do this operation",
	[IBV_WC_LOC_PROT_ERR] = "local key, bounds or domain violation",
	[IBV_WC_WR_FLUSH_ERR] = "flushed: the QP is in error",
	[IBV_WC_MW_BIND_ERR] = "memory window not bound",
	[IBV_WC_BAD_RESP_ERR] = "unexpected response opcode",
	[IBV_WC_LOC_ACCESS_ERR] = "local access right missing",
	[IBV_WC_REM_INV_REQ_ERR] = "peer found the request invalid",
	[IBV_WC_REM_ACCESS_ERR] = "peer refused access: remote key, bounds or right",
	[IBV_WC_REM_OP_ERR] = "peer could not complete the operation",
	[IBV_WC_RETRY_EXC_ERR] = "peer silent: retries exhausted",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "peer posts no receives: RNR retries exhausted",
	[IBV_WC_LOC_RDD_VIOL_ERR] = "local reliable datagram domain violation",
	[IBV_WC_REM_INV_RD_REQ_ERR] = "peer found the reliable datagram request invalid",
	[IBV_WC_REM_ABORT_ERR] = "peer aborted the operation",
	[IBV_WC_INV_EECN_ERR] = "EE context number invalid",
	[IBV_WC_INV_EEC_STATE_ERR] = "EE context in a wrong state",
	[IBV_WC_FATAL_ERR] = "fatal device error",
	[IBV_WC_RESP_TIMEOUT_ERR] = "response timed out",
	[IBV_WC_GENERAL_ERR] = "general error",
	[IBV_WC_TM_ERR] = "tag matching failed",
	[IBV_WC_TM_RNDV_INCOMPLETE] = "tag matching rendezvous left to software",
};

static const char *const event_names[] = {
	[IBV_EVENT_CQ_ERR] = "CQ error",
	[IBV_EVENT_QP_FATAL] = "QP failed",
	[IBV_EVENT_QP_REQ_ERR] = "QP received an invalid request",
	[IBV_EVENT_QP_ACCESS_ERR] = "QP received a request without the right",
	[IBV_EVENT_COMM_EST] = "communication established",
	[IBV_EVENT_SQ_DRAINED] = "send queue drained",
	[IBV_EVENT_PATH_MIG] = "path migrated",
	[IBV_EVENT_PATH_MIG_ERR] = "path migration failed",
	[IBV_EVENT_DEVICE_FATAL] = "device failed",
	[IBV_EVENT_PORT_ACTIVE] = "port active",
	[IBV_EVENT_PORT_ERR] = "port down",
	[IBV_EVENT_LID_CHANGE] = "LID changed",
	[IBV_EVENT_PKEY_CHANGE] = "P_Key table changed",
	[IBV_EVENT_SM_CHANGE] = "subnet manager changed",
	[IBV_EVENT_SRQ_ERR] = "SRQ error",
	[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ fell below its limit",
	[IBV_EVENT_QP_LAST_WQE_REACHED] = "QP took its last receive from the SRQ",
	[IBV_EVENT_CLIENT_REREGISTER] = "clients must register again",
	[IBV_EVENT_GID_CHANGE] = "GID table changed",
	[IBV_EVENT_WQ_FATAL] = "work queue failed",
};

static const char *const node_names[] = {
	[IBV_NODE_CA] = "channel adapter",
	[IBV_NODE_SWITCH] = "switch",
	[IBV_NODE_ROUTER] = "router",
	[IBV_NODE_RNIC] = "iWARP NIC",
	[IBV_NODE_USNIC] = "usNIC",
	[IBV_NODE_USNIC_UDP] = "usNIC over UDP",
	[IBV_NODE_UNSPECIFIED] = "of no specified type",
};

static const char *const port_state_names[] = {
	[IBV_PORT_NOP] = "unchanged (NOP)", [IBV_PORT_DOWN] = "down",
	[IBV_PORT_INIT] = "initializing",   [IBV_PORT_ARMED] = "armed",
	[IBV_PORT_ACTIVE] = "active",       [IBV_PORT_ACTIVE_DEFER] = "active, deferring errors",
};

#define NAMES(function, enumeration, table)                                                        \
	EXPORT const char *function(enumeration value)                                             \
	{                                                                                          \
		__typeof__(&function) real = REAL_OR_NULL(function);                               \
                                                                                                   \
		return real ? real(value) : TEXT_OF(table, value);                                 \
	}

NAMES(ibv_wc_status_str, enum ibv_wc_status, wc_status_names)
NAMES(ibv_event_type_str, enum ibv_event_type, event_names)
NAMES(ibv_node_type_str, enum ibv_node_type, node_names)
NAMES(ibv_port_state_str, enum ibv_port_state, port_state_names)
