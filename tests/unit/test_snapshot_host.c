/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot_host.h"
#include "test.h"

static const char cpuinfo[] =
	"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: A Processor\n"
	"stepping\t: 7\nmicrocode\t: 0x1\ncpu MHz\t\t: 2500.000\nflags\t\t: fpu vme\nbugs\t\t: spectre\n\n"
	"processor\t: 1\nvendor_id\t: Other\n";

TEST(what_a_guest_may_have_seen)
{
	cleanup_buf struct buf out = BUF_INIT(4096);

	CHECK_INT(snapshot_host_cpu(cpuinfo, &out), 0);
	/* Of the first processor; neither its clock nor what updates of the same machine change. */
	CHECK_STR(buf_string(&out), "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
	                            "model name\t: A Processor\nstepping\t: 7\nflags\t\t: fpu vme\n");
}

TEST(a_snapshot_of_this_machine)
{
	cleanup_json struct json *info = json_new_object();
	cleanup_err cchv_error *err = NULL;
	struct json *cpu;

	CHECK_INT(snapshot_host_describe(info, NULL), 0);
	CHECK(json_as_string(json_get(info, "host_kernel")) != NULL);
	CHECK_INT(snapshot_host_check(info, NULL), 0);
	cpu = json_edit(info, "cpu", JSON_OBJECT);
	json_set_string(cpu, "sha256", "0");
	CHECK_INT(snapshot_host_check(info, &err), CCHV_ERR_UNSUPPORTED);
	CHECK(strstr(cchv_error_message(err), "with other features") != NULL);
	cchv_error_free(err);
	err = NULL;
	json_set_string(cpu, "model", "Another");
	CHECK_INT(snapshot_host_check(info, &err), CCHV_ERR_UNSUPPORTED);
	CHECK(strstr(cchv_error_message(err), "'Another'") != NULL);
	json_remove(info, "cpu");
	CHECK_INT(snapshot_host_check(info, NULL), CCHV_ERR_UNSUPPORTED);
}
