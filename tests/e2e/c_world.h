/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cases of c_api share: a VM with one container, processes in it, ends that are looked at. Enters: the
 * directories and the image of the test. Leaves: handles; 1 and a line as the program's end where something is wrong.
 */
#ifndef TESTS_E2E_C_WORLD_H
#define TESTS_E2E_C_WORLD_H

#include <cchv/cchv.h>
#include <stddef.h>

#define K 0x9E3779B97F4A7C15ULL
#define PATIENCE_MS 60000

struct world {
	char **argv; /* STATE RUN IMAGE */
	uint64_t bytes; /* length of a stream */
	uint64_t count; /* number of processes in a row */
	cchv_ctx *ctx;
	cchv_image *image;
	cchv_vm *vm;
	cchv_container *container;
	cchv_exec *init;
};

/* One case: in the VM of all, or in a world of its own making (ctx and image are there). */
struct c_case {
	const char *name;
	void (*run)(struct world *w);
	int own_world;
};

extern const char *current_case;
extern const struct c_case c_stream_cases[], c_process_cases[], c_terminal_cases[], c_refusal_cases[], c_death_cases[];

__attribute__((noreturn)) void die(const char *what, cchv_error *err);
void wanted(int condition, const char *what);

#define MUST(call)                      \
	do {                            \
		cchv_error *err = NULL; \
		if ((call) < 0)         \
			die(#call, err); \
	} while (0)

/* The call fails with this code, and this errno (0: of no interest); its one line has part in it. */
#define REFUSED(call, want_code, want_errno, part)                                       \
	do {                                                                             \
		cchv_error *err = NULL;                                                  \
		int result_ = (call);                                                    \
		check_refusal(#call, result_, want_code, want_errno, part, err);         \
	} while (0)
void check_refusal(const char *call, int result, int want_code, int want_errno, const char *part, cchv_error *err);

void open_world(struct world *w, char **argv);
/* A VM with a container, whose init is a shell that reaps. id may be NULL. */
void start_vm(struct world *w, const char *id);
/* Children keep their parents: any order of free is right. */
void end_vm(struct world *w);
void close_world(struct world *w);

/* Serve the VM for a moment. An event that nobody takes would end every poll at once. */
void serve(struct world *w);

#define STREAM(stream) (1 << (stream))
cchv_exec *run(struct world *w, const char *const *argv, int pipes);
/* rows 0: no terminal */
cchv_exec *run_on_terminal(struct world *w, const char *const *argv, int pipes, uint32_t rows, uint32_t cols);
/* sh -c SCRIPT */
cchv_exec *run_script(struct world *w, const char *script, int pipes);
int take(cchv_exec *exec, int stream);
/* Everything up to the end of the stream, which is closed; terminated, at most size - 1 bytes. */
size_t read_all(int fd, char *text, size_t size);
/* One line without its end; -1 at the end of the stream. */
int read_line(int fd, char *line, size_t size);
void expect_text(int fd, const char *text);
void expect_end(cchv_exec *exec, int want_code, int want_signal);
/* A script to its end: its output, and that it succeeds. */
void expect_script(struct world *w, const char *script, const char *output);

/* The VMM's process, from the VM's record. */
int vmm_pid(struct world *w, cchv_vm *vm);
/* What a process has for itself: without the guest's memory, which is a file, and without programs. */
uint64_t anonymous_bytes(int pid);
/* Milliseconds of the monotonic clock. */
uint64_t now_ms(void);

#endif
