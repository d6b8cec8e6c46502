/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URXE_VERBS_EXPORT_H
#define URXE_VERBS_EXPORT_H

/* A public name of libibverbs. Without a version: such a definition satisfies any reference. */
#define EXPORT __attribute__((visibility("default")))

#endif
