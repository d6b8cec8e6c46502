/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_VERBS_FAKE_IBVERBS_H
#define TESTS_VERBS_FAKE_IBVERBS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_GUID = 0x4711, FAKE_INDEX = 42, FAKE_RESULT = 77 };
#define FAKE_NAME "fake"

extern struct ibv_device fake_device;
extern struct ibv_context fake_context;
extern struct ibv_pd fake_pd;
extern int fake_lists; /* allocated and not freed */
extern int fake_acks;

/* Exported by libibverbs and declared in no installed header. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

#endif
