/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What QEMU needs for one device: objects, block nodes, network and character back ends, the device itself, in the
 * order in which they are made. The same plan becomes command-line words (cold) or QMP commands (hot), and undoes
 * itself backwards.
 */
#ifndef QEMU_PLAN_H
#define QEMU_PLAN_H

#include "base/json.h"

#define PLAN_STEPS 12
#define PLAN_FDS 32

enum step_kind { STEP_OBJECT, STEP_CHARDEV, STEP_NETDEV, STEP_BLOCKDEV, STEP_DEVICE };

struct step {
	enum step_kind kind;
	char id[16];                    /* QEMU's name of it */
	struct json *arguments;         /* of the QMP command */
	char *word;                     /* the command line's form where it is not JSON (chardev) */
};

struct plan_fd {
	int fd;                         /* lent */
	char name[16];                  /* a number in the child (cold), a name of getfd (hot) */
};

/* Numbers for names and descriptors, unique in one QEMU. */
struct plan_names {
	int hot;
	unsigned int next_id;
	int next_fd;
};

struct plan {
	struct plan_names *names;
	struct step steps[PLAN_STEPS];
	size_t count;
	struct plan_fd fds[PLAN_FDS];
	size_t fd_count;
	int failed;                     /* out of memory or of places: the plan is not to be used */
};

void plan_init(struct plan *plan, struct plan_names *names);
void plan_free(struct plan *plan);

/* A fresh name for QEMU's side ("d7"). */
struct plan_id { char text[16]; };
struct plan_id plan_new_id(struct plan *plan);

/* The descriptor's name there. */
const char *plan_fd(struct plan *plan, int fd);

/* Takes arguments, which carry id, node-name or qom-type themselves as QEMU wants them. */
void plan_add(struct plan *plan, enum step_kind kind, const char *id, struct json *arguments);
/* A character device on a connected stream socket. */
void plan_add_chardev_fd(struct plan *plan, const char *id, int fd);
/* One that exists only at start: its -chardev text, taken. */
void plan_add_chardev_word(struct plan *plan, const char *id, char *word);

/* The QMP commands of a step; NULL when there is none (a device is not undone) or memory ran out. */
const char *step_command(const struct step *step);
const char *step_undo_command(const struct step *step, struct json **ret_arguments);

#define cleanup_plan __attribute__((cleanup(plan_free)))

#endif
