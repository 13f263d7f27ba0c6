/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of each kind, and what is asked of the library for them: its calls are recorded here. */
#include "tests/unit/test.h"

#include "examples/shim/binds.h"
#include "examples/shim/spec_tree.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static struct {
	char *destination, *source;
	int kind;
} calls[20];
static size_t call_count;
static int shared;
static char copied_path[100];
static uint64_t copied_max;

/* In place of the library's. */
int cchv_container_config_map_mount(cchv_container_config *config, const char *destination, int kind,
				    const char *source)
{
	calls[call_count].destination = strdup(destination);
	calls[call_count].kind = kind;
	calls[call_count++].source = source ? strdup(source) : NULL;
	return CCHV_OK;
}

int cchv_vm_config_set_shared_memory(cchv_vm_config *config, int is_shared)
{
	shared = is_shared;
	return CCHV_OK;
}

int cchv_container_copy_out(cchv_container *container, const char *path, int fd, uint64_t max_bytes, int timeout_ms,
			    cchv_error **err)
{
	char command[600];

	snprintf(copied_path, sizeof(copied_path), "%s", path);
	copied_max = max_bytes;
	snprintf(command, sizeof(command), "cd '%s' && tar --format=pax -cf /proc/%d/fd/%d guest-log", test_dir(),
		 (int)getpid(), fd);
	return system(command) == 0 ? CCHV_OK : CCHV_ERR_GUEST;
}

static yajl_val spec;
static struct binds *binds;
static char *error;

static void __attribute__((format(printf, 1, 2))) sh(const char *format, ...)
{
	char *command, *whole;
	va_list args;

	va_start(args, format);
	CHECK(vasprintf(&command, format, args) > 0);
	va_end(args);
	CHECK(asprintf(&whole, "set -e; cd '%s'; %s", test_dir(), command) > 0);
	if (system(whole) != 0)
		test_fail(__FILE__, __LINE__, "sh: %s", command);
	free(command);
	free(whole);
}

/* json with @ for the test's directory and ' for ". */
static int map(const char *json)
{
	static cchv_vm_config *const vm_config = (cchv_vm_config *)&spec;
	char *text = NULL, reason[200];
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r;

	for (; *json; json++)
		if (*json == '@')
			fputs(test_dir(), out);
		else
			fputc(*json == '\'' ? '"' : *json, out);
	fclose(out);
	yajl_tree_free(spec);
	spec = yajl_tree_parse(text, reason, sizeof(reason));
	if (!spec)
		test_fail(__FILE__, __LINE__, "%s in %s", reason, text);
	free(text);
	for (size_t i = 0; i < call_count; i++) {
		free(calls[i].destination);
		free(calls[i].source);
	}
	call_count = 0;
	shared = 0;
	binds_free(binds);
	binds = NULL;
	r = binds_map(&binds, spec, test_dir(), NULL, vm_config, &error);
	return r;
}

static void expect(size_t index, const char *destination, int kind, const char *source)
{
	char *path;

	CHECK(index < call_count);
	CHECK_STR(calls[index].destination, destination);
	CHECK_INT(calls[index].kind, kind);
	CHECK(asprintf(&path, "%s%s", source[0] == '/' ? "" : test_dir(), source[0] == '/' ? source : source + 1) > 0);
	CHECK_STR(calls[index].source, path);
	free(path);
}

static void end(void)
{
	binds_free(binds);
	yajl_tree_free(spec);
	free(error);
}

#define ONE(destination, source, options) \
	"{'mounts':[{'destination':'" destination "','type':'bind','source':'" source "','options':[" options "]}]}"

TEST(what_is_not_of_the_host_is_left_alone)
{
	static const char json[] =
		"{'mounts':[{'destination':'/proc','type':'proc','source':'proc'},{'destination':'/dev','type':'tmpfs',"
		"'source':'tmpfs','options':['nosuid','size=65536k']},{'destination':'/sys/fs/cgroup','type':'cgroup',"
		"'source':'cgroup','options':['ro']},{'destination':'/dev/mqueue','type':'mqueue','source':'mqueue'}]}";
	char *before, *after;

	CHECK_INT(map(json), CCHV_OK);
	CHECK_INT(call_count, 0);
	before = strdup(json);
	for (char *p = before; *p; p++)
		if (*p == '\'')
			*p = '"';
	after = spec_tree_print(spec);
	CHECK_STR(after, before);
	free(before);
	free(after);
	end();
}

