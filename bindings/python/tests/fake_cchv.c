/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libcchv whose "guest" is the host: what a binding calls to run processes and to wait for events
 * is here, with real processes and sockets behind it. Functions that no test of the binding needs are left out.
 */
#include <cchv/cchv.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_ARGS 64
#define MAX_EXECS 256

struct cchv_error { int code, origin, number; char text[200]; };
struct cchv_ctx { cchv_log_fn log; void *data; cchv_release_fn release; };
struct cchv_vm_config { char id[80]; };
struct cchv_image { char name[80]; };
struct cchv_stdio_config { int fd[3], pipe[3]; };
struct cchv_exec_config {
	char *arg[MAX_ARGS], *env[MAX_ARGS], *cwd;
	int args, envs;
	struct cchv_stdio_config io;
};
struct cchv_container_config { char id[80]; struct cchv_exec_config process; };
struct cchv_event { int type; char exec[32]; int code, signal, state, reason; struct cchv_event *next; };
struct cchv_exec { struct cchv_vm *vm; char id[32]; int pid, pidfd, ended, code, signal, fd[3], handles; };
struct cchv_container { struct cchv_vm *vm; struct cchv_container_config config; struct cchv_exec *init; };
struct cchv_vm {
	pthread_mutex_t lock;
	int state, epoll, bell, next_id, execs;
	char id[80];
	struct cchv_exec *exec[MAX_EXECS];
	struct cchv_event *first, **last;
};

static int fail(cchv_error **err, int code, int number, const char *text)
{
	if (err && (*err = calloc(1, sizeof(**err)))) {
		(*err)->code = code;
		(*err)->number = number;
		(*err)->origin = number ? CCHV_ORIGIN_GUEST : CCHV_ORIGIN_LIBRARY;
		snprintf((*err)->text, sizeof((*err)->text), "%s", text);
	}
	return code;
}

API int cchv_error_code(const cchv_error *error) { return error ? error->code : 0; }
API int cchv_error_origin(const cchv_error *error) { return error ? error->origin : 0; }
API int cchv_error_errno(const cchv_error *error) { return error ? error->number : 0; }
API const char *cchv_error_message(const cchv_error *error) { return error ? error->text : "no error"; }
API void cchv_error_free(cchv_error *error) { free(error); }
API const char *cchv_err_text(int code) { return code == CCHV_ERR_INVALID ? "invalid" : "failed"; }
API void cchv_free(void *memory) { free(memory); }
API const char *cchv_version(void) { return "0.1.0-fake"; }

/* ---- contexts: the log is called once for each name of a VMM, so that a test sees a line ---- */

API int cchv_ctx_new(cchv_ctx **ret_ctx, cchv_error **err)
{
	*ret_ctx = calloc(1, sizeof(**ret_ctx));
	return *ret_ctx ? CCHV_OK : fail(err, CCHV_ERR_NOMEM, 0, "no memory");
}

API void cchv_ctx_free(cchv_ctx *ctx)
{
	if (ctx && ctx->release)
		ctx->release(ctx->data);
	free(ctx);
}

API int cchv_ctx_set_log(cchv_ctx *ctx, int max_level, cchv_log_fn fn, void *user_data, cchv_release_fn release)
{
	ctx->log = fn;
	ctx->data = user_data;
	ctx->release = release;
	if (max_level >= CCHV_LOG_INFO)
		fn(CCHV_LOG_INFO, "log is on \xff", user_data);
	return CCHV_OK;
}

/* ---- settings ---- */

API int cchv_vm_config_new(cchv_vm_config **ret_config)
{
	*ret_config = calloc(1, sizeof(**ret_config));
	return CCHV_OK;
}

API void cchv_vm_config_free(cchv_vm_config *config) { free(config); }
API int cchv_vm_config_set_memory(cchv_vm_config *config, uint64_t bytes) { return bytes ? CCHV_OK : CCHV_ERR_INVALID; }

API int cchv_vm_config_set_id(cchv_vm_config *config, const char *id)
{
	if (!*id)
		return CCHV_ERR_INVALID;
	snprintf(config->id, sizeof(config->id), "%s", id);
	return CCHV_OK;
}

