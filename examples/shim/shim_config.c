/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The administrator's settings: see shim_config.h. Enters: TOML, options of the runtime. Leaves: values.
 *
 * Read is what a flat file needs: "key = value" lines, comments, [tables] whose names do not matter here.
 */
#include "shim_config.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "fault.h"

#define FILE_MAX (1U << 20)

enum kind { TEXT, NUMBER, FLAG, STYLE, LIST };

static const struct {
	const char *key;
	enum kind kind;
	size_t offset;
} keys[] = {
	{ "runtime_dir", TEXT, offsetof(struct shim_config, runtime_dir) },
	{ "state_dir", TEXT, offsetof(struct shim_config, state_dir) },
	{ "vmm", TEXT, offsetof(struct shim_config, vmm) },
	{ "kernel", TEXT, offsetof(struct shim_config, kernel) },
	{ "initramfs", TEXT, offsetof(struct shim_config, initramfs) },
	{ "cmdline", TEXT, offsetof(struct shim_config, cmdline) },
	{ "rootfs", TEXT, offsetof(struct shim_config, rootfs) },
	{ "write_back", TEXT, offsetof(struct shim_config, write_back) },
	{ "memory_mib", NUMBER, offsetof(struct shim_config, memory_mib) },
	{ "vcpus", NUMBER, offsetof(struct shim_config, vcpus) },
	{ "scratch_mib", NUMBER, offsetof(struct shim_config, scratch_mib) },
	{ "build_templates", FLAG, offsetof(struct shim_config, build_templates) },
	{ "systemd_cgroup", STYLE, offsetof(struct shim_config, systemd_cgroup) },
	{ "allow_annotations", LIST, 0 },
	/* As the runtime's options of the daemon have it. */
	{ "SystemdCgroup", STYLE, offsetof(struct shim_config, systemd_cgroup) },
};

struct place {
	const char *name;
	unsigned int line;
	char **ret_error;
};

static int wrong(const struct place *place, const char *what)
{
	return fault_set(place->ret_error, CCHV_ERR_INVALID, "%s:%u: %s", place->name, place->line, what);
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* A quoted text, in place. NULL: it is none. */
static char *unquote(char *value)
{
	char quote = *value, *in = value + 1, *out = value + 1;

	if (quote != '"' && quote != '\'')
		return NULL;
	for (; *in && *in != quote; in++) {
		if (quote == '"' && *in == '\\') {
			in++;
			if (*in != '"' && *in != '\\')
				return NULL;
		}
		*out++ = *in;
	}
	if (!*in)
		return NULL;
	in = trim(in + 1);
	if (*in && *in != '#')
		return NULL;
	*out = '\0';
	return value + 1;
}

static int set_number(const struct place *place, char *value, uint64_t *where)
{
	char *comment = strchr(value, '#'), *end;

	if (comment)
		*comment = '\0';
	value = trim(value);
	errno = 0;
	*where = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || errno || *where > UINT32_MAX)
		return wrong(place, "not a whole number");
	return 0;
}

static int set_flag(const struct place *place, char *value, int *where)
{
	char *comment = strchr(value, '#');

	if (comment)
		*comment = '\0';
	value = trim(value);
	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return wrong(place, "neither true nor false");
	*where = *value == 't';
	return 0;
}

/* Where nobody says it, it is neither. */
static int set_style(const struct place *place, char *value, enum cgroup_style *where)
{
	int flag = 0, r = set_flag(place, value, &flag);

	if (r == 0)
		*where = flag ? CGROUP_SYSTEMD : CGROUP_PLAIN;
	return r;
}

static int set_text(const struct place *place, char *value, char **where)
{
	char *text = unquote(value), *copy;

	if (!text)
		return wrong(place, "not a text in quotes");
	copy = strdup(text);
	if (!copy)
		return fault_set(place->ret_error, CCHV_ERR_NOMEM, "out of memory");
	free(*where);
	*where = copy;
	return 0;
}

static void clear_list(struct shim_config *config)
{
	for (size_t i = 0; i < config->allow_count; i++)
		free(config->allow_annotations[i]);
	free(config->allow_annotations);
	config->allow_annotations = NULL;
	config->allow_count = 0;
}

/* One text of a list, up to its closing quote; *rest is behind it. */
static char *take_item(char **rest)
{
	char quote = **rest, *end = quote == '"' || quote == '\'' ? strchr(*rest + 1, quote) : NULL;
	char *item = end ? strndup(*rest + 1, (size_t)(end - *rest - 1)) : NULL;

	if (item)
		*rest = trim(end + 1);
	return item;
}

static int add_item(struct shim_config *config, char *item)
{
	char **list = reallocarray(config->allow_annotations, config->allow_count + 1, sizeof(*list));

	if (!list)
		return -1;
	config->allow_annotations = list;
	list[config->allow_count++] = item;
	return 0;
}

