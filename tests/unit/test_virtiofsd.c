/* SPDX-License-Identifier: Apache-2.0 */
#include "virtiofsd.h"

#include "base/mem.h"
#include "test.h"

#include <fcntl.h>

static void program(const char *text)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/virtiofsd", test_dir());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	CHECK_INT(setenv("PATH", test_dir(), 1), 0);
}

static int flavour(void)
{
	char *path = NULL;
	int f = 0;

	CHECK_INT(virtiofsd_find(&path, &f, NULL), CCHV_OK);
	free(path);
	return f;
}

TEST(the_two_programs_are_told_apart)
{
	program("#!/bin/sh\necho 'virtiofsd 1.10.0'\n");
	CHECK_INT(flavour(), VIRTIOFSD_RUST);
	program("#!/bin/sh\necho 'virtiofsd version 7.2.22'\necho 'using FUSE kernel interface version 7.36'\n");
	CHECK_INT(flavour(), VIRTIOFSD_QEMU);
}