API int cchv_stdio_config_new(cchv_stdio_config **ret_config)
{
	*ret_config = malloc(sizeof(**ret_config));
	for (int i = 0; i < 3; i++) {
		(*ret_config)->fd[i] = -1;
		(*ret_config)->pipe[i] = 0;
	}
	return CCHV_OK;
}

static void close_fds(int *fd)
{
	for (int i = 0; i < 3; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}
}

API void cchv_stdio_config_free(cchv_stdio_config *config)
{
	if (config)
		close_fds(config->fd);
	free(config);
}

API int cchv_stdio_config_set_fd(cchv_stdio_config *config, int stream, int fd)
{
	config->fd[stream] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return config->fd[stream] < 0 ? CCHV_ERR_SYSTEM : CCHV_OK;
}

API int cchv_stdio_config_set_pipe(cchv_stdio_config *config, int stream)
{
	config->pipe[stream] = 1;
	return CCHV_OK;
}

static void copy_stdio(struct cchv_stdio_config *to, const struct cchv_stdio_config *from)
{
	for (int i = 0; i < 3; i++) {
		to->fd[i] = from && from->fd[i] >= 0 ? fcntl(from->fd[i], F_DUPFD_CLOEXEC, 3) : -1;
		to->pipe[i] = from ? from->pipe[i] : 0;
	}
}

API int cchv_exec_config_new(cchv_exec_config **ret_config)
{
	*ret_config = calloc(1, sizeof(**ret_config));
	copy_stdio(&(*ret_config)->io, NULL);
	return CCHV_OK;
}

API void cchv_exec_config_free(cchv_exec_config *config)
{
	if (config)
		close_fds(config->io.fd);
	free(config); /* its strings are left to the end of the test */
}

API int cchv_exec_config_add_arg(cchv_exec_config *config, const char *arg)
{
	if (config->args == MAX_ARGS - 1)
		return CCHV_ERR_LIMIT;
	config->arg[config->args++] = strdup(arg);
	return CCHV_OK;
}

API int cchv_exec_config_set_env(cchv_exec_config *config, const char *name, const char *value)
{
	if (!*name || strchr(name, '='))
		return CCHV_ERR_INVALID;
	return asprintf(&config->env[config->envs++], "%s=%s", name, value) < 0 ? CCHV_ERR_NOMEM : CCHV_OK;
}

API int cchv_exec_config_set_cwd(cchv_exec_config *config, const char *path)
{
	config->cwd = strdup(path);
	return CCHV_OK;
}

API int cchv_exec_config_set_stdio(cchv_exec_config *config, cchv_stdio_config *stdio)
{
	copy_stdio(&config->io, stdio);
	return CCHV_OK;
}

API int cchv_image_open(cchv_ctx *ctx, const char *name, cchv_image **ret_image, cchv_error **err)
{
	if (strcmp(name, "host"))
		return fail(err, CCHV_ERR_NOT_FOUND, 0, "image is not there");
	*ret_image = calloc(1, sizeof(**ret_image));
	return CCHV_OK;
}

API void cchv_image_free(cchv_image *image) { free(image); }

API int cchv_container_config_new_from_image(const char *id, cchv_image *image, cchv_container_config **ret_config,
					     cchv_error **err)
{
	*ret_config = calloc(1, sizeof(**ret_config));
	snprintf((*ret_config)->id, sizeof((*ret_config)->id), "%s", id);
	copy_stdio(&(*ret_config)->process.io, NULL);
	return cchv_exec_config_add_arg(&(*ret_config)->process, "true");
}

API void cchv_container_config_free(cchv_container_config *config) { free(config); }

API int cchv_container_config_clear_cmd(cchv_container_config *config)
{
	config->process.args = 0;
	return CCHV_OK;
}

API int cchv_container_config_add_arg(cchv_container_config *config, const char *arg)
{
	return cchv_exec_config_add_arg(&config->process, arg);
}

API int cchv_container_config_set_env(cchv_container_config *config, const char *name, const char *value)
{
	return cchv_exec_config_set_env(&config->process, name, value);
}

/* ---- VMs and their events ---- */

