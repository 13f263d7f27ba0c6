/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root file systems, mounts and a mirrored network in one real VM, with containers that are there at boot and ones
 * that come later. Enters: nothing; it needs root, busybox, a guest kernel. Leaves: one line for each check, 77 where
 * something is missing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/shim/binds.h"
#include "examples/shim/netns.h"
#include "examples/shim/rootfs.h"
#include "examples/shim/spec_tree.h"

static char dir[] = "/var/tmp/cchv-shim-vm-XXXXXX";
static struct netns_holder pod = NETNS_HOLDER_INIT, out = NETNS_HOLDER_INIT;
static cchv_ctx *ctx;
static cchv_vm *vm;
static struct netns_mirror *mirror;

/* What a container is made of here. */
struct box {
	cchv_container_config *config;
	cchv_container *container;
	cchv_exec *init;
	struct rootfs *rootfs;
	struct binds *binds;
};

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void clean_up(void)
{
	cchv_vm_free(vm);
	netns_mirror_free(mirror);
	netns_holder_stop(&pod);
	netns_holder_stop(&out);
	cchv_ctx_free(ctx);
	run("for m in bundle/rootfs tmp; do umount -l $m 2>/dev/null; done; cd /; rm -rf --one-file-system '%s'",
	    dir);
}

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\nFAILED\n");
	fflush(stdout);
	clean_up();
	exit(1);
}

/* In the test's directory. */
static int run(const char *format, ...)
{
	char *command, *whole;
	va_list args;
	int r;

	va_start(args, format);
	if (vasprintf(&command, format, args) < 0)
		return -1;
	va_end(args);
	if (asprintf(&whole, "cd '%s' && { POD='nsenter -t %d -n'; OUT='nsenter -t %d -n'; PODPID=%d; %s\n}", dir,
		     (int)pod.pid, (int)out.pid, (int)pod.pid, command) < 0)
		return -1;
	r = system(whole);
	free(whole);
	free(command);
	return r;
}

#define SH(...)                                                 \
	do {                                                    \
		if (run("set -e; " __VA_ARGS__) != 0)           \
			die("line %d: a command", __LINE__);    \
	} while (0)

