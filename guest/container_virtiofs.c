/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared directories of the host, by their tags. Enters: a tag. Leaves: a mount. A directory that was plugged for this
 * very container may still be on its way: the driver announces its tag when it has asked the device for it, and that is
 * later than its place in sysfs is taken.
 */
#include "guest/container_build.h"

#include "guest/mount_fd.h"
#include "guest/uevent.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>

int build_virtiofs(const char *tag, const char *name, cchv_error **err)
{
	/* Open before the first try, so that what comes in between is not missed. */
	cleanup_close int events = uevent_open();
	uint64_t deadline = clock_deadline(BUILD_DEVICE_MS);

	if (events < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: listen to uevents", name);
	for (;;) {
		cleanup_err cchv_error *why = NULL;
		int fd = mount_fd_new("virtiofs", tag, NULL, name, &why);

		if (fd >= 0)
			return fd;
		/* What the kernel says of a tag that it does not know. */
		if (cchv_error_errno(why) != EINVAL || uevent_wait(events, deadline) < 0)
			return err_move(err, &why, fd);
	}
}