API int cchv_vm_create(cchv_ctx *ctx, cchv_vm_config *config, int timeout_ms, cchv_vm **ret_vm, cchv_error **err)
{
	struct cchv_vm *vm = calloc(1, sizeof(*vm));
	struct epoll_event in = { .events = EPOLLIN };

	if (!strcmp(config->id, "taken")) {
		free(vm);
		return fail(err, CCHV_ERR_EXISTS, EEXIST, "VM 'taken' exists");
	}
	pthread_mutex_init(&vm->lock, NULL);
	vm->last = &vm->first;
	vm->state = CCHV_VM_CREATED;
	vm->epoll = epoll_create1(EPOLL_CLOEXEC);
	vm->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epoll_ctl(vm->epoll, EPOLL_CTL_ADD, vm->bell, &in);
	snprintf(vm->id, sizeof(vm->id), "%s", *config->id ? config->id : "fake");
	*ret_vm = vm;
	return CCHV_OK;
}

/* Queue an event; the lock is held. */
static struct cchv_event *push(struct cchv_vm *vm, int type)
{
	struct cchv_event *event = calloc(1, sizeof(*event));

	event->type = type;
	*vm->last = event;
	vm->last = &event->next;
	eventfd_write(vm->bell, 1);
	return event;
}

static void set_state(struct cchv_vm *vm, int state)
{
	vm->state = state;
	push(vm, CCHV_EVENT_STATE)->state = state;
	if (state == CCHV_VM_STOPPED)
		push(vm, CCHV_EVENT_STOPPED)->reason = CCHV_STOP_GUEST_POWEROFF;
}

/* Reap what has ended; the lock is held. */
static void reap(struct cchv_vm *vm)
{
	for (int i = 0; i < vm->execs; i++) {
		struct cchv_exec *exec = vm->exec[i];
		struct cchv_event *event;
		int status;

		if (exec->ended || waitpid(exec->pid, &status, WNOHANG) != exec->pid)
			continue;
		exec->ended = 1;
		exec->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		exec->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		epoll_ctl(vm->epoll, EPOLL_CTL_DEL, exec->pidfd, NULL);
		event = push(vm, CCHV_EVENT_EXEC_EXITED);
		snprintf(event->exec, sizeof(event->exec), "%s", exec->id);
		event->code = exec->code;
		event->signal = exec->signal;
	}
}

API int cchv_vm_dispatch(cchv_vm *vm, cchv_error **err)
{
	uint64_t count;

	pthread_mutex_lock(&vm->lock);
	(void)!read(vm->bell, &count, sizeof(count));
	reap(vm);
	pthread_mutex_unlock(&vm->lock);
	return CCHV_OK;
}

API int cchv_vm_next_event(cchv_vm *vm, cchv_event **ret_event)
{
	struct cchv_event *event;

	pthread_mutex_lock(&vm->lock);
	event = vm->first;
	if (event) {
		vm->first = event->next;
		if (!vm->first)
			vm->last = &vm->first;
		*ret_event = event;
	}
	pthread_mutex_unlock(&vm->lock);
	return event != NULL;
}

API int cchv_vm_poll(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	struct pollfd p = { .fd = vm->epoll, .events = POLLIN };

	cchv_vm_dispatch(vm, err);
	if (!vm->first && poll(&p, 1, timeout_ms) > 0)
		cchv_vm_dispatch(vm, err);
	return vm->first != NULL;
}

API int cchv_vm_get_fd(cchv_vm *vm) { return vm->epoll; }
API int cchv_vm_get_state(cchv_vm *vm) { return vm->state; }
API const char *cchv_vm_get_id(cchv_vm *vm) { return vm->id; }
API void cchv_vm_free(cchv_vm *vm) { vm->state = CCHV_VM_STOPPED; /* handles may follow: kept to the end */ }

API int cchv_vm_boot(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	if (vm->state != CCHV_VM_CREATED)
		return fail(err, CCHV_ERR_STATE, 0, "VM is not CREATED");
	pthread_mutex_lock(&vm->lock);
	set_state(vm, CCHV_VM_RUNNING);
	pthread_mutex_unlock(&vm->lock);
	return CCHV_OK;
}

API int cchv_vm_shutdown(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	pthread_mutex_lock(&vm->lock);
	set_state(vm, CCHV_VM_STOPPED);
	pthread_mutex_unlock(&vm->lock);
	return CCHV_OK;
}

