/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals: see pty.h. Enters: where a devpts is mounted. Leaves: both ends of a new terminal. The slave is opened
 * through the master, so no path inside a container is trusted.
 */
#include "guest/pty.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

int pty_open_at(int dir_fd, const char *ptmx_path, int *ret_master, int *ret_slave, const char **kind,
                cchv_error **err)
{
	cleanup_close int master = -1, slave = -1;
	int unlocked = 0;

	master = openat(dir_fd, ptmx_path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0)
		return fail(kind, err, "stream", errno, "open a terminal");
	if (ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return fail(kind, err, "stream", errno, "unlock a terminal");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return fail(kind, err, "stream", errno, "open the slave of a terminal");
	*ret_master = fd_steal(&master);
	*ret_slave = fd_steal(&slave);
	return CCHV_OK;
}

int pty_open(struct process_plan *plan, int *ret_master, int *ret_slave, const char **kind, cchv_error **err)
{
	cleanup_close int master = -1, slave = -1;
	struct winsize size = { .ws_row = plan->rows, .ws_col = plan->cols };
	int r;

	if (plan->ops->open_pty)
		r = plan->ops->open_pty(plan, &master, &slave, kind, err);
	else
		r = pty_open_at(AT_FDCWD, "/dev/ptmx", &master, &slave, kind, err);
	if (r < 0)
		return r;
	if (ioctl(master, TIOCSWINSZ, &size) < 0 || fd_set_nonblock(master, 1) < 0)
		return fail(kind, err, "stream", errno, "set up a terminal");
	*ret_master = fd_steal(&master);
	*ret_slave = fd_steal(&slave);
	return CCHV_OK;
}
