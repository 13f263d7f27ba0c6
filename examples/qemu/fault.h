/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a request failed, as Cloud Hypervisor tells it: a status and a chain of lines. Built from the root cause
 * outwards, printed with the outermost first.
 */
#ifndef QEMU_FAULT_H
#define QEMU_FAULT_H

#include <errno.h>

#include "base/buf.h"
#include "base/error.h"

#define FAULT_LINES 8

struct fault {
	int status;
	size_t count;
	char *lines[FAULT_LINES];       /* [0] is the root cause */
};

/* All of these return CCHV_ERR_VMM, so that "return fault_set(...)" is one line. */
int fault_set(struct fault *fault, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
int fault_wrap(struct fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "No such file or directory (os error 2)", as the Rust library says it; status 500. */
int fault_os(struct fault *fault, int error_number);
int fault_from_error(struct fault *fault, const cchv_error *error);
int fault_nomem(struct fault *fault);
void fault_clear(struct fault *fault);

/* ["outer","inner","root"]. */
int fault_print(const struct fault *fault, struct buf *out);
/* For the log: "outer: inner: root". Lent memory of text. */
const char *fault_text(const struct fault *fault, char *text, size_t size);

#endif
