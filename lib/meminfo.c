/* SPDX-License-Identifier: Apache-2.0 */
/* The host's memory: see meminfo.h. Enters: /proc/meminfo. Leaves: two numbers of bytes. */
#include "meminfo.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define MEMINFO_MAX 65536

/* Of a line "Key:   123 kB". */
static int find(const char *text, const char *key, uint64_t *ret_bytes)
{
	size_t len = strlen(key);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		unsigned long long kilobytes;
		const char *number;
		char *end;

		if (strncmp(line, key, len) != 0 || line[len] != ':')
			continue;
		number = line + len + 1 + strspn(line + len + 1, " \t");
		if (!isdigit((unsigned char)*number))
			return 0;
		kilobytes = strtoull(number, &end, 10);
		if (strncmp(end, " kB", 3) != 0 || kilobytes > UINT64_MAX / 1024)
			return 0;
		*ret_bytes = kilobytes * 1024;
		return 1;
	}
	return 0;
}

int meminfo_parse(const char *text, struct meminfo *ret_info, cchv_error **err)
{
	struct meminfo info;

	if (!find(text, "MemTotal", &info.total_bytes) || !find(text, "MemAvailable", &info.available_bytes))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "/proc/meminfo does not say how much memory there is");
	*ret_info = info;
	return CCHV_OK;
}

int meminfo_read(struct meminfo *ret_info, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(MEMINFO_MAX);
	int r = path_read_file("/proc/meminfo", &text, err);
	const char *all = r == CCHV_OK ? buf_string(&text) : NULL;

	if (r == CCHV_OK && !all)
		r = err_nomem(err);
	return r < 0 ? r : meminfo_parse(all, ret_info, err);
}
