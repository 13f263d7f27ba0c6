/* SPDX-License-Identifier: Apache-2.0 */
/* /etc/hostname, /etc/hosts and /etc/resolv.conf of containers that bring none: what Docker makes for them. */
#ifndef LIB_ETC_FILES_H
#define LIB_ETC_FILES_H

#include "container.h"

#define ETC_FILES 3

const char *etc_file_path(int number);
/* The default specification is used, and nothing else is mounted there. */
int etc_file_is_wanted(const struct container *container, int number);
/* Memory of the caller's; NULL: no memory. */
char *etc_file_text(const struct container *container, int number);

#endif
