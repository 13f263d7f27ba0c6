/* SPDX-License-Identifier: Apache-2.0 */
/* The options of run and create: see run_options.h. Enters: words. Leaves: checked settings, or one error
 * line. */
#include "run_options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

const char run_options_help[] =
	"\nOptions:\n"
	"  -d, --detach              run in the background and print the container's id\n"
	"  -i, --interactive         keep stdin open\n"
	"  -t, --tty                 give the process a terminal\n"
	"      --rm                  remove the container when it ends\n"
	"      --name NAME           name the container\n"
	"      --cpus N              CPU limit, such as 1.5 (default: none; the VM has at most 4)\n"
	"  -m, --memory SIZE         memory limit, such as 512m (default: none; the VM has 2g)\n"
	"      --pids-limit N        limit of processes\n"
	"  -e, --env NAME[=VALUE]    set a variable; without a value: that of the caller\n"
	"      --env-file FILE       read variables from a file\n"
	"  -w, --workdir DIR         working directory\n"
	"  -u, --user USER[:GROUP]   user, by name or number\n"
	"      --entrypoint PROGRAM  in place of the image's; '' for none\n"
	"  -h, --hostname NAME       host name\n"
	"  -v, --volume SRC:DST[:ro] a directory of the host, live; a file only with ro\n"
	"      --disk SRC:DST[:ro][:size=SIZE]  a disk image or block device with a file system, mounted at "
	"DST;\n"
	"                            with size, an ext4 image is made where there is none\n"
	"      --tmpfs DST[:OPTIONS] memory mounted at DST\n"
	"      --scratch SIZE        size of the writable layer (default 10g, used as it fills)\n"
	"      --net, --network none no network (the default)\n"
	"      --net tap=NAME[,mac=MAC][,address=CIDR][,gateway=IP][,mtu=N]   an existing tap device\n"
	"      --read-only           read-only root file system\n"
	"      --stop-signal SIGNAL  what 'cchv stop' sends first\n"
	"      --kernel FILE         boot another kernel\n"
	"      --initramfs FILE      with another initramfs\n"
	"      --cmdline WORDS       words for the kernel's command line\n"
	"      --cold                boot the VM, whatever templates there are\n"
	"      --template            start the VM from a template (see 'cchv template'), or fail\n"
	"      --timing              show on stderr how long each step took\n";

enum {
	OPT_RM = 256,
	OPT_NAME,
	OPT_CPUS,
	OPT_PIDS,
	OPT_ENV_FILE,
	OPT_ENTRYPOINT,
	OPT_DISK,
	OPT_TMPFS,
	OPT_SCRATCH,
	OPT_NET,
	OPT_READ_ONLY,
	OPT_STOP_SIGNAL,
	OPT_KERNEL,
	OPT_INITRAMFS,
	OPT_CMDLINE,
	OPT_COLD,
	OPT_TEMPLATE,
	OPT_TIMING
};

static const struct option options[] = {
	{ "detach", no_argument, NULL, 'd' },
	{ "interactive", no_argument, NULL, 'i' },
	{ "tty", no_argument, NULL, 't' },
	{ "rm", no_argument, NULL, OPT_RM },
	{ "name", required_argument, NULL, OPT_NAME },
	{ "cpus", required_argument, NULL, OPT_CPUS },
	{ "memory", required_argument, NULL, 'm' },
	{ "pids-limit", required_argument, NULL, OPT_PIDS },
	{ "env", required_argument, NULL, 'e' },
	{ "env-file", required_argument, NULL, OPT_ENV_FILE },
	{ "workdir", required_argument, NULL, 'w' },
	{ "user", required_argument, NULL, 'u' },
	{ "entrypoint", required_argument, NULL, OPT_ENTRYPOINT },
	{ "hostname", required_argument, NULL, 'h' },
	{ "volume", required_argument, NULL, 'v' },
	{ "disk", required_argument, NULL, OPT_DISK },
	{ "tmpfs", required_argument, NULL, OPT_TMPFS },
	{ "scratch", required_argument, NULL, OPT_SCRATCH },
	{ "net", required_argument, NULL, OPT_NET },
	{ "network", required_argument, NULL, OPT_NET },
	{ "read-only", no_argument, NULL, OPT_READ_ONLY },
	{ "stop-signal", required_argument, NULL, OPT_STOP_SIGNAL },
	{ "kernel", required_argument, NULL, OPT_KERNEL },
	{ "initramfs", required_argument, NULL, OPT_INITRAMFS },
	{ "cmdline", required_argument, NULL, OPT_CMDLINE },
	{ "cold", no_argument, NULL, OPT_COLD },
	{ "template", no_argument, NULL, OPT_TEMPLATE },
	{ "timing", no_argument, NULL, OPT_TIMING },
	{ NULL, 0, NULL, 0 },
};

