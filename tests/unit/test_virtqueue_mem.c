/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "examples/qemu/virtqueue_mem.h"

#define PAGE 0x1000ull

static int new_file(size_t size)
{
	int fd = memfd_create("ram", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, (off_t)size), 0);
	return fd;
}

TEST(impossible_regions_are_refused)
{
	static const struct {
		uint64_t guest, size, user, offset;
	} cases[] = {
		{ 0, 0, 0, 0 },
		{ UINT64_MAX - PAGE + 2, PAGE, 0, 0 },
		{ 0, PAGE, UINT64_MAX - 1, 0 },
		{ 0, PAGE, 0, UINT64_MAX - 1 },
		{ 0, UINT64_MAX / 2, 0, 0 },
		{ 0, 5 * PAGE, 0, 0 },
		{ 0, 4 * PAGE, 0, PAGE },
		{ 10 * PAGE, PAGE, 0, 0 },
		{ 9 * PAGE, 2 * PAGE, 0, 0 },
		{ 11 * PAGE, 2 * PAGE, 0, 0 },
		{ 9 * PAGE, 4 * PAGE, 0, 0 },
	};
	static const struct guest_range present = { .guest = 10 * PAGE, .size = 2 * PAGE, .user = 100 * PAGE };
	struct guest_mem mem = { 0 };
	cleanup_close int fd = new_file(4 * PAGE);

	CHECK_INT(guest_mem_add(&mem, &present, fd, 0, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct guest_range range = { cases[i].guest, cases[i].size, cases[i].user };

		CHECK_INT(guest_mem_add(&mem, &range, fd, cases[i].offset, NULL), CCHV_ERR_PROTOCOL);
		CHECK_INT(mem.count, 1);
	}
	guest_mem_clear(&mem);
}

TEST(regions_come_and_go_and_addresses_follow)
{
	const struct guest_range ranges[] = {
		{ .guest = 4 * PAGE, .size = PAGE, .user = 0x1000000 },
		{ .guest = 0, .size = 2 * PAGE, .user = 0x2000000 },
		{ .guest = 2 * PAGE, .size = PAGE, .user = 0x3000000 },
	};
	struct guest_range other = ranges[1];
	struct guest_mem mem = { 0 };
	cleanup_close int fd = new_file(8 * PAGE);
	struct iovec iov[4];

	CHECK_INT(guest_mem_iov(&mem, 0, 1, 0, iov, 4), CCHV_ERR_PROTOCOL);
	CHECK_INT(guest_mem_remove(&mem, &ranges[0], NULL), CCHV_ERR_PROTOCOL);
	for (int i = 0; i < 3; i++)
		CHECK_INT(guest_mem_add(&mem, &ranges[i], fd, (uint64_t)i * 2 * PAGE, NULL), 0);
	CHECK_INT(pwrite(fd, "middle", 6, 4 * PAGE), 6);
	CHECK_INT(guest_mem_iov(&mem, 2 * PAGE - 1, 7, 1, iov, 4), 2);
	CHECK_INT(memcmp(iov[1].iov_base, "middle", 6), 0);
	CHECK_INT(guest_mem_iov(&mem, 2 * PAGE - 1, 7, 1, iov, 1), CCHV_ERR_LIMIT);
	CHECK_INT(guest_mem_iov(&mem, 2 * PAGE, PAGE + 1, 0, iov, 4), CCHV_ERR_PROTOCOL);
	CHECK_INT(guest_mem_iov(&mem, 4 * PAGE, PAGE, 0, iov, 4), 1);
	CHECK(guest_mem_at_user(&mem, 0x3000000, 6));
	CHECK_INT(memcmp(guest_mem_at_user(&mem, 0x3000000, 6), "middle", 6), 0);
	CHECK(!guest_mem_at_user(&mem, 0x3000000, PAGE + 1));
	CHECK(!guest_mem_at_user(&mem, 0x3000000 - 1, 1));

	other.user++;
	CHECK_INT(guest_mem_remove(&mem, &other, NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(guest_mem_remove(&mem, &ranges[1], NULL), 0);
	CHECK_INT(guest_mem_iov(&mem, 0, 1, 0, iov, 4), CCHV_ERR_PROTOCOL);
	CHECK_INT(guest_mem_iov(&mem, 2 * PAGE, 6, 0, iov, 4), 1);
	CHECK_INT(memcmp(iov[0].iov_base, "middle", 6), 0);
	guest_mem_clear(&mem);
	CHECK_INT(guest_mem_iov(&mem, 2 * PAGE, 6, 0, iov, 4), CCHV_ERR_PROTOCOL);
}

TEST(regions_are_limited_in_number)
{
	struct guest_mem mem = { 0 };
	cleanup_close int fd = new_file(PAGE);

	for (uint64_t i = 0; i <= GUEST_MEM_REGIONS_MAX; i++) {
		const struct guest_range range = { .guest = i * 2 * PAGE, .size = PAGE, .user = i * 2 * PAGE };
		int r = guest_mem_add(&mem, &range, fd, 0, NULL);

		CHECK_INT(r, i < GUEST_MEM_REGIONS_MAX ? 0 : CCHV_ERR_LIMIT);
	}
	guest_mem_clear(&mem);
}
