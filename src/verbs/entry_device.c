/* SPDX-License-Identifier: BSD-2-Clause */
/* Entry points about devices, and those without an object. */
#include "verbs/entry.h"
#include "verbs/objects.h"
#include "verbs/settings.h"
#include "verbs/sysfs.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#undef ibv_get_device_list

/* Exported, and declared in no installed header. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* What ibv_get_device_list() returns is the devices[] of one of these. */
struct device_list {
	struct ibv_device **real;     /* the real library's list, which keeps its devices alive */
	struct ibv_device *devices[]; /* NULL at the end */
};

static struct ibv_device **real_devices(int *ret_n)
{
	__typeof__(&ibv_get_device_list) get = REAL_OR_NULL(ibv_get_device_list);
	struct ibv_device **list;

	*ret_n = 0;
	if (!get) {
		errno = ENOSYS;
		return NULL;
	}
	list = get(ret_n);
	if (!list)
		*ret_n = 0;
	return list;
}

static void free_real_devices(struct ibv_device **list)
{
	if (list)
		REAL(ibv_free_device_list)(list);
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct urxe_device *ours;
	unsigned n_ours = urxe_devices(&ours);
	bool hide = urxe_settings()->real == URXE_REAL_HIDE;
	struct ibv_device **real = NULL;
	struct device_list *list;
	int n_real = 0;

	if (num_devices)
		*num_devices = 0;
	if (!hide)
		real = real_devices(&n_real);
	if (!hide && !real && n_ours == 0)
		return NULL; /* errno is as the real library set it */
	list = calloc(1, sizeof(*list) + ((size_t)n_real + n_ours + 1) * sizeof(*list->devices));
	if (!list) {
		free_real_devices(real);
		errno = ENOMEM;
		return NULL;
	}
	list->real = real;
	for (int i = 0; i < n_real; i++)
		list->devices[i] = real[i];
	for (unsigned i = 0; i < n_ours; i++)
		list->devices[(unsigned)n_real + i] = &ours[i].ibv;
	if (num_devices)
		*num_devices = n_real + (int)n_ours;
	return list->devices;
}

EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	void *start = (char *)devices - offsetof(struct device_list, devices);
	struct device_list *list = start;

	free_real_devices(list->real);
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	if (urxe_device_is_ours(device))
		return urxe_device_of(device)->guid;
	return REAL(ibv_get_device_guid)(device);
}

/* -1: no index of the kernel's. */
EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return urxe_device_is_ours(device) ? -1 : REAL(ibv_get_device_index)(device);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (urxe_device_is_ours(device))
		return urxe_verbs_open_device(urxe_device_of(device));
	return REAL(ibv_open_device)(device);
}

/* A command descriptor of the kernel's is a character device. Ours carries nothing to import. */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	__typeof__(&ibv_import_device) real = REAL_OR_NULL(ibv_import_device);
	struct stat st;

	if (real && fstat(cmd_fd, &st) == 0 && S_ISCHR(st.st_mode))
		return real(cmd_fd);
	errno = EOPNOTSUPP;
	return NULL;
}

static bool has_real_devices(void)
{
	struct ibv_device **list;
	int n;

	if (urxe_settings()->real == URXE_REAL_HIDE)
		return false;
	list = real_devices(&n);
	free_real_devices(list);
	return n > 0;
}

/* Our devices pin no pages, so fork() needs no preparation; real ones may. */
EXPORT int ibv_fork_init(void)
{
	return has_real_devices() ? REAL(ibv_fork_init)() : 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return has_real_devices() ? REAL(ibv_is_fork_initialized)() : IBV_FORK_UNNEEDED;
}

EXPORT const char *ibv_get_sysfs_path(void)
{
	__typeof__(&ibv_get_sysfs_path) real = REAL_OR_NULL(ibv_get_sysfs_path);

	return real ? real() : "/sys";
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	__typeof__(&ibv_read_sysfs_file) real = REAL_OR_NULL(ibv_read_sysfs_file);
	int len = urxe_sysfs_read(dir, file, buf, size);

	if (len != -ENXIO) {
		if (len >= 0)
			return len;
		errno = -len;
		return -1;
	}
	if (real)
		return real(dir, file, buf, size);
	errno = ENOENT;
	return -1;
}

/* `urxe-run --settings` preloads us into a program that then is not run. */
__attribute__((constructor)) static void print_settings_if_asked(void)
{
	const char *help = getenv("URXE_HELP");

	if (!help || strcmp(help, "1") != 0)
		return;
	urxe_settings_print(stdout);
	fflush(stdout);
	_exit(EXIT_SUCCESS);
}