#define MUST(call)                                                                                       \
	do {                                                                                             \
		cchv_error *err = NULL;                                                                  \
		int r_ = (call);                                                                         \
		if (r_ < 0)                                                                              \
			die("line %d: %s: %d %s", __LINE__, #call, r_, err ? cchv_error_message(err) : "");      \
	} while (0)

#define SHIM_MUST(call)                                                                                \
	do {                                                                                           \
		char *text = NULL;                                                                     \
		int r_ = (call);                                                                       \
		if (r_ < 0)                                                                            \
			die("line %d: %s: %d %s", __LINE__, #call, r_, text ? text : "");                  \
	} while (0)

/* ---- containers ---- */

/* One mount with options, D for the directory; options end with NULL. */
static void add_mount(struct mount_list *list, const char *type, const char *source, ...)
{
	va_list args;

	if (mount_list_add(list, type, source, "") < 0)
		die("memory");
	va_start(args, source);
	for (const char *option; (option = va_arg(args, const char *));)
		if (mount_list_add_option(list, option) < 0)
			die("memory");
	va_end(args);
}

/* The default specification with these mounts behind its own, as text; ' is ". */
static yajl_val make_spec(cchv_container_config *config, const char *mounts)
{
	char *json = NULL, *text = NULL, *end, *p;
	yajl_val tree;

	MUST(cchv_container_config_get_spec_json(config, &json, &err));
	tree = yajl_tree_parse(json, NULL, 0);
	spec_tree_remove(tree, "mounts");
	cchv_free(json);
	json = spec_tree_print(tree);
	yajl_tree_free(tree);
	end = strrchr(json, '}');
	*end = '\0';
	if (asprintf(&text,
		     "%s,'mounts':[{'destination':'/proc','type':'proc','source':'proc'},"
		     "{'destination':'/dev','type':'tmpfs','source':'tmpfs','options':['mode=755']},"
		     "{'destination':'/sys','type':'sysfs','source':'sysfs','options':['ro']}%s%s]}",
		     json, *mounts ? "," : "", mounts) < 0)
		die("memory");
	for (p = text; *p; p++)
		if (*p == '\'')
			*p = '"';
	tree = yajl_tree_parse(text, NULL, 0);
	if (!tree)
		die("no JSON: %s", text);
	free(text);
	free(json);
	return tree;
}

static void make_box(struct box *box, const char *id, const struct mount_list *mounts, enum rootfs_mode mode,
		     const char *binds, cchv_vm_config *vm_config)
{
	struct rootfs_options options = { mode, 1ULL << 30 };
	char *bundle, *json;
	yajl_val spec;

	if (asprintf(&bundle, "%s/bundle", dir) < 0)
		die("memory");
	MUST(cchv_container_config_new(id, &box->config));
	MUST(cchv_container_config_add_arg(box->config, "sleep"));
	MUST(cchv_container_config_add_arg(box->config, "1000000"));
	spec = make_spec(box->config, binds);
	SHIM_MUST(rootfs_add(&box->rootfs, ctx, mounts, bundle, spec, &options, box->config, vm_config, &text));
	SHIM_MUST(binds_map(&box->binds, spec, bundle, box->config, vm_config, &text));
	json = spec_tree_print(spec);
	MUST(cchv_container_config_set_spec_json(box->config, json));
	free(json);
	yajl_tree_free(spec);
	free(bundle);
}

static void create_and_start(struct box *box)
{
	MUST(cchv_container_create(vm, box->config, 60000, &box->container, &err));
	if (cchv_vm_get_state(vm) == CCHV_VM_CREATED)
		MUST(cchv_vm_boot(vm, 180000, &err));
	MUST(cchv_container_start(box->container, NULL, 60000, &box->init, &err));
}

static void end_box(struct box *box)
{
	int code, sig;

	MUST(cchv_exec_signal(box->init, 9, CCHV_SIGNAL_GROUP, 10000, &err));
	MUST(cchv_exec_wait(box->init, 60000, &code, &sig, &err));
	SHIM_MUST(binds_write_back(box->binds, box->container, 30000, &text));
	MUST(cchv_container_delete(box->container, 60000, &err));
	cchv_exec_free(box->init);
	cchv_container_free(box->container);
	cchv_container_config_free(box->config);
	binds_free(box->binds);
	rootfs_release(box->rootfs);
	*box = (struct box){ 0 };
}

/* Up to its end, while the VM is served: files are renewed and exits noticed in between. */
static void read_served(int fd, char *text, size_t room)
{
	struct pollfd p[] = { { fd, POLLIN, 0 }, { cchv_vm_get_fd(vm), POLLIN, 0 } };
	size_t length = 0;
	ssize_t n = 1;

	while (n > 0 && length < room - 1) {
		if (poll(p, 2, 120000) <= 0)
			die("nothing comes");
		if (p[1].revents)
			MUST(cchv_vm_dispatch(vm, &err));
		if (!p[0].revents)
			continue;
		n = read(fd, text + length, room - 1 - length);
		length += n > 0 ? (size_t)n : 0;
	}
	text[length] = '\0';
}

/* What a shell in the container says. */
static void expect(struct box *box, const char *command, const char *want)
{
	cchv_exec_config *config = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;
	char answer[4096];
	int fd, code, sig;

	MUST(cchv_exec_config_new(&config));
	MUST(cchv_stdio_config_new(&stdio));
	MUST(cchv_exec_config_add_arg(config, "sh"));
	MUST(cchv_exec_config_add_arg(config, "-c"));
	MUST(cchv_exec_config_add_arg(config, command));
	MUST(cchv_stdio_config_set_pipe(stdio, 1));
	MUST(cchv_exec_config_set_stdio(config, stdio));
	MUST(cchv_container_exec(box->container, config, 60000, &exec, &err));
	MUST(cchv_exec_take_fd(exec, 1, &fd, &err));
	read_served(fd, answer, sizeof(answer));
	close(fd);
	MUST(cchv_exec_wait(exec, 120000, &code, &sig, &err));
	cchv_exec_free(exec);
	cchv_exec_config_free(config);
	cchv_stdio_config_free(stdio);
	if (code != 0 || (want && strcmp(answer, want) != 0))
		die("'%s' says '%s' with status %d", command, answer, code);
	printf("ok %s\n", command);
	fflush(stdout);
}

/* ---- the parts ---- */

static void make_files(void)
{
	SH("mkdir -p state run bundle/rootfs l1/bin l1/etc l2/etc l1/gone u w data;"
	   "cp $(command -v busybox) l1/bin/busybox;"
	   "for a in $(busybox --list); do [ -e l1/bin/$a ] || ln -s busybox l1/bin/$a; done;"
	   "echo second >l2/etc/second; mknod l2/gone c 0 0; echo here >data/f; echo '10.77.0.1 peer' >hosts;"
	   "mkdir -p pods/1/containers/c; : >pods/1/containers/c/log;"
	   "mkdir -p secret/..1; echo one >secret/..1/key; ln -s ..1 secret/..data; ln -s ..data/key secret/key");
	SH("cp -a l1 tree; echo disk >tree/etc/second; truncate -s 64M disk.img; mkfs.ext4 -q -d tree disk.img");
	SH("mkdir u2 w2");
}

static void make_network(void)
{
	SHIM_MUST(netns_holder_start(&pod, NULL, &text));
	SHIM_MUST(netns_holder_start(&out, NULL, &text));
	SH("$OUT ip link add vo type veth peer name eth0 netns $PODPID;"
	   "$OUT ip link set vo up; $POD ip link set eth0 up;"
	   "$OUT ip addr add 10.77.0.1/24 dev vo; $OUT ip addr add fd00:77::1/64 dev vo nodad;"
	   "$POD ip addr add 10.77.0.2/24 dev eth0; $POD ip addr add fd00:77::2/64 dev eth0 nodad;"
	   "$POD ip route add default via 10.77.0.1 mtu 1400; $POD ip -6 route add default via fd00:77::1");
	SHIM_MUST(netns_mirror_new(&mirror, pod.netns_fd, 2, &text));
}

/* A process that ends well when that many bytes have come to a port of the other side, and then the end. */
static pid_t count_bytes(uint16_t port, size_t want)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), listener, fd;
	static char data[65536];
	size_t count = 0;
	pid_t pid;
	ssize_t n;

	if (own < 0 || setns(out.netns_fd, CLONE_NEWNET) < 0)
		die("%s", strerror(errno));
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(listener, 1) < 0 || setns(own, CLONE_NEWNET) < 0)
		die("%s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		fd = accept(listener, NULL, NULL);
		while (fd >= 0 && (n = read(fd, data, sizeof(data))) > 0)
			count += (size_t)n;
		_exit(count == want ? 0 : 1);
	}
	close(listener);
	close(own);
	return pid;
}

