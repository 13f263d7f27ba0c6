/* SPDX-License-Identifier: Apache-2.0 */
/* File systems by their magic numbers: see fs_detect.h. Enters: the first bytes of a disk. Leaves: a name. */
#include "guest/fs_detect.h"

#include <string.h>

struct magic {
	const char *type;
	size_t offset;
	const char *bytes;
	size_t len;
};

static const struct magic magics[] = {
	{ "erofs", 1024, "\xe2\xe1\xf5\xe0", 4 },
	{ "xfs", 0, "XFSB", 4 },
	{ "squashfs", 0, "hsqs", 4 },
	{ "btrfs", 65536 + 64, "_BHRfS_M", 8 },
	{ "f2fs", 1024, "\x10\x20\xf5\xf2", 4 },
	{ "iso9660", 32769, "CD001", 5 },
	{ "exfat", 3, "EXFAT   ", 8 },
	{ "ntfs3", 3, "NTFS    ", 8 },
	{ "vfat", 54, "FAT12   ", 8 },
	{ "vfat", 54, "FAT16   ", 8 },
	{ "vfat", 82, "FAT32   ", 8 },
};

/* ext2 and ext3 are ext4 to the kernel of the guest: one driver serves all three. */
static int is_ext(const uint8_t *data, size_t len)
{
	return len >= 1024 + 58 && data[1024 + 56] == 0x53 && data[1024 + 57] == 0xef;
}

const char *fs_detect(const uint8_t *data, size_t len)
{
	if (is_ext(data, len))
		return "ext4";
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		const struct magic *m = &magics[i];

		if (len >= m->offset + m->len && memcmp(data + m->offset, m->bytes, m->len) == 0)
			return m->type;
	}
	return NULL;
}
