/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of the VMM and of the owner: what everybody hears of it, and what is left. Enters: a world. Leaves: nothing;
 * the process ends where something is wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_world.h"

struct waiter {
	cchv_exec *exec;
	int result;
	char message[256];
};

static void *wait_for_exec(void *argument)
{
	struct waiter *waiter = argument;
	cchv_error *err = NULL;
	int code = -2, sig = -2;

	waiter->result = cchv_exec_wait(waiter->exec, PATIENCE_MS, &code, &sig, &err);
	wanted(code == -2 && sig == -2, "results of a failure stay as they were");
	snprintf(waiter->message, sizeof(waiter->message), "%s", err ? cchv_error_message(err) : "");
	cchv_error_free(err);
	return NULL;
}

static int count_stops(struct world *w, cchv_vm *vm)
{
	cchv_event *event;
	int stops = 0;

	(void)w;
	while (cchv_vm_next_event(vm, &event) > 0) {
		stops += cchv_event_get_type(event) == CCHV_EVENT_STOPPED;
		cchv_event_free(event);
	}
	return stops;
}

static void wait_until_dead(pid_t pid)
{
	for (uint64_t start = now_ms(); kill(pid, 0) == 0; usleep(20000)) {
		char path[64], line[512] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		file = fopen(path, "re");
		if (!file)
			return;
		if (fgets(line, sizeof(line), file) && strstr(line, ") Z "))
			line[0] = '\0';
		fclose(file);
		if (!line[0])
			return;
		wanted(now_ms() - start < PATIENCE_MS, "the process ends");
	}
}

/* Two threads wait for two processes; both hear of the end, and so does every call after it. */
static void case_vmm_killed(struct world *w)
{
	struct waiter waiters[2] = { { 0 } };
	pthread_t threads[2];
	cchv_exec *exec;
	int reason = 0, out;
	char line[16];

	start_vm(w, NULL);
	exec = run_script(w, "echo up; sleep 1000", STREAM(CCHV_STDOUT));
	out = take(exec, CCHV_STDOUT);
	wanted(read_line(out, line, sizeof(line)) == 2, "it is up");
	waiters[0].exec = w->init;
	waiters[1].exec = exec;
	for (int i = 0; i < 2; i++)
		wanted(pthread_create(&threads[i], NULL, wait_for_exec, &waiters[i]) == 0, "thread");
	kill(vmm_pid(w, w->vm), SIGKILL);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		wanted(waiters[i].result == CCHV_ERR_VMM_GONE, waiters[i].message);
		wanted(strstr(waiters[i].message, "9") != NULL, waiters[i].message);
	}
	MUST(cchv_vm_wait(w->vm, 10000, &reason, &err));
	wanted(reason == CCHV_STOP_VMM_SIGNAL && cchv_vm_get_state(w->vm) == CCHV_VM_STOPPED, "reason");
	REFUSED(cchv_exec_signal(exec, 15, CCHV_SIGNAL_GROUP, 1000, &err), CCHV_ERR_VMM_GONE, 0, "");
	REFUSED(cchv_vm_pause(w->vm, 1000, &err), CCHV_ERR_VMM_GONE, 0, "");
	wanted(read(out, line, 1) <= 0, "the stream has ended");
	close(out);
	wanted(count_stops(w, w->vm) == 1, "one STOPPED event");
	cchv_exec_free(exec);
	MUST(cchv_container_delete(w->container, 30000, &err));
	cchv_vm_free(w->vm);
	cchv_container_free(w->container);
	cchv_exec_free(w->init);
}

/* A process that owns a VM, and tells its parent when that is up. */
static pid_t start_owner(struct world *w, const char *id)
{
	int fds[2];
	char byte;
	pid_t pid;

	wanted(pipe(fds) == 0, "pipe");
	pid = fork();
	if (pid == 0) {
		struct world own = { 0 };

		close(fds[0]);
		open_world(&own, w->argv);
		start_vm(&own, id);
		wanted(write(fds[1], "u", 1) == 1, "write");
		cchv_vm_wait(own.vm, -1, NULL, NULL);
		_exit(3);
	}
	wanted(pid > 0, "fork");
	close(fds[1]);
	wanted(read(fds[0], &byte, 1) == 1, "the owner is up");
	close(fds[0]);
	return pid;
}

