/* SPDX-License-Identifier: Apache-2.0 */
/* Opening libcurl: see curl.h. Enters: the library's name. Leaves: a table of its functions, kept for ever. */
#include "vmm/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static struct curl_api api;
static int loaded;
static char failure[256];

#define SYMBOL(name) { "curl_" #name, offsetof(struct curl_api, name) }

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	SYMBOL(easy_init), SYMBOL(easy_cleanup), SYMBOL(easy_setopt), SYMBOL(easy_getinfo), SYMBOL(easy_strerror),
	SYMBOL(multi_init), SYMBOL(multi_cleanup), SYMBOL(multi_setopt), SYMBOL(multi_add_handle),
	SYMBOL(multi_remove_handle), SYMBOL(multi_socket_action), SYMBOL(multi_info_read), SYMBOL(multi_assign),
	SYMBOL(slist_append), SYMBOL(slist_free_all),
};

/* What the several flavours of the library are called; all have the same interface. */
static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

static void load_once(void)
{
	CURLcode (*global_init)(long flags);
	void *lib = NULL;

	for (size_t i = 0; i < ARRAY_LEN(names) && !lib; i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(failure, sizeof(failure), "%s", dlerror());
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		void *address = dlsym(lib, symbols[i].name);

		if (!address) {
			snprintf(failure, sizeof(failure), "%s has no %s", names[0], symbols[i].name);
			return;
		}
		*(void **)((char *)&api + symbols[i].offset) = address;
	}
	*(void **)&global_init = dlsym(lib, "curl_global_init");
	/* Unix sockets need no TLS: its start-up, which is most of the cost, is left out. */
	if (!global_init || global_init(CURL_GLOBAL_NOTHING) != CURLE_OK) {
		snprintf(failure, sizeof(failure), "%s does not start", names[0]);
		return;
	}
	loaded = 1;
}

const struct curl_api *curl_load(cchv_error **err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_once);
	if (loaded)
		return &api;
	err_set(err, CCHV_ERR_NOT_FOUND, 0, "libcurl cannot be opened (%s): install it (package libcurl4)", failure);
	return NULL;
}
