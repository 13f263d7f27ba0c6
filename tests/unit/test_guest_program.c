/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "guest/program.h"

static int make(const char *text, struct program *p, const char **kind)
{
	cleanup_json struct json *process = NULL;

	*kind = NULL;
	CHECK_INT(json_parse(text, strlen(text), &process, NULL), 0);
	return program_new(process, p, kind, NULL);
}

static void check_refused(const char *text)
{
	struct program p;
	const char *kind;

	CHECK(make(text, &p, &kind) < 0);
	CHECK_STR(kind, "spec");
}

TEST(searches_path_of_its_own_environment)
{
	struct program p;
	const char *kind;

	CHECK_INT(make("{\"args\":[\"ls\",\"-l\"],\"env\":[\"PATH=/a::/b\",\"X=1\",\"X=2\"]}", &p, &kind), 0);
	CHECK_STR(p.argv[1], "-l");
	CHECK(!p.argv[2]);
	CHECK_STR(p.candidates[0], "/a/ls");
	CHECK_STR(p.candidates[1], "./ls");
	CHECK_STR(p.candidates[2], "/b/ls");
	CHECK(!p.candidates[3]);
	CHECK_STR(p.envp[0], "PATH=/a::/b");
	CHECK_STR(p.envp[1], "X=2");
	CHECK(!p.envp[2]);
	CHECK_INT(program_default_env(&p, "X", "3"), 0);
	CHECK(!p.envp[2]);
	CHECK_INT(program_default_env(&p, "HOME", "/"), 0);
	CHECK_STR(p.envp[2], "HOME=/");
	program_free(&p);
}

TEST(a_slash_means_a_path)
{
	struct program p;
	const char *kind;

	CHECK_INT(make("{\"args\":[\"./x\"]}", &p, &kind), 0);
	CHECK_STR(p.candidates[0], "./x");
	CHECK(!p.candidates[1] && !p.envp[0]);
	program_free(&p);
}

TEST(bytes_travel_and_nonsense_does_not)
{
	struct program p;
	const char *kind;

	CHECK_INT(make("{\"args\":[\"/x\",{\"b64\":\"/w==\"}]}", &p, &kind), 0);
	CHECK_STR(p.argv[1], "\xff");
	program_free(&p);
	check_refused("{\"args\":[]}");
	check_refused("{\"args\":[\"\"]}");
	check_refused("{}");
	check_refused("{\"args\":[\"x\",1]}");
	check_refused("{\"args\":[\"x\",{\"b64\":\"YQBi\"}]}");
	check_refused("{\"args\":[\"x\"],\"env\":[\"A=1\",\"A=2\",\"NOVALUE\"]}");
	check_refused("{\"args\":[\"x\"],\"env\":[\"=x\"]}");
}

TEST(out_of_memory_leaves_nothing_behind)
{
	cleanup_json struct json *process = NULL;
	static const char text[] = "{\"args\":[\"a\",\"b\"],\"env\":[\"A=1\",\"PATH=/x:/y\"]}";
	struct program p;

	CHECK_INT(json_parse(text, strlen(text), &process, NULL), 0);
	for (uint64_t n = 1;; n++) {
		int r;

		mem_fail_from(n);
		r = program_new(process, &p, NULL, NULL);
		mem_fail_from(0);
		if (r == 0)
			break;
		CHECK_INT(r, CCHV_ERR_NOMEM);
		CHECK(n < 100);
	}
	program_free(&p);
}
