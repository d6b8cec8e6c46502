/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entry points: the public functions of libibverbs, one macro line each where that is enough. Every
 * function that can meet one of our objects has one; tests/verbs/exports.txt lists them all, and
 * those that are left to the real library.
 */
#ifndef URXE_VERBS_ENTRY_H
#define URXE_VERBS_ENTRY_H

#include "verbs/device.h"
#include "verbs/export.h"
#include "verbs/real.h"

static inline bool is_ours(const struct ibv_context *context)
{
	return urxe_device_is_ours(context->device);
}

/*
 * ENTRY_AS: name(params) is ours_call if context is ours, else the real name(args).
 * ENTRY: ours has the same arguments and the same name but urxe_verbs_ for ibv_.
 */
#define ENTRY_AS(type, name, params, args, context, ours_call)                                     \
	EXPORT type name params                                                                    \
	{                                                                                          \
		if (is_ours(context))                                                              \
			return ours_call;                                                          \
		return REAL(name) args;                                                            \
	}
#define ENTRY(type, name, params, args, context)                                                   \
	ENTRY_AS(type, ibv_##name, params, args, context, urxe_verbs_##name args)

#endif
