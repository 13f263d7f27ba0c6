/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a group's server listens: see socket_path.h. The name is a hash, as the stock shim has it, so that
 * neither a long namespace nor a long id makes the path too long, and "ctr shim" finds it.
 */
#include "socket_path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sha256.h"

/* Go's filepath.Clean, as far as an address needs it: no doubled slashes, no "." and "..", none at the end.
 */
static void clean(const char *path, char *out, size_t size)
{
	size_t n = 0;

	while (*path && n + 1 < size) {
		const char *end;

		while (*path == '/')
			path++;
		end = path + strcspn(path, "/");
		if (end - path == 2 && memcmp(path, "..", 2) == 0) {
			while (n && out[--n] != '/')
				;
		} else if (end > path && !(end - path == 1 && *path == '.')) {
			if (n + 1 + (size_t)(end - path) >= size)
				break;
			out[n++] = '/';
			memcpy(out + n, path, (size_t)(end - path));
			n += (size_t)(end - path);
		}
		path = end;
	}
	out[n] = '\0';
}

int socket_path_make(const char *dir, const char *daemon_address, const char *namespace, const char *group,
		     char ret_path[sizeof(((struct sockaddr_un *)0)->sun_path)])
{
	char joined[PATH_MAX], cleaned[PATH_MAX], hash[65];
	size_t size = sizeof(((struct sockaddr_un *)0)->sun_path);

	if (strncmp(daemon_address, "unix://", 7) == 0)
		daemon_address += 7;
	if (snprintf(joined, sizeof(joined), "%s/%s/%s", daemon_address, namespace, group) >=
	    (int)sizeof(joined))
		return -1;
	clean(joined, cleaned, sizeof(cleaned));
	sha256_hex(cleaned, strlen(cleaned), hash);
	return snprintf(ret_path, size, "%s/%s", dir, hash) < (int)size ? 0 : -1;
}
