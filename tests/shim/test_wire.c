/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/wire.h"

static void check_bytes(const struct wire *w, const char *expected, size_t len)
{
	CHECK_INT(w->len, len);
	CHECK(memcmp(w->data, expected, len) == 0);
}

#define CHECK_BYTES(wire, text) check_bytes(wire, text, sizeof(text) - 1)

TEST(what_is_the_default_is_left_out)
{
	struct wire w = { 0 };

	wire_put_uint(&w, 1, 0);
	wire_put_int(&w, 2, 0);
	wire_put_double(&w, 3, 0);
	wire_put_string(&w, 4, "");
	wire_put_string(&w, 5, NULL);
	wire_put_time(&w, 6, 0);
	CHECK_INT(w.len, 0);
}

TEST(values)
{
	struct wire w = { 0 }, inner = { 0 }, value = { 0 };

	wire_put_uint(&w, 1, 4242);
	wire_put_int(&w, 3, -4);
	wire_put_double(&w, 4, 1.0);
	wire_put_string(&w, 5, "c1");
	wire_put_element(&w, 6, "");
	wire_put_message(&w, 7, &inner);
	wire_put_time(&w, 8, 1700000000000000005ULL);
	wire_put(&value, "v", 1);
	wire_put_any(&w, 16, "t", &value);
	CHECK_BYTES(&w, "\x08\x92\x21"
			"\x18\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x01"
			"\x21\0\0\0\0\0\0\xf0\x3f"
			"\x2a\x02"
			"c1"
			"\x32\0"
			"\x3a\0"
			"\x42\x08\x08\x80\xe2\xcf\xaa\x06\x10\x05"
			"\x82\x01\x06\x0a\x01t\x12\x01v");
	wire_free(&w);
}

TEST(reading_steps_over_all_kinds)
{
	static const char bytes[] = "\x08\x96\x01\x12\x02hi\x19\1\0\0\0\0\0\0\0\x25\2\0\0\0\x2a\0";
	struct wire_view view = wire_view_of(bytes, sizeof(bytes) - 1);
	struct wire_field f;

	CHECK_INT(wire_next(&view, &f), 1);
	CHECK(f.number == 1 && f.type == WIRE_VARINT && f.value == 150);
	CHECK_INT(wire_next(&view, &f), 1);
	CHECK(f.number == 2 && f.type == WIRE_BYTES && f.bytes.len == 2 &&
	      memcmp(f.bytes.data, "hi", 2) == 0);
	CHECK_INT(wire_next(&view, &f), 1);
	CHECK(f.number == 3 && f.type == WIRE_FIXED64 && f.value == 1);
	CHECK_INT(wire_next(&view, &f), 1);
	CHECK(f.number == 4 && f.type == WIRE_FIXED32 && f.value == 2);
	CHECK_INT(wire_next(&view, &f), 1);
	CHECK(f.number == 5 && f.bytes.len == 0);
	CHECK_INT(wire_next(&view, &f), 0);
}

TEST(bytes_that_are_no_message)
{
	static const struct {
		const char *bytes;
		size_t len;
	} wrong[] = {
		{ "\x08", 1 },                                          /* a value is missing */
		{ "\x08\x80", 2 },                                      /* half of one */
		{ "\x12\x03hi", 4 },                                    /* longer than what is there */
		{ "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, /* by far */
		{ "\x19\1\0", 3 },
		{ "\x25\1", 2 },
		{ "\x0b", 1 },                                          /* a group */
		{ "\x0f\x01", 2 },                                      /* type 7 */
		{ "\x00\x01", 2 },                                      /* field 0 */
		{ "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11 }, /* more than 64 bits */
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct wire_view view = wire_view_of(wrong[i].bytes, wrong[i].len);
		struct wire_field f;

		CHECK_INT(wire_next(&view, &f), -1);
	}
}

/* Any bytes: an end, and nothing read behind it (the sanitizers look). */
TEST(rubbish)
{
	unsigned int seed = 1;

	for (int round = 0; round < 20000; round++) {
		size_t len = (size_t)(rand_r(&seed) % 40);
		unsigned char *bytes = malloc(len ? len : 1);
		struct wire_view view = wire_view_of(bytes, len);
		struct wire_field f;
		struct wire_any any;

		for (size_t i = 0; i < len; i++)
			bytes[i] = (unsigned char)rand_r(&seed);
		while (wire_next(&view, &f) > 0)
			CHECK(f.type != WIRE_BYTES ||
			      (f.bytes.data >= bytes && f.bytes.data + f.bytes.len <= bytes + len));
		wire_read_any(wire_view_of(bytes, len), &any);
		wire_any_free(&any);
		free(bytes);
	}
}

TEST(texts)
{
	struct wire_field f = { 1, WIRE_BYTES, 0, { (const unsigned char *)"ab", 2 } };
	char *text = NULL;

	CHECK_INT(wire_take_string(&f, &text), 0);
	CHECK_STR(text, "ab");
	/* The last one counts. */
	f.bytes.len = 1;
	CHECK_INT(wire_take_string(&f, &text), 0);
	CHECK_STR(text, "a");
	f.bytes = (struct wire_view) { (const unsigned char *)"a\0b", 3 };
	CHECK_INT(wire_take_string(&f, &text), -1);
	f.type = WIRE_VARINT;
	CHECK_INT(wire_take_string(&f, &text), -1);
	free(text);
}

TEST(any)
{
	static const char bytes[] = "\x12\x01x\x0a\x1e"
				    "type.googleapis.com/a.b.Thing!";
	struct wire_any any;

	CHECK_INT(wire_read_any(wire_view_of(bytes, sizeof(bytes) - 1), &any), 0);
	CHECK_STR(wire_any_name(&any), "a.b.Thing!");
	CHECK_INT(any.value.len, 1);
	wire_any_free(&any);
	CHECK_INT(wire_read_any(wire_view_of("", 0), &any), 0);
	CHECK_STR(wire_any_name(&any), "");
	wire_any_free(&any);
}
