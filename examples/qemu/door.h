/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A door into a machine that stands still: its I/O ports and the memory that its processors see, read and written by
 * us, through the test server that every QEMU has. What a guest's driver can do to a device, we can do here.
 */
#ifndef QEMU_DOOR_H
#define QEMU_DOOR_H

#include "base/loop.h"
#include "qmp.h"

struct door;

/* One in the life of a machine: QEMU does not let go of its server again. Freed after the machine. */
int door_open(struct loop *loop, struct qmp *qmp, struct door **ret_door, struct fault *fault);
void door_free(struct door *door);

/* size: 1, 2 or 4 bytes; of memory 8 too. */
int door_in(struct door *door, uint16_t port, unsigned int size, uint32_t *ret, struct fault *fault);
int door_out(struct door *door, uint16_t port, unsigned int size, uint32_t value, struct fault *fault);
int door_read(struct door *door, uint64_t address, unsigned int size, uint64_t *ret, struct fault *fault);
int door_write(struct door *door, uint64_t address, unsigned int size, uint64_t value, struct fault *fault);

/* An answer: 1 it has a value, 0 it has none, -1 it is a refusal or nonsense. */
int door_parse_answer(const char *line, uint64_t *ret_value);

DEFINE_CLEANUP(door, struct door, door_free)
#define cleanup_door __attribute__((cleanup(door_cleanup)))

#endif