API int cchv_vm_kill(cchv_vm *vm, cchv_error **err) { return cchv_vm_shutdown(vm, -1, err); }

API int cchv_vm_wait(cchv_vm *vm, int timeout_ms, int *ret_reason, cchv_error **err)
{
	for (int left = timeout_ms; vm->state != CCHV_VM_STOPPED; left -= 5) {
		if (timeout_ms >= 0 && left <= 0)
			return fail(err, CCHV_ERR_TIMEOUT, 0, "VM runs");
		poll(NULL, 0, 5);
	}
	*ret_reason = CCHV_STOP_GUEST_POWEROFF;
	return CCHV_OK;
}

API int cchv_event_get_type(cchv_event *event) { return event->type; }
API uint64_t cchv_event_get_time(cchv_event *event) { return 1; }
API const char *cchv_event_get_container_id(cchv_event *event) { return *event->exec ? "main" : NULL; }
API const char *cchv_event_get_exec_id(cchv_event *event) { return *event->exec ? event->exec : NULL; }
API const char *cchv_event_get_device_id(cchv_event *event) { return NULL; }
API int cchv_event_get_exit_code(cchv_event *event) { return *event->exec ? event->code : -1; }
API int cchv_event_get_signal(cchv_event *event) { return event->signal; }
API int cchv_event_get_pid(cchv_event *event) { return 0; }
API int cchv_event_get_state(cchv_event *event) { return event->state; }
API int cchv_event_get_reason(cchv_event *event) { return event->reason; }
API uint64_t cchv_event_get_count(cchv_event *event) { return 0; }
API const char *cchv_event_get_message(cchv_event *event) { return NULL; }
API void cchv_event_free(cchv_event *event) { free(event); }

/* ---- processes ---- */

static void child(struct cchv_exec_config *config, int *fd, int report)
{
	sigset_t none;
	int number;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	for (int i = 0; i < 3; i++)
		dup2(fd[i], i);
	for (int i = 0; i < config->envs; i++)
		putenv(config->env[i]);
	config->arg[config->args] = NULL;
	if (!config->cwd || chdir(config->cwd) == 0)
		execvp(config->arg[0], config->arg);
	number = errno;
	(void)!write(report, &number, sizeof(number));
	_exit(127);
}

