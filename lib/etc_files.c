/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /etc: see etc_files.h. Enters: the container's settings, the VM's network. Leaves: texts. */
#include "etc_files.h"

#include <string.h>

#include "base/path.h"
#include "oci_spec.h"
#include "vm_config.h"

#define MAX_HOST_RESOLV 65536

static const char *const paths[ETC_FILES] = { "/etc/hostname", "/etc/hosts", "/etc/resolv.conf" };

const char *etc_file_path(int number)
{
	return paths[number];
}

int etc_file_is_wanted(const struct container *container, int number)
{
	const cchv_container_config *config = container->config;

	return config && !config->spec_is_given && !config->rootfs_fs && !config->rootfs_disk &&
	       !oci_spec_find_mount(config->spec, paths[number]);
}

static const char *hostname_of(const struct container *container)
{
	const char *hostname = container->id;

	json_get_string(container->config->spec, "hostname", &hostname, NULL);
	return hostname;
}

/* The first address of the VM's network, for its own name; NULL without a network. */
static char *own_address(const struct container *container)
{
	const cchv_vm_config *vm = container->vm->config;

	for (size_t i = 0; vm && i < vm->nets.count; i++) {
		const cchv_net_config *net = vm->nets.items[i];
		const char *cidr = json_as_string(json_at(net->addresses, 0));

		if (cidr)
			return mem_strndup(cidr, strcspn(cidr, "/"));
	}
	return NULL;
}

static char *hosts_text(const struct container *container)
{
	cleanup_free char *address = own_address(container);
	const char *hostname = hostname_of(container);
	struct buf text = BUF_INIT(65536);
	char *result;
	int r;

	r = buf_append_string(&text, "127.0.0.1\tlocalhost\n"
	                             "::1\tlocalhost ip6-localhost ip6-loopback\n"
	                             "fe00::\tip6-localnet\n"
	                             "ff00::\tip6-mcastprefix\n"
	                             "ff02::1\tip6-allnodes\n"
	                             "ff02::2\tip6-allrouters\n");
	/* Without a network the name is still to be found. */
	if (r == CCHV_OK)
		r = buf_printf(&text, "%s\t%s\n", address ? address : "127.0.1.1", hostname);
	result = r == CCHV_OK ? buf_take_string(&text) : NULL;
	buf_free(&text);
	return result;
}

/* Name servers of the host that only the host can reach are of no use in the VM. */
static int is_of_use(const char *line)
{
	const char *server;

	if (strncmp(line, "nameserver", 10) != 0)
		return strncmp(line, "search", 6) == 0 || strncmp(line, "options", 7) == 0;
	server = line + 10 + strspn(line + 10, " \t");
	return strncmp(server, "127.", 4) != 0 && strncmp(server, "::1", 3) != 0;
}

static char *host_resolv(void)
{
	cleanup_buf struct buf host = BUF_INIT(MAX_HOST_RESOLV);
	struct buf text = BUF_INIT(MAX_HOST_RESOLV + 1);
	char *result;
	int r = buf_append_string(&text, "");

	if (path_read_file("/etc/resolv.conf", &host, NULL) == CCHV_OK && buf_string(&host)) {
		for (const char *line = buf_string(&host); *line && r == CCHV_OK;) {
			size_t length = strcspn(line, "\n");

			if (is_of_use(line)) {
				r = buf_append(&text, line, length);
				if (r == CCHV_OK)
					r = buf_append_byte(&text, '\n');
			}
			line += length + (line[length] == '\n');
		}
	}
	result = r == CCHV_OK ? buf_take_string(&text) : NULL;
	buf_free(&text);
	return result;
}

static char *resolv_text(const struct container *container)
{
	char *text = vm_resolv_conf(container->vm);
	const cchv_vm_config *vm = container->vm->config;

	if (text)
		return text;
	return vm && vm->nets.count ? host_resolv() : mem_strdup("");
}

char *etc_file_text(const struct container *container, int number)
{
	switch (number) {
	case 0:
		return mem_printf("%s\n", hostname_of(container));
	case 1:
		return hosts_text(container);
	default:
		return resolv_text(container);
	}
}
