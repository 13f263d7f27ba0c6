/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces of a container from the inside, its names and sysctl, and the change of root. Enters: a checked spec.
 * Leaves: a process whose "/" is the container's and that sees nothing else.
 */
#include "guest/container_build.h"

#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static int loopback_up(cchv_error **err)
{
	cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "network namespace: lo");
	return CCHV_OK;
}

static int write_text(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(text);

	return fd < 0 || write(fd, text, len) != (ssize_t)len ? -1 : 0;
}

/* Offsets are written before anybody is inside; the second step moves this very process in. */
static int enter_new_time(const struct spec *spec, cchv_error **err)
{
	static const char *const clocks[] = { "monotonic", "boottime" };
	cleanup_close int fd = -1;

	if (unshare(CLONE_NEWTIME) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "time namespace");
	for (size_t i = 0; spec->has_time_offsets && i < ARRAY_LEN(clocks); i++) {
		char line[80];

		snprintf(line, sizeof(line), "%s %" PRId64 " %" PRId64 "\n", clocks[i],
		         spec->time_offsets[i][0], spec->time_offsets[i][1]);
		if (write_text("/proc/self/timens_offsets", line) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "linux.timeOffsets.%s", clocks[i]);
	}
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWTIME) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "time namespace");
	return CCHV_OK;
}

static int set_names(const struct spec *spec, cchv_error **err)
{
	if (spec->hostname && sethostname(spec->hostname, strlen(spec->hostname)) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "hostname '%s'", spec->hostname);
	if (spec->domainname && setdomainname(spec->domainname, strlen(spec->domainname)) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "domainname '%s'", spec->domainname);
	return CCHV_OK;
}

int build_namespaces(struct build *build, const int *join_fds, cchv_error **err)
{
	const struct spec *spec = build->spec;
	int r = CCHV_OK;

	build->kind = "container";
	for (size_t i = 0; i < NS_COUNT; i++)
		if (join_fds[i] >= 0 && i != NS_PID && setns(join_fds[i], 0) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "linux.namespaces: join '%s'",
			               spec->join[i]);
	if (spec->new_namespaces & CLONE_NEWCGROUP && unshare(CLONE_NEWCGROUP) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "cgroup namespace");
	if (spec->new_namespaces & CLONE_NEWTIME)
		r = enter_new_time(spec, err);
	if (r == CCHV_OK && spec->new_namespaces & CLONE_NEWNET)
		r = loopback_up(err);
	return r < 0 ? r : set_names(spec, err);
}

int build_sysctl(struct build *build, cchv_error **err)
{
	const struct words *sysctl = &build->spec->sysctl;

	build->kind = "spec";
	for (size_t i = 0; i + 1 < sysctl->count; i += 2) {
		cleanup_free char *path = mem_printf("/proc/sys/%s", sysctl->items[i]);

		if (!path)
			return err_nomem(err);
		/* Either separator may stand for the other one, as sysctl(8) has it: the first one seen decides. */
		if (sysctl->items[i][strcspn(sysctl->items[i], "./")] == '.')
			for (char *p = path + strlen("/proc/sys/"); *p; p++)
				*p = *p == '.' ? '/' : *p == '/' ? '.' : *p;
		if (write_text(path, sysctl->items[i + 1]) < 0)
			return err_set(err, errno == ENOENT ? CCHV_ERR_UNSUPPORTED : CCHV_ERR_SYSTEM, errno,
			               "linux.sysctl.%s", sysctl->items[i]);
	}
	return CCHV_OK;
}

/*
 * Where the agent itself lives on the kernel's first root, which cannot be pivoted away from, the container's root is
 * moved over it, and what is mounted on the covered one is taken away.
 */
static int move_over_root(cchv_error **err)
{
	static const char *const old[] = { "proc", "sys", "dev", "run", "tmp" };
	cleanup_close int old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (old_root < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    fchdir(old_root) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "change the root");
	for (size_t i = 0; i < ARRAY_LEN(old); i++)
		if (umount2(old[i], MNT_DETACH) < 0 && errno != EINVAL && errno != ENOENT)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "detach '%s'", old[i]);
	if (chdir("/") < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "change the root");
	return CCHV_OK;
}

int build_enter_root(struct build *build, cchv_error **err)
{
	uint64_t propagation = build->spec->root_propagation;
	int r = CCHV_OK;

	build->kind = "rootfs";
	if (fchdir(build->root_fd) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "enter the root file system");
	if (syscall(SYS_pivot_root, ".", ".") == 0) {
		/* Old and new root lie on one another now; the old one is the upper. */
		if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "leave the old root");
	} else {
		r = move_over_root(err);
	}
	if (r == CCHV_OK && propagation && mount(NULL, "/", NULL, (unsigned long)propagation, NULL) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "linux.rootfsPropagation");
	return r;
}
