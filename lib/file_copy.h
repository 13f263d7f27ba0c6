/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a file, which may have holes. */
#ifndef LIB_FILE_COPY_H
#define LIB_FILE_COPY_H

/* Shared blocks where the file system has them, else the parts that hold data. to is empty. 0; -1 with errno. */
int file_copy(int from, int to);

#endif