static void check_network(struct box *box)
{
	int status = 0;
	pid_t counter;

	expect(box, "ping -c 1 -W 10 10.77.0.1 >/dev/null && ping -6 -c 1 -W 10 fd00:77::1 >/dev/null && echo there",
	       "there\n");
	expect(box, "ping -c 1 -W 10 -s 1400 10.77.0.1 >/dev/null && echo whole", "whole\n");
	SH("$OUT busybox ping -c 1 -W 10 10.77.0.2 >/dev/null; $OUT busybox ping -6 -c 1 -W 10 fd00:77::2 >/dev/null");
	printf("ok ping from outside\n");
	/* As "kubectl port-forward": what listens on the guest's loopback alone, by that of the namespace. */
	expect(box, "mkdir /www && echo forwarded >/www/f && httpd -p 127.0.0.1:8080 -h /www && echo listens",
	       "listens\n");
	SH("[ \"$(printf 'GET /f HTTP/1.0\\r\\n\\r\\n' | $POD busybox nc 127.0.0.1 8080 | tail -n 1)\" = forwarded ]");
	SH("! $OUT busybox nc -w 5 10.77.0.2 8080 </dev/null 2>/dev/null");
	printf("ok the guest's loopback\n");
	/* Big segments and checksums that are made by nobody until they are needed. */
	counter = count_bytes(5000, 20000000);
	expect(box, "head -c 20000000 /dev/zero | nc 10.77.0.1 5000 && echo sent", "sent\n");
	if (waitpid(counter, &status, 0) != counter || status != 0)
		die("not all of it came (%d)", status);
	printf("ok 20 MB from the guest\n");
}

