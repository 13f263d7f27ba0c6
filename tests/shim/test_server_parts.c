/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/annotations.h"
#include "examples/shim/bundle.h"
#include "examples/shim/guest_spec.h"
#include "examples/shim/pod_config.h"
#include "examples/shim/request.h"
#include "examples/shim/shared_spaces.h"
#include "examples/shim/shim_config.h"
#include "examples/shim/sizing.h"
#include "examples/shim/spec_tree.h"
#include "examples/shim/state_file.h"

#include <cchv/error.h>
#include <stddef.h>

/* ---- the state on disk ---- */

TEST(states)
{
	struct state s = { .server_pid = getpid(),
			   .server_start = state_process_start(getpid()),
			   .pid = 4294967295U,
			   .group = (char *)"g",
			   .vm = (char *)"vm 1",
			   .netns = (char *)"/run/netns/x" },
		     got = { 0 };

	CHECK(s.server_start > 0);
	CHECK_INT(state_file_read(test_dir(), &got), 0);
	CHECK_INT(state_file_write(test_dir(), &s), 0);
	CHECK_INT(state_file_read(test_dir(), &got), 1);
	CHECK(got.server_pid == getpid() && got.server_start == s.server_start && got.pid == s.pid);
	CHECK_STR(got.group, "g");
	CHECK_STR(got.vm, "vm 1");
	CHECK_STR(got.netns, "/run/netns/x");
	CHECK(!got.socket && !got.container);
	state_free(&got);
	state_file_remove(test_dir());
	CHECK_INT(state_file_read(test_dir(), &got), 0);
	CHECK_INT(bundle_write(test_dir(), BUNDLE_STATE, "server x\n", 9), 0);
	CHECK_INT(state_file_read(test_dir(), &got), -1);
	CHECK_INT(state_process_start(4194304), 0);
}

/* ---- the administrator's settings ---- */

static int parse_config(const char *text, int is_ours, struct shim_config *config, char **error)
{
	*config = (struct shim_config) { 0 };
	*error = NULL;
	return shim_config_parse(text, "file", is_ours, config, error);
}

TEST(settings)
{
	struct shim_config c;
	char *error;

	CHECK_INT(parse_config("# a comment\n\n[cchv]\nvmm = \"/x \\\"y\\\"\" # "
			       "why\nkernel='/k#1'\n\tmemory_mib = 512 # MiB\n"
			       "vcpus=2\r\n",
			       1, &c, &error),
		  0);
	CHECK_STR(c.vmm, "/x \"y\"");
	CHECK_STR(c.kernel, "/k#1");
	CHECK(c.memory_mib == 512 && c.vcpus == 2 && !c.state_dir && !c.build_templates);
	shim_config_free(&c);
	CHECK_INT(parse_config("build_templates = true # yes\n", 1, &c, &error), 0);
	CHECK(c.build_templates && !c.systemd_cgroup);
	shim_config_free(&c);
}

TEST(settings_that_are_wrong)
{
	static const char *const wrong[] = {
		"vmm",
		"vmm = x",
		"vmm = \"x",
		"vmm = \"x\" y",
		"memory_mib = \"1\"",
		"build_templates = 1",
		"systemd_cgroup = yes",
		"memory_mib = -1",
		"memory_mib = 1x",
		"memory_mib =",
		"memory_mib = 99999999999",
		"[x",
		"kernal = \"/x\"",
		"vmm = \"\\n\"",
		"allow_annotations = \"x\"",
		"allow_annotations = [\"x\"",
		"allow_annotations = [x]",
		"allow_annotations = [\"x\" \"y\"]",
		"allow_annotations = [\"x\"] y",
	};
	struct shim_config c;
	char *error;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[100];

		snprintf(text, sizeof(text), "\n%s\n", wrong[i]);
		CHECK_INT(parse_config(text, 1, &c, &error), CCHV_ERR_INVALID);
		CHECK_CONTAINS(error, "file:2: ");
		free(error);
		shim_config_free(&c);
	}
	/* What came with the options may be meant for others. */
	CHECK_INT(parse_config("TypeUrl = \"x\"\nvcpus = 3\n", 0, &c, &error), 0);
	CHECK_INT(c.vcpus, 3);
	shim_config_free(&c);
}

