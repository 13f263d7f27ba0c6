/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, opened at the first API call: a process that never makes one does not pay for it (4 ms and 1.3 MB).
 * Only the calls that http.c needs.
 */
#ifndef VMM_CURL_H
#define VMM_CURL_H

#include <curl/curl.h>

#include "base/error.h"

struct curl_api {
	CURL *(*easy_init)(void);
	void (*easy_cleanup)(CURL *easy);
	CURLcode (*easy_setopt)(CURL *easy, CURLoption option, ...);
	CURLcode (*easy_getinfo)(CURL *easy, CURLINFO info, ...);
	const char *(*easy_strerror)(CURLcode code);
	CURLM *(*multi_init)(void);
	CURLMcode (*multi_cleanup)(CURLM *multi);
	CURLMcode (*multi_setopt)(CURLM *multi, CURLMoption option, ...);
	CURLMcode (*multi_add_handle)(CURLM *multi, CURL *easy);
	CURLMcode (*multi_remove_handle)(CURLM *multi, CURL *easy);
	CURLMcode (*multi_socket_action)(CURLM *multi, curl_socket_t fd, int events, int *running);
	CURLMsg *(*multi_info_read)(CURLM *multi, int *left);
	CURLMcode (*multi_assign)(CURLM *multi, curl_socket_t fd, void *data);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
	void (*slist_free_all)(struct curl_slist *list);
};

/* The same table each time, from any thread. NULL: the library is missing; the error says what to install. */
const struct curl_api *curl_load(cchv_error **err);

#endif
