/* SPDX-License-Identifier: Apache-2.0 */
/* The options of run and create: parsed once, kept as words in the container's record, parsed again by its
 * owner. */
#ifndef CLI_RUN_OPTIONS_H
#define CLI_RUN_OPTIONS_H

#include "cli.h"

struct disk_option {
	char *source; /* absolute */
	char *destination;
	int readonly;
	uint64_t create_bytes; /* make an ext4 file of that size where there is none; 0: it must exist */
};

struct mount_option {
	char *source; /* absolute; NULL for tmpfs */
	char *destination;
	char *options; /* or NULL */
	int readonly;
};

struct net_option {
	char *tap; /* NULL: no network */
	char *mac;
	char *address; /* CIDR */
	char *gateway;
	uint32_t mtu;
};

struct run_options {
	int remove, detach, interactive, tty, readonly, timing;
	int start; /* enum cchv_start */
	char *name;
	uint32_t millicpus; /* 0: no limit */
	uint64_t memory;    /* bytes, 0: no limit */
	uint64_t pids;
	uint64_t scratch; /* bytes, 0: default */
	char *workdir, *user, *entrypoint, *hostname, *stop_signal, *kernel, *initramfs, *cmdline;
	int has_entrypoint; /* --entrypoint "" clears the image's */
	struct strings env; /* NAME=VALUE; resolved */
	struct mount_option *volumes, *tmpfs;
	size_t volume_count, tmpfs_count;
	struct disk_option *disks;
	size_t disk_count;
	struct net_option *nets;
	size_t net_count;
	char *image;    /* as typed */
	char **command; /* what follows the image */
	int command_count;
	struct strings words; /* all of it, resolved: parsing them again gives the same */
};

/* argv[0] is the command's name. 0, or an exit code after an error line. */
int run_options_parse(int argc, char **argv, struct run_options *ret);
void run_options_free(struct run_options *options);

#endif
