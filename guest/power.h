/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the VM: on request, by the power button, or when nobody is left who would need it. */
#ifndef GUEST_POWER_H
#define GUEST_POWER_H

#include "guest/request.h"

int power_new(struct agent *agent, cchv_error **err);
void power_free(struct agent *agent);

/* An exit was published; a process starts. Together with ack: the idle rule. */
void power_exec_exited(struct agent *agent);
void power_exec_started(struct agent *agent);
/* The button was pressed; pressed again, nobody is waited for any more. */
void power_button(struct agent *agent);
/* Once it has begun, nothing is started any more. */
int power_is_off(const struct agent *agent);

/* Handlers. */
int power_ack(struct agent *agent, const struct json *params, struct reply *reply);
int power_shutdown(struct agent *agent, const struct json *params, struct reply *reply);

#endif
