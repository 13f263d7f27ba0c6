/* SPDX-License-Identifier: Apache-2.0 */
#include "image/sha256.h"

#include "test.h"

static void check(const char *text, size_t repeat, const char *expected)
{
	for (int portable = 0; portable < 2; portable++) {
		struct sha256 s;
		char hex[SHA256_HEX_SIZE];

		sha256_set_portable(portable);
		sha256_init(&s);
		for (size_t i = 0; i < repeat; i++)
			sha256_update(&s, text, strlen(text));
		sha256_final_hex(&s, hex);
		CHECK_STR(hex, expected);
	}
}

/* The vectors of FIPS 180-4. */
TEST(sha256_vectors)
{
	check("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	check("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	check("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Each length around the block and padding limits, in one piece and byte by byte, both ways of computing. */
TEST(sha256_pieces_agree)
{
	uint8_t data[300];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37 + 11);
	for (size_t len = 0; len < sizeof(data); len++) {
		char hex[3][SHA256_HEX_SIZE];
		struct sha256 s;

		for (int way = 0; way < 3; way++) {
			sha256_set_portable(way == 0);
			sha256_init(&s);
			if (way < 2)
				sha256_update(&s, data, len);
			for (size_t i = 0; way == 2 && i < len; i++)
				sha256_update(&s, data + i, 1);
			sha256_final_hex(&s, hex[way]);
		}
		CHECK_STR(hex[1], hex[0]);
		CHECK_STR(hex[2], hex[0]);
	}
}

TEST(sha256_hex_form)
{
	CHECK(sha256_hex_is_valid("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
	CHECK(!sha256_hex_is_valid("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85"));
	CHECK(!sha256_hex_is_valid("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8555"));
	CHECK(!sha256_hex_is_valid("E3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
	CHECK(!sha256_hex_is_valid("../0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
}
