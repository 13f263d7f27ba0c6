/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has measured, and where: versions, processor, whether VMs were emulated. For the JSON of a run. */
#include "bench.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <yajl/yajl_gen.h>
#include <yajl/yajl_tree.h>

#include <commit.h> /* made by the build */

static void put_text(yajl_gen g, const char *key, const char *text)
{
	yajl_gen_string(g, (const unsigned char *)key, strlen(key));
	if (text)
		yajl_gen_string(g, (const unsigned char *)text, strlen(text));
	else
		yajl_gen_null(g);
}

static void put_model(yajl_gen g)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[512], model[300] = "";

	while (file && !model[0] && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name%*[ \t]: %299[^\n]", model) == 1)
			break;
	if (file)
		fclose(file);
	put_text(g, "cpu", model[0] ? model : NULL);
}

/* Hardware virtualisation works where both say so. */
static void put_emulated(struct bench *bench, yajl_gen g)
{
	cchv_findings *findings = NULL;
	int works = 0;

	if (cchv_ctx_probe(bench->ctx, &findings, NULL) == CCHV_OK) {
		for (int i = 0; i < cchv_findings_get_count(findings); i++) {
			const char *name = cchv_findings_get_name(findings, i);

			if (strcmp(name, "kvm") == 0 || strcmp(name, "cpu") == 0)
				works += cchv_findings_get_status(findings, i) == CCHV_FINDING_OK;
		}
		yajl_gen_string(g, (const unsigned char *)"emulated", strlen("emulated"));
		yajl_gen_bool(g, works < 2);
	}
	cchv_findings_free(findings);
}

static const char *text_at(yajl_val tree, const char *part, const char *key)
{
	const char *path[] = { part, key, NULL };
	yajl_val v = tree ? yajl_tree_get(tree, path, yajl_t_string) : NULL;

	return v ? YAJL_GET_STRING(v) : NULL;
}

/* Of the VMM, of QEMU where the VMM is cchv-qemu, of the guest's kernel and agent. */
static void put_versions(struct bench *bench, yajl_gen g)
{
	const char *qemu[] = { "vmm", "qemu", "version", NULL };
	char *text = NULL;
	yajl_val tree, v;

	if (cchv_ctx_get_versions_json(bench->ctx, &text, NULL) < 0)
		return;
	tree = yajl_tree_parse(text, NULL, 0);
	put_text(g, "vmm", text_at(tree, "vmm", "version"));
	v = tree ? yajl_tree_get(tree, qemu, yajl_t_string) : NULL;
	put_text(g, "qemu", v ? YAJL_GET_STRING(v) : NULL);
	put_text(g, "guest_kernel", text_at(tree, "kernel", "version"));
	put_text(g, "agent", text_at(tree, "agent", "version"));
	yajl_tree_free(tree);
	cchv_free(text);
}

void environment_put(struct bench *bench, yajl_gen g)
{
	struct utsname u;

	uname(&u);
	yajl_gen_string(g, (const unsigned char *)"environment", strlen("environment"));
	yajl_gen_map_open(g);
	put_text(g, "libcchv", cchv_version());
	put_text(g, "commit", BENCH_COMMIT);
	put_versions(bench, g);
	put_text(g, "host_kernel", u.release);
	put_model(g);
	yajl_gen_string(g, (const unsigned char *)"host_cpus", strlen("host_cpus"));
	yajl_gen_integer(g, sysconf(_SC_NPROCESSORS_ONLN));
	put_emulated(bench, g);
	yajl_gen_map_close(g);
}
