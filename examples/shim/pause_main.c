/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cchv-pause: the first process of a process namespace that the containers of a pod share. It does nothing but reap
 * those whose parents have gone, and ends when it is asked to. Runs in the guest, static, from an image of its own.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

int main(void)
{
	sigset_t set;
	int number;

	sigfillset(&set);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return 1;
	for (;;) {
		if (sigwait(&set, &number) != 0)
			return 1;
		if (number == SIGTERM || number == SIGINT)
			return 0;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
