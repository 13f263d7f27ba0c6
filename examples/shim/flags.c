/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's flags: see flags.h. */
#include "flags.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	size_t value;  /* offset of the text */
	size_t toggle; /* or of the switch */
	int is_switch;
} known[] = {
	{ "namespace", offsetof(struct flags, namespace), 0, 0 },
	{ "id", offsetof(struct flags, id), 0, 0 },
	{ "address", offsetof(struct flags, address), 0, 0 },
	{ "publish-binary", offsetof(struct flags, publish_binary), 0, 0 },
	{ "bundle", offsetof(struct flags, bundle), 0, 0 },
	{ "socket", offsetof(struct flags, socket), 0, 0 },
	{ "group", offsetof(struct flags, group), 0, 0 },
	/* Of a later daemon, perhaps: both take a value. */
	{ "debug-socket", offsetof(struct flags, log_level), 0, 0 },
	{ "log-level", offsetof(struct flags, log_level), 0, 0 },
	{ "debug", 0, offsetof(struct flags, debug), 1 },
	{ "v", 0, offsetof(struct flags, version), 1 },
	{ "version", 0, offsetof(struct flags, version), 1 },
	{ "info", 0, offsetof(struct flags, info), 1 },
};

/* Does the flag that an argument begins with (up to its '=') have this name? */
static int is_named(const char *flag, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(flag, name, len) == 0;
}

static int is_true(const char *value)
{
	return strcmp(value, "false") != 0 && strcmp(value, "0") != 0 && strcmp(value, "f") != 0;
}

/* One flag. The number of further arguments that it took. */
static int parse_one(const char *flag, const char *next, struct flags *ret)
{
	const char *equals = strchr(flag, '=');
	size_t len = equals ? (size_t)(equals - flag) : strlen(flag);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!is_named(flag, len, known[i].name))
			continue;
		if (known[i].is_switch) {
			*(int *)((char *)ret + known[i].toggle) = equals ? is_true(equals + 1) : 1;
			return 0;
		}
		*(const char **)((char *)ret + known[i].value) = equals ? equals + 1 : next ? next : "";
		return !equals && next;
	}
	/* Unknown: it takes a value where what follows can be one, and is not the action. */
	return !equals && next && next[0] != '-' && strcmp(next, "start") != 0 && strcmp(next, "delete") != 0;
}

void flags_parse(int argc, char **argv, struct flags *ret)
{
	*ret = (struct flags) { 0 };
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];

		if (arg[0] != '-') {
			if (!ret->action)
				ret->action = arg;
			continue;
		}
		arg += arg[1] == '-' ? 2 : 1;
		i += parse_one(arg, i + 1 < argc ? argv[i + 1] : NULL, ret);
	}
}
