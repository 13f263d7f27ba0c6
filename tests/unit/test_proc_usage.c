/* SPDX-License-Identifier: Apache-2.0 */
#include "proc_usage.h"

#include "test.h"

#include <signal.h>
#include <sys/wait.h>

TEST(files_of_proc)
{
	struct proc_usage u = { 0 };

	proc_usage_parse_smaps("5590-7ffd ---p 00000000 00:00 0   [rollup]\nRss:    100 kB\nPss:   50 kB\n"
	                       "Private_Clean:   4 kB\nPrivate_Dirty:      16 kB\nPrivate_Hugetlb: 0 kB\n", &u);
	CHECK_INT(u.rss_bytes, 102400);
	CHECK_INT(u.private_bytes, 20480);
	CHECK_INT(proc_usage_parse_stat("1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 70 30 0 0 20 0 1 0 5"), 100);
	CHECK_INT(proc_usage_parse_stat("rubbish"), 0);
	CHECK_INT(proc_usage_parse_stat("1 (x"), 0);
}

TEST(a_process_and_its_child)
{
	struct proc_usage alone = { 0 }, both = { 0 };
	pid_t pid;
	char *page;

	CHECK_INT(proc_usage_add(getpid(), &alone), 1);
	CHECK(alone.rss_bytes > 0);
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	page = malloc(1);
	CHECK_INT(proc_usage_add(getpid(), &both), 1);
	CHECK(both.rss_bytes > alone.rss_bytes + 4096);
	free(page);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK_INT(proc_usage_add(pid, &both), 0);
}
