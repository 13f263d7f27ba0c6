/* SPDX-License-Identifier: Apache-2.0 */
#include "guest_json.h"

#include "guest/field.h"

TEST(absent_and_null_are_alike)
{
	struct json *j = parse("{'a':null}");
	struct words words = { NULL, 0 };
	uint64_t number = 7;
	const char *text = "as it was";

	CHECK_INT(field_u64(j, "", "a", &number, NULL), 0);
	CHECK_INT(field_u64(j, "", "b", &number, NULL), 0);
	CHECK_INT(field_text(j, "", "a", &text, NULL), 0);
	CHECK_INT(field_words(j, "", "a", &words, NULL), 0);
	CHECK_INT(field_u64(NULL, "", "a", &number, NULL), 0);
	CHECK_INT(number, 7);
	CHECK_STR(text, "as it was");
	json_free(j);
}

TEST(errors_name_the_place)
{
	struct json *j = parse(
		"{'n':'1','neg':-1,'big':1e300,'frac':1.5,'o':[],'w':['a',null],'nul':'a\\u0000b'}");
	struct words words = { NULL, 0 };
	const struct json *object;
	const char *text;
	uint64_t u;
	int64_t i;
	cchv_error *err = NULL;

#define BAD(call, part)                                        \
	do {                                                   \
		err = NULL;                                    \
		CHECK_INT((call), CCHV_ERR_INVALID);           \
		CHECK_CONTAINS(cchv_error_message(err), part); \
		cchv_error_free(err);                          \
	} while (0)
	BAD(field_u64(j, "a.b", "n", &u, &err), "a.b.n: not a number");
	BAD(field_u64(j, "", "neg", &u, &err), "neg: not a whole number from 0");
	BAD(field_u64(j, "", "big", &u, &err), "big: ");
	BAD(field_u64(j, "", "frac", &u, &err), "frac: ");
	BAD(field_i64(j, "x", "neg", 0, 5, &i, &err), "x.neg: not a whole number from 0 to 5");
	BAD(field_object(j, "x", "o", &object, &err), "x.o: not an object");
	BAD(field_words(j, "process", "w", &words, &err), "process.w[1]: not a string");
	BAD(field_words(j, "process", "n", &words, &err), "process.n: not an array");
	BAD(field_text(j, "", "nul", &text, &err), "nul: has a NUL");
	BAD(field_required(0, "process", "cwd", &err), "process.cwd: required");
	CHECK_INT(words.count, 0);
	json_free(j);
}

TEST(bytes_travel_in_base64)
{
	struct json *j = parse("{'w':['plain',{'b64':'//4='}],'z':{'b64':'YQBi'}}");
	struct words words = { NULL, 0 };
	char *bytes = NULL;

	CHECK_INT(field_words(j, "", "w", &words, NULL), 1);
	CHECK_INT(words.count, 2);
	CHECK_STR(words.items[0], "plain");
	CHECK_STR(words.items[1], "\xff\xfe");
	CHECK(!words.items[2]);
	words_free(&words);
	CHECK_INT(field_bytes(j, "", "z", &bytes, NULL), CCHV_ERR_INVALID);
	CHECK(!bytes);
	json_free(j);
}

TEST(long_paths_are_cut_and_say_so)
{
	struct field_place fits, cut;
	char key[sizeof(fits.path) + 1];

	memset(key, 'k', sizeof(key));
	key[sizeof(fits.path) - 3] = '\0';
	fits = field_join("x", key);
	CHECK_INT(strlen(fits.path), sizeof(fits.path) - 1);
	CHECK_INT(fits.path[sizeof(fits.path) - 2], 'k');
	key[sizeof(fits.path) - 3] = 'k';
	key[sizeof(fits.path) - 2] = '\0';
	cut = field_join("x", key);
	CHECK_INT(strlen(cut.path), sizeof(cut.path) - 1);
	CHECK_STR(cut.path + sizeof(cut.path) - 6, "kk...");
}
