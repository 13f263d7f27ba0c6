/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "guest/device.h"
#include "guest/uevent.h"

TEST(finds_whole_keys_only)
{
	static const char message[] = "add@/devices/x\0ACTION=add\0XMODALIAS=no\0MODALIAS=virtio:d1v2\0LAST=";
	size_t len = sizeof(message); /* with the final NUL */

	CHECK_STR(uevent_get(message, len, "ACTION"), "add");
	CHECK_STR(uevent_get(message, len, "MODALIAS"), "virtio:d1v2");
	CHECK_STR(uevent_get(message, len, "LAST"), "");
	CHECK(!uevent_get(message, len, "MODAL"));
	CHECK(!uevent_get(message, 0, "ACTION"));
}

TEST(a_string_without_its_end_does_not_count)
{
	static const char message[] = "ACTION=add\0MODALIAS=cut";

	CHECK(!uevent_get(message, sizeof(message) - 1, "MODALIAS"));
	CHECK_STR(uevent_get(message, sizeof(message) - 1, "ACTION"), "add");
}

TEST(addresses_cannot_leave_sysfs)
{
	static const char *const wrong[] = { "", "0000:00:05", "0000:00:05.0/", "../../../etc/..", "0000:00:0A.0",
		                             "000g:00:05.0" };
	char *node = NULL;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		cleanup_err cchv_error *err = NULL;

		CHECK(device_find(wrong[i], DEVICE_DISK, &node, NULL, &err) < 0);
		CHECK_INT(cchv_error_errno(err), EINVAL);
	}
	CHECK(!node);
}