/* The owner dies: an orphan. prune ends it and says so; a client that held it open hears the reason. */
static void owner_killed_and_pruned(struct world *w)
{
	cchv_findings *removed = NULL;
	pid_t owner = start_owner(w, "pruned");
	int reason = 0, found = 0;
	pid_t vmm;

	MUST(cchv_vm_open(w->ctx, "pruned", &w->vm, &err));
	MUST(cchv_vm_open_container(w->vm, "main", PATIENCE_MS, &w->container, &err));
	MUST(cchv_container_open_exec(w->container, NULL, PATIENCE_MS, &w->init, &err));
	expect_script(w, "echo a client", "a client\n");
	REFUSED(cchv_vm_adopt(w->vm, &err), CCHV_ERR_STATE, 0, "pruned");
	REFUSED(cchv_container_delete(w->container, 1000, &err), CCHV_ERR_NOT_OWNER, 0, "");
	vmm = vmm_pid(w, w->vm);
	kill(owner, SIGKILL);
	wanted(waitpid(owner, NULL, 0) == owner, "the owner's end");
	MUST(cchv_ctx_prune(w->ctx, &removed, &err));
	for (int i = 0; i < cchv_findings_get_count(removed); i++)
		found += strstr(cchv_findings_get_name(removed, i), "pruned") != NULL ||
			 strstr(cchv_findings_get_text(removed, i), "pruned") != NULL;
	wanted(found > 0, "prune tells what it removed");
	cchv_findings_free(removed);
	MUST(cchv_vm_wait(w->vm, 20000, &reason, &err));
	wanted(reason == CCHV_STOP_OWNER_DIED, "reason");
	wait_until_dead(vmm);
	REFUSED(cchv_exec_wait(w->init, 5000, NULL, NULL, &err), CCHV_ERR_VMM_GONE, 0, "");
	cchv_exec_free(w->init);
	cchv_container_free(w->container);
	cchv_vm_free(w->vm);
	REFUSED(cchv_vm_open(w->ctx, "pruned", &w->vm, &err), CCHV_ERR_NOT_FOUND, 0, "pruned");
}

/* The same, but a client takes it over: the workload has noticed nothing. */
static void owner_killed_and_adopted(struct world *w)
{
	pid_t owner = start_owner(w, "adopted");
	char files[4096];

	MUST(cchv_vm_open(w->ctx, "adopted", &w->vm, &err));
	kill(owner, SIGKILL);
	wanted(waitpid(owner, NULL, 0) == owner, "the owner's end");
	MUST(cchv_vm_adopt(w->vm, &err));
	wanted(cchv_vm_is_owner(w->vm) == 1, "owner now");
	MUST(cchv_vm_open_container(w->vm, "main", PATIENCE_MS, &w->container, &err));
	MUST(cchv_container_open_exec(w->container, NULL, PATIENCE_MS, &w->init, &err));
	wanted(cchv_exec_get_state(w->init) == CCHV_EXEC_RUNNING, "init runs");
	expect_script(w, "echo adopted", "adopted\n");
	snprintf(files, sizeof(files), "%s/containers/main", cchv_ctx_get_state_dir(w->ctx));
	wanted(access(files, F_OK) == 0, "the container's files");
	end_vm(w);
	wanted(access(files, F_OK) < 0 && errno == ENOENT, "they went with it, as those of an own container");
}

static void case_owner_killed(struct world *w)
{
	owner_killed_and_pruned(w);
	owner_killed_and_adopted(w);
}

const struct c_case c_death_cases[] = {
	{ "vmm-killed", case_vmm_killed, 1 },
	{ "owner-killed", case_owner_killed, 1 },
	{ NULL, NULL, 0 },
};