TEST(directories_are_shared_and_the_vm_is_told)
{
	sh("mkdir d");
	CHECK_INT(map(ONE("/data", "@/d", "'rbind','ro'")), CCHV_OK);
	expect(0, "/data", CCHV_MOUNT_FS, "@/d");
	CHECK_INT(shared, 1);
	/* Below the bundle, and a type that says nothing. */
	CHECK_INT(map("{'mounts':[{'destination':'/data','type':'none','source':'d','options':['rbind']}]}"), CCHV_OK);
	expect(0, "/data", CCHV_MOUNT_FS, "@/d");
	end();
}

TEST(files_are_copied_or_shared)
{
	sh("echo x >f; truncate -s 1048577 big; echo ns >resolv");
	CHECK_INT(map(ONE("/f", "@/f", "'bind','ro'")), CCHV_OK);
	expect(0, "/f", CCHV_MOUNT_COPY, "@/f");
	CHECK_INT(shared, 0);
	CHECK_INT(map(ONE("/f", "@/f", "'bind','rw'")), CCHV_OK);
	expect(0, "/f", CCHV_MOUNT_FS, "@/f");
	CHECK_INT(map(ONE("/f", "@/big", "'bind','ro'")), CCHV_OK);
	expect(0, "/f", CCHV_MOUNT_FS, "@/big");
	CHECK_INT(map(ONE("/etc/resolv.conf", "@/resolv", "'rbind','rprivate','rw'")), CCHV_OK);
	expect(0, "/etc/resolv.conf", CCHV_MOUNT_COPY, "@/resolv");
	CHECK_INT(shared, 0);
	end();
}

TEST(what_the_kubelet_swaps_is_copied_while_it_is_small)
{
	sh("mkdir -p v/..2026_1; echo secret >v/..2026_1/key; ln -s ..2026_1 v/..data; ln -s ..data/key v/key");
	CHECK_INT(map(ONE("/var/run/secret", "@/v", "'rbind','ro'")), CCHV_OK);
	expect(0, "/var/run/secret", CCHV_MOUNT_COPY, "@/v");
	sh("truncate -s 600000 v/..2026_1/key");
	CHECK_INT(map(ONE("/var/run/secret", "@/v", "'rbind','ro'")), CCHV_OK);
	expect(0, "/var/run/secret", CCHV_MOUNT_FS, "@/v");
	end();
}

TEST(host_memory_on_dev_shm_becomes_memory_of_the_guest)
{
	char *text, *name;

	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		return;
	}
	CHECK_INT(unshare(CLONE_NEWNS), 0);
	CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	sh("mkdir shm; mount -t tmpfs -o size=1m t shm; mkdir shm/below");
	CHECK_INT(map(ONE("/dev/shm", "@/shm", "'rbind','rw'")), CCHV_OK);
	CHECK_INT(call_count, 1);
	CHECK_INT(calls[0].kind, CCHV_MOUNT_TMPFS);
	CHECK(strncmp(calls[0].source, "host-", 5) == 0);
	CHECK_INT(shared, 0);
	name = strdup(calls[0].source);
	text = spec_tree_print(spec);
	CHECK_STR(text, "{\"mounts\":[{\"destination\":\"/dev/shm\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
			"\"options\":[\"nosuid\",\"nodev\",\"mode=1777\",\"uid=0\",\"gid=0\","
			"\"size=1048576\",\"noexec\"]}]}");
	free(text);
	/* The next container is given the same one, another one is another. */
	CHECK_INT(map(ONE("/dev/shm", "@/shm", "'rbind','rw'")), CCHV_OK);
	CHECK_STR(calls[0].source, name);
	sh("mkdir -p pods/1/volumes/kubernetes.io~empty-dir/m; cd pods/1/volumes/kubernetes.io~empty-dir;"
	   "mount -t tmpfs -o size=2m,mode=770,gid=5 t m");
	CHECK_INT(map(ONE("/cache", "@/pods/1/volumes/kubernetes.io~empty-dir/m", "'rbind','ro'")), CCHV_OK);
	CHECK_INT(calls[0].kind, CCHV_MOUNT_TMPFS);
	CHECK(strcmp(calls[0].source, name) != 0);
	free(name);
	text = spec_tree_print(spec);
	CHECK_CONTAINS(text, "[\"nosuid\",\"nodev\",\"mode=770\",\"uid=0\",\"gid=5\",\"size=2097152\",\"ro\"]");
	free(text);
	/* A directory in it is a directory. */
	CHECK_INT(map(ONE("/dev/shm", "@/shm/below", "'rbind'")), CCHV_OK);
	expect(0, "/dev/shm", CCHV_MOUNT_FS, "@/shm/below");
	CHECK_INT(map(ONE("/cache", "@/shm", "'rbind'")), CCHV_OK);
	expect(0, "/cache", CCHV_MOUNT_FS, "@/shm");
	end();
}

