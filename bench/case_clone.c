/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clone: from nothing to an agent that has its identity and its memory, from a template and by booting. Both with 512
 * MiB and one vCPU.
 */
#include "bench.h"

#include <stdio.h>

static int start(struct bench *bench, int how, double *ret_ns)
{
	cchv_vm_config *config = NULL;
	cchv_error *err = NULL;
	cchv_vm *vm = NULL;
	uint64_t began;
	int r;

	if (cchv_vm_config_new(&config) < 0)
		return complain("settings", NULL);
	r = cchv_vm_config_set_vcpus(config, 1, 1);
	if (r == CCHV_OK)
		r = cchv_vm_config_set_memory(config, 512ULL << 20);
	if (r == CCHV_OK)
		r = cchv_vm_config_set_start(config, how);
	began = mono_ns();
	if (r == CCHV_OK)
		r = cchv_vm_create(bench->ctx, config, CALL_MS, &vm, &err);
	if (r == CCHV_OK)
		r = cchv_vm_boot(vm, CALL_MS, &err);
	*ret_ns = (double)(mono_ns() - began);
	cchv_vm_free(vm);
	cchv_vm_config_free(config);
	return r < 0 ? complain(how == CCHV_START_TEMPLATE ? "clone" : "cold start", err) : 0;
}

int case_clone(struct bench *bench)
{
	struct figure f = { .name = "clone",
			    .what = "VM ready from a template / booted",
			    .unit = "ratio",
			    .target = 0.03,
			    .a_name = "from a template",
			    .b_name = "cold",
			    .samples_unit = "ns" };
	cchv_error *err = NULL;
	char *key = NULL;
	double ns;
	int r = 0;

	if (cchv_template_build(bench->ctx, NULL, 10 * CALL_MS, &key, &err) < 0)
		return complain("template", err);
	cchv_free(key);
	/* The first one loads libraries, and brings files into the page cache. */
	r = start(bench, CCHV_START_TEMPLATE, &ns);
	for (int i = 0; i < bench->runs && r == 0; i++) {
		r = start(bench, CCHV_START_TEMPLATE, &ns);
		if (r == 0)
			samples_add(&f.a, ns);
		if (r == 0)
			r = start(bench, CCHV_START_COLD, &ns);
		if (r == 0)
			samples_add(&f.b, ns);
	}
	if (r < 0)
		return r;
	f.value = samples_ratio(&f.a, &f.b);
	result_add(&f);
	return 0;
}
