/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: Cloud Hypervisor's, as far as it concerns the VMM. A VM is described through the API alone. */
#ifndef QEMU_OPTIONS_H
#define QEMU_OPTIONS_H

#define VMM_VERSION "53.0.0"
#define VMM_BUILD_VERSION "v53.0"

struct options {
	const char *api_socket_path;    /* or NULL */
	int api_socket_fd;              /* or -1 */
	const char *event_path;
	int event_fd;
	const char *log_file;
	int verbosity;                  /* number of v */
	int seccomp;                    /* not false */
	int no_shutdown;
	int version;
};

/* 0; 2 when the command line is wrong, with the reason in problem. */
int options_parse(struct options *options, int argc, char *const *argv, char *problem, unsigned long problem_size);

#endif