TEST(settings_by_options)
{
	struct wire any = { 0 }, options = { 0 };
	struct shim_config c;
	char path[200], *error = NULL;

	CHECK_INT(bundle_write(test_dir(), "c.toml", "vcpus = 5\n", 10), 0);
	snprintf(path, sizeof(path), "%s/c.toml", test_dir());
	wire_put_string(&options, 2, path);
	wire_put_string(&any, 1, "runtimeoptions.v1.Options");
	wire_put_message(&any, 2, &options);
	CHECK_INT(shim_config_read(wire_view_of(any.data, any.len), &c, &error), 0);
	CHECK_INT(c.vcpus, 5);
	shim_config_free(&c);
	wire_free(&any);
	wire_put_string(&options, 2, "/does/not/exist");
	wire_put_string(&any, 1, "runtimeoptions.v1.Options");
	wire_put_message(&any, 2, &options);
	CHECK_INT(shim_config_read(wire_view_of(any.data, any.len), &c, &error), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "/does/not/exist");
	free(error);
	wire_free(&any);
}

/* ---- sizes ---- */

static struct size size_of(const char *json, int is_pod)
{
	yajl_val spec = yajl_tree_parse(json, NULL, 0);
	struct shim_config config = { .memory_mib = 100, .vcpus = 3 };
	struct size size = sizing_of(spec, is_pod, &config);

	yajl_tree_free(spec);
	return size;
}

TEST(sizes)
{
	struct size s = size_of("{}", 0);

	CHECK(s.memory_bytes == 100 << 20 && s.vcpus == 3 && s.max_vcpus >= 3);
	s = size_of("{\"linux\":{\"resources\":{\"memory\":{\"limit\":1000000},\"cpu\":{\"quota\":150000,"
		    "\"period\":100000}}}}",
		    0);
	CHECK(s.memory_bytes == 1000000 && s.vcpus == 2);
	s = size_of("{\"linux\":{\"resources\":{\"memory\":{\"limit\":-1},\"cpu\":{\"quota\":-1,\"period\":"
		    "100000}}}}",
		    0);
	CHECK(s.memory_bytes == 100 << 20 && s.vcpus == 3);
	s = size_of("{\"linux\":{\"resources\":{\"memory\":{\"limit\":9223372036854775807},\"cpu\":{"
		    "\"quota\":100001}}}}",
		    0);
	CHECK(s.memory_bytes == 100 << 20 && s.vcpus == 2);
	/* A pod's are in its annotations; those of its first container are none of its own. */
	s = size_of("{\"annotations\":{\"io.kubernetes.cri.sandbox-memory\":\"5000000\",\"io.kubernetes.cri."
		    "sandbox-cpu-quota\":"
		    "\"50000\",\"io.kubernetes.cri.sandbox-cpu-period\":\"100000\"},\"linux\":{\"resources\":"
		    "{\"memory\":{\"limit\":7}}}}",
		    1);
	CHECK(s.memory_bytes == 5000000 && s.vcpus == 1);
	/* CRI-O's, under both names. */
	s = size_of("{\"annotations\":{\"io.kubernetes.cri-o.PodLinuxResources\":\"{\\\"cpu_period\\\":100000,"
		    "\\\"cpu_quota\\\":250000,\\\"memory_limit_in_bytes\\\":6000000}\"}}",
		    1);
	CHECK(s.memory_bytes == 6000000 && s.vcpus == 3);
	s = size_of("{\"annotations\":{\"pod-linux-resources.crio.io\":"
		    "\"{\\\"memory_limit_in_bytes\\\":6000000}\"}}",
		    1);
	CHECK(s.memory_bytes == 6000000 && s.vcpus == 3);
	s = size_of("{\"annotations\":{\"io.kubernetes.cri-o.PodLinuxResources\":\"null\"}}", 1);
	CHECK(s.memory_bytes == 100 << 20 && s.vcpus == 3);
}