/* ["a", "b"] */
static int set_list(const struct place *place, char *value, struct shim_config *config)
{
	char *rest = *value == '[' ? trim(value + 1) : NULL, *item;

	clear_list(config);
	/* An empty list is there all the same. */
	config->allow_annotations = rest ? calloc(1, sizeof(char *)) : NULL;
	while (rest && *rest && *rest != ']') {
		item = take_item(&rest);
		if (!item || add_item(config, item) < 0) {
			free(item);
			break;
		}
		if (*rest != ',')
			break;
		rest = trim(rest + 1);
	}
	if (!rest || *rest != ']')
		return wrong(place, "not a list of texts in quotes, on one line");
	rest = trim(rest + 1);
	return *rest && *rest != '#' ? wrong(place, "something behind the list") : 0;
}

static int parse_line(const struct place *place, char *line, int is_ours, struct shim_config *config)
{
	char *value, *key = trim(line);

	if (!*key || *key == '#')
		return 0;
	if (*key == '[')
		return strchr(key, ']') ? 0 : wrong(place, "a table without its ']'");
	value = strchr(key, '=');
	if (!value)
		return wrong(place, "neither a table nor 'key = value'");
	*value++ = '\0';
	key = trim(key);
	value = trim(value);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		void *where = (char *)config + keys[i].offset;

		if (strcmp(keys[i].key, key) != 0)
			continue;
		switch (keys[i].kind) {
		case NUMBER: return set_number(place, value, where);
		case FLAG: return set_flag(place, value, where);
		case STYLE: return set_style(place, value, where);
		case LIST: return set_list(place, value, config);
		default: return set_text(place, value, where);
		}
	}
	return is_ours ? wrong(place, "unknown key") : 0;
}

int shim_config_parse(const char *text, const char *name, int is_ours, struct shim_config *config,
		      char **ret_error)
{
	struct place place = { name, 0, ret_error };
	char *copy = strdup(text), *rest = copy;
	int r = copy ? 0 : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");

	while (r == 0 && rest) {
		char *line = strsep(&rest, "\n");

		place.line++;
		r = parse_line(&place, line, is_ours, config);
	}
	free(copy);
	return r;
}

static int read_file(const char *path, int must_be, struct shim_config *config, char **ret_error)
{
	char *text;
	size_t len;
	int r;

	/* An absolute path, below "". */
	if (*path != '/')
		return fault_set(ret_error, CCHV_ERR_INVALID, "config '%s': not an absolute path", path);
	if (bundle_read("", path + 1, FILE_MAX, &text, &len) < 0) {
		if (errno == ENOENT && !must_be)
			return 0;
		return fault_set(ret_error, fault_code(errno), "config '%s': %s", path, strerror(errno));
	}
	r = shim_config_parse(text, path, 1, config, ret_error);
	free(text);
	return r;
}

/* runtimeoptions.v1.Options: a path, or the text itself. */
static int read_options(struct wire_view view, char **path, char **body)
{
	struct wire_field field;
	int r;

	while ((r = wire_next(&view, &field)) > 0) {
		if (field.number == 2)
			r = wire_take_string(&field, path);
		if (field.number == 3)
			r = wire_take_string(&field, body);
		if (r < 0)
			return -1;
	}
	return r;
}

/* containerd.runc.v1.Options, which some clients send to every runtime. systemd_cgroup: there, it is true. */
static int read_runc_options(struct wire_view view, struct shim_config *config)
{
	struct wire_field field;
	int r;

	while ((r = wire_next(&view, &field)) > 0)
		if (field.number == 9 && field.value)
			config->systemd_cgroup = CGROUP_SYSTEMD;
	return r;
}

int shim_config_read(struct wire_view options, struct shim_config *ret, char **ret_error)
{
	struct shim_config config = { 0 };
	char *path = NULL, *body = NULL;
	struct wire_view runc = { 0 };
	struct wire_any any;
	int r = 0;

	if (wire_read_any(options, &any) < 0 ||
	    (strcmp(wire_any_name(&any), "runtimeoptions.v1.Options") == 0 &&
	     read_options(any.value, &path, &body) < 0))
		r = fault_set(ret_error, CCHV_ERR_INVALID, "the runtime's options are malformed");
	if (r == 0 && strcmp(wire_any_name(&any), "containerd.runc.v1.Options") == 0)
		runc = any.value;
	wire_any_free(&any);
	if (r == 0)
		r = read_file(path && *path ? path : SHIM_CONFIG_PATH, path && *path, &config, ret_error);
	if (r == 0 && body && *body && !(path && *path))
		r = shim_config_parse(body, "options", 0, &config, ret_error);
	if (r == 0 && runc.len && read_runc_options(runc, &config) < 0)
		r = fault_set(ret_error, CCHV_ERR_INVALID, "the runtime's options are malformed");
	free(path);
	free(body);
	if (r < 0)
		shim_config_free(&config);
	else
		*ret = config;
	return r;
}

void shim_config_free(struct shim_config *config)
{
	free(config->runtime_dir);
	free(config->state_dir);
	free(config->vmm);
	free(config->kernel);
	free(config->initramfs);
	free(config->cmdline);
	free(config->rootfs);
	free(config->write_back);
	clear_list(config);
	*config = (struct shim_config) { 0 };
}
