/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a process: see <cchv/exec.h>. Enters: values. Leaves: an OCI process. */
#include "exec_config.h"

#include <string.h>

#include "base/export.h"
#include "base/path.h"
#include "oci_process.h"
#include "stdio_config.h"

CCHV_API int cchv_exec_config_new(cchv_exec_config **ret_config)
{
	cchv_exec_config *c;

	if (!ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	c->own = json_new_object();
	c->unset_env = json_new_array();
	if (!c->own || !c->unset_env) {
		cchv_exec_config_free(c);
		return CCHV_ERR_NOMEM;
	}
	*ret_config = c;
	return CCHV_OK;
}

CCHV_API void cchv_exec_config_free(cchv_exec_config *config)
{
	if (!config)
		return;
	free(config->id);
	json_free(config->own);
	json_free(config->unset_env);
	cchv_stdio_config_free(config->stdio);
	free(config);
}

CCHV_API int cchv_exec_config_set_id(cchv_exec_config *config, const char *id)
{
	if (!config || !id || !path_name_is_valid(id, EXEC_ID_MAX) || strcmp(id, "init") == 0)
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->id, id);
}

CCHV_API int cchv_exec_config_set_process_json(cchv_exec_config *config, const char *json)
{
	cleanup_json struct json *process = NULL;
	struct json *unset;
	int r;

	if (!config || !json)
		return CCHV_ERR_INVALID;
	r = json_parse(json, strlen(json), &process, NULL);
	if (r < 0 || json_get_type(process) != JSON_OBJECT)
		return r == CCHV_ERR_NOMEM ? r : CCHV_ERR_INVALID;
	unset = json_new_array();
	if (!unset)
		return CCHV_ERR_NOMEM;
	json_free(config->unset_env);
	config->unset_env = unset;
	json_free(config->own);
	config->own = steal(&process);
	config->whole = 1;
	return CCHV_OK;
}

CCHV_API int cchv_exec_config_add_arg(cchv_exec_config *config, const char *arg)
{
	if (!config || !arg)
		return CCHV_ERR_INVALID;
	return oci_process_add_arg(config->own, arg);
}

/* A name that is set again is not to be removed from the init's. */
static void forget_unset(cchv_exec_config *config, const char *name)
{
	for (size_t i = json_count(config->unset_env); i-- > 0;) {
		cleanup_free char *text = NULL;
		size_t length;

		if (json_as_bytes(json_at(config->unset_env, i), &text, &length) == CCHV_OK && strcmp(text, name) == 0)
			json_remove_at(config->unset_env, i);
	}
}

CCHV_API int cchv_exec_config_set_env(cchv_exec_config *config, const char *name, const char *value)
{
	int r;

	if (!config || !name || !value)
		return CCHV_ERR_INVALID;
	r = oci_process_set_env(config->own, name, value);
	if (r == CCHV_OK)
		forget_unset(config, name);
	return r;
}

CCHV_API int cchv_exec_config_unset_env(cchv_exec_config *config, const char *name)
{
	int r;

	if (!config || !name)
		return CCHV_ERR_INVALID;
	r = oci_process_set_env(config->own, name, NULL);
	return r < 0 ? r : json_append(config->unset_env, json_new_bytes(name, strlen(name)));
}

CCHV_API int cchv_exec_config_set_cwd(cchv_exec_config *config, const char *path)
{
	return config ? oci_process_set_cwd(config->own, path) : CCHV_ERR_INVALID;
}

CCHV_API int cchv_exec_config_set_user(cchv_exec_config *config, const char *user)
{
	return config && user ? oci_process_set_user(config->own, user) : CCHV_ERR_INVALID;
}

CCHV_API int cchv_exec_config_set_tty(cchv_exec_config *config, uint32_t rows, uint32_t cols)
{
	int r;

	if (!config || rows > 65535 || cols > 65535 || !rows != !cols)
		return CCHV_ERR_INVALID;
	r = oci_process_set_tty(config->own, 1);
	if (r < 0)
		return r;
	json_remove(config->own, "consoleSize");
	return rows ? oci_process_set_console_size(config->own, rows, cols) : CCHV_OK;
}

CCHV_API int cchv_exec_config_set_stdio(cchv_exec_config *config, cchv_stdio_config *stdio)
{
	cchv_stdio_config *copy = NULL;
	int r = config ? CCHV_OK : CCHV_ERR_INVALID;

	if (r == CCHV_OK && stdio)
		r = stdio_config_copy(stdio, &copy);
	if (r < 0)
		return r;
	cchv_stdio_config_free(config->stdio);
	config->stdio = copy;
	return CCHV_OK;
}

/* own over process: members replace, variables join. */
static int lay_over(struct json *process, const cchv_exec_config *config)
{
	const struct json *own = config->own;
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < json_count(config->unset_env); i++) {
		cleanup_free char *name = NULL;
		size_t length;

		r = json_as_bytes(json_at(config->unset_env, i), &name, &length);
		if (r == CCHV_OK)
			r = oci_process_set_env(process, name, NULL);
	}
	for (size_t i = 0; r == CCHV_OK && i < json_count(own); i++) {
		const char *key = json_key_at(own, i);
		const struct json *value = json_at(own, i);

		if (strcmp(key, "env") != 0) {
			r = json_set(process, key, json_copy(value));
			continue;
		}
		for (size_t k = 0; r == CCHV_OK && k < json_count(value); k++)
			r = oci_process_set_env_word(process, json_at(value, k));
	}
	return r;
}

int exec_config_build(const cchv_exec_config *config, const struct json *base, struct json **ret_process,
                      cchv_error **err)
{
	cleanup_json struct json *process = json_copy(config->whole ? config->own : base);
	int r = CCHV_OK;

	if (!process)
		return err_nomem(err);
	if (!config->whole) {
		/* Its program and its terminal are init's own. */
		json_remove(process, "args");
		json_remove(process, "terminal");
		json_remove(process, "consoleSize");
		r = lay_over(process, config);
	}
	if (r < 0)
		return r == CCHV_ERR_NOMEM ? err_nomem(err) : err_set(err, r, 0, "exec: the process is malformed");
	if (json_count(json_get(process, "args")) == 0)
		return err_set(err, CCHV_ERR_INVALID, 0, "exec: args: no program");
	*ret_process = steal(&process);
	return CCHV_OK;
}
