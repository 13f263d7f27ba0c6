/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: see plan.h. Enters: parts of a device. Leaves: the steps to make and to unmake it. */
#include "plan.h"

#include <stdio.h>
#include <string.h>

void plan_init(struct plan *plan, struct plan_names *names)
{
	memset(plan, 0, sizeof(*plan));
	plan->names = names;
}

void plan_free(struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		json_free(plan->steps[i].arguments);
		free(plan->steps[i].word);
	}
	memset(plan, 0, sizeof(*plan));
}

struct plan_id plan_new_id(struct plan *plan)
{
	struct plan_id id;

	snprintf(id.text, sizeof(id.text), "d%u", plan->names->next_id++);
	return id;
}

const char *plan_fd(struct plan *plan, int fd)
{
	struct plan_fd *f = &plan->fds[plan->fd_count];

	if (plan->fd_count == PLAN_FDS) {
		plan->failed = 1;
		return "";
	}
	plan->fd_count++;
	f->fd = fd;
	snprintf(f->name, sizeof(f->name), plan->names->hot ? "fd%d" : "%d", plan->names->next_fd++);
	return f->name;
}

static struct step *add(struct plan *plan, enum step_kind kind, const char *id)
{
	struct step *step = &plan->steps[plan->count];

	if (plan->count == PLAN_STEPS) {
		plan->failed = 1;
		return NULL;
	}
	plan->count++;
	step->kind = kind;
	snprintf(step->id, sizeof(step->id), "%s", id);
	return step;
}

void plan_add(struct plan *plan, enum step_kind kind, const char *id, struct json *arguments)
{
	struct step *step = arguments ? add(plan, kind, id) : NULL;

	if (!step) {
		plan->failed = 1;
		json_free(arguments);
		return;
	}
	step->arguments = arguments;
}

void plan_add_chardev_word(struct plan *plan, const char *id, char *word)
{
	struct step *step = word ? add(plan, STEP_CHARDEV, id) : NULL;

	if (!step) {
		plan->failed = 1;
		free(word);
		return;
	}
	step->word = word;
}

void plan_add_chardev_fd(struct plan *plan, const char *id, int fd)
{
	const char *name = plan_fd(plan, fd);
	struct json *all, *backend, *data, *address, *address_data;

	if (!plan->names->hot) {
		plan_add_chardev_word(plan, id, mem_printf("socket,id=%s,fd=%s", id, name));
		return;
	}
	address_data = json_new_object();
	json_set_string(address_data, "str", name);
	address = json_new_object();
	json_set_string(address, "type", "fd");
	json_set(address, "data", address_data);
	data = json_new_object();
	json_set(data, "addr", address);
	json_set_bool(data, "server", 0);
	backend = json_new_object();
	json_set_string(backend, "type", "socket");
	json_set(backend, "data", data);
	all = json_new_object();
	json_set_string(all, "id", id);
	json_set(all, "backend", backend);
	plan_add(plan, STEP_CHARDEV, id, all);
}

const char *step_command(const struct step *step)
{
	static const char *const commands[] = {
		[STEP_OBJECT] = "object-add",
		[STEP_CHARDEV] = "chardev-add",
		[STEP_NETDEV] = "netdev_add",
		[STEP_BLOCKDEV] = "blockdev-add",
		[STEP_DEVICE] = "device_add",
	};

	return commands[step->kind];
}

const char *step_undo_command(const struct step *step, struct json **ret_arguments)
{
	static const char *const commands[] = {
		[STEP_OBJECT] = "object-del",
		[STEP_CHARDEV] = "chardev-remove",
		[STEP_NETDEV] = "netdev_del",
		[STEP_BLOCKDEV] = "blockdev-del",
		[STEP_DEVICE] = NULL,
	};
	struct json *arguments;

	if (!commands[step->kind])
		return NULL;
	arguments = json_new_object();
	json_set_string(arguments, step->kind == STEP_BLOCKDEV ? "node-name" : "id", step->id);
	*ret_arguments = arguments;
	return arguments ? commands[step->kind] : NULL;
}
