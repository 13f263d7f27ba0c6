/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/spec_tree.h"

#include <cchv/error.h>

static yajl_val parse(const char *text)
{
	char reason[200];
	yajl_val tree = yajl_tree_parse(text, reason, sizeof(reason));

	CHECK(tree);
	return tree;
}

TEST(what_is_not_changed_comes_out_as_it_was)
{
	static const char text[] =
		"{\"a\":{\"b\":[1,18446744073709551615,-1,1.50,true,false,null,{},[]]},\"\":\"\\u001b\\\\\xc3\xa4\"}";
	yajl_val tree = parse(text);
	char *out = spec_tree_print(tree);

	CHECK_STR(out, "{\"a\":{\"b\":[1,18446744073709551615,-1,1.50,true,false,null,{},[]]},"
		       "\"\":\"\\u001B\\\\\xc3\xa4\"}");
	free(out);
	yajl_tree_free(tree);
}

TEST(members_are_set_replaced_and_removed)
{
	static const char *const words[] = { "nosuid", "size=5" };
	yajl_val tree = parse("{\"x\":{\"type\":\"bind\",\"source\":\"/s\",\"options\":[\"ro\"]},\"y\":1}");
	yajl_val x = spec_tree_get(tree, "x");
	char *out;

	CHECK_INT(spec_tree_set_string(x, "type", "tmpfs"), CCHV_OK);
	CHECK_INT(spec_tree_set_strings(x, "options", words, 2), CCHV_OK);
	CHECK_INT(spec_tree_set_string(x, "new", "n"), CCHV_OK);
	spec_tree_remove(x, "source");
	spec_tree_remove(x, "absent");
	spec_tree_remove(tree, "y");
	CHECK_INT(spec_tree_set_string(spec_tree_get(x, "type"), "k", "v"), CCHV_ERR_INVALID);
	out = spec_tree_print(tree);
	CHECK_STR(out, "{\"x\":{\"type\":\"tmpfs\",\"options\":[\"nosuid\",\"size=5\"],\"new\":\"n\"}}");
	free(out);
	yajl_tree_free(tree);
}

TEST(elements_are_found_and_removed)
{
	yajl_val tree = parse("{\"l\":{\"m\":[\"a\",2,\"c\"]}}"), m = spec_tree_find(tree, "l.m");
	char *out;

	CHECK_INT(spec_tree_count(m), 3);
	CHECK(spec_tree_has_string(m, "c"));
	CHECK(!spec_tree_has_string(m, "2"));
	CHECK(!spec_tree_at(m, 3));
	CHECK(!spec_tree_find(tree, "l.m.n"));
	CHECK(!spec_tree_find(tree, "l.x.n"));
	CHECK(!spec_tree_string(spec_tree_find(tree, "l"), "m"));
	spec_tree_remove_at(m, 1);
	spec_tree_remove_at(m, 7);
	out = spec_tree_print(tree);
	CHECK_STR(out, "{\"l\":{\"m\":[\"a\",\"c\"]}}");
	free(out);
	yajl_tree_free(tree);
}

TEST(a_tree_that_is_not_there_has_nothing_in_it)
{
	CHECK(!spec_tree_get(NULL, "a"));
	CHECK(!spec_tree_find(NULL, "a.b"));
	CHECK(!spec_tree_string(NULL, "a"));
	CHECK_INT(spec_tree_count(NULL), 0);
	spec_tree_remove(NULL, "a");
	spec_tree_remove_at(NULL, 0);
}
