/* SPDX-License-Identifier: Apache-2.0 */
/* The root of a specification: see spec.h. Enters: params of container.create. Leaves: a checked spec. */
#include "guest/spec.h"

#include <string.h>

static int parse_version(const struct json *root, cchv_error **err)
{
	const char *version = NULL;
	int r = field_required(field_text(root, "", "ociVersion", &version, err), "", "ociVersion", err);

	if (r < 0)
		return r;
	if (strncmp(version, "1.", 2) != 0)
		return field_bad("", "ociVersion", err, "'%s' is not a version 1", version);
	return CCHV_OK;
}

static int parse_root(const struct json *root, struct spec *spec, cchv_error **err)
{
	const struct json *object = NULL;
	const char *path = NULL;
	int r = field_object(root, "", "root", &object, err);

	/* root.path is the host's; here the rootfs of the request is it. */
	if (r >= 0)
		r = field_text(object, "root", "path", &path, err);
	if (r >= 0)
		r = field_bool(object, "root", "readonly", &spec->readonly_root, err);
	return r < 0 ? r : CCHV_OK;
}

static int parse_name(const struct json *root, const char *key, char **ret, cchv_error **err)
{
	int r = field_bytes(root, "", key, ret, err);

	if (r == 1 && strlen(*ret) > 64)
		return field_bad("", key, err, "longer than 64 bytes");
	if (r == 1 && !**ret) {
		free(*ret);
		*ret = NULL;
	}
	return r < 0 ? r : CCHV_OK;
}

/* Hooks are programs of the host: who calls the library runs them there and sends the rest. */
static int parse_hooks(const struct json *root, cchv_error **err)
{
	static const char *const kinds[] = { "prestart",       "createRuntime", "createContainer",
		                             "startContainer", "poststart",     "poststop" };
	const struct json *hooks = NULL;
	int r = field_object(root, "", "hooks", &hooks, err);

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(kinds); i++) {
		const struct json *list = NULL;

		r = field_array(hooks, "hooks", kinds[i], &list, err);
		if (r == 1 && json_count(list))
			return field_refused("hooks", kinds[i], err, "hooks are programs of the host");
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_annotations(const struct json *root, cchv_error **err)
{
	const struct json *annotations = NULL;
	int r = field_object(root, "", "annotations", &annotations, err);

	for (size_t i = 0; r >= 0 && i < json_count(annotations); i++) {
		const char *value = NULL;

		r = field_text(annotations, "annotations", json_key_at(annotations, i), &value, err);
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_process(const struct json *root, struct spec *spec, cchv_error **err)
{
	const struct json *process = NULL;
	int r = field_object(root, "", "process", &process, err);

	if (r < 1)
		return r;
	spec->has_process = 1;
	return process_spec_parse(process, "process", &spec->process, &spec->ignored, err);
}

static int parse_all(const struct json *params, int allow_directory, struct spec *spec, const char **ret_kind,
                     cchv_error **err)
{
	const struct json *root = NULL;
	int r;

	*ret_kind = "spec";
	r = field_required(field_object(params, "", "spec", &root, err), "", "spec", err);
	if (r >= 0)
		r = parse_version(root, err);
	if (r >= 0)
		r = parse_root(root, spec, err);
	if (r >= 0)
		r = parse_name(root, "hostname", &spec->hostname, err);
	if (r >= 0)
		r = parse_name(root, "domainname", &spec->domainname, err);
	if (r >= 0)
		r = parse_hooks(root, err);
	if (r >= 0)
		r = parse_annotations(root, err);
	if (r >= 0)
		r = parse_process(root, spec, err);
	if (r >= 0)
		r = spec_parse_linux(root, spec, err);
	if (r >= 0 && (spec->hostname || spec->domainname) && !spec->has_namespace[NS_UTS])
		r = field_bad("", spec->hostname ? "hostname" : "domainname", err,
		              "needs a 'uts' namespace in linux.namespaces");
	if (r >= 0)
		r = spec_parse_mounts(root, spec, err);
	if (r >= 0)
		r = field_bool(params, "", "check_program", &spec->check_program, err);
	if (r < 0)
		return r;
	*ret_kind = "rootfs";
	r = spec_parse_rootfs(params, allow_directory, spec, err);
	if (r < 0)
		return r;
	*ret_kind = "mount";
	return spec_parse_mappings(params, spec, err);
}

int spec_parse(const struct json *params, int allow_directory, struct spec **ret_spec, const char **ret_kind,
               cchv_error **err)
{
	cleanup_spec struct spec *spec = mem_zalloc(sizeof(*spec));
	int r;

	if (!spec)
		return err_nomem(err);
	r = parse_all(params, allow_directory, spec, ret_kind, err);
	if (r < 0)
		return r;
	*ret_spec = steal(&spec);
	return CCHV_OK;
}

static void free_rootfs(struct spec_rootfs *rootfs)
{
	for (size_t i = 0; i < rootfs->layer_count; i++)
		free(rootfs->layers[i].device);
	free(rootfs->upper_device);
	free(rootfs->fs_tag);
	free(rootfs->disk);
	free(rootfs->directory);
}

void spec_free(struct spec *spec)
{
	if (!spec)
		return;
	free_rootfs(&spec->rootfs);
	free(spec->hostname);
	free(spec->domainname);
	spec_free_mounts(spec);
	spec_free_devices(spec);
	for (size_t i = 0; i < NS_COUNT; i++)
		free(spec->join[i]);
	words_free(&spec->masked_paths);
	words_free(&spec->readonly_paths);
	words_free(&spec->sysctl);
	resources_free(&spec->resources);
	profile_free(&spec->seccomp);
	process_spec_free(&spec->process);
	words_free(&spec->ignored);
	free(spec);
}
