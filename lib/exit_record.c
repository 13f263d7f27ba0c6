/* SPDX-License-Identifier: Apache-2.0 */
/* Exit records: see exit_record.h. Enters: how a container ended. Leaves: a file that says so. */
#include "exit_record.h"

#include "base/json.h"
#include "base/path.h"

int exit_record_write(const char *dir, const struct exit_record *record, cchv_error **err)
{
	cleanup_json struct json *json = json_new_object();
	cleanup_buf struct buf text = BUF_INIT(65536);
	cleanup_free char *path = mem_printf("%s/exit.json", dir);

	if (record->exit_code >= 0)
		json_set_i64(json, "exit_code", record->exit_code);
	else
		json_set(json, "exit_code", json_new_null());
	json_set_i64(json, "signal", record->signal);
	json_set_bool(json, "oom", record->oom);
	json_set_string(json, "reason", record->reason ? record->reason : "unknown");
	json_set_u64(json, "time_ns", record->time_ns);
	if (!json || !path || json_print(json, 1, &text) < 0)
		return err_nomem(err);
	return path_write_atomic(path, text.data, text.len, 0600, err);
}