/* What an annotation asks for is the least. */
TEST(sizes_at_least)
{
	struct shim_config config = { .memory_mib = 100, .vcpus = 3, .least_memory_mib = 200, .least_vcpus = 2 };
	struct size s = sizing_of_limits(0, 0, 0, &config);

	CHECK(s.memory_bytes == 200 << 20 && s.vcpus == 3);
	s = sizing_of_limits(300 << 20, 100000, 100000, &config);
	CHECK(s.memory_bytes == 300 << 20 && s.vcpus == 2);
	s = sizing_of_limits(1000, 500000, 0, &config);
	CHECK(s.memory_bytes == 200 << 20 && s.vcpus == 5);
}

/* ---- annotations ---- */

static int take(const struct shim_config *config, const char *name, const char *value, struct annotations *a,
		char **error)
{
	*a = (struct annotations){ 0 };
	*error = NULL;
	return annotations_take(a, config, name, value, error);
}

static void check_refused(const struct shim_config *config, const char *name, const char *value, const char *why)
{
	struct annotations a;
	char *error;

	CHECK_INT(take(config, name, value, &a, &error), CCHV_ERR_INVALID);
	CHECK_CONTAINS(error, name);
	CHECK_CONTAINS(error, why);
	CHECK(!strchr(error, '\n'));
	free(error);
	annotations_free(&a);
}

TEST(annotations)
{
	struct shim_config config = { 0 };
	struct annotations a;
	char *error;

	CHECK_INT(take(&config, "other", "x", &a, &error), 0);
	CHECK_INT(take(&config, "io.cchv.rootfs", "virtiofs", &a, &error), 0);
	CHECK_STR(a.rootfs, "virtiofs");
	annotations_free(&a);
	check_refused(&config, "io.cchv.rootfs", "other", "neither 'image' nor 'virtiofs'");
	check_refused(&config, "io.cchv.nonsense", "x", "there is none of this name");
	check_refused(&config, "io.cchv.", "x", "there is none of this name");
	check_refused(&config, "io.cchv.vcpus", "1", "the administrator does not allow it");
	CHECK_INT(parse_config("allow_annotations = []\n", 1, &config, &error), 0);
	check_refused(&config, "io.cchv.rootfs", "image", "the administrator does not allow it");
	shim_config_free(&config);
	CHECK_INT(parse_config("allow_annotations = [\"io.cchv.vcpus\", 'io.cchv.k*'] # two\n", 1, &config, &error), 0);
	CHECK_INT(config.allow_count, 2);
	CHECK_INT(take(&config, "io.cchv.vcpus", "254", &a, &error), 0);
	CHECK_INT(a.vcpus, 254);
	CHECK_INT(take(&config, "io.cchv.kernel", "/x", &a, &error), 0);
	annotations_free(&a);
	check_refused(&config, "io.cchv.memory_mib", "1", "the administrator does not allow it");
	check_refused(&config, "io.cchv.vcpus", "0", "from 1 to 254");
	check_refused(&config, "io.cchv.vcpus", "255", "from 1 to 254");
	check_refused(&config, "io.cchv.vcpus", "-1", "from 1 to 254");
	check_refused(&config, "io.cchv.vcpus", "1 ", "from 1 to 254");
	check_refused(&config, "io.cchv.vcpus", "", "from 1 to 254");
	check_refused(&config, "io.cchv.kernel", "x", "not an absolute path");
	check_refused(&config, "io.cchv.kernel", "/a\nb", "not a line of text");
	shim_config_free(&config);
}

