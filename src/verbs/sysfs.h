/* SPDX-License-Identifier: BSD-2-Clause */
/* The sysfs attributes of our devices that programs read by ibv_read_sysfs_file(). */
#ifndef URXE_VERBS_SYSFS_H
#define URXE_VERBS_SYSFS_H

#include <stddef.h>

/*
 * The text of dir/file, without newline, NUL-terminated, in buf of size bytes. Returns its length,
 * -ENXIO if that is not below one of our devices, -ENOENT if the device has no such attribute,
 * -EINVAL if the GID slot that it is about is empty.
 */
int urxe_sysfs_read(const char *dir, const char *file, char *buf, size_t size);

#endif