static int spawn(struct cchv_vm *vm, struct cchv_exec_config *config, const char *id, cchv_exec **ret, cchv_error **err)
{
	struct cchv_exec *exec = calloc(1, sizeof(*exec));
	struct epoll_event in = { .events = EPOLLIN };
	int fd[3], report[2], number = 0;

	if (vm->state != CCHV_VM_RUNNING || vm->execs == MAX_EXECS)
		return fail(err, CCHV_ERR_STATE, 0, "VM is not RUNNING");
	for (int i = 0; i < 3; i++) {
		int pair[2] = { -1, -1 };

		if (config->io.pipe[i])
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
		exec->fd[i] = pair[0];
		fd[i] = pair[1];
		if (!config->io.pipe[i] && config->io.fd[i] >= 0)
			fd[i] = fcntl(config->io.fd[i], F_DUPFD_CLOEXEC, 3);
		else if (!config->io.pipe[i])
			fd[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	if (pipe2(report, O_CLOEXEC) < 0)
		return fail(err, CCHV_ERR_SYSTEM, errno, "pipe");
	exec->vm = vm;
	exec->pid = fork();
	if (exec->pid == 0)
		child(config, fd, report[1]);
	close(report[1]);
	(void)!read(report[0], &number, sizeof(number));
	close(report[0]);
	close_fds(fd);
	if (number) {
		waitpid(exec->pid, NULL, 0);
		close_fds(exec->fd);
		free(exec);
		return fail(err, number == ENOENT ? CCHV_ERR_NOT_FOUND : CCHV_ERR_DENIED, number, "program");
	}
	pthread_mutex_lock(&vm->lock);
	if (id)
		snprintf(exec->id, sizeof(exec->id), "%s", id);
	else
		snprintf(exec->id, sizeof(exec->id), "e%d", ++vm->next_id);
	exec->pidfd = (int)syscall(SYS_pidfd_open, exec->pid, 0);
	epoll_ctl(vm->epoll, EPOLL_CTL_ADD, exec->pidfd, &in);
	vm->exec[vm->execs++] = exec;
	pthread_mutex_unlock(&vm->lock);
	*ret = exec;
	return CCHV_OK;
}

API int cchv_vm_exec(cchv_vm *vm, cchv_exec_config *config, int timeout_ms, cchv_exec **ret_exec, cchv_error **err)
{
	return spawn(vm, config, NULL, ret_exec, err);
}

API int cchv_container_exec(cchv_container *container, cchv_exec_config *config, int timeout_ms, cchv_exec **ret_exec,
			    cchv_error **err)
{
	return spawn(container->vm, config, NULL, ret_exec, err);
}

API int cchv_container_create(cchv_vm *vm, cchv_container_config *config, int timeout_ms,
			      cchv_container **ret_container, cchv_error **err)
{
	*ret_container = calloc(1, sizeof(**ret_container));
	(*ret_container)->vm = vm;
	(*ret_container)->config = *config;
	return CCHV_OK;
}

API int cchv_container_start(cchv_container *container, cchv_stdio_config *stdio, int timeout_ms, cchv_exec **ret_init,
			     cchv_error **err)
{
	copy_stdio(&container->config.process.io, stdio);
	return spawn(container->vm, &container->config.process, "init", ret_init, err);
}

API int cchv_container_get_spec_json(cchv_container *container, char **ret_json, cchv_error **err)
{
	return asprintf(ret_json, "{\"process\":{\"args\":[\"%s\"]}}", container->config.process.arg[0]) < 0;
}

static int deleted_count;

API int fake_deleted_count(void) { return deleted_count; }

API int cchv_container_delete(cchv_container *container, int timeout_ms, cchv_error **err)
{
	if (container->vm->state != CCHV_VM_STOPPED)
		return fail(err, CCHV_ERR_STATE, 0, "the container runs");
	deleted_count++;
	return CCHV_OK;
}

API void cchv_container_free(cchv_container *container) { free(container); }
API const char *cchv_exec_get_id(cchv_exec *exec) { return exec->id; }
API int cchv_exec_get_pid(cchv_exec *exec) { return exec->pid; }
API int cchv_exec_get_state(cchv_exec *exec) { return exec->ended ? CCHV_EXEC_EXITED : CCHV_EXEC_RUNNING; }
API void cchv_exec_free(cchv_exec *exec) { close_fds(exec->fd); }

API int cchv_exec_close_output(cchv_exec *exec, cchv_error **err)
{
	return exec->ended ? CCHV_OK : fail(err, CCHV_ERR_STATE, 0, "exec runs");
}

API int cchv_exec_delete(cchv_exec *exec, int timeout_ms, cchv_error **err)
{
	return exec->ended ? CCHV_OK : fail(err, CCHV_ERR_STATE, 0, "exec runs");
}

API int cchv_exec_take_fd(cchv_exec *exec, int stream, int *ret_fd, cchv_error **err)
{
	if (exec->fd[stream] < 0)
		return fail(err, CCHV_ERR_STATE, 0, "stream is no pipe");
	*ret_fd = exec->fd[stream];
	exec->fd[stream] = -1;
	return CCHV_OK;
}

API int cchv_exec_signal(cchv_exec *exec, int signal_number, int target, int timeout_ms, cchv_error **err)
{
	if (exec->ended || kill(target == CCHV_SIGNAL_GROUP ? -exec->pid : exec->pid, signal_number) < 0)
		return fail(err, CCHV_ERR_NOT_FOUND, ESRCH, "exec has ended");
	return CCHV_OK;
}

API int cchv_exec_wait(cchv_exec *exec, int timeout_ms, int *ret_exit_code, int *ret_signal, cchv_error **err)
{
	struct pollfd p = { .fd = exec->pidfd, .events = POLLIN };

	poll(&p, 1, timeout_ms);
	cchv_vm_dispatch(exec->vm, err);
	if (!exec->ended)
		return fail(err, CCHV_ERR_TIMEOUT, 0, "exec runs");
	*ret_exit_code = exec->code;
	*ret_signal = exec->signal;
	return CCHV_OK;
}
