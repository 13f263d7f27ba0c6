/* SPDX-License-Identifier: Apache-2.0 */
#include "bounded_log.h"

#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

TEST(the_newest_lines_stay)
{
	struct bounded_log log = BOUNDED_LOG_INIT;
	int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	char line[32], *tail;

	CHECK_INT(bounded_log_open(&log, dir, "l", 1000, NULL), 0);
	for (int i = 0; i < 10000; i++) {
		int n = snprintf(line, sizeof(line), "line %d\n", i);

		bounded_log_write(&log, line, (size_t)n);
		CHECK_INT(fstat(log.fd, &st), 0);
		CHECK(st.st_size <= 1000);
	}
	CHECK(st.st_size >= 490);
	tail = bounded_log_tail(&log, 20);
	CHECK_CONTAINS(tail, "line 9999\n");
	free(tail);
	tail = bounded_log_tail(&log, 5000);
	CHECK(strncmp(tail, "line ", 5) == 0);
	free(tail);
	bounded_log_close(&log);
	/* Opened again it goes on. */
	CHECK_INT(bounded_log_open(&log, dir, "l", 1000, NULL), 0);
	bounded_log_write(&log, "more\n", 5);
	tail = bounded_log_tail(&log, 15);
	CHECK_STR(tail, "line 9999\nmore\n");
	free(tail);
	bounded_log_close(&log);
	close(dir);
}

TEST(the_last_line_that_says_something)
{
	struct bounded_log log = BOUNDED_LOG_INIT;
	int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *line;

	CHECK_INT(bounded_log_open(&log, dir, "last", 1000, NULL), 0);
	CHECK(!bounded_log_last_line(&log));
	bounded_log_write(&log, "one\n\033[1mtwo\x7f\r\n\r\n \t\n", 17);
	line = bounded_log_last_line(&log);
	CHECK_STR(line, " [1mtwo ");
	free(line);
	bounded_log_close(&log);
	close(dir);
}

TEST(a_flood_in_one_piece)
{
	struct bounded_log log = BOUNDED_LOG_INIT;
	int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *flood = malloc(100000);

	memset(flood, 'x', 100000);
	CHECK_INT(bounded_log_open(&log, dir, "l", 1000, NULL), 0);
	for (int i = 0; i < 10; i++) {
		bounded_log_write(&log, flood, 100000);
		CHECK(log.size <= 1000);
	}
	free(flood);
	bounded_log_close(&log);
	close(dir);
}