static void replace(char **slot, const char *text)
{
	free(*slot);
	*slot = xstrdup(text);
}

static void *grow(void *array, size_t count, size_t size)
{
	void *bigger = xalloc((count + 1) * size);

	if (count)
		memcpy(bigger, array, count * size);
	free(array);
	return bigger;
}

/* Keep an option for the record, with its value as it is resolved. */
static void note(struct run_options *o, const char *option, const char *value)
{
	char *word = value ? xprintf("--%s=%s", option, value) : xprintf("--%s", option);

	strings_add(&o->words, word);
	free(word);
}

static int add_env(struct run_options *o, const char *text)
{
	const char *value;
	char *pair;

	if (!*text || text[0] == '=')
		return fail("--env '%s': no name", text);
	if (strchr(text, '=')) {
		pair = xstrdup(text);
	} else {
		value = getenv(text);
		if (!value)
			return 0; /* as Docker: a variable that the caller does not have is not set */
		pair = xprintf("%s=%s", text, value);
	}
	strings_add(&o->env, pair);
	note(o, "env", pair);
	free(pair);
	return 0;
}

static int add_env_file(struct run_options *o, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int r = 0;

	if (!file)
		return fail("--env-file '%s': %m", path);
	while (r == 0 && (n = getline(&line, &room, file)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (*line && *line != '#')
			r = add_env(o, line);
	}
	free(line);
	fclose(file);
	return r;
}

/* Cut "SRC:DST[:rest]"; *rest is NULL or what follows the second colon. */
static int cut(const char *option, const char *text, char **source, char **destination, char **rest)
{
	char *copy = xstrdup(text), *a = copy, *b = strchr(copy, ':'), *c;

	if (!b || b == a || b[1] != '/') {
		free(copy);
		return fail("--%s '%s': not SRC:DST with an absolute DST", option, text);
	}
	*b++ = '\0';
	c = strchr(b, ':');
	if (c)
		*c++ = '\0';
	*source = absolute_path(a);
	*destination = xstrdup(b);
	*rest = c ? xstrdup(c) : NULL;
	free(copy);
	return *source ? 0 : fail("--%s '%s': %m", option, text);
}

static int add_volume(struct run_options *o, const char *text)
{
	struct mount_option m = { 0 };
	char *rest = NULL, *resolved;
	int r;

	if (text[0] != '/' && text[0] != '.')
		return fail("--volume '%s': named volumes are not offered; give a path that begins with '/' "
			    "or '.'",
			    text);
	r = cut("volume", text, &m.source, &m.destination, &rest);
	if (r)
		return r;
	if (rest && strcmp(rest, "ro") == 0)
		m.readonly = 1;
	else if (rest && strcmp(rest, "rw") != 0)
		return fail("--volume '%s': unknown option '%s'", text, rest);
	free(rest);
	o->volumes = grow(o->volumes, o->volume_count, sizeof(m));
	o->volumes[o->volume_count++] = m;
	resolved = xprintf("%s:%s%s", m.source, m.destination, m.readonly ? ":ro" : "");
	note(o, "volume", resolved);
	free(resolved);
	return 0;
}

static int add_disk(struct run_options *o, const char *text)
{
	struct disk_option d = { 0 };
	char *rest = NULL, *resolved, *word, *left;
	int r = cut("disk", text, &d.source, &d.destination, &rest);

	if (r)
		return r;
	for (left = rest; (word = strsep(&left, ":")) != NULL;) {
		if (strcmp(word, "ro") == 0)
			d.readonly = 1;
		else if (strncmp(word, "size=", 5) != 0)
			return fail("--disk '%s': unknown option '%s'", text, word);
		else if (parse_size(word + 5, &d.create_bytes) < 0 || d.create_bytes < 1 << 20)
			return fail("--disk '%s': '%s' is not a size of 1m or more", text, word + 5);
	}
	free(rest);
	o->disks = grow(o->disks, o->disk_count, sizeof(d));
	o->disks[o->disk_count++] = d;
	resolved = xprintf("%s:%s%s:size=%llu", d.source, d.destination, d.readonly ? ":ro" : "",
			   (unsigned long long)d.create_bytes);
	if (!d.create_bytes)
		*strstr(resolved + strlen(d.source) + strlen(d.destination), ":size=") = '\0';
	note(o, "disk", resolved);
	free(resolved);
	return 0;
}

static int add_tmpfs(struct run_options *o, const char *text)
{
	struct mount_option m = { 0 };
	const char *colon = strchr(text, ':');

	if (text[0] != '/')
		return fail("--tmpfs '%s': not an absolute path", text);
	m.destination = colon ? strndup(text, (size_t)(colon - text)) : xstrdup(text);
	m.options = colon ? xstrdup(colon + 1) : NULL;
	o->tmpfs = grow(o->tmpfs, o->tmpfs_count, sizeof(m));
	o->tmpfs[o->tmpfs_count++] = m;
	note(o, "tmpfs", text);
	return 0;
}

static int add_net(struct run_options *o, const char *text)
{
	char *copy = xstrdup(text), *left = copy, *word;
	struct net_option n = { 0 };
	int r = 0;

	if (strcmp(text, "none") == 0) {
		free(copy);
		note(o, "net", text);
		return 0;
	}
	while (r == 0 && (word = strsep(&left, ",")) != NULL) {
		char *value = strchr(word, '=');

		if (!value || !value[1]) {
			r = fail("--net '%s': '%s' is neither none nor NAME=VALUE", text, word);
			break;
		}
		*value++ = '\0';
		if (strcmp(word, "tap") == 0)
			replace(&n.tap, value);
		else if (strcmp(word, "mac") == 0)
			replace(&n.mac, value);
		else if (strcmp(word, "address") == 0)
			replace(&n.address, value);
		else if (strcmp(word, "gateway") == 0)
			replace(&n.gateway, value);
		else if (strcmp(word, "mtu") == 0 && atoi(value) >= 68 && atoi(value) <= 65535)
			n.mtu = (uint32_t)atoi(value);
		else
			r = fail("--net '%s': unknown or wrong '%s=%s'", text, word, value);
	}
	free(copy);
	if (r == 0 && !n.tap)
		r = fail("--net '%s': no tap=NAME", text);
	if (r)
		return r;
	o->nets = grow(o->nets, o->net_count, sizeof(n));
	o->nets[o->net_count++] = n;
	note(o, "net", text);
	return 0;
}

static int add_path(struct run_options *o, const char *option, char **slot, const char *path)
{
	char *absolute = absolute_path(path);

	if (!absolute)
		return fail("--%s '%s': %m", option, path);
	free(*slot);
	*slot = absolute;
	note(o, option, absolute);
	return 0;
}

static int set_number(struct run_options *o, int c, const char *name, const char *text)
{
	uint64_t value = 0;
	char *end;

	if (c == OPT_CPUS) {
		if (parse_cpus(text, &o->millicpus) < 0)
			return fail("--cpus '%s': not a number of CPUs", text);
	} else if (c == OPT_PIDS) {
		value = strtoull(text, &end, 10);
		if (*text < '0' || *text > '9' || *end)
			return fail("--pids-limit '%s': not a number", text);
		o->pids = value;
	} else {
		if (parse_size(text, &value) < 0 || (value && value < 4 << 20))
			return fail("--%s '%s': not a size of 4m or more", name, text);
		*(c == 'm' ? &o->memory : &o->scratch) = value;
	}
	note(o, name, text);
	return 0;
}

static int set_flag(struct run_options *o, int c)
{
	switch (c) {
	case 'd': o->detach = 1; break;
	case 'i':
		o->interactive = 1;
		note(o, "interactive", NULL);
		break;
	case 't':
		o->tty = 1;
		note(o, "tty", NULL);
		break;
	case OPT_RM:
		o->remove = 1;
		note(o, "rm", NULL);
		break;
	case OPT_READ_ONLY:
		o->readonly = 1;
		note(o, "read-only", NULL);
		break;
	case OPT_TIMING: o->timing = 1; break;
	default: return 0;
	}
	return 1;
}

static int set_start(struct run_options *o, int start, const char *name)
{
	if (o->start != CCHV_START_AUTO && o->start != start)
		return usage_error("run", "--cold and --template exclude each other");
	o->start = start;
	note(o, name, NULL);
	return 0;
}

static int set_text(struct run_options *o, int c, const char *name, const char *text)
{
	char **slot = c == OPT_NAME          ? &o->name
		      : c == 'w'             ? &o->workdir
		      : c == 'u'             ? &o->user
		      : c == 'h'             ? &o->hostname
		      : c == OPT_STOP_SIGNAL ? &o->stop_signal
		      : c == OPT_CMDLINE     ? &o->cmdline
					     : &o->entrypoint;

	if (c == OPT_ENTRYPOINT)
		o->has_entrypoint = 1;
	else if (!*text)
		return fail("--%s: empty", name);
	if (c == 'w' && text[0] != '/')
		return fail("--workdir '%s': not an absolute path", text);
	if (c == OPT_STOP_SIGNAL && parse_signal(text) < 0)
		return fail("--stop-signal '%s': no such signal", text);
	replace(slot, text);
	note(o, name, text);
	return 0;
}

static int apply(struct run_options *o, int c, const char *value)
{
	const char *name = "";

	for (const struct option *p = options; p->name; p++)
		if (p->val == c && strcmp(p->name, "network") != 0)
			name = p->name;
	if (set_flag(o, c))
		return 0;
	switch (c) {
	case 'e': return add_env(o, value);
	case OPT_ENV_FILE: return add_env_file(o, value);
	case 'v': return add_volume(o, value);
	case OPT_COLD: return set_start(o, CCHV_START_COLD, name);
	case OPT_TEMPLATE: return set_start(o, CCHV_START_TEMPLATE, name);
	case OPT_DISK: return add_disk(o, value);
	case OPT_TMPFS: return add_tmpfs(o, value);
	case OPT_NET: return add_net(o, value);
	case OPT_KERNEL: return add_path(o, name, &o->kernel, value);
	case OPT_INITRAMFS: return add_path(o, name, &o->initramfs, value);
	case 'm':
	case OPT_SCRATCH:
	case OPT_PIDS:
	case OPT_CPUS: return set_number(o, c, name, value);
	default: return set_text(o, c, name, value);
	}
}

int run_options_parse(int argc, char **argv, struct run_options *ret)
{
	struct run_options o = { 0 };
	int c, r = 0;

	optind = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+dite:m:w:u:h:v:", options, NULL)) != -1)
		r = c == '?' ? EXIT_OURS : apply(&o, c, optarg);
	if (r == 0 && optind == argc)
		r = usage_error(argv[0], "no image given");
	if (r) {
		run_options_free(&o);
		return r;
	}
	o.image = xstrdup(argv[optind]);
	o.command = argv + optind + 1;
	o.command_count = argc - optind - 1;
	*ret = o;
	return 0;
}

static void free_mounts(struct mount_option *mounts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(mounts[i].source);
		free(mounts[i].destination);
		free(mounts[i].options);
	}
	free(mounts);
}

void run_options_free(struct run_options *o)
{
	char *const texts[] = { o->name,        o->workdir, o->user,      o->entrypoint, o->hostname,
				o->stop_signal, o->kernel,  o->initramfs, o->cmdline,    o->image };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	free_mounts(o->volumes, o->volume_count);
	free_mounts(o->tmpfs, o->tmpfs_count);
	for (size_t i = 0; i < o->disk_count; i++) {
		free(o->disks[i].source);
		free(o->disks[i].destination);
	}
	free(o->disks);
	for (size_t i = 0; i < o->net_count; i++) {
		free(o->nets[i].tap);
		free(o->nets[i].mac);
		free(o->nets[i].address);
		free(o->nets[i].gateway);
	}
	free(o->nets);
	strings_free(&o->env);
	strings_free(&o->words);
	memset(o, 0, sizeof(*o));
}
