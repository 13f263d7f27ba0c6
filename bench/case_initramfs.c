/* SPDX-License-Identifier: Apache-2.0 */
/* initramfs: its compressed size without modules. */
#include "bench.h"

#include <stdio.h>
#include <sys/stat.h>

int case_initramfs(struct bench *bench)
{
	struct figure f = { .name = "initramfs",
			    .what = "compressed initramfs without modules",
			    .unit = "bytes",
			    .target = 1.5 * 1048576 };
	struct stat st;

	if (stat(bench->initramfs, &st) < 0) {
		fprintf(stderr, "cchv-bench: '%s': %m\n", bench->initramfs);
		return -1;
	}
	f.value = (double)st.st_size;
	result_add(&f);
	return 0;
}
