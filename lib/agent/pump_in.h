/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input stream of a process: from descriptors of the user (one, or the clients that are attached, mixed) to the
 * guest's socket. A process that does not read holds its sources back; nothing is read from them that cannot be
 * kept. Memory: at most one chunk that waits.
 */
#ifndef AGENT_PUMP_IN_H
#define AGENT_PUMP_IN_H

#include <stdint.h>

#include "agent/pump_out.h"

struct pump_in;
struct pump_in_source;

struct pump_in_hooks {
	/* A source ended and was removed; source_data is what it was added with. */
	void (*source_ended)(void *source_data, void *user_data);
	/* pump_in_finish() is through: that many bytes were sent in all. Called once */
	void (*finished)(uint64_t bytes, void *user_data);
	/* The guest has closed: nobody reads any more. Called once, after the sources ended; may free the pump */
	void (*closed)(void *user_data);
};

/* socket is taken in any case. */
int pump_in_new(struct loop *loop, struct pump_scratch *scratch, int socket, const struct pump_in_hooks *hooks,
                void *user_data, struct pump_in **ret_pump, cchv_error **err);
void pump_in_free(struct pump_in *pump);      /* NULL is fine; calls nobody */

/* fd stays the caller's and is copied. Removed by itself at its end of file. */
int pump_in_add_source(struct pump_in *pump, int fd, void *source_data, struct pump_in_source **ret_source,
                       cchv_error **err);
void pump_in_remove_source(struct pump_in_source *source);   /* what was read from it is still sent */

/* No more input: what was read is sent, then finished is called (perhaps at once). */
void pump_in_finish(struct pump_in *pump);
uint64_t pump_in_sent(const struct pump_in *pump);
int pump_in_is_closed(const struct pump_in *pump);
int pump_in_get_socket(const struct pump_in *pump);           /* lent */

#endif