TEST(annotations_over_settings)
{
	struct annotations a = { .kernel = (char *)"/k", .cmdline = (char *)"more", .memory_mib = 5, .vcpus = 6 };
	struct shim_config config = { 0 };
	char *error;

	CHECK_INT(parse_config("kernel = \"/old\"\ninitramfs = \"/i\"\ncmdline = \"words\"\n", 1, &config, &error), 0);
	CHECK_INT(annotations_apply(&a, &config), 0);
	CHECK_STR(config.kernel, "/k");
	CHECK_STR(config.initramfs, "/i");
	CHECK_STR(config.cmdline, "words more");
	CHECK(config.least_memory_mib == 5 && config.least_vcpus == 6);
	shim_config_free(&config);
}

/* ---- cgroups ---- */

static void check_cgroup(const char *text, enum cgroup_style style, const char *expected)
{
	char *path = NULL, *error = NULL;

	CHECK_INT(cgroup_path_of(text, style, &path, &error), 0);
	if (expected)
		CHECK_STR(path, expected);
	else
		CHECK(!path);
	free(path);
	free(error);
}

TEST(cgroup_paths)
{
	static const char *const wrong[] = { "/a/../../b", "..", "a/..", "a:b:c", "x/y.slice:a:b", "a--b.slice:a:b",
					     "-a.slice:a:b", "a-.slice:a:b", "a.slice:p:", "a.slice:p:n/m",
					     "a.slice:p/q:n", "a\nb" };
	char *path, *error = NULL;

	check_cgroup(NULL, CGROUP_BY_FORM, NULL);
	check_cgroup("", CGROUP_BY_FORM, NULL);
	check_cgroup("/", CGROUP_BY_FORM, NULL);
	check_cgroup("/default/c1", CGROUP_BY_FORM, "/default/c1");
	check_cgroup("default/c1", CGROUP_SYSTEMD, "/default/c1");
	check_cgroup("/a..b/c", CGROUP_BY_FORM, "/a..b/c");
	check_cgroup("kubepods-burstable-pod12_3.slice:cri-containerd:c1", CGROUP_BY_FORM,
		     "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_3.slice/"
		     "cri-containerd-c1.scope");
	check_cgroup("system.slice:docker:c1", CGROUP_SYSTEMD, "/system.slice/docker-c1.scope");
	check_cgroup("system.slice:docker:c1", CGROUP_PLAIN, "/system.slice:docker:c1");
	check_cgroup(":docker:c1", CGROUP_BY_FORM, "/system.slice/docker-c1.scope");
	check_cgroup("-.slice::c1", CGROUP_BY_FORM, "/c1.scope");
	check_cgroup("a.slice:p:b.slice", CGROUP_BY_FORM, "/a.slice/b.slice");
	check_cgroup("/a:b:c", CGROUP_BY_FORM, "/a:b:c");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_INT(cgroup_path_of(wrong[i], CGROUP_SYSTEMD, &path, &error), CCHV_ERR_INVALID);
		CHECK_CONTAINS(error, "linux.cgroupsPath '");
		free(error);
		error = NULL;
	}
	path = cgroup_path_text("/kubepods/podx", "id");
	CHECK_STR(path, "/kubepods/podx/id");
	free(path);
	path = cgroup_path_text("/kubepods.slice/kubepods-podx.slice", "id");
	CHECK_STR(path, "kubepods-podx.slice:cchv:id");
	free(path);
	CHECK(!cgroup_path_text(NULL, "id") && !cgroup_path_text("", "id"));
}

