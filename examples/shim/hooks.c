/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks: see hooks.h. Enters: "hooks" of the specification. Leaves: programs that ran, with the state on
 * their input. */
#include "hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cchv/error.h>

#include "cancel_fd.h"
#include "fault.h"
#include "memory.h"
#include "spec_tree.h"

/* For one that has no timeout of its own: somebody waits for the container. */
#define DEFAULT_S 60
#define MAX_S     3600

struct hooks {
	yajl_val tree;     /* the "hooks" object */
	char *state;       /* the state's members that do not change, without the closing brace */
	char *annotations; /* "{...}" */
};

void hooks_free(struct hooks *hooks)
{
	if (!hooks)
		return;
	yajl_tree_free(hooks->tree);
	free(hooks->state);
	free(hooks->annotations);
	free(hooks);
}

static yajl_val copy_tree(yajl_val tree)
{
	char *text = spec_tree_print(tree);
	yajl_val copy = text ? yajl_tree_parse(text, NULL, 0) : NULL;

	free(text);
	return copy;
}

/* {"ociVersion":...,"id":...,"bundle":... with its strings escaped, but for the last brace. */
static char *make_state(yajl_val spec, const char *id, const char *bundle)
{
	const char *version = spec_tree_string(spec, "ociVersion");
	yajl_val tree = yajl_tree_parse("{}", NULL, 0);
	char *text = NULL;

	if (tree && spec_tree_set_string(tree, "ociVersion", version ? version : "1.0.2") == 0 &&
	    spec_tree_set_string(tree, "id", id) == 0 && spec_tree_set_string(tree, "bundle", bundle) == 0)
		text = spec_tree_print(tree);
	yajl_tree_free(tree);
	if (text)
		text[strlen(text) - 1] = '\0';
	return text;
}

int hooks_read(yajl_val spec, const char *id, const char *bundle, struct hooks **ret_hooks, char **ret_error)
{
	yajl_val tree = spec_tree_get(spec, "hooks"), annotations = spec_tree_get(spec, "annotations");
	struct hooks *hooks;

	*ret_hooks = NULL;
	if (!YAJL_IS_OBJECT(tree))
		return 0;
	if (spec_tree_count(spec_tree_get(tree, "startContainer")))
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "hooks.startContainer: it cannot be run in a VM");
	hooks = need_zero(sizeof(*hooks));
	hooks->tree = copy_tree(tree);
	hooks->state = make_state(spec, id, bundle);
	hooks->annotations = YAJL_IS_OBJECT(annotations) ? spec_tree_print(annotations) : need_copy("{}");
	if (!hooks->tree || !hooks->state || !hooks->annotations) {
		hooks_free(hooks);
		return fault_set(ret_error, CCHV_ERR_NOMEM, "hooks: out of memory");
	}
	*ret_hooks = hooks;
	return 0;
}

/* ---- one program ---- */

/* Strings of an array, lent, with a NULL behind them. */
static const char **words_of(yajl_val array, const char *first)
{
	size_t count = spec_tree_count(array), n = 0;
	const char **words = need_zero((count + 2) * sizeof(*words));

	for (size_t i = 0; i < count; i++)
		if (YAJL_IS_STRING(spec_tree_at(array, i)))
			words[n++] = YAJL_GET_STRING(spec_tree_at(array, i));
	if (!n && first)
		words[0] = first;
	return words;
}

static void be_hook(const char *path, const char **argv, const char **envp, int input, int output,
		    int netns_fd)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if ((netns_fd >= 0 && setns(netns_fd, CLONE_NEWNET) < 0) || dup2(input, 0) < 0 ||
	    dup2(output, 1) < 0 || dup2(output, 2) < 0)
		_exit(126);
	syscall(SYS_close_range, 3, ~0U, 0);
	execve(path, (char *const *)argv, (char *const *)envp);
	_exit(127);
}

