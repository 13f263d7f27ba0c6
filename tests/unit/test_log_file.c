/* SPDX-License-Identifier: Apache-2.0 */
#include "log_file.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char path[200], old_path[210];

static struct log_file *begin(uint64_t max_bytes)
{
	struct log_file *log = NULL;

	snprintf(path, sizeof(path), "%s/log", test_dir());
	snprintf(old_path, sizeof(old_path), "%s.1", path);
	CHECK_INT(log_file_open(path, max_bytes, &log, NULL), 0);
	return log;
}

static size_t read_all(const char *name, char *data, size_t room)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, data, room);

	if (fd >= 0)
		close(fd);
	CHECK(n >= 0);
	return (size_t)n;
}

TEST(no_byte_is_lost_or_out_of_order_while_it_turns_over)
{
	struct log_file *log = begin(1000);
	char written[50000], seen[2000], last[2000];
	size_t total = 0;

	for (int i = 0; i < 500; i++) {
		size_t n = (size_t)(i * 37 % 90 + 1);

		for (size_t k = 0; k < n; k++)
			written[total + k] = (char)('a' + (total + k) % 26);
		log_file_write(log, written + total, n);
		total += n;
		if (i % 50 == 0) {
			size_t old_size = read_all(old_path, seen, sizeof(seen));
			size_t size = read_all(path, last, sizeof(last));

			CHECK(old_size <= 1000 && size <= 1000);
			memcpy(seen + old_size, last, size);
			CHECK(total >= old_size + size);
			CHECK(memcmp(written + total - old_size - size, seen, old_size + size) == 0);
			CHECK(total <= 1000 || old_size == 1000);
		}
	}
	CHECK_INT(log_file_lost(log), 0);
	log_file_unref(log);
}

TEST(one_write_larger_than_the_limit)
{
	struct log_file *log = begin(10);
	char seen[32];

	log_file_write(log, "0123456789abcdefghijXYZ", 23);
	CHECK_INT(read_all(old_path, seen, sizeof(seen)), 10);
	CHECK(memcmp(seen, "abcdefghij", 10) == 0);
	CHECK_INT(read_all(path, seen, sizeof(seen)), 3);
	CHECK(memcmp(seen, "XYZ", 3) == 0);
	log_file_unref(log);
}

TEST(it_appends_to_what_is_there_and_counts_it)
{
	struct log_file *log = begin(0);
	struct stat st;
	char seen[32];

	log_file_write(log, "one", 3);
	log_file_unref(log);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0600);
	log = begin(4);
	log_file_write(log, "two", 3);
	CHECK_INT(read_all(old_path, seen, sizeof(seen)), 4);
	CHECK(memcmp(seen, "onet", 4) == 0);
	CHECK_INT(read_all(path, seen, sizeof(seen)), 2);
	log_file_unref(log);
}

TEST(without_a_limit_it_grows)
{
	struct log_file *log = begin(0);
	char block[4096] = { 0 };
	struct stat st;

	for (int i = 0; i < 100; i++)
		log_file_write(log, block, sizeof(block));
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_size, 100 * 4096);
	CHECK_INT(access(old_path, F_OK), -1);
	log_file_unref(log);
}

TEST(what_cannot_be_opened_is_refused)
{
	struct log_file *log = NULL;
	char link[200];

	CHECK_INT(log_file_open("/dev/full", 0, &log, NULL), CCHV_ERR_INVALID);
	CHECK_INT(log_file_open("/nonexistent/dir/log", 0, &log, NULL), CCHV_ERR_NOT_FOUND);
	/* A link could lead anywhere. */
	snprintf(link, sizeof(link), "%s/link", test_dir());
	CHECK_INT(symlink("/etc/passwd", link), 0);
	CHECK(log_file_open(link, 0, &log, NULL) < 0);
}

TEST(what_the_disk_does_not_take_is_counted)
{
	struct rlimit limit = { 1000, 1000 };
	struct log_file *log = begin(0);
	char block[1500] = { 0 };
	struct stat st;

	/* A write over the limit is a short one, the next fails, as on a full disk. */
	CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
	log_file_write(log, block, sizeof(block));
	CHECK_INT(log_file_lost(log), 500);
	/* There is room again. */
	CHECK_INT(truncate(path, 0), 0);
	log_file_write(log, "more", 4);
	CHECK_INT(log_file_lost(log), 500);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_size, 4);
	log_file_unref(log);
}

TEST(shared_by_two_streams)
{
	struct log_file *log = begin(0), *other = log_file_ref(log);
	char seen[32];

	log_file_write(log, "out", 3);
	log_file_write(other, "err", 3);
	log_file_unref(log);
	log_file_write(other, "!", 1);
	CHECK_INT(read_all(path, seen, sizeof(seen)), 7);
	CHECK(memcmp(seen, "outerr!", 7) == 0);
	log_file_unref(other);
}
