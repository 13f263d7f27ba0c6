/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of causes: see fault.h. Enters: what went wrong, innermost first. Leaves: the body of an error reply. */
#include "fault.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

static int add(struct fault *fault, char *line)
{
	/* A chain that is too long keeps its cause; memory that ran out costs a line, never the status. */
	if (!line)
		return CCHV_ERR_VMM;
	if (fault->count == FAULT_LINES)
		free(line);
	else
		fault->lines[fault->count++] = line;
	return CCHV_ERR_VMM;
}

int fault_set(struct fault *fault, int status, const char *format, ...)
{
	va_list args;
	char *line;

	fault_clear(fault);
	fault->status = status;
	va_start(args, format);
	line = mem_vprintf(format, args);
	va_end(args);
	return add(fault, line);
}

int fault_wrap(struct fault *fault, const char *format, ...)
{
	va_list args;
	char *line;

	va_start(args, format);
	line = mem_vprintf(format, args);
	va_end(args);
	return add(fault, line);
}

int fault_os(struct fault *fault, int error_number)
{
	return fault_set(fault, 500, "%s (os error %d)", strerror(error_number), error_number);
}

int fault_from_error(struct fault *fault, const cchv_error *error)
{
	return fault_set(fault, 500, "%s", error ? cchv_error_message(error) : "out of memory");
}

int fault_nomem(struct fault *fault)
{
	return fault_os(fault, ENOMEM);
}

void fault_clear(struct fault *fault)
{
	for (size_t i = 0; i < fault->count; i++)
		free(fault->lines[i]);
	memset(fault, 0, sizeof(*fault));
}

int fault_print(const struct fault *fault, struct buf *out)
{
	cleanup_json struct json *array = json_new_array();

	for (size_t i = fault->count; i-- > 0;)
		json_append(array, json_new_string(fault->lines[i]));
	return array ? json_print(array, 0, out) : CCHV_ERR_NOMEM;
}

const char *fault_text(const struct fault *fault, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = fault->count; i-- > 0 && used < size;)
		used += (size_t)snprintf(text + used, size - used, "%s%s", fault->lines[i], i ? ": " : "");
	return text;
}