/* Its time was over, or nobody wants the container any more: it is killed. */
static int wait_for(pid_t pid, int timeout_s, int *ret_status)
{
	struct pollfd p[] = { { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN },
			      { .fd = cancel_fd_get(), .events = POLLIN } };
	int n;

	do
		n = poll(p, 2, timeout_s * 1000);
	while (n < 0 && errno == EINTR);
	if (n <= 0 || !p[0].revents)
		kill(pid, SIGKILL);
	if (p[0].fd >= 0)
		close(p[0].fd);
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		;
	return n > 0 ? 0 : -1;
}

/* The last line of what it said, for people. */
static const char *last_words(int output, char *text, size_t size)
{
	off_t length = lseek(output, 0, SEEK_END);
	ssize_t n = pread(output, text, size - 1, length > (off_t)size - 1 ? length - (off_t)size + 1 : 0);
	char *line;

	if (n <= 0)
		return "it said nothing";
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

static int run_one(yajl_val hook, const char *kind, int input, int output, int netns_fd, char **ret_error)
{
	const char *path = spec_tree_string(hook, "path"), **argv, **envp;
	yajl_val timeout = spec_tree_get(hook, "timeout");
	long long seconds = YAJL_IS_INTEGER(timeout) ? YAJL_GET_INTEGER(timeout) : DEFAULT_S;
	char said[512];
	int status = 0, r;
	pid_t pid;

	if (!path || *path != '/' || seconds < 1)
		return fault_set(ret_error, CCHV_ERR_INVALID, "hooks.%s: its path or timeout is wrong", kind);
	argv = words_of(spec_tree_get(hook, "args"), path);
	envp = words_of(spec_tree_get(hook, "env"), NULL);
	pid = fork();
	if (pid == 0)
		be_hook(path, argv, envp, input, output, netns_fd);
	free(argv);
	free(envp);
	if (pid < 0)
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "hooks.%s '%s': %s", kind, path,
				 strerror(errno));
	r = wait_for(pid, seconds > MAX_S ? MAX_S : (int)seconds, &status);
	if (r < 0)
		return fault_set(ret_error, CCHV_ERR_TIMEOUT, "hooks.%s '%s': not done in %lld s", kind, path,
				 seconds);
	if (status == 0)
		return 0;
	return fault_set(ret_error, CCHV_ERR_SYSTEM, "hooks.%s '%s': %s %d: %s", kind, path,
			 WIFSIGNALED(status) ? "killed by signal" : "exit code",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
			 last_words(output, said, sizeof(said)));
}

static int run_with_state(yajl_val hook, const char *kind, const char *state, int netns_fd, char **ret_error)
{
	int input = memfd_create("state", MFD_CLOEXEC), output = memfd_create("output", MFD_CLOEXEC), r;
	size_t len = strlen(state);

	if (input < 0 || output < 0 || write(input, state, len) != (ssize_t)len ||
	    lseek(input, 0, SEEK_SET) < 0)
		r = fault_set(ret_error, CCHV_ERR_SYSTEM, "hooks.%s: %s", kind, strerror(errno));
	else
		r = run_one(hook, kind, input, output, netns_fd, ret_error);
	if (input >= 0)
		close(input);
	if (output >= 0)
		close(output);
	return r;
}

int hooks_run(const struct hooks *hooks, const char *kind, const char *status, pid_t pid, int netns_fd,
	      char **ret_error)
{
	yajl_val list = hooks ? spec_tree_get(hooks->tree, kind) : NULL;
	char *state;
	int r = 0;

	if (!spec_tree_count(list))
		return 0;
	/* One that has stopped has no pid. */
	if (pid)
		state = need_text("%s,\"status\":\"%s\",\"pid\":%d,\"annotations\":%s}", hooks->state, status,
				  pid, hooks->annotations);
	else
		state = need_text("%s,\"status\":\"%s\",\"annotations\":%s}", hooks->state, status,
				  hooks->annotations);
	for (size_t i = 0; r == 0 && i < spec_tree_count(list); i++)
		r = run_with_state(spec_tree_at(list, i), kind, state, netns_fd, ret_error);
	free(state);
	return r;
}
