/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the server: see memory.h. */
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static void *need(void *p)
{
	if (!p) {
		log_line(LOG_ERROR, "out of memory");
		abort();
	}
	return p;
}

void *need_zero(size_t size)
{
	return need(calloc(1, size));
}

char *need_copy(const char *text)
{
	return text ? need(strdup(text)) : NULL;
}

char *need_text(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	return need(n < 0 ? NULL : text);
}