/* Said in config.toml, in the options' text, in the options of another runtime. */
TEST(systemd_cgroup)
{
	struct wire any = { 0 }, options = { 0 };
	struct shim_config c = { 0 };
	char *error = NULL, path[200];

	CHECK_INT(parse_config("systemd_cgroup = true # yes\n", 1, &c, &error), 0);
	CHECK(c.systemd_cgroup == CGROUP_SYSTEMD);
	CHECK_INT(parse_config("SystemdCgroup = false\n", 0, &c, &error), 0);
	CHECK(c.systemd_cgroup == CGROUP_PLAIN);
	CHECK_INT(parse_config("x = 1\n", 0, &c, &error), 0);
	CHECK(c.systemd_cgroup == CGROUP_BY_FORM);
	CHECK_INT(parse_config("systemd_cgroup = 1\n", 1, &c, &error), CCHV_ERR_INVALID);
	CHECK_CONTAINS(error, "neither true nor false");
	free(error);
	error = NULL;
	CHECK_INT(bundle_write(test_dir(), "none.toml", "vcpus = 5\n", 10), 0);
	snprintf(path, sizeof(path), "%s/none.toml", test_dir());
	wire_put_uint(&options, 9, 1);
	wire_put_string(&any, 1, "type.googleapis.com/containerd.runc.v1.Options");
	wire_put_message(&any, 2, &options);
	CHECK_INT(shim_config_read(wire_view_of(any.data, any.len), &c, &error), 0);
	CHECK(c.systemd_cgroup == CGROUP_SYSTEMD);
	shim_config_free(&c);
	wire_free(&any);
	wire_put_string(&options, 3, "[x]\nSystemdCgroup = true\n");
	wire_put_string(&any, 1, "runtimeoptions.v1.Options");
	wire_put_message(&any, 2, &options);
	CHECK_INT(shim_config_read(wire_view_of(any.data, any.len), &c, &error), 0);
	CHECK(c.systemd_cgroup == CGROUP_SYSTEMD);
	shim_config_free(&c);
	wire_free(&any);
}

/* ---- the guest's specification ---- */

static const char *find(const char *path, const char *type, void *data)
{
	int pid = guest_spec_pid(path);

	if (strcmp(path, "/run/ipcns/1") == 0)
		return guest_spec_new;
	return pid == 42 ? "other.1" : pid == 7 ? "" : NULL;
}

static char *adapted(const char *json, int expected, char **error)
{
	yajl_val spec = yajl_tree_parse(json, NULL, 0);
	char *text;

	*error = NULL;
	CHECK_INT(guest_spec_adapt(spec, find, NULL, error), expected);
	text = spec_tree_print(spec);
	yajl_tree_free(spec);
	return text;
}

TEST(guest_specs)
{
	char *error, *text = adapted("{\"hooks\":{\"prestart\":[]},\"linux\":{\"namespaces\":[{\"type\":"
				     "\"network\",\"path\":\"/x\"},{\"type\":\"pid\",\"path\":"
				     "\"/proc/42/ns/"
				     "pid\"},{\"type\":\"ipc\"}],\"resources\":{\"cpu\":{\"cpus\":\"0-63\","
				     "\"shares\":2},\"hugepageLimits\":[]}}}",
				     0, &error);

	CHECK_STR(text, "{\"linux\":{\"namespaces\":[{\"type\":\"pid\",\"path\":\"container:other.1\"},{"
			"\"type\":\"ipc\"}],"
			"\"resources\":{\"cpu\":{\"shares\":2}}}}");
	free(text);
	text = adapted("{\"linux\":{\"namespaces\":[{\"type\":\"pid\",\"path\":\"/proc/43/ns/pid\"}]}}",
		       CCHV_ERR_UNSUPPORTED, &error);
	CHECK_CONTAINS(error, "/proc/43/ns/pid");
	free(error);
	free(text);
	/* What is the VM's own is shared by not being listed; processes are not. */
	text = adapted("{\"hostname\":\"x\",\"linux\":{\"namespaces\":[{\"type\":\"uts\",\"path\":\"/proc/7/ns/uts\"},"
		       "{\"type\":\"pid\"},{\"type\":\"ipc\",\"path\":\"/proc/7/ns/ipc\"}]}}",
		       0, &error);
	CHECK_STR(text, "{\"linux\":{\"namespaces\":[{\"type\":\"pid\"}]}}");
	free(text);
	text = adapted("{\"linux\":{\"namespaces\":[{\"type\":\"pid\",\"path\":\"/proc/7/ns/pid\"}]}}",
		       CCHV_ERR_UNSUPPORTED, &error);
	CHECK_CONTAINS(error, "/proc/7/ns/pid");
	free(error);
	free(text);
	text = adapted("{\"linux\":{\"namespaces\":[{\"type\":\"ipc\",\"path\":\"/run/ipcns/1\"}]}}", 0, &error);
	CHECK_STR(text, "{\"linux\":{\"namespaces\":[{\"type\":\"ipc\"}]}}");
	free(text);
	free(adapted("{}", 0, &error));
}

