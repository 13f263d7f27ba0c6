/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parts of the project lie: the second half of choose.h. A library that runs from its build tree finds
 * them there, without installation; an installed one finds what was installed with it, wherever that is. Enters:
 * names. Leaves: paths of files that exist.
 */
#include "vmm/choose.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

/* The directory of the file that this code is in (the library, or a test that has it linked in). NULL: unknown. */
static char *own_directory(void)
{
	cleanup_free char *real = NULL;
	Dl_info info;
	char *slash;

	if (!dladdr((void *)own_directory, &info) || !info.dli_fname)
		return NULL;
	real = realpath(info.dli_fname, NULL);
	slash = real ? strrchr(real, '/') : NULL;
	if (!slash)
		return NULL;
	*slash = '\0';
	return steal(&real);
}

/*
 * <own directory>/<up>/<part>, when it can be accessed so. Of the build tree this is seen from build/lib and
 * build/tests/unit, of an installed one from lib and lib/<architecture>.
 */
static char *above_library(const char *part, int mode)
{
	static const char *const ups[] = { "..", "../.." };
	cleanup_free char *own = own_directory();

	for (size_t i = 0; own && i < ARRAY_LEN(ups); i++) {
		cleanup_free char *path = mem_printf("%s/%s/%s", own, ups[i], part);

		if (path && access(path, mode) == 0)
			return realpath(path, NULL);
	}
	return NULL;
}

/* What was built or installed with this library goes first: the two belong together. */
static int find_program(const char *built, const char *installed, char **ret_path, cchv_error **err)
{
	char *path = above_library(built, X_OK);

	if (!path)
		path = above_library(installed, X_OK);
	if (path) {
		*ret_path = path;
		return CCHV_OK;
	}
	return path_find_program(strrchr(installed, '/') + 1, ret_path, err);
}

int vmm_find_cchv_qemu(char **ret_path, cchv_error **err)
{
	return find_program("examples/qemu/cchv-qemu", "bin/cchv-qemu", ret_path, err);
}

int vmm_find_cchv(char **ret_path, cchv_error **err)
{
	return find_program("examples/cli/cchv", "bin/cchv", ret_path, err);
}

static const char *const system_dirs[] = { "/usr/lib/cchv", "/usr/share/cchv" };

/* The first of names in directory; NULL when there is none. */
static char *first_in(const char *directory, const char *const *names)
{
	for (; *names; names++) {
		char *path = mem_printf("%s/%s", directory, *names);

		if (path && access(path, R_OK) == 0)
			return path;
		free(path);
	}
	return NULL;
}

/* In the directory that "meson install" puts the parts into. */
static char *beside_library(const char *const *names)
{
	cleanup_free char *own = own_directory();
	cleanup_free char *directory = own ? mem_printf("%s/cchv", own) : NULL;

	return directory ? first_in(directory, names) : NULL;
}

static char *find_part(const char *state_dir, const char *const *names)
{
	cleanup_free char *kernels = mem_printf("%s/kernels", state_dir);
	char *path = kernels ? first_in(kernels, names) : NULL;

	for (size_t i = 0; !path && names[i]; i++) {
		cleanup_free char *part = mem_printf("guest/%s", names[i]);
		cleanup_free char *deeper = mem_printf("guest/kernel/%s", names[i]);

		path = part ? above_library(part, R_OK) : NULL;
		if (!path && deeper)
			path = above_library(deeper, R_OK);
	}
	if (!path)
		path = beside_library(names);
	for (size_t i = 0; !path && i < ARRAY_LEN(system_dirs); i++)
		path = first_in(system_dirs[i], names);
	return path;
}

static int not_found(const char *what, const char *state_dir, cchv_error **err)
{
	cleanup_free char *own = own_directory();

	return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no %s: looked in %s/kernels, the build tree, %s/cchv, %s and %s",
	               what, state_dir, own ? own : "", system_dirs[0], system_dirs[1]);
}

int vmm_find_kernel(const char *state_dir, char **ret_path, cchv_error **err)
{
	static const char *const names[] = { "vmlinux", "vmlinuz", NULL };
	char *path = find_part(state_dir, names);

	if (!path)
		return not_found("guest kernel (vmlinux or vmlinuz)", state_dir, err);
	*ret_path = path;
	return CCHV_OK;
}

int vmm_find_initramfs(const char *state_dir, const char *kernel, char **ret_path, cchv_error **err)
{
	static const char *const names[] = { "initramfs.img", NULL };
	const char *slash = kernel ? strrchr(kernel, '/') : NULL;
	cleanup_free char *beside = NULL;
	char *path = NULL;

	if (slash && slash != kernel) {
		beside = mem_strndup(kernel, (size_t)(slash - kernel));
		if (!beside)
			return err_nomem(err);
		path = first_in(beside, names);
	}
	if (!path)
		path = find_part(state_dir, names);
	if (!path)
		return not_found("initramfs (initramfs.img)", state_dir, err);
	*ret_path = path;
	return CCHV_OK;
}
