/* SPDX-License-Identifier: Apache-2.0 */
/*
 * -info: RuntimeInfo. containerd asks at the first create of a runtime, so that it looks at nothing but
 * itself. Enters: the options. Leaves: the message, with the options as they came.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cchv/version.h>

#include "front.h"

#define NAME         "io.containerd.cchv.v2"
#define FEATURES_URL "types.containerd.io/opencontainers/runtime-spec/1/features/Features"

/* The OCI runtime's features document. Mounts with mapped ids are refused (guest/PROTOCOL.md). */
static const char features[] = "{\"ociVersionMin\":\"1.0.0\",\"ociVersionMax\":\"1.2.1\",\"linux\":{"
			       "\"namespaces\":[\"cgroup\",\"ipc\",\"mount\","
			       "\"network\",\"pid\",\"time\",\"uts\"],\"cgroup\":{\"v1\":false,\"v2\":true,"
			       "\"systemd\":false,\"systemdUser\":"
			       "false},\"seccomp\":{\"enabled\":true},\"apparmor\":{\"enabled\":false},"
			       "\"selinux\":{\"enabled\":false},"
			       "\"mountExtensions\":{\"idmap\":{\"enabled\":false}}}}";

int cmd_info(void)
{
	struct wire out = { 0 }, input = { 0 }, part = { 0 };
	char version[32];
	int r;

	if (front_read_stdin(&input) < 0) {
		wire_free(&input);
		return front_fail("standard input: %s", strerror(errno));
	}
	snprintf(version, sizeof(version), "%d.%d.%d", CCHV_VERSION_MAJOR, CCHV_VERSION_MINOR,
		 CCHV_VERSION_PATCH);
	wire_put_string(&out, 1, NAME);
	wire_put_string(&part, 1, version);
	wire_put_message(&out, 2, &part);
	/* Options are an Any already. */
	wire_put_bytes(&out, 3, input.data, input.len);
	wire_put(&part, features, sizeof(features) - 1);
	wire_put_any(&out, 4, FEATURES_URL, &part);
	r = front_write_stdout(&out) < 0 ? front_fail("standard output: %s", strerror(errno)) : 0;
	wire_free(&out);
	wire_free(&input);
	return r;
}
