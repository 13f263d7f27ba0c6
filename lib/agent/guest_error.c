/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's errors: see guest_error.h. Enters: errno name, kind, text. Leaves: a code of the library. */
#include "agent/guest_error.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

struct rule {
	const char *kind; /* NULL: any */
	int error_number; /* 0: any */
	int code;
};

/* The first that fits counts. */
static const struct rule rules[] = {
	/* A shell's 127 and 126: no such program, and one that cannot be run. */
	{ "program", ENOENT, CCHV_ERR_NOT_FOUND },
	{ "program", ENOTDIR, CCHV_ERR_NOT_FOUND },
	{ "program", 0, CCHV_ERR_DENIED },
	{ "cwd", ENOENT, CCHV_ERR_NOT_FOUND },
	{ "cwd", ENOTDIR, CCHV_ERR_NOT_FOUND },
	{ "cwd", EINVAL, CCHV_ERR_INVALID },
	{ "cwd", 0, CCHV_ERR_DENIED },
	{ "user", ENOENT, CCHV_ERR_NOT_FOUND },
	{ "user", ESRCH, CCHV_ERR_NOT_FOUND },
	{ "method", 0, CCHV_ERR_UNSUPPORTED },
	{ "spec", EINVAL, CCHV_ERR_INVALID },
	{ "spec", 0, CCHV_ERR_UNSUPPORTED },
	{ "mount", ENOENT, CCHV_ERR_NOT_FOUND },
	{ "device", ENOENT, CCHV_ERR_NOT_FOUND },
	{ "container", ENOENT, CCHV_ERR_NOT_FOUND },
	{ "container", EEXIST, CCHV_ERR_EXISTS },
	{ "container", EBUSY, CCHV_ERR_STATE },
	{ "exec", ENOENT, CCHV_ERR_NOT_FOUND },
	{ "exec", ESRCH, CCHV_ERR_NOT_FOUND },
	{ "exec", EEXIST, CCHV_ERR_EXISTS },
	{ "exec", EBUSY, CCHV_ERR_STATE },
	{ "exec", ENOTTY, CCHV_ERR_STATE },
	{ "stream", ETIMEDOUT, CCHV_ERR_GUEST },
	{ NULL, EINVAL, CCHV_ERR_INVALID },
	{ NULL, ENOENT, CCHV_ERR_NOT_FOUND },
	{ NULL, ESRCH, CCHV_ERR_NOT_FOUND },
	{ NULL, EEXIST, CCHV_ERR_EXISTS },
	{ NULL, EBUSY, CCHV_ERR_STATE },
	{ NULL, EACCES, CCHV_ERR_DENIED },
	{ NULL, EPERM, CCHV_ERR_DENIED },
	{ NULL, ENOSYS, CCHV_ERR_UNSUPPORTED },
	{ NULL, EOPNOTSUPP, CCHV_ERR_UNSUPPORTED },
};

static int code_of(const char *kind, int error_number)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		const struct rule *rule = &rules[i];

		if (rule->kind && strcmp(rule->kind, kind) != 0)
			continue;
		if (rule->error_number && rule->error_number != error_number)
			continue;
		return rule->code;
	}
	return CCHV_ERR_GUEST;
}

/* One line, whatever the guest sent. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
}

int guest_error_set(cchv_error **err, const char *method, const struct json *error)
{
	const char *name = NULL, *kind = "other";
	cleanup_free char *message = NULL;
	size_t length;
	int error_number;

	if (json_get_type(error) != JSON_OBJECT || json_get_string(error, "errno", &name, NULL) != 1 ||
	    json_get_string(error, "kind", &kind, NULL) < 0 ||
	    json_get_bytes(error, "message", &message, &length, NULL) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "%s: the agent's error is malformed", method);
	error_number = err_errno_from_name(name);
	if (!message)
		return err_set_from(err, code_of(kind, error_number), CCHV_ORIGIN_GUEST, error_number, "%s: %s", method,
		                    name);
	make_printable(message);
	return err_set_from(err, code_of(kind, error_number), CCHV_ORIGIN_GUEST, error_number, "%.1000s", message);
}
