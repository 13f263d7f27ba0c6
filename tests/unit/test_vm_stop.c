/* SPDX-License-Identifier: Apache-2.0 */
#include "vm_stop.h"

#include "test.h"

TEST(the_message_of_a_panic)
{
	char *text;

	text = vm_panic_message("[ 0.1] x\r\n[ 1.2] Kernel panic - not syncing: Attempted to kill init!\r\nCPU: 0\n");
	CHECK_STR(text, "Attempted to kill init!");
	free(text);
	text = vm_panic_message("Kernel panic - not syncing: cut");
	CHECK_STR(text, "cut");
	free(text);
	CHECK(!vm_panic_message("nothing of that kind\n"));
}

TEST(names)
{
	for (int state = CCHV_VM_CREATED; state <= CCHV_VM_STOPPED; state++)
		CHECK_INT(vm_state_from_name(vm_state_name(state)), state);
	CHECK_INT(vm_state_from_name("rubbish"), 0);
	CHECK_INT(vm_state_from_name(NULL), 0);
	CHECK_STR(vm_stop_name(CCHV_STOP_OWNER_DIED), "owner_died");
	CHECK_STR(vm_stop_name(99), "unknown");
}
