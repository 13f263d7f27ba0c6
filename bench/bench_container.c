/* SPDX-License-Identifier: Apache-2.0 */
/* Containers, of the CLI or in a VM of ours. Enters: a bench run. Leaves: a container that sleeps. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A directory with nothing but the helper. 0 or -1. */
static int make_root(struct bench *bench, char *path, size_t room)
{
	char command[700];

	snprintf(path, room, "%s/rootfs", bench->directory);
	snprintf(command, sizeof(command), "mkdir -p %s && cp %s %s/bench-guest", path, bench->guest, path);
	return system(command) == 0 ? 0 : complain("the container's root", NULL);
}

static cchv_image *make_image(struct bench *bench)
{
	char root[96], text[128];
	cchv_image_source *source = NULL;
	cchv_image *image = NULL;
	cchv_error *err = NULL;

	if (make_root(bench, root, sizeof(root)) < 0)
		return NULL;
	snprintf(text, sizeof(text), "dir:%s", root);
	if (cchv_image_source_new(&source) < 0 || cchv_image_source_add(source, text) < 0 ||
	    cchv_image_import(bench->ctx, source, "bench", NULL, &image, &err) < 0)
		complain("import the container's image", err);
	cchv_image_source_free(source);
	return image;
}

cchv_container *container_in(struct bench *bench, cchv_vm *vm)
{
	cchv_image *image = make_image(bench);
	cchv_container_config *config = NULL;
	cchv_container *container = NULL;
	cchv_error *err = NULL;

	if (!image)
		return NULL;
	if (cchv_container_config_new_from_image("bench", image, &config, &err) < 0 ||
	    cchv_container_config_add_arg(config, "/bench-guest") < 0 ||
	    cchv_container_config_add_arg(config, "sleep") < 0 ||
	    cchv_container_create(vm, config, CALL_MS, &container, &err) < 0 ||
	    cchv_container_start(container, NULL, CALL_MS, NULL, &err) < 0) {
		complain("start a container", err);
		cchv_container_free(container);
		container = NULL;
	}
	cchv_container_config_free(config);
	cchv_image_free(image);
	return container;
}

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
