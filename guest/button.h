/* SPDX-License-Identifier: Apache-2.0 */
/* The power button. */
#ifndef GUEST_BUTTON_H
#define GUEST_BUTTON_H

#include "guest/agent.h"

/* Call power_button() when it is pressed. Watches until the end. */
int button_watch(struct agent *agent, cchv_error **err);

#endif