static void check_main(struct box *box)
{
	expect(box, "cat /etc/second; ls -d /gone 2>/dev/null || echo no; cat /data/f /etc/hosts",
	       "second\nno\nhere\n10.77.0.1 peer\n");
	expect(box, "cat /secret/key; df -k /dev/shm | tail -n 1 | awk '{print $2}'", "one\n1024\n");
	expect(box, "echo last words >/dev/termination-log; echo written >/data/w; echo kept >/kept; sync; cat /kept",
	       "kept\n");
	SH("[ $(cat data/w) = written ]");
	/* One swap, as the kubelet does it; how soon it is seen is the library's promise, and tested there. */
	SH("mkdir secret/..2; echo two >secret/..2/key; ln -s ..2 secret/..new; mv -T secret/..new secret/..data");
	expect(box,
	       "i=0; until [ $(cat /secret/key) = two ]; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.1; done;"
	       "echo two", "two\n");
}

/* Another container that is given the same things: they are one, not two that look alike. */
static void check_shared_things(struct box *main_box, const char *binds, const struct mount_list *mounts)
{
	struct box box = { 0 };

	expect(main_box, "echo for both >/dev/shm/f; stat -c %d /data >/dev/shm/device", "");
	make_box(&box, "second", mounts, ROOTFS_IMAGE, binds, NULL);
	MUST(cchv_container_config_set_upper(box.config, CCHV_UPPER_TMPFS, 1 << 20));
	create_and_start(&box);
	expect(&box, "cat /dev/shm/f; [ $(stat -c %d /data) = $(cat /dev/shm/device) ] && cat /data/f",
	       "for both\nhere\n");
	end_box(&box);
	expect(main_box, "cat /data/f /dev/shm/f", "here\nfor both\n");
}

/* Served until the interface is there. */
static void check_later_interface(struct box *box)
{
	int n = 0;

	SH("$OUT ip link add v1 type veth peer name eth1 netns $PODPID; $OUT ip link set v1 up;"
	   "$OUT ip addr add 10.78.0.1/24 dev v1; $POD ip addr add 10.78.0.2/24 dev eth1; $POD ip link set eth1 up");
	for (int i = 0; n == 0 && i < 100; i++)
		SHIM_MUST(n = netns_mirror_update(mirror, NULL, vm, 60000, &text));
	expect(box, "ping -c 1 -W 10 10.78.0.1 >/dev/null && ls /sys/class/net", "eth0\neth1\nlo\n");
	SH("$POD ip link del eth1");
	for (n = 0; n == 0;)
		SHIM_MUST(n = netns_mirror_update(mirror, NULL, vm, 60000, &text));
	expect(box, "ls /sys/class/net", "eth0\nlo\n");
}

static void check_other_roots(void)
{
	struct mount_list mounts = { 0 };
	struct box box = { 0 };
	char *path, *options[3];

	if (asprintf(&path, "%s/disk.img", dir) < 0)
		die("memory");
	add_mount(&mounts, "ext4", path, "loop", "rw", NULL);
	make_box(&box, "disk", &mounts, ROOTFS_IMAGE, "", NULL);
	create_and_start(&box);
	expect(&box, "grep ' / ' /proc/mounts | cut -d' ' -f3; cat /etc/second; echo new >/new", "ext4\ndisk\n");
	end_box(&box);
	SH("[ \"$(debugfs -R 'cat /new' disk.img 2>/dev/null)\" = new ]");
	mount_list_clear(&mounts);
	free(path);
	if (asprintf(&options[0], "lowerdir=%s/l2:%s/l1", dir, dir) < 0 ||
	    asprintf(&options[1], "upperdir=%s/u2", dir) < 0 || asprintf(&options[2], "workdir=%s/w2", dir) < 0)
		die("memory");
	add_mount(&mounts, "overlay", "overlay", options[0], options[1], options[2], NULL);
	make_box(&box, "shared", &mounts, ROOTFS_SHARED, "", NULL);
	create_and_start(&box);
	expect(&box, "grep ' / ' /proc/mounts | cut -d' ' -f3; cat /etc/second; echo seen >/seen",
	       "virtiofs\nsecond\n");
	SH("[ $(cat u2/seen) = seen ]");
	end_box(&box);
	SH("! mountpoint -q bundle/rootfs");
	mount_list_clear(&mounts);
	for (int i = 0; i < 3; i++)
		free(options[i]);
}