TEST(namespaces_by_name)
{
	static const char json[] = "{\"annotations\":{\"%s\":\"x\"},\"linux\":{\"namespaces\":["
				   "{\"type\":\"ipc\",\"path\":\"/run/ipcns/1\"},"
				   "{\"type\":\"uts\",\"path\":\"/proc/1/ns/uts\"},"
				   "{\"type\":\"pid\",\"path\":\"/run/pidns/1\"}]}}";
	struct shared_spaces spaces = { 0 };
	char text[400];
	yajl_val spec;

	snprintf(text, sizeof(text), json, "io.kubernetes.cri-o.SandboxID");
	spec = yajl_tree_parse(text, NULL, 0);
	shared_spaces_read(&spaces, spec, "first.1");
	CHECK(shared_spaces_find(&spaces, "/run/ipcns/1", "ipc", 1) == guest_spec_new);
	CHECK_STR(shared_spaces_find(&spaces, "/run/ipcns/1", "ipc", 0), "first.1");
	CHECK(!shared_spaces_find(&spaces, "/run/ipcns/2", "ipc", 0));
	CHECK(!shared_spaces_find(&spaces, "/run/ipcns/1", "uts", 0));
	CHECK(!shared_spaces_find(&spaces, "/proc/1/ns/uts", "uts", 0));
	CHECK(!shared_spaces_find(&spaces, "/run/pidns/1", "pid", 1));
	yajl_tree_free(spec);
	/* Another engine's are the host's. */
	snprintf(text, sizeof(text), json, "io.kubernetes.cri.sandbox-id");
	spec = yajl_tree_parse(text, NULL, 0);
	shared_spaces_read(&spaces, spec, "first.1");
	CHECK(!shared_spaces_find(&spaces, "/run/ipcns/1", "ipc", 1));
	yajl_tree_free(spec);
	shared_spaces_free(&spaces);
}

/* ---- a pod's configuration ---- */

static void put_pair(struct wire *out, unsigned int number, const char *name, const char *value)
{
	struct wire pair = { 0 };

	wire_put_string(&pair, 1, name);
	wire_put_string(&pair, 2, value);
	wire_put_message(out, number, &pair);
}

static void put_pod(struct wire *pod)
{
	struct wire dns = { 0 }, part = { 0 }, inner = { 0 }, options = { 0 };

	wire_put_string(pod, 2, "web-0");
	wire_put_element(&dns, 1, "10.0.0.10");
	wire_put_element(&dns, 3, "ndots:5");
	wire_put_element(&dns, 3, "edns0");
	wire_put_element(&dns, 2, "a.example");
	wire_put_message(pod, 4, &dns);
	put_pair(pod, 7, "io.cchv.a", "1");
	put_pair(pod, 7, "io.cchv.a", "2");
	put_pair(pod, 7, "empty", "");
	wire_put_string(&part, 1, "/kubepods/x");
	wire_put_uint(&options, 2, POD_NS_CONTAINER);
	wire_put_uint(&options, 1, POD_NS_NODE);
	wire_put_message(&inner, 1, &options);
	wire_put_message(&part, 2, &inner);
	put_pair(&part, 3, "net.ipv4.x", "y");
	wire_put_int(&inner, 2, -1);
	wire_put_int(&inner, 4, 5000000000);
	wire_put_message(&part, 5, &inner);
	wire_put_message(pod, 8, &part);
}