TEST(what_cannot_be_had_is_named)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", test_dir());
	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	sh("mkfifo fifo");
	CHECK_INT(map(ONE("/run/docker.sock", "@/sock", "'rbind'")), CCHV_ERR_UNSUPPORTED);
	CHECK_CONTAINS(error, "mount '/run/docker.sock'");
	CHECK_CONTAINS(error, "a socket of the host");
	CHECK_INT(map(ONE("/x", "@/fifo", "'rbind'")), CCHV_ERR_UNSUPPORTED);
	CHECK_CONTAINS(error, "a fifo");
	CHECK_INT(map(ONE("/x", "/dev/null", "'rbind'")), CCHV_ERR_UNSUPPORTED);
	CHECK_CONTAINS(error, "a character device");
	CHECK_INT(map(ONE("/x", "/proc/sys", "'rbind'")), CCHV_ERR_UNSUPPORTED);
	CHECK_CONTAINS(error, "a part of the kernel");
	CHECK_INT(map(ONE("/x", "@/nowhere", "'rbind'")), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "/nowhere': No such file");
	CHECK_INT(map(ONE("x", "@", "'rbind'")), CCHV_ERR_INVALID);
	CHECK_INT(map("{'mounts':[{'destination':'/x','type':'bind'}]}"), CCHV_ERR_INVALID);
	close(fd);
	end();
}

TEST(the_hosts_cgroups_become_the_guests)
{
	char *text;

	if (access("/sys/fs/cgroup", F_OK) < 0) {
		printf("skipped: no cgroups\n");
		return;
	}
	CHECK_INT(map(ONE("/sys/fs/cgroup", "/sys/fs/cgroup", "'rbind','ro'")), CCHV_OK);
	text = spec_tree_print(spec);
	CHECK_CONTAINS(text, "\"type\":\"cgroup\"");
	CHECK_CONTAINS(text, "\"ro\"");
	CHECK(!strstr(text, "rbind"));
	free(text);
	end();
}

/* The number of a block device of this machine, or 0. */
static int find_block_device(unsigned int *ret_major, unsigned int *ret_minor)
{
	FILE *list = popen("for d in /sys/block/*; do cat $d/dev; done 2>/dev/null", "re");
	int found = list && fscanf(list, "%u:%u", ret_major, ret_minor) == 2;

	if (list)
		pclose(list);
	return found;
}

