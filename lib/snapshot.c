/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots that exist: see <cchv/snapshot.h>. Enters: directories. Leaves: descriptions, or nothing of them. */
#include <cchv/snapshot.h>

#include <string.h>

#include "base/export.h"
#include "snapshot_store.h"

static int check(const char *directory, const char *what, cchv_error **err)
{
	if (!directory)
		return err_set(err, CCHV_ERR_INVALID, 0, "%s: NULL argument", what);
	if (directory[0] != '/' || !strrchr(directory, '/')[1])
		return err_set(err, CCHV_ERR_INVALID, 0, "snapshot '%s': no absolute path", directory);
	return CCHV_OK;
}

CCHV_API int cchv_snapshot_get_info_json(const char *directory, char **ret_json, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_JSON_MAX);
	cleanup_snapshot struct snapshot *snapshot = NULL;
	int r;

	err_clear(err);
	if (!ret_json)
		return err_set(err, CCHV_ERR_INVALID, 0, "snapshot_get_info_json: NULL argument");
	r = check(directory, "snapshot_get_info_json", err);
	if (r == CCHV_OK)
		r = snapshot_open(directory, &snapshot, err);
	if (r < 0)
		return r;
	if (json_print(snapshot->info, 1, &text) < 0)
		return err_nomem(err);
	*ret_json = buf_take_string(&text);
	return *ret_json ? CCHV_OK : err_nomem(err);
}

CCHV_API int cchv_snapshot_remove(const char *directory, cchv_error **err)
{
	int r;

	err_clear(err);
	r = check(directory, "snapshot_remove", err);
	return r < 0 ? r : snapshot_remove(directory, err);
}
