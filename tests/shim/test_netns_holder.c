/* SPDX-License-Identifier: Apache-2.0 */
/* The holder of a network namespace, as root. */
#include "tests/unit/test.h"

#include "examples/shim/netns.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void need_root(void)
{
	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		exit(0);
	}
}

static ino_t netns_of(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	CHECK_INT(stat(path, &st), 0);
	return st.st_ino;
}

static ino_t inode_of(int fd)
{
	struct stat st;

	CHECK_INT(fstat(fd, &st), 0);
	return st.st_ino;
}

/* $PID is the process. */
static int shell(const char *command, pid_t pid)
{
	char text[20];

	snprintf(text, sizeof(text), "%d", (int)pid);
	CHECK_INT(setenv("PID", text, 1), 0);
	return system(command);
}

TEST(a_new_namespace_has_its_loopback_up)
{
	struct netns_holder holder = NETNS_HOLDER_INIT;
	char *error = NULL, command[200];
	ino_t inode;

	need_root();
	CHECK_INT(netns_holder_start(&holder, NULL, &error), CCHV_OK);
	inode = netns_of(holder.pid);
	CHECK(netns_of(holder.pid) != netns_of(getpid()));
	CHECK_INT(netns_of(holder.pid), inode_of(holder.netns_fd));
	CHECK_INT(shell("nsenter -t $PID -n ip -o link show lo | grep -q ',UP'", holder.pid), 0);
	/* Nothing of ours is open in it. */
	CHECK_INT(shell("[ -z \"$(ls /proc/$PID/fd)\" ]", holder.pid), 0);
	/* The container's end: no process any more, and the namespace is there. */
	netns_holder_end(&holder);
	netns_holder_end(&holder);
	CHECK_INT(kill(holder.pid, 0), -1);
	CHECK_INT((int)inode_of(holder.netns_fd), (int)inode);
	snprintf(command, sizeof(command), "nsenter --net=/proc/$PID/fd/%d ip -o link show lo | grep -q ',UP'",
		 holder.netns_fd);
	CHECK_INT(shell(command, getpid()), 0);
	netns_holder_stop(&holder);
	netns_holder_stop(&holder);
	CHECK_INT(holder.pid, 0);
}

TEST(two_containers_hold_one_namespace_by_two_processes)
{
	struct netns_holder first = NETNS_HOLDER_INIT, second = NETNS_HOLDER_INIT;
	char *error = NULL, path[64];

	need_root();
	CHECK_INT(netns_holder_start(&first, NULL, &error), CCHV_OK);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)first.pid);
	CHECK_INT(netns_holder_start(&second, path, &error), CCHV_OK);
	CHECK(first.pid != second.pid);
	CHECK_INT(netns_of(first.pid), netns_of(second.pid));
	netns_holder_stop(&first);
	/* The namespace lives on with the other one. */
	CHECK_INT(shell("nsenter -t $PID -n true", second.pid), 0);
	netns_holder_stop(&second);
}

TEST(a_killed_holder_shows)
{
	struct netns_holder holder = NETNS_HOLDER_INIT;
	struct pollfd p;
	char *error = NULL;

	need_root();
	CHECK_INT(netns_holder_start(&holder, NULL, &error), CCHV_OK);
	p = (struct pollfd){ holder.pid_fd, POLLIN, 0 };
	CHECK_INT(poll(&p, 1, 0), 0);
	CHECK_INT(kill(holder.pid, SIGTERM), 0);
	CHECK_INT(poll(&p, 1, 10000), 1);
	netns_holder_stop(&holder);
}

TEST(it_does_not_outlive_who_started_it)
{
	struct netns_holder holder;
	int fds[2], status;
	pid_t pid;

	need_root();
	CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (netns_holder_start(&holder, NULL, NULL) < 0)
			_exit(1);
		_exit(write(fds[1], &holder.pid, sizeof(holder.pid)) < 0);
	}
	close(fds[1]);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK_INT(read(fds[0], &holder.pid, sizeof(holder.pid)), sizeof(holder.pid));
	/* It is ours to reap now. */
	CHECK_INT(waitpid(holder.pid, &status, 0), holder.pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(fds[0]);
}

TEST(what_is_no_namespace_is_refused_by_name)
{
	struct netns_holder holder = NETNS_HOLDER_INIT;
	char *error = NULL;

	need_root();
	CHECK_INT(netns_holder_start(&holder, "/nonexistent/ns", &error), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "'/nonexistent/ns'");
	CHECK_INT(netns_holder_start(&holder, "/dev/null", &error), CCHV_ERR_INVALID);
	CHECK_CONTAINS(error, "'/dev/null'");
	CHECK_INT(netns_holder_start(&holder, "/proc/self/ns/uts", &error), CCHV_ERR_INVALID);
	CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
	free(error);
}

static int of_spec(const char *json, const char **path, char **error)
{
	static yajl_val tree;

	yajl_tree_free(tree);
	tree = yajl_tree_parse(json, NULL, 0);
	CHECK(tree);
	return netns_of_spec(tree, path, error);
}

TEST(the_specification_says_which_one)
{
	const char *path = "x";
	char *error = NULL;

	CHECK_INT(of_spec("{\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"}]}}", &path, &error),
		  CCHV_OK);
	CHECK(!path);
	CHECK_INT(of_spec("{\"linux\":{\"namespaces\":[{\"type\":\"network\",\"path\":\"/p\"}]}}", &path, &error), 0);
	CHECK_STR(path, "/p");
	CHECK_INT(of_spec("{\"linux\":{\"namespaces\":[{\"type\":\"pid\",\"path\":\"/p\"}]}}", &path, &error),
		  CCHV_ERR_UNSUPPORTED);
	CHECK_CONTAINS(error, "network of the host");
	CHECK_INT(of_spec("{}", &path, &error), CCHV_ERR_UNSUPPORTED);
	free(error);
}