TEST(block_devices_are_disks_unless_all_are_meant)
{
	unsigned int major_number, minor_number;
	char json[600], *text;

	if (!find_block_device(&major_number, &minor_number)) {
		printf("skipped: no block device\n");
		return;
	}
	snprintf(json, sizeof(json), "{'linux':{'devices':[{'path':'/dev/xvda','type':'b','major':%u,'minor':%u},"
		 "{'path':'/dev/null','type':'c','major':1,'minor':3}],"
		 "'resources':{'devices':[{'allow':false,'access':'rwm'}]}}}",
		 major_number, minor_number);
	if (map(json) == CCHV_ERR_NOT_FOUND) {
		printf("skipped: no node of it in /dev\n");
		return;
	}
	CHECK_INT(call_count, 1);
	CHECK_STR(calls[0].destination, "/dev/xvda");
	CHECK_INT(calls[0].kind, CCHV_MOUNT_VOLUME);
	CHECK(strncmp(calls[0].source, "/dev/", 5) == 0);
	/* The node of it, bound like a file. */
	snprintf(json, sizeof(json), "{'linux':{},'mounts':[{'destination':'/dev/xvdb','type':'bind','source':'%s'},"
		 "{'destination':'/dev/pts','type':'devpts'}]}", calls[0].source);
	CHECK_INT(map(json), CCHV_OK);
	CHECK_INT(calls[0].kind, CCHV_MOUNT_VOLUME);
	text = spec_tree_print(spec);
	CHECK_CONTAINS(text, "\"mounts\":[{\"destination\":\"/dev/pts\"");
	CHECK_CONTAINS(text, "\"path\":\"/dev/xvdb\"");
	free(text);
	end();
}

TEST(the_devices_of_the_privileged_are_left_out)
{
	char *text;

	CHECK_INT(map("{'linux':{'devices':[{'path':'/dev/sda','type':'b','major':8,'minor':0},"
		      "{'path':'/dev/kvm','type':'c','major':10,'minor':232},"
		      "{'path':'/dev/sdb','type':'b','major':8,'minor':16}],'resources':{'devices':"
		      "[{'allow':false,'access':'rwm'},{'allow':true,'access':'rwm'}]}}}"), CCHV_OK);
	CHECK_INT(call_count, 0);
	text = spec_tree_print(spec);
	CHECK_CONTAINS(text, "\"devices\":[{\"path\":\"/dev/kvm\"");
	CHECK(!strstr(text, "/dev/sd"));
	free(text);
	CHECK_INT(map("{'linux':{'devices':[{'path':'/dev/x','type':'b','major':4000,'minor':1}]}}"),
		  CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "'/dev/x': block device 4000:1");
	end();
}

TEST(last_words_are_written_back)
{
	struct stat before, after;
	char path[300];

	sh("mkdir -p pods/1/containers/c; : >pods/1/containers/c/log; echo 'why it died' >guest-log");
	snprintf(path, sizeof(path), "%s/pods/1/containers/c/log", test_dir());
	CHECK_INT(stat(path, &before), 0);
	CHECK_INT(map(ONE("/my/log", "@/pods/1/containers/c/log", "'rbind','rw'")), CCHV_OK);
	expect(0, "/my/log", CCHV_MOUNT_COPY, "@/pods/1/containers/c/log");
	CHECK_INT(binds_write_back(binds, NULL, 1000, &error), CCHV_OK);
	CHECK_STR(copied_path, "/my/log");
	/* A guest that sends without end fills no memory of ours. */
	CHECK(copied_max > 1 << 20 && copied_max < 2 << 20);
	sh("[ \"$(cat pods/1/containers/c/log)\" = 'why it died' ]");
	/* The kubelet has it open, or mounted: it is the same file. */
	CHECK_INT(stat(path, &after), 0);
	CHECK_INT(before.st_ino, after.st_ino);
	/* What comes from a guest may be anything. */
	sh("rm guest-log; ln -s /etc/passwd guest-log");
	CHECK_INT(binds_write_back(binds, NULL, 1000, &error), CCHV_ERR_PROTOCOL);
	sh("rm guest-log; truncate -s 2M guest-log");
	CHECK_INT(binds_write_back(binds, NULL, 1000, &error), CCHV_ERR_LIMIT);
	sh("rm guest-log");
	CHECK_INT(binds_write_back(binds, NULL, 1000, &error), CCHV_ERR_GUEST);
	CHECK_INT(binds_write_back(NULL, NULL, 1000, &error), CCHV_OK);
	end();
}
