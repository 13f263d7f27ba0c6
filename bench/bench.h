/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cchv-bench: what its files share. Each case compares two things in one run, interleaved, and reports
 * medians, their ratio and the spread; absolute times mean nothing on a shared machine. It stands on
 * <cchv/cchv.h> alone.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <cchv/cchv.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_RUNS 200
#define CALL_MS  120000

/* Values of one quantity. */
struct samples {
	double values[MAX_RUNS];
	size_t count;
};

/* A figure: measured value against its target. */
struct figure {
	const char *name; /* such as "vm-ready" */
	const char *what; /* one line for people */
	const char *unit; /* of value and target: "ratio", "bytes", "wake-ups" */
	double value;
	double target;
	int at_least;                /* the target is a floor, not a ceiling */
	const char *a_name, *b_name; /* what value is the ratio of, or NULL */
	struct samples a, b;         /* ns, or bytes per second: see samples_unit */
	const char *samples_unit;
};

struct bench {
	cchv_ctx *ctx;
	const char *cli;       /* path of cchv */
	const char *guest;     /* path of the static helper that runs in guests */
	const char *bare_init; /* path of the bare /init */
	const char *initramfs; /* the one without modules */
	const char *kernels;   /* directory of both kernels: guest/ of the build tree */
	char directory[64];    /* of this run: state, runtime, initrds */
	int runs;
};

struct bench_case {
	const char *name;
	int (*run)(struct bench *bench); /* 0, or -1 after a line on stderr */
};

int case_ready(struct bench *bench);
int case_exec(struct bench *bench);
int case_exec_container(struct bench *bench);
int case_stdout(struct bench *bench);
int case_many(struct bench *bench);
int case_memory(struct bench *bench);
int case_idle(struct bench *bench);
int case_initramfs(struct bench *bench);
int case_clone(struct bench *bench);
int case_kernel(struct bench *bench);

/* samples.c */
uint64_t mono_ns(void);
void samples_add(struct samples *samples, double value);
double samples_median(const struct samples *samples);
double samples_spread(const struct samples *samples); /* (max - min) / median */
/* The median of the pairs' ratios: what drifts during the run cancels out. */
double samples_ratio(const struct samples *a, const struct samples *b);

/* result.c: figures are kept, printed as a table at the end, and written as JSON. */
void result_add(const struct figure *figure);
int result_print(void); /* how many targets were missed */
int result_write_json(struct bench *bench, const char *path);

/* environment.c: what was measured, and where: the member "environment" */
struct yajl_gen_t;
void environment_put(struct bench *bench, struct yajl_gen_t *g);

/* bench_vm.c: VMs with the helper inside */
/* Write PATH: the default initramfs with one more file in it. 0 or -1. */
int initrd_with(const char *base, const char *file, const char *name, const char *path);
/* The kernel and initramfs that the library would use, as the VMM reports them. Free the strings. */
int vm_parts(struct bench *bench, char **ret_kernel, char **ret_initramfs);
/* The kernel's command line as a guest has it, with what the VMM adds. 0, or -1 after a line on stderr. */
int vm_cmdline(struct bench *bench, char *out, size_t room);
/* A booted VM; helper: with the guest helper at /bench-guest. The caller frees it. NULL after a line on
 * stderr. */
cchv_vm *vm_start(struct bench *bench, const char *id, int helper);
/* Start the helper in the bare guest. NULL after a line on stderr. stdio may be NULL. */
cchv_exec *vm_helper(cchv_vm *vm, const char *const *args, cchv_stdio_config *stdio);
/* Its stdout, NUL-ended, at most room - 1 bytes; waits for its end. 0 or -1. */
int vm_helper_output(cchv_vm *vm, const char *const *args, char *out, size_t room);
/* Start a server of the helper (echo, source) and wait for its "ready". NULL after a line on stderr. */
cchv_exec *vm_serve(cchv_vm *vm, const char *what, const char *port);
/* Dial a vsock port of the guest through the VMM's socket. fd or -1. */
int vm_dial(struct bench *bench, const char *id, unsigned int port);

/* In a VM of ours a container with the helper as its whole image, asleep: from here on what is run in the VM is run
 * in it. NULL after a line on stderr; the caller frees it. */
cchv_container *container_in(struct bench *bench, cchv_vm *vm);
/* A container of the CLI with the helper as its whole image, asleep; its id. 0 or -1. */
int container_start(struct bench *bench, char *id, size_t room);
void container_end(struct bench *bench, const char *id);

/* main.c: a context with this run's directories */
int bench_context(struct bench *bench, cchv_ctx **ret_ctx);
/* The same; *hello_ns is when (mono_ns) the last of its VMs said hello. 0, or -1 after a line on stderr. */
int bench_hello_context(struct bench *bench, uint64_t *hello_ns, cchv_ctx **ret_ctx);
/* case_memory.c: what the child of the memory case does */
int memory_child(struct bench *bench);

int complain(const char *what, cchv_error *err); /* prints, frees err, returns -1 */

#endif