TEST(pod_configs)
{
	struct wire any = { 0 }, pod = { 0 };
	struct pod_config config;
	char *error = NULL;

	CHECK_INT(pod_config_read(wire_view_of("", 0), &config, &error), 0);
	CHECK(!config.hostname && !config.resolv_conf && config.pid == POD_NS_POD);
	pod_config_free(&config);
	put_pod(&pod);
	wire_put_any(&any, 1, "runtime.v1.PodSandboxConfig", &pod);
	/* The field's content is the Any itself. */
	CHECK_INT(pod_config_read(wire_view_of(any.data + 3, any.len - 3), &config, &error), 0);
	CHECK_STR(config.hostname, "web-0");
	CHECK_STR(config.resolv_conf, "search a.example\nnameserver 10.0.0.10\noptions ndots:5 edns0\n");
	CHECK_STR(config.cgroup_parent, "/kubepods/x");
	CHECK_STR(pod_pairs_find(&config.annotations, "io.cchv.a"), "2");
	CHECK_STR(pod_pairs_find(&config.annotations, "empty"), "");
	CHECK(!pod_pairs_find(&config.annotations, "other") && config.annotations.count == 2);
	CHECK_STR(pod_pairs_find(&config.sysctls, "net.ipv4.x"), "y");
	CHECK(config.pid == POD_NS_CONTAINER && config.network == POD_NS_NODE && config.ipc == POD_NS_POD);
	CHECK(config.memory_limit == 5000000000 && config.cpu_quota == -1 && config.cpu_period == 0);
	pod_config_free(&config);
	/* Each part of it alone, cut off at each byte: no crash, and nothing that leaks. */
	for (size_t len = 0; len < any.len - 3; len++) {
		if (pod_config_read(wire_view_of(any.data + 3, len), &config, &error) < 0)
			CHECK_CONTAINS(error, "malformed");
		free(error);
		error = NULL;
		pod_config_free(&config);
	}
	wire_free(&any);
}

/* ---- requests ---- */

TEST(ids)
{
	char long_id[78];

	memset(long_id, 'x', 77);
	long_id[77] = '\0';
	CHECK(!request_id_is_valid(long_id));
	long_id[76] = '\0';
	CHECK(request_id_is_valid(long_id));
	CHECK(request_id_is_valid("a") && request_id_is_valid("A.b_c-9"));
	CHECK(!request_id_is_valid("") && !request_id_is_valid("a..b") && !request_id_is_valid("-a") &&
	      !request_id_is_valid("a.") && !request_id_is_valid("a/b") && !request_id_is_valid("\xc3\xa4") &&
	      !request_id_is_valid("a b"));
}

TEST(requests)
{
	static const struct slot slots[] = {
		{ 1, SLOT_TEXT, offsetof(struct request, id) },
		{ 3, SLOT_MOUNT, offsetof(struct request, rootfs) },
		{ 4, SLOT_NUMBER, offsetof(struct request, terminal) },
		{ 0, SLOT_TEXT, 0 },
	};
	struct wire w = { 0 }, mount = { 0 };
	struct request r;

	wire_put_string(&w, 1, "first");
	wire_put_element(&mount, 4, "ro");
	wire_put_string(&mount, 1, "overlay");
	wire_put_element(&mount, 4, "");
	wire_put_message(&w, 3, &mount);
	wire_put_string(&w, 99, "unknown");
	wire_put_string(&w, 1, "last");
	wire_put_uint(&w, 4, 1);
	CHECK_INT(request_read(wire_view_of(w.data, w.len), slots, &r), 0);
	CHECK_STR(r.id, "last");
	CHECK_STR(r.exec_id, "");
	CHECK(r.terminal == 1 && r.rootfs.count == 1 && r.rootfs.items[0].option_count == 2);
	CHECK_STR(r.rootfs.items[0].type, "overlay");
	CHECK_STR(r.rootfs.items[0].source, "");
	request_free(&r);
	wire_free(&w);
	/* A number where a text is due, and the other way round. */
	wire_put_uint(&w, 1, 7);
	CHECK_INT(request_read(wire_view_of(w.data, w.len), slots, &r), -1);
	request_free(&r);
	wire_free(&w);
	wire_put_string(&w, 4, "x");
	CHECK_INT(request_read(wire_view_of(w.data, w.len), slots, &r), -1);
	request_free(&r);
	wire_free(&w);
}
