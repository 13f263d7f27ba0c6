/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's flags. Go's manner: one dash or two, "-flag value" or "-flag=value"; unknown ones are passed
 * over. */
#ifndef SHIM_FLAGS_H
#define SHIM_FLAGS_H

/* Lent from argv. */
struct flags {
	const char *namespace, *id, *address, *publish_binary, *bundle, *socket, *group, *log_level, *action;
	int debug, version, info;
};

void flags_parse(int argc, char **argv, struct flags *ret);

#endif
