/* SPDX-License-Identifier: Apache-2.0 */
/* OCI processes: see oci_process.h. Enters: single settings. Leaves: a "process" object. */
#include "oci_process.h"

#include <string.h>

/* Docker's default set. */
static const char *const default_caps[] = {
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL",
	"CAP_AUDIT_WRITE",
};

static struct json *new_process(void)
{
	struct json *process = json_new_object(), *user = json_new_object(), *env = json_new_array();

	json_set_u64(user, "uid", 0);
	json_set_u64(user, "gid", 0);
	json_set(process, "user", user);
	json_set(process, "args", json_new_array());
	json_append(env, json_new_string("PATH=" OCI_DEFAULT_PATH));
	json_set(process, "env", env);
	json_set_string(process, "cwd", "/");
	return process;
}

struct json *oci_process_new(void)
{
	static const char *const sets[] = { "bounding", "effective", "permitted" };
	struct json *process = new_process(), *capabilities = json_new_object();

	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct json *list = json_new_array();

		for (size_t k = 0; k < ARRAY_LEN(default_caps); k++)
			json_append(list, json_new_string(default_caps[k]));
		json_set(capabilities, sets[i], list);
	}
	json_set(process, "capabilities", capabilities);
	return process;
}

struct json *oci_process_new_bare(void)
{
	return new_process();
}

/* CCHV_ERR_INVALID or NOMEM for a member that json_edit() did not give. */
static int why_not(const struct json *object, const char *key)
{
	return json_get(object, key) ? CCHV_ERR_INVALID : CCHV_ERR_NOMEM;
}

int oci_process_add_arg(struct json *process, const char *arg)
{
	struct json *args = json_edit(process, "args", JSON_ARRAY);

	return args ? json_append(args, json_new_bytes(arg, strlen(arg))) : why_not(process, "args");
}

int oci_process_cut_args(struct json *process, size_t keep)
{
	struct json *args = json_edit(process, "args", JSON_ARRAY);

	if (!args)
		return why_not(process, "args");
	while (json_count(args) > keep)
		json_remove_at(args, json_count(args) - 1);
	return CCHV_OK;
}

/* 1 when word is "name=...". */
static int is_of(const struct json *word, const char *name, size_t length)
{
	cleanup_free char *text = NULL;
	size_t text_length;

	return json_as_bytes(word, &text, &text_length) == CCHV_OK && text_length > length &&
	       memcmp(text, name, length) == 0 && text[length] == '=';
}

/* Takes word (NULL: none) into the place of the first variable of that name; the others go. */
static int replace_env(struct json *process, const char *name, size_t length, struct json *word)
{
	struct json *env = json_edit(process, "env", JSON_ARRAY), *renewed = json_new_array();
	cleanup_json struct json *owned = word;
	int r = CCHV_OK;

	if (!env || !renewed) {
		json_free(renewed);
		return env ? CCHV_ERR_NOMEM : why_not(process, "env");
	}
	for (size_t i = 0; r == CCHV_OK && i < json_count(env); i++) {
		const struct json *old = json_at(env, i);

		if (!is_of(old, name, length))
			r = json_append(renewed, json_copy(old));
		else if (owned)
			r = json_append(renewed, steal(&owned));
	}
	if (r == CCHV_OK && owned)
		r = json_append(renewed, steal(&owned));
	if (r < 0) {
		json_free(renewed);
		return r;
	}
	return json_set(process, "env", renewed);
}

int oci_process_set_env(struct json *process, const char *name, const char *value)
{
	cleanup_free char *word = NULL;
	struct json *json = NULL;

	if (!name || !*name || strchr(name, '='))
		return CCHV_ERR_INVALID;
	if (value) {
		word = mem_printf("%s=%s", name, value);
		json = word ? json_new_bytes(word, strlen(word)) : NULL;
		if (!json)
			return CCHV_ERR_NOMEM;
	}
	return replace_env(process, name, strlen(name), json);
}

int oci_process_set_env_word(struct json *process, const struct json *word)
{
	cleanup_free char *text = NULL;
	struct json *copy;
	size_t length;
	char *equals;

	if (json_as_bytes(word, &text, &length) < 0)
		return CCHV_ERR_INVALID;
	equals = memchr(text, '=', length);
	if (!equals || equals == text)
		return CCHV_ERR_INVALID;
	copy = json_copy(word);
	if (!copy)
		return CCHV_ERR_NOMEM;
	return replace_env(process, text, (size_t)(equals - text), copy);
}

int oci_process_set_cwd(struct json *process, const char *path)
{
	if (!path || path[0] != '/')
		return CCHV_ERR_INVALID;
	return json_set_string(process, "cwd", path);
}

/* A whole decimal number below 2^32-1. */
static int as_id(const char *text, size_t length, uint64_t *ret_id)
{
	uint64_t id = 0;

	if (length == 0 || length > 10)
		return 0;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		id = id * 10 + (uint64_t)(text[i] - '0');
	}
	if (id >= UINT32_MAX)
		return 0;
	*ret_id = id;
	return 1;
}

int oci_process_set_user(struct json *process, const char *user)
{
	const char *colon = strchr(user, ':');
	size_t length = colon ? (size_t)(colon - user) : strlen(user);
	cleanup_json struct json *object = json_new_object();
	const struct json *umask = json_find(process, "user.umask");
	uint64_t uid = 0, gid = 0;
	int r;

	if (length == 0 || (colon && (!colon[1] || strchr(colon + 1, ':'))))
		return CCHV_ERR_INVALID;
	/* Both as numbers: nothing needs to be looked up. A lone uid has its groups in the container's files. */
	if (colon && as_id(user, length, &uid) && as_id(colon + 1, strlen(colon + 1), &gid)) {
		json_set_u64(object, "uid", uid);
		json_set_u64(object, "gid", gid);
	} else {
		json_set_u64(object, "uid", 0);
		json_set_u64(object, "gid", 0);
		json_set_string(object, "username", user);
	}
	if (umask)
		json_set(object, "umask", json_copy(umask));
	r = object ? json_set(process, "user", steal(&object)) : CCHV_ERR_NOMEM;
	return r;
}

int oci_process_set_tty(struct json *process, int tty)
{
	return json_set_bool(process, "terminal", tty);
}

int oci_process_set_console_size(struct json *process, uint32_t rows, uint32_t cols)
{
	struct json *size = json_new_object();

	json_set_u64(size, "height", rows);
	json_set_u64(size, "width", cols);
	return json_set(process, "consoleSize", size);
}

int oci_process_get_tty(const struct json *process)
{
	int tty = 0;

	json_get_bool(process, "terminal", &tty, NULL);
	return tty;
}
