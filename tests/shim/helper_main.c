/* SPDX-License-Identifier: Apache-2.0 */
/* The tests' own program is the helper too, when it is started with the helper's word: as the shim's main() does. */
#include <stdlib.h>
#include <string.h>

#include "examples/shim/rootfs.h"

static void __attribute__((constructor(101))) be_the_helper(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], ROOTFS_HELPER) == 0)
		exit(rootfs_helper_main(argc, argv));
}
