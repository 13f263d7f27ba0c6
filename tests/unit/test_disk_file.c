/* SPDX-License-Identifier: Apache-2.0 */
#include "vm_device.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file(const char *name, off_t size)
{
	static char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, size), 0);
	close(fd);
	return path;
}

static int try(const char *path, int readonly, uint64_t unit)
{
	int fd = -1, r = disk_file_open("d", path, readonly, unit, &fd, NULL);

	if (r == CCHV_OK)
		close(fd);
	else
		CHECK_INT(fd, -1);
	return r;
}

TEST(sizes_and_kinds)
{
	char fifo[600];

	CHECK_INT(try(file("good", 4096), 0, 512), CCHV_OK);
	CHECK_INT(try(file("odd", 4097), 0, 512), CCHV_ERR_INVALID);
	CHECK_INT(try(file("empty", 0), 0, 512), CCHV_ERR_INVALID);
	CHECK_INT(try(file("small", 4096), 1, 2U << 20), CCHV_ERR_INVALID);
	CHECK_INT(try("/nonexistent/x", 0, 512), CCHV_ERR_NOT_FOUND);
	CHECK_INT(try(test_dir(), 1, 512), CCHV_ERR_INVALID);
	snprintf(fifo, sizeof(fifo), "%s/fifo", test_dir());
	CHECK_INT(mkfifo(fifo, 0600), 0);
	CHECK_INT(try(fifo, 1, 512), CCHV_ERR_INVALID);
}

TEST(one_writer_or_many_readers)
{
	const char *path = file("disk", 4096);
	int a = -1, b = -1;

	CHECK_INT(disk_file_open("a", path, 1, 512, &a, NULL), CCHV_OK);
	CHECK_INT(disk_file_open("b", path, 1, 512, &b, NULL), CCHV_OK);
	CHECK_INT(try(path, 0, 512), CCHV_ERR_EXISTS);
	close(a);
	CHECK_INT(try(path, 0, 512), CCHV_ERR_EXISTS);
	close(b);
	CHECK_INT(disk_file_open("a", path, 0, 512, &a, NULL), CCHV_OK);
	CHECK_INT(try(path, 0, 512), CCHV_ERR_EXISTS);
	CHECK_INT(try(path, 1, 512), CCHV_ERR_EXISTS);
	close(a);
	CHECK_INT(try(path, 0, 512), CCHV_OK);
}

TEST(a_strangers_lock_counts)
{
	const char *path = file("disk", 4096);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	/* As a VMM takes it: over the bytes of the image. */
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 4096 };

	cleanup_err cchv_error *err = NULL;
	char holder[60];
	int own = -1;

	CHECK_INT(fcntl(fd, F_OFD_SETLK, &lock), 0);
	CHECK_INT(try(path, 1, 512), CCHV_ERR_EXISTS);
	CHECK_INT(disk_file_open("d", path, 0, 512, &own, &err), CCHV_ERR_EXISTS);
	snprintf(holder, sizeof(holder), "is in use by process %d (", getpid());
	CHECK_CONTAINS(cchv_error_message(err), holder);
	CHECK_INT(try(path, 0, 512), CCHV_ERR_EXISTS);
	close(fd);
	CHECK_INT(try(path, 0, 512), CCHV_OK);
}

/* A loop device over a file, as long as *ret_fd is open; NULL where there are none, or we may not. */
static const char *loop_device(const char *path, int *ret_fd)
{
	static char name[64];
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd, number, backing;
	struct loop_config config = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };

	if (control < 0)
		return NULL;
	number = ioctl(control, LOOP_CTL_GET_FREE);
	close(control);
	snprintf(name, sizeof(name), "/dev/loop%d", number);
	fd = open(name, O_RDWR | O_CLOEXEC);
	backing = open(path, O_RDWR | O_CLOEXEC);
	config.fd = (uint32_t)backing;
	if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, &config) < 0) {
		close(fd);
		close(backing);
		return NULL;
	}
	close(backing);
	*ret_fd = fd;
	return name;
}

TEST(a_block_device_has_one_writer_whatever_its_name)
{
	int loop_fd = -1, a = -1, b = -1;
	const char *device = loop_device(file("disk", 1 << 20), &loop_fd);
	char other[600];
	struct stat st;

	/* Not root, or no loop devices. */
	if (!device)
		return;
	CHECK_INT(stat(device, &st), 0);
	snprintf(other, sizeof(other), "%s/node", test_dir());
	CHECK_INT(mknod(other, S_IFBLK | 0600, st.st_rdev), 0);
	CHECK_INT(disk_file_open("a", device, 0, 512, &a, NULL), CCHV_OK);
	CHECK_INT(try(device, 0, 512), CCHV_ERR_EXISTS);
	CHECK_INT(try(device, 1, 512), CCHV_ERR_EXISTS);
	CHECK_INT(try(other, 0, 512), CCHV_ERR_EXISTS);
	/* What mount does. */
	CHECK(open(device, O_RDWR | O_EXCL | O_CLOEXEC) < 0 && errno == EBUSY);
	close(a);
	CHECK_INT(disk_file_open("a", device, 1, 512, &a, NULL), CCHV_OK);
	CHECK_INT(disk_file_open("b", device, 1, 512, &b, NULL), CCHV_OK);
	CHECK_INT(try(device, 0, 512), CCHV_ERR_EXISTS);
	close(a);
	close(b);
	CHECK_INT(try(device, 0, 2U << 20), CCHV_ERR_INVALID);
	CHECK_INT(try(device, 0, 512), CCHV_OK);
	close(loop_fd);
}
