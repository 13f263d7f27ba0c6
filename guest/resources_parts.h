/* SPDX-License-Identifier: Apache-2.0 */
/* What resources.c and resources_io.c share. Nobody else includes this. */
#ifndef GUEST_RESOURCES_PARTS_H
#define GUEST_RESOURCES_PARTS_H

#include "guest/resources.h"

int resources_add(struct resources *res, cchv_error **err, int optional, const char *file, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
int resources_ignore(struct resources *res, const char *where, const char *key, cchv_error **err);
int resources_parse_block(struct resources *res, const struct json *resources, cchv_error **err);
int resources_parse_others(struct resources *res, const struct json *resources, cchv_error **err);

#endif
