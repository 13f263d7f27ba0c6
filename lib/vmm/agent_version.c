/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which agent an initramfs holds: see agent_version.h. Enters: the bytes of any file. Leaves: two numbers, or nothing.
 */
#include "vmm/agent_version.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "vmm/banner.h"
#include "wire/protocol.h"

#define PROTOCOL_DIGITS 5
#define WORDS_MAX (BANNER_RELEASE_MAX + sizeof(PROTOCOL_AGENT_BANNER_OF) + PROTOCOL_DIGITS)

struct words {
	char version[BANNER_RELEASE_MAX + 1];
	uint64_t protocol;
};

/* "0.1.0 of protocol 1\n": the digits end with something else, or the number may be another one. */
static int take_words(const uint8_t *text, size_t len, void *out)
{
	static const char of[] = PROTOCOL_AGENT_BANNER_OF;
	const size_t of_len = sizeof(of) - 1;
	struct words words = { .protocol = 0 };
	size_t at = banner_release(text, len), digits = 0;

	if (!at || len - at < of_len || memcmp(text + at, of, of_len) != 0)
		return 0;
	memcpy(words.version, text, at);
	for (at += of_len; at < len && text[at] >= '0' && text[at] <= '9' && digits <= PROTOCOL_DIGITS; at++, digits++)
		words.protocol = words.protocol * 10 + (text[at] - '0');
	if (digits == 0 || digits > PROTOCOL_DIGITS || at == len)
		return 0;
	*(struct words *)out = words;
	return 1;
}

int vmm_agent_version(const char *initramfs, struct agent_version *ret_version, cchv_error **err)
{
	cleanup_close int fd = open(initramfs, O_RDONLY | O_CLOEXEC);
	struct agent_version version = { .version = NULL };
	struct words words;
	char first;
	int found;

	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "initramfs '%s': open", initramfs);
	if (fd_pread_full(fd, &first, 1, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "initramfs '%s': read", initramfs);
	found = banner_find(fd, PROTOCOL_AGENT_BANNER, WORDS_MAX, take_words, &words);
	if (found > 0) {
		version.version = mem_strdup(words.version);
		version.protocol = words.protocol;
	}
	if (found < 0 || (found && !version.version))
		return err_nomem(err);
	*ret_version = version;
	return CCHV_OK;
}
