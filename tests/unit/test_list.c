/* SPDX-License-Identifier: Apache-2.0 */
#include "list.h"
#include "findings.h"

#include "test.h"

TEST(list_keeps_copies)
{
	cleanup_list cchv_list *list = list_new();
	char text[] = "b";

	CHECK_INT(list_add(list, text), CCHV_OK);
	text[0] = 'x';
	CHECK_INT(list_add(list, "a"), CCHV_OK);
	CHECK_INT(cchv_list_get_count(list), 2);
	CHECK_STR(cchv_list_get(list, 0), "b");
	list_sort(list);
	CHECK_STR(cchv_list_get(list, 0), "a");
	CHECK_STR(cchv_list_get(list, 1), "b");
	CHECK(!cchv_list_get(list, 2));
	CHECK(!cchv_list_get(list, -1));
}

TEST(list_grows)
{
	cleanup_list cchv_list *list = list_new();
	char text[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "%04d", 999 - i);
		CHECK_INT(list_add(list, text), CCHV_OK);
	}
	list_sort(list);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "%04d", i);
		CHECK_STR(cchv_list_get(list, i), text);
	}
}

TEST(list_out_of_memory)
{
	cleanup_list cchv_list *list = list_new();

	for (uint64_t n = 1; n <= 2; n++) {
		mem_fail_from(n);
		CHECK_INT(list_add(list, "a"), CCHV_ERR_NOMEM);
		mem_fail_from(0);
		CHECK_INT(cchv_list_get_count(list), 0);
	}
	CHECK_INT(list_add(list, "a"), CCHV_OK);
	CHECK_INT(cchv_list_get_count(list), 1);
}

TEST(list_null)
{
	CHECK_INT(cchv_list_get_count(NULL), 0);
	CHECK(!cchv_list_get(NULL, 0));
	cchv_list_free(NULL);
}

TEST(findings_hold_what_was_added)
{
	cleanup_findings cchv_findings *f = findings_new();

	CHECK_INT(findings_add(f, "vmm", CCHV_FINDING_OK, "/usr/bin/x", NULL), CCHV_OK);
	CHECK_INT(findings_add(f, "kvm", CCHV_FINDING_MISSING, "no /dev/kvm", "load kvm"), CCHV_OK);
	CHECK_INT(cchv_findings_get_count(f), 2);
	CHECK_STR(cchv_findings_get_name(f, 1), "kvm");
	CHECK_INT(cchv_findings_get_status(f, 1), CCHV_FINDING_MISSING);
	CHECK_STR(cchv_findings_get_text(f, 0), "/usr/bin/x");
	CHECK_STR(cchv_findings_get_advice(f, 1), "load kvm");
	CHECK(!cchv_findings_get_advice(f, 0));
	CHECK(!cchv_findings_get_name(f, 2));
	CHECK_INT(cchv_findings_get_status(f, -1), CCHV_ERR_INVALID);
}

TEST(findings_out_of_memory)
{
	cleanup_findings cchv_findings *f = findings_new();

	for (uint64_t n = 1; n <= 4; n++) {
		mem_fail_from(n);
		CHECK_INT(findings_add(f, "a", 0, "b", "c"), CCHV_ERR_NOMEM);
		mem_fail_from(0);
		CHECK_INT(cchv_findings_get_count(f), 0);
		cchv_findings_free(f);
		f = findings_new();
	}
	CHECK_INT(findings_add(NULL, "a", 0, "b", NULL), CCHV_OK);
}
