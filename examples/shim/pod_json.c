/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon is told of a pod in JSON: see pod.h. Enters: a pod. Leaves: texts. */
#include <stdlib.h>

#include "cgroup_path.h"
#include "memory.h"
#include "pod.h"
#include "spec_tree.h"

/* tree is freed. */
static char *print(yajl_val tree, int r)
{
	char *text = r == 0 ? spec_tree_print(tree) : NULL;

	yajl_tree_free(tree);
	return text;
}

static int put_annotations(const struct pod *pod, yajl_val tree)
{
	const struct pod_pairs *pairs = &pod->config.annotations;
	int r = spec_tree_set_object(tree, "annotations");

	for (size_t i = 0; r == 0 && i < pairs->count; i++)
		r = spec_tree_set_string(spec_tree_get(tree, "annotations"), pairs->items[i].name,
					 pairs->items[i].value);
	return r;
}

/* Containerd's plugins read it where a pause container would have had one. */
char *pod_spec_json(const struct pod *pod)
{
	char *cgroup = cgroup_path_text(pod->config.cgroup_parent, pod->id);
	yajl_val tree = yajl_tree_parse("{\"ociVersion\":\"1.0.2\","
					"\"linux\":{\"namespaces\":[{\"type\":\"network\"}]}}", NULL, 0);
	yajl_val part = spec_tree_get(tree, "linux");
	int r = tree ? spec_tree_set_string(tree, "hostname", pod->config.hostname) : -1;

	if (r == 0 && pod->netns)
		r = spec_tree_set_string(spec_tree_at(spec_tree_get(part, "namespaces"), 0), "path", pod->netns);
	if (r == 0 && cgroup)
		r = spec_tree_set_string(part, "cgroupsPath", cgroup);
	if (r == 0)
		r = put_annotations(pod, tree);
	free(cgroup);
	return print(tree, r);
}

char *pod_info_json(const struct pod *pod)
{
	char *text = need_text("{\"pid\":%d}", pod->state == POD_ENDED ? 0 : pod->pid);
	yajl_val tree = yajl_tree_parse(text, NULL, 0);
	const char *status = pod->state == POD_READY ? "running" : "stopped";
	int r = tree ? spec_tree_set_string(tree, "processStatus", status) : -1;

	free(text);
	if (r == 0)
		r = spec_tree_set_string(tree, "runtimeType", "io.containerd.cchv.v2");
	return print(tree, r);
}
