/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's file behind a disk or a pmem device. Enters: a path. Leaves: a clear error, or a lock.
 *
 * The VMM locks its disks too, but says so in words of its own, and late. Ours is an OFD lock on one byte far behind
 * the end of any disk, where no VMM looks: the second VM of a disk is told at once, by a code. It works over NFS.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "vm_device.h"

#define LOCK_BYTE (INT64_MAX - 1)

static int in_use(int fd, const char *id, const char *path, int number, cchv_error **err)
{
	char holder[300];

	disk_file_holder(fd, holder, sizeof(holder));
	return err_set(err, CCHV_ERR_EXISTS, number, "device '%s': %s is in use%s", id, path, holder);
}

static int check_size(int fd, const char *id, const char *path, uint64_t unit, cchv_error **err)
{
	struct stat st;
	uint64_t size;

	if (fstat(fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "device '%s': %s", id, path);
	if (S_ISBLK(st.st_mode)) {
		if (ioctl(fd, BLKGETSIZE64, &size) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "device '%s': size of %s", id, path);
	} else if (S_ISREG(st.st_mode)) {
		size = (uint64_t)st.st_size;
	} else {
		return err_set(err, CCHV_ERR_INVALID, 0,
		               "device '%s': %s is neither a file nor a block device", id, path);
	}
	if (size == 0 || size % unit)
		return err_set(err, CCHV_ERR_INVALID, 0,
		               "device '%s': the size of %s, %llu bytes, is no multiple of %llu",
		               id, path, (unsigned long long)size, (unsigned long long)unit);
	return CCHV_OK;
}

/*
 * A block device that shall be written to is claimed for us alone, as mount and swapon claim it: what the host has
 * mounted is refused, also by another node of the same device, and the host refuses to mount what a VM writes to.
 */
static int claim(int *fd, const char *id, const char *path, cchv_error **err)
{
	char again[40];
	struct stat st;
	int claimed;

	if (fstat(*fd, &st) < 0 || !S_ISBLK(st.st_mode))
		return CCHV_OK;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", *fd);
	claimed = open(again, O_RDWR | O_EXCL | O_CLOEXEC | O_NONBLOCK);
	if (claimed < 0 && errno == EBUSY)
		return in_use(*fd, id, path, EBUSY, err);
	if (claimed < 0)
		return err_set(err, err_code_of_errno(errno), errno, "device '%s': open %s", id, path);
	fd_close(fd);
	*fd = claimed;
	return CCHV_OK;
}

/* 1: a process that we do not know of holds a lock that excludes ours. */
static int is_locked_by_others(int fd, int readonly)
{
	struct flock lock = { .l_type = readonly ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0 };

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int disk_file_open(const char *id, const char *path, int readonly, uint64_t unit, int *ret_lock_fd,
                   cchv_error **err)
{
	struct flock lock = {
		.l_type = readonly ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1,
	};
	cleanup_close int fd = -1;
	int r;

	/* O_NONBLOCK: a FIFO must not keep us waiting. */
	fd = open(path, (readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "device '%s': open %s", id, path);
	r = check_size(fd, id, path, unit, err);
	if (r == CCHV_OK && !readonly)
		r = claim(&fd, id, path, err);
	if (r < 0)
		return r;
	if (is_locked_by_others(fd, readonly))
		return in_use(fd, id, path, 0, err);
	if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
		if (errno == EAGAIN || errno == EACCES)
			return in_use(fd, id, path, 0, err);
		/* A file system without locks: the VMM will have its own trouble, or none. */
		if (errno != ENOLCK && errno != ENOSYS && errno != EOPNOTSUPP)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "device '%s': lock %s", id, path);
	}
	*ret_lock_fd = fd_steal(&fd);
	return CCHV_OK;
}
