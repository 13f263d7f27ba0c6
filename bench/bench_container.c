/* SPDX-License-Identifier: Apache-2.0 */
/* Containers of the CLI. Enters: a bench run. Leaves: a container in the background, by its id. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

/* A container of the CLI with the helper as its whole image; its id. */
int container_start(struct bench *bench, char *id, size_t room)
{
	char command[1024];
	FILE *out;
	int ok;

	snprintf(command, sizeof(command),
		 "mkdir -p %s/rootfs && cp %s %s/rootfs/bench-guest && exec %s --state-dir %s/state "
		 "--runtime-dir %s/run --no-builder run -d --rm --memory 256m --cpus 1 %s/rootfs /bench-guest sleep",
		 bench->directory, bench->guest, bench->directory, bench->cli, bench->directory,
		 bench->directory, bench->directory);
	out = popen(command, "re");
	ok = out && fgets(id, (int)room, out);
	if (ok)
		id[strcspn(id, "\n")] = '\0';
	return out && pclose(out) == 0 && ok ? 0 : -1;
}

void container_end(struct bench *bench, const char *id)
{
	cchv_vm *vm = NULL;

	if (cchv_vm_open(bench->ctx, id, &vm, NULL) == CCHV_OK) {
		cchv_vm_kill(vm, NULL);
		cchv_vm_wait(vm, CALL_MS, NULL, NULL);
	}
	cchv_vm_free(vm);
}
