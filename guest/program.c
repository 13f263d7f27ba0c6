/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a program: see program.h. Enters: JSON from a host. Leaves: plain memory that a child can use. */
#include "guest/program.h"

#include <errno.h>
#include <string.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static void free_strings(char ***strings)
{
	for (char **s = *strings; s && *s; s++)
		free(*s);
	free(*strings);
	*strings = NULL;
}

void program_free(struct program *program)
{
	free_strings(&program->argv);
	free_strings(&program->envp);
	free_strings(&program->candidates);
}

/* Arguments are bytes, but a NUL inside would cut them short in silence. */
static int copy_strings(const struct json *array, const char *name, char ***ret, const char **kind, cchv_error **err)
{
	size_t count = json_count(array);
	char **strings = mem_realloc_array(NULL, count + 1, sizeof(*strings));

	if (!strings)
		return err_nomem(err);
	*strings = NULL;
	*ret = strings;
	for (size_t i = 0; i < count; i++) {
		size_t len;
		int r = json_as_bytes(json_at(array, i), &strings[i], &len);

		if (r < 0) {
			strings[i] = NULL;
			if (r == CCHV_ERR_NOMEM)
				return err_nomem(err);
			return fail(kind, err, "spec", EINVAL, "process.%s[%zu] is no string", name, i);
		}
		strings[i + 1] = NULL;
		if (strlen(strings[i]) != len)
			return fail(kind, err, "spec", EINVAL, "process.%s[%zu] has a NUL inside", name, i);
	}
	return CCHV_OK;
}

static char **find_env(struct program *program, const char *name)
{
	size_t len = strlen(name);

	for (char **e = program->envp; *e; e++)
		if (strncmp(*e, name, len) == 0 && (*e)[len] == '=')
			return e;
	return NULL;
}

static int check_env(char **envp, const char **kind, cchv_error **err)
{
	for (char **e = envp; *e; e++)
		if (**e == '=' || !strchr(*e, '='))
			return fail(kind, err, "spec", EINVAL, "process.env[%zu] is not NAME=VALUE",
			            (size_t)(e - envp));
	return CCHV_OK;
}

/* The last value of a name is the one that counts; programs look for the first. */
static void drop_duplicates(char **envp)
{
	char **keep = envp;

	for (char **e = envp; *e; e++) {
		size_t len = strcspn(*e, "=") + 1;
		char **later = e + 1;

		while (*later && strncmp(*later, *e, len) != 0)
			later++;
		if (*later)
			free(*e);
		else
			*keep++ = *e;
	}
	*keep = NULL;
}

int program_default_env(struct program *program, const char *name, const char *value)
{
	size_t count = 0;
	char **envp;

	if (find_env(program, name))
		return CCHV_OK;
	while (program->envp[count])
		count++;
	envp = mem_realloc_array(program->envp, count + 2, sizeof(*envp));
	if (!envp)
		return CCHV_ERR_NOMEM;
	program->envp = envp;
	envp[count] = mem_printf("%s=%s", name, value);
	if (!envp[count])
		return CCHV_ERR_NOMEM;
	envp[count + 1] = NULL;
	return CCHV_OK;
}

static int find_candidates(struct program *program, cchv_error **err)
{
	const char *name = program->argv[0], *path = DEFAULT_PATH;
	char **env = find_env(program, "PATH");
	size_t count = 2, n = 0;

	if (env && (*env)[5])
		path = *env + 5;
	if (strchr(name, '/'))
		path = "";
	for (const char *p = path; *p; p++)
		count += *p == ':';
	program->candidates = mem_realloc_array(NULL, count, sizeof(char *));
	if (!program->candidates)
		return err_nomem(err);
	do {
		size_t len = strcspn(path, ":");
		const char *directory = len ? path : ".";

		/* An empty entry of PATH is the working directory. */
		if (strchr(name, '/'))
			program->candidates[n] = mem_strdup(name);
		else
			program->candidates[n] = mem_printf("%.*s/%s", len ? (int)len : 1, directory, name);
		if (!program->candidates[n])
			return err_nomem(err);
		program->candidates[++n] = NULL;
		path += len;
	} while (*path++);
	return CCHV_OK;
}

static int fill(const struct json *process, struct program *p, const char **kind, cchv_error **err)
{
	int r = copy_strings(json_get(process, "args"), "args", &p->argv, kind, err);

	if (r == 0)
		r = copy_strings(json_get(process, "env"), "env", &p->envp, kind, err);
	if (r == 0)
		r = check_env(p->envp, kind, err);
	if (r < 0)
		return r;
	drop_duplicates(p->envp);
	if (!p->argv[0] || !*p->argv[0])
		return fail(kind, err, "spec", EINVAL, "process.args names no program");
	return find_candidates(p, err);
}

int program_new(const struct json *process, struct program *ret_program, const char **kind, cchv_error **err)
{
	struct program p = { 0 };
	int r = fill(process, &p, kind, err);

	if (r < 0) {
		program_free(&p);
		return r;
	}
	*ret_program = p;
	return CCHV_OK;
}
