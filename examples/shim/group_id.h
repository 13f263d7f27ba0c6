/* SPDX-License-Identifier: Apache-2.0 */
/* Which group, and so which server and which VM, a container belongs to. */
#ifndef SHIM_GROUP_ID_H
#define SHIM_GROUP_ID_H

/* The group of the specification's text, allocated: an annotation's value, or the id. NULL without memory. A
 * text that is no JSON has no annotations: Create will say what is wrong with it. */
char *group_id_of(const char *json, unsigned long len, const char *id);

#endif