static int is_missing(void)
{
	static const char *const needed[] = { "vmm", "kernel", "initramfs" };
	cchv_findings *findings = NULL;
	int missing = 0;

	MUST(cchv_ctx_probe(ctx, &findings, &err));
	for (int i = 0; i < cchv_findings_get_count(findings); i++)
		for (size_t n = 0; n < sizeof(needed) / sizeof(needed[0]); n++)
			if (strcmp(cchv_findings_get_name(findings, i), needed[n]) == 0 &&
			    cchv_findings_get_status(findings, i) == CCHV_FINDING_MISSING) {
				printf("skipped: no %s\n", needed[n]);
				missing = 1;
			}
	cchv_findings_free(findings);
	return missing;
}

static void make_context(void)
{
	char *state, *runtime;

	if (!mkdtemp(dir) || asprintf(&state, "%s/state", dir) < 0 || asprintf(&runtime, "%s/run", dir) < 0)
		die("%s", strerror(errno));
	MUST(cchv_ctx_new(&ctx, &err));
	MUST(cchv_ctx_set_state_dir(ctx, state));
	MUST(cchv_ctx_set_runtime_dir(ctx, runtime));
	free(state);
	free(runtime);
}

#define BINDS                                                                                                      \
	"{'destination':'/data','type':'bind','source':'%1$s/data','options':['rbind','rw']},"                        \
	"{'destination':'/etc/hosts','type':'bind','source':'%1$s/hosts','options':['rbind','rw']},"                  \
	"{'destination':'/secret','type':'bind','source':'%1$s/secret','options':['rbind','ro']},"                    \
	"{'destination':'/dev/shm','type':'bind','source':'%1$s/tmp','options':['rbind','rw']},"                      \
	"{'destination':'/dev/termination-log','type':'bind','source':'%1$s/pods/1/containers/c/log','options':['rw']}"

static void check_everything(void)
{
	struct mount_list mounts = { 0 };
	cchv_vm_config *vm_config = NULL;
	struct box box = { 0 };
	char *binds, *options[3];

	if (asprintf(&binds, BINDS, dir) < 0 || asprintf(&options[0], "lowerdir=%s/l2:%s/l1", dir, dir) < 0 ||
	    asprintf(&options[1], "upperdir=%s/u", dir) < 0 || asprintf(&options[2], "workdir=%s/w", dir) < 0)
		die("memory");
	SH("mkdir tmp; mount -t tmpfs -o size=1m t tmp");
	MUST(cchv_vm_config_new(&vm_config));
	MUST(cchv_vm_config_set_memory(vm_config, 256 << 20));
	MUST(cchv_vm_config_set_vcpus(vm_config, 2, 2));
	MUST(cchv_vm_config_set_kill_with_thread(vm_config, 1));
	add_mount(&mounts, "overlay", "overlay", options[0], options[1], options[2], NULL);
	make_box(&box, "main", &mounts, ROOTFS_IMAGE, binds, vm_config);
	SHIM_MUST(netns_mirror_update(mirror, vm_config, NULL, 0, &text));
	MUST(cchv_vm_create(ctx, vm_config, 60000, &vm, &err));
	cchv_vm_config_free(vm_config);
	create_and_start(&box);
	check_network(&box);
	check_main(&box);
	check_shared_things(&box, binds, &mounts);
	check_later_interface(&box);
	check_other_roots();
	end_box(&box);
	SH("[ \"$(cat pods/1/containers/c/log)\" = 'last words' ]; [ -f cchv-scratch.img ]");
	/* The same snapshot once more: what was written to it is there. */
	make_box(&box, "again", &mounts, ROOTFS_IMAGE, "", NULL);
	create_and_start(&box);
	expect(&box, "cat /kept /etc/second", "kept\nsecond\n");
	end_box(&box);
	MUST(cchv_vm_shutdown(vm, 60000, &err));
	mount_list_clear(&mounts);
	free(binds);
	for (int i = 0; i < 3; i++)
		free(options[i]);
}

int main(void)
{
	if (geteuid() != 0 ||
	    system("for c in busybox nsenter ip tc debugfs; do command -v $c || exit 1; done >/dev/null")) {
		printf("skipped: needs root, busybox, iproute2 and e2fsprogs\n");
		return 77;
	}
	make_context();
	if (is_missing()) {
		clean_up();
		return 77;
	}
	make_files();
	make_network();
	check_everything();
	clean_up();
	printf("all passed\n");
	return 0;
}
