/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's command line: words, and the descriptors that go with them. */
#ifndef QEMU_ARGV_H
#define QEMU_ARGV_H

#include "base/fd.h"
#include "base/proc.h"
#include "plan.h"

#define ARGV_WORDS 1024

struct argv {
	char *words[ARGV_WORDS + 1];    /* NULL-ended */
	size_t count;
	struct proc_fd fds[FD_MAX_PASSED];
	size_t fd_count;
	int failed;                     /* out of memory or of places */
};

void argv_init(struct argv *argv);
void argv_free(struct argv *argv);
void argv_add(struct argv *argv, const char *word);
void argv_printf(struct argv *argv, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A plan made with names that are not hot. */
void argv_add_plan(struct argv *argv, const struct plan *plan);

/* The machine itself: processors, the size of memory, kernel, identity, by a normalised VmConfig. */
struct machine_options {
	const char *program;
	const char *cpu;
	const char *firmware;           /* NULL: QEMU's default */
	int kvm;
	int sandbox;
	int disguise;                   /* machine_needs_disguise() */
	int incoming;                   /* it waits for a saved state, and stands still with it */
	int without_kernel;
	uint32_t tsc_khz;               /* of the counter that an emulated guest sees; 0: it finds out by itself */
	uint64_t base;                  /* bytes of memory at start, which the back end "ram0" has */
	uint64_t most;                  /* bytes of memory that it may come to, pmem included */
};

int machine_needs_disguise(const struct json *vm, int kvm);
/* pmem_size: of the devices that are there at start. */
uint64_t machine_most_memory(const struct json *vm, uint64_t base, uint64_t pmem_size);

void argv_add_machine(struct argv *argv, const struct json *vm, const struct machine_options *options);

/* "/usr/bin/qemu-system-x86_64 -M ..." for the log; NULL: out of memory. */
char *argv_text(const struct argv *argv);

#define cleanup_argv __attribute__((cleanup(argv_free)))

#endif
