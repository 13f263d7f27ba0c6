/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The QEMU that is to run guests: where it is, whether hardware virtualisation works here, which version it has.
 * The version is asked for in the background (15 ms) while the client still describes its VM.
 */
#ifndef QEMU_PROGRAM_H
#define QEMU_PROGRAM_H

#include "base/log.h"
#include "base/loop.h"
#include "fault.h"

struct program;

/* A missing QEMU is no error yet: program_wait() tells it. */
int program_new(struct loop *loop, const struct log_sink *log, struct program **ret_program, cchv_error **err);
void program_free(struct program *program);

/* Runs the loop until the version is known. */
int program_wait(struct program *program, struct fault *fault);
const char *program_path(const struct program *program);
int program_has_kvm(const struct program *program);
/*
 * The path of the small firmware that comes with QEMU (qboot), or NULL where there is none and SeaBIOS does it: that
 * takes some tenths of a second more under emulation, and resets the machine a second time at each reset.
 */
const char *program_firmware(const struct program *program);
/* The -cpu argument; nested: the guest may use virtualisation itself. */
const char *program_cpu(const struct program *program, int nested);

/*
 * What a saved guest depends on: under KVM the processor's kind and abilities, under emulation nothing (""). It may
 * use all that "-cpu host" shows it.
 */
int program_describe_host(const struct program *program, char *text, size_t size, struct fault *fault);
/* The same from a text of /proc/cpuinfo. */
void program_describe_cpu(const char *cpuinfo, char *text, size_t size);

/* "QEMU emulator version 10.0.2 (Debian...)": 10; -1 when it is something else. */
int program_parse_version(const char *text);
/* Does a text of /proc/cpuinfo name vmx or svm among its flags? */
int program_cpu_virtualizes(const char *cpuinfo);

#endif
