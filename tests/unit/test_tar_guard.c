/* SPDX-License-Identifier: Apache-2.0 */
/* The guard before tar: what passes, what does not, and that the two agree where an entry ends. */
#include "examples/cli/tar_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "test.h"

#include "tar_make.h"

#define BYTES 100000
#define FILES 50

static struct tar_guard guard;

/* The verdict of all blocks and the end: NULL for "it may pass", else why not. */
static const char *judge(const struct tar_make *t)
{
	size_t at = 0;
	int r = 0;

	tar_guard_free(&guard);
	tar_guard_init(&guard, BYTES, FILES);
	for (; r == 0 && at + TAR_BLOCK <= t->bytes.len; at += TAR_BLOCK)
		r = tar_guard_block(&guard, t->bytes.data + at);
	if (r == 0)
		r = tar_guard_end(&guard);
	tar_guard_free(&guard);
	CHECK(r == 0 || guard.error[0]);
	CHECK(!strchr(guard.error, '\n'));
	return r == 0 ? NULL : guard.error;
}

static void passes(struct tar_make *t)
{
	const char *why;

	tar_make_end(t);
	why = judge(t);
	if (why)
		test_fail(__FILE__, __LINE__, "%s", why);
	tar_make_free(t);
}

static void refused(struct tar_make *t, const char *why)
{
	tar_make_end(t);
	CHECK_CONTAINS(judge(t), why);
	tar_make_free(t);
}

static void pax(struct tar_make *t, const char *a, const char *b, const char *c, const char *d, const char *e)
{
	const char *records[] = { a, b, c, d, e, NULL };

	tar_make_pax(t, 'x', records);
}

TEST(what_the_agent_sends)
{
	struct tar_make t = TAR_MAKE_INIT;
	static const char data[1500] = "data";

	tar_make_entry(&t, '5', "dir/", NULL, NULL, 0);
	tar_make_entry(&t, '0', "dir/file", NULL, data, sizeof(data));
	tar_make_entry(&t, '0', "dir/..file", NULL, data, TAR_BLOCK);
	tar_make_entry(&t, '0', "dir/file..", NULL, NULL, 0);
	tar_make_entry(&t, '1', "dir/hard", "dir/file", NULL, 0);
	/* Where a symbolic link leads is tar's to care for. */
	tar_make_entry(&t, '2', "dir/soft", "/etc/../passwd", NULL, 0);
	tar_make_entry(&t, '3', "dir/null", NULL, NULL, 0);
	tar_make_entry(&t, '4', "dir/disk", NULL, NULL, 0);
	tar_make_entry(&t, '6', "dir/fifo", NULL, NULL, 0);
	pax(&t, "path=a long one", "mtime=1.5", "uid=4000000", "SCHILY.xattr.user.x=\xff=..", "size=3");
	tar_make_entry(&t, '0', "short", NULL, "abc", 3);
	pax(&t, "linkpath=dir/file", NULL, NULL, NULL, NULL);
	tar_make_entry(&t, '1', "other", "cut off", NULL, 0);
	passes(&t);
	CHECK_INT(guard.entries, 11);
	CHECK_INT(guard.bytes, sizeof(data) + TAR_BLOCK + 3);
	passes(&t);
	CHECK_INT(guard.entries, 0);
}

TEST(names_that_lead_elsewhere)
{
	static const char *const names[] = { "/etc/passwd", "..", "../x", "a/../../x", "a/..", "a//..//x", "/",
		"./../x" };
	char record[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct tar_make t = TAR_MAKE_INIT;

		for (const char *kind = "0123456"; *kind; kind++) {
			tar_make_entry(&t, *kind, names[i], "x", NULL, 0);
			refused(&t, "leads elsewhere");
		}
		tar_make_entry(&t, '1', "x", names[i], NULL, 0);
		refused(&t, "a hard link that leads elsewhere");
		snprintf(record, sizeof(record), "path=%s", names[i]);
		pax(&t, record, NULL, NULL, NULL, NULL);
		tar_make_entry(&t, '0', "x", NULL, NULL, 0);
		refused(&t, "a name that leads elsewhere");
		snprintf(record, sizeof(record), "linkpath=%s", names[i]);
		pax(&t, record, NULL, NULL, NULL, NULL);
		tar_make_entry(&t, '1', "x", "x", NULL, 0);
		refused(&t, "a hard link that leads elsewhere");
		snprintf(record, sizeof(record), "GNU.sparse.name=%s", names[i]);
		pax(&t, "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.realsize=0", record, NULL);
		tar_make_entry(&t, '0', "x", NULL, "0\n", 2);
		refused(&t, "a name that leads elsewhere");
	}
}

TEST(the_prefix_counts)
{
	struct tar_make t = TAR_MAKE_INIT;
	uint8_t *header = tar_make_header(&t, "x", '0', 0);

	memcpy(header + 345, "a/..", 4);
	tar_make_seal(header);
	refused(&t, "leads elsewhere: 'a/../x'");
	header = tar_make_header(&t, "x", '0', 0);
	memcpy(header + 345, "/a", 2);
	tar_make_seal(header);
	refused(&t, "leads elsewhere");
	/* Fields that are full have no NUL. */
	header = tar_make_header(&t, "x", '0', 0);
	memset(header, 'n', 100);
	memset(header + 345, 'p', 155);
	tar_make_seal(header);
	passes(&t);
}

TEST(names_that_are_none)
{
	struct tar_make t = TAR_MAKE_INIT;
	static char record[5000];

	tar_make_entry(&t, '0', "", NULL, NULL, 0);
	refused(&t, "without a name");
	tar_make_entry(&t, '1', "x", NULL, NULL, 0);
	refused(&t, "without a name");
	pax(&t, "path=", NULL, NULL, NULL, NULL);
	tar_make_entry(&t, '0', "x", NULL, NULL, 0);
	refused(&t, "a name of no bytes");
	/* To some programs a directory, whose data they would read as headers. */
	tar_make_entry(&t, '0', "x/", NULL, "data", 4);
	refused(&t, "the name of a directory");
	pax(&t, "path=x/", NULL, NULL, NULL, NULL);
	tar_make_entry(&t, '0', "x", NULL, "data", 4);
	refused(&t, "the name of a directory");
	memset(record, 'n', 5 + 4096);
	memcpy(record, "path=", 5);
	record[5 + 4095] = '\0';
	pax(&t, record, NULL, NULL, NULL, NULL);
	tar_make_entry(&t, '0', "x", NULL, NULL, 0);
	passes(&t);
	record[5 + 4095] = 'n';
	pax(&t, record, NULL, NULL, NULL, NULL);
	refused(&t, "more than 4095 bytes");
	/* What is said of it has one line. */
	tar_make_entry(&t, '0', "../a\nb", NULL, NULL, 0);
	refused(&t, "'../a?b'");
}

TEST(headers_that_are_none)
{
	static const struct {
		size_t at;
		const char *bytes;
		size_t len;
		const char *why;
	} wrong[] = {
		{ 257, "ustar  ", 8, "no header" },            /* GNU's own form has no prefix */
		{ 257, "ustar\0" "01", 8, "no header" },
		{ 257, "\0\0\0\0\0", 5, "no header" },
		{ 156, "", 1, "a kind" }, { 156, "7", 1, "a kind" }, { 156, "g", 1, "a kind" }, 
		{ 156, "L", 1, "a kind" }, { 156, "K", 1, "a kind" }, { 156, "S", 1, "a kind" },
		{ 156, "D", 1, "a kind" },
		{ 156, "\xff", 1, "a kind" },
		/* Sizes that one program reads as 0, and another as something else. */
		{ 124, "        1000", 12, "no size" }, { 124, "\0" "0000001000", 12, "no size" },
		{ 124, "\x80\0\0\0\0\0\0\0\0\0\2\0", 12, "no size" },
		{ 124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, "no size" },
		{ 124, "00000000100x", 12, "no size" }, { 124, "0 0000000100", 12, "no size" },
		{ 124, "+0000000100", 11, "no size" },
		{ 124, "00000000008", 11, "no size" }, { 124, "\0\0\0\0\0\0\0\0\0\0\0", 12, "no size" },
		{ 124, "\t0000000100", 11, "no size" },
	};
	struct tar_make t = TAR_MAKE_INIT;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t *header = tar_make_header(&t, "x", '0', 0);

		memcpy(header + wrong[i].at, wrong[i].bytes, wrong[i].len);
		tar_make_seal(header);
		refused(&t, wrong[i].why);
	}
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		uint8_t *header = tar_make_header(&t, "x", '5', 0);

		header[i] ^= 1;
		refused(&t, "malformed");
	}
}

TEST(data_of_what_has_none)
{
	struct tar_make t = TAR_MAKE_INIT;

	for (const char *kind = "123456"; *kind; kind++) {
		tar_make_entry(&t, *kind, "x", "y", "data", 4);
		refused(&t, "data of what has none");
		pax(&t, "size=4", NULL, NULL, NULL, NULL);
		tar_make_entry(&t, *kind, "x", "y", NULL, 0);
		refused(&t, "data of what has none");
	}
}

TEST(the_size_of_the_records_is_the_one_that_counts)
{
	struct tar_make t = TAR_MAKE_INIT;

	/* The header says 0: read so, the data would be the next header. */
	pax(&t, "size=512", NULL, NULL, NULL, NULL);
	tar_make_header(&t, "x", '0', 0);
	tar_make_entry(&t, '5', "../is data", NULL, NULL, 0);
	passes(&t);
	CHECK_INT(guard.entries, 1);
	pax(&t, "size=0", NULL, NULL, NULL, NULL);
	tar_make_header(&t, "x", '0', 512);
	tar_make_entry(&t, '5', "../is none", NULL, NULL, 0);
	refused(&t, "leads elsewhere");
	/* The last of two. */
	pax(&t, "size=512", "size=0", NULL, NULL, NULL);
	tar_make_header(&t, "x", '0', 512);
	tar_make_entry(&t, '5', "../is none", NULL, NULL, 0);
	refused(&t, "leads elsewhere");
	for (const char *const *size = (const char *const[]){ "size=", "size=-1", "size=1x", "size= 1", "size=0x10",
	     "size=18446744073709551616", "size=9223372036854775808", NULL }; *size; size++) {
		pax(&t, *size, NULL, NULL, NULL, NULL);
		tar_make_entry(&t, '0', "x", NULL, NULL, 0);
		refused(&t, "no size");
	}
}

TEST(limits)
{
	struct tar_make t = TAR_MAKE_INIT;
	static const char data[BYTES + 1];

	tar_make_entry(&t, '0', "a", NULL, data, BYTES - 1);
	tar_make_entry(&t, '0', "b", NULL, data, 1);
	passes(&t);
	tar_make_entry(&t, '0', "a", NULL, data, BYTES - 1);
	tar_make_entry(&t, '0', "b", NULL, data, 2);
	refused(&t, "more than 100000 bytes");
	/* Before a byte of it has come. */
	tar_make_header(&t, "a", '0', 077777777777);
	refused(&t, "more than 100000 bytes");
	pax(&t, "size=9223372036854775799", NULL, NULL, NULL, NULL);
	tar_make_header(&t, "a", '0', 0);
	refused(&t, "more than 100000 bytes");
	for (int i = 0; i < FILES; i++)
		tar_make_entry(&t, '5', "x/", NULL, NULL, 0);
	passes(&t);
	for (int i = 0; i < FILES + 1; i++)
		tar_make_entry(&t, '5', "x/", NULL, NULL, 0);
	refused(&t, "more than 50 files");
}

TEST(records_that_are_none)
{
	static const struct {
		const char *text;
		size_t len;
	} wrong[] = {
#define T(text) { text, sizeof(text) - 1 }
		T("8 path=x\n"), T("11 path=x\n"), T("8 path=x\n\n"), T("4 a\n"), T("7 patx\n"), T("path=x\n"),
		T(" 10 path=x\n"),
		T("-10 path=x\n"), T("99999999999999999999 path=x\n"), T("10 path=x\n10 path=y"), T("10\tpath=x\n"),
		T("10 path\0x\n"), T("12 path\0a=x\n"), T("10 path=\0\n"), T("\n"), T("10 path=x\n\0"),
		T("00000005 a=b\n"),
		T("0 path=x\n"),
#undef T
	};
	static const char *const others[] = { "comment=x", "hdrcharset=BINARY", "Path=x", "path =x", "GNU.dumpdir=x",
		"GNU.volume.label=x", "SCHILY.realsize=1", "GNU.sparse.map=0,1",
		"GNU.sparse.major=0", "GNU.sparse.size=1" };
	struct tar_make t = TAR_MAKE_INIT;
	char big[600];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		tar_make_entry(&t, 'x', "pax", NULL, wrong[i].text, wrong[i].len);
		tar_make_entry(&t, '0', "x", NULL, NULL, 0);
		refused(&t, "malformed archive");
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		pax(&t, others[i], NULL, NULL, NULL, NULL);
		tar_make_entry(&t, '0', "x", NULL, NULL, 0);
		refused(&t, "malformed archive");
	}
	tar_make_entry(&t, 'x', "pax", NULL, NULL, 0);
	refused(&t, "of such a size");
	tar_make_header(&t, "pax", 'x', (1U << 20) + 1);
	refused(&t, "of such a size");
	pax(&t, "path=x", NULL, NULL, NULL, NULL);
	pax(&t, "mtime=1", NULL, NULL, NULL, NULL);
	refused(&t, "in a row");
	/* Whatever it says, something follows it. */
	pax(&t, "mtime=1", NULL, NULL, NULL, NULL);
	refused(&t, "of nothing");
	/* One that ends where its block does, and one that needs two. */
	for (int len = 500; len < 560; len++) {
		memset(big, 'v', sizeof(big));
		memcpy(big, "SCHILY.xattr.user.x=", 20);
		big[len] = '\0';
		pax(&t, big, "path=y", NULL, NULL, NULL);
		tar_make_entry(&t, '0', "../own", NULL, NULL, 0);
		passes(&t);
	}
}

/* map: what stands before the data. */
static void sparse(struct tar_make *t, const char *real_size, const char *map, size_t data)
{
	static const char zeros[4096];
	char record[64];
	size_t map_len = (strlen(map) + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;

	snprintf(record, sizeof(record), "GNU.sparse.realsize=%s", real_size);
	pax(t, "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=holes", record, NULL);
	tar_make_header(t, "holes", '0', map_len + data);
	tar_make_data(t, map, strlen(map));
	tar_make_data(t, zeros, data);
}

TEST(sparse_files)
{
	static const struct {
		const char *real_size, *map;
		size_t data;
	} wrong[] = {
		{ "4096", "1\n0\n1024\n", 512 },       /* more than there is: tar would take the next entry's */
		{ "4096", "1\n0\n512\n", 1024 },       /* less */
		{ "511", "1\n0\n512\n", 512 }, { "4096", "1\n4095\n2\n", 2 },
		{ "4096", "1\n99999999999999999\n0\n", 0 },
		{ "4096", "2\n512\n512\n0\n512\n", 1024 }, { "4096", "2\n0\n512\n511\n512\n", 1024 },
		{ "4096", "1\n0\n", 512 }, { "4096", "2\n0\n512\n", 512 }, { "4096", "\n", 0 }, { "4096", "x\n", 0 },
		{ "4096", "-1\n", 0 }, { "4096", "1 0 512\n", 512 }, { "4096", "1\n0\n512", 0 },
		{ "4096", "99999999999999999\n", 0 },
		{ "4096", "1\n0000000000000000000000\n0\n", 0 }, { "x", "0\n", 0 }, { "", "0\n", 0 }, { "4096", "", 0 },
	};
	struct tar_make t = TAR_MAKE_INIT;
	static char map[3000];
	size_t len = 0;

	sparse(&t, "1099511627776", "2\n0\n512\n1099511627000\n776\n", 512 + 776);
	tar_make_entry(&t, '5', "next/", NULL, NULL, 0);
	sparse(&t, "4096", "0\n", 0);
	sparse(&t, "4096", "1\n4096\n0\n", 0);
	/* A map of more than one block, with numbers across their border. */
	len = (size_t)snprintf(map, sizeof(map), "300\n");
	for (int i = 0; i < 300; i++)
		len += (size_t)snprintf(map + len, sizeof(map) - len, "%d\n1\n", 3 * i);
	sparse(&t, "4096", map, 300);
	passes(&t);
	CHECK_INT(guard.entries, 5);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		sparse(&t, wrong[i].real_size, wrong[i].map, wrong[i].data);
		tar_make_entry(&t, '5', "next/", NULL, NULL, 0);
		refused(&t, "malformed archive");
	}
	/* Records that are there in part, or that are of something else. */
	for (int missing = 0; missing < 5; missing++) {
		const char *records[] = { "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=x",
			"GNU.sparse.realsize=0" };

		if (missing < 4)
			records[missing] = "mtime=1";
		pax(&t, records[0], records[1], records[2], records[3], NULL);
		tar_make_entry(&t, missing < 4 ? '0' : '5', "x", NULL, "0\n", missing < 4 ? 2 : 0);
		refused(&t, "malformed archive");
	}
	/* They are not the next one's. */
	sparse(&t, "0", "0\n", 0);
	tar_make_entry(&t, '0', "whole", NULL, "no map", 6);
	passes(&t);
}

TEST(the_end)
{
	struct tar_make t = TAR_MAKE_INIT;
	static const uint8_t zeros[TAR_BLOCK * 19];
	size_t whole;

	tar_make_entry(&t, '0', "x", NULL, "abc", 3);
	tar_make_data(&t, zeros, sizeof(zeros) - TAR_BLOCK);
	passes(&t);
	tar_make_entry(&t, '0', "x", NULL, "abc", 3);
	tar_make_data(&t, zeros, sizeof(zeros));
	refused(&t, "no end");
	tar_make_data(&t, zeros, TAR_BLOCK);
	tar_make_entry(&t, '0', "x", NULL, "abc", 3);
	refused(&t, "behind its end");
	/* Cut at every block. */
	pax(&t, "path=y", NULL, NULL, NULL, NULL);
	tar_make_entry(&t, '0', "x", NULL, zeros, 1000);
	tar_make_end(&t);
	whole = t.bytes.len;
	for (t.bytes.len = 0; t.bytes.len < whole; t.bytes.len += TAR_BLOCK)
		CHECK_CONTAINS(judge(&t), "cut short");
	CHECK(!judge(&t));
	tar_make_free(&t);
}

/* Through descriptors, in pieces of at most so many bytes (0: of any size): the code, and what came through. */
static int copy(const struct tar_make *t, size_t piece, struct buf *out, unsigned int seed)
{
	int in[2], through[2], r, status;
	pid_t writer;

	CHECK_INT(pipe(in), 0);
	CHECK_INT(pipe(through), 0);
	/* Room for all, so that nobody waits for the reader. */
	CHECK(fcntl(through[1], F_SETPIPE_SZ, 1 << 18) >= 1 << 18);
	writer = fork();
	if (writer == 0) {
		signal(SIGPIPE, SIG_DFL);
		close(in[0]);
		srandom(seed);
		for (size_t at = 0, n; at < t->bytes.len; at += n) {
			n = piece ? piece : (size_t)random() % 3000 + 1;
			n = n < t->bytes.len - at ? n : t->bytes.len - at;
			if (write(in[1], t->bytes.data + at, n) != (ssize_t)n)
				_exit(1);
		}
		_exit(0);
	}
	close(in[1]);
	tar_guard_init(&guard, BYTES, FILES);
	r = tar_guard_copy(&guard, in[0], through[1]);
	tar_guard_free(&guard);
	close(in[0]);
	close(through[1]);
	CHECK_INT(waitpid(writer, &status, 0), writer);
	while (buf_read_fd(out, through[0], 65536) > 0)
		;
	close(through[0]);
	return r;
}

TEST(in_pieces)
{
	struct tar_make t = TAR_MAKE_INIT;
	static const char data[20000] = "data";

	pax(&t, "path=a/b", "mtime=1", NULL, NULL, NULL);
	tar_make_entry(&t, '0', "x", NULL, data, sizeof(data));
	sparse(&t, "4096", "1\n0\n512\n", 512);
	tar_make_end(&t);
	for (unsigned int i = 0; i < 30; i++) {
		struct buf out = BUF_INIT(1U << 20);

		CHECK_INT(copy(&t, i < 4 ? (const size_t[]){ 1, 511, 512, 513 }[i] : 0, &out, i), 0);
		CHECK_INT(out.len, t.bytes.len);
		CHECK(memcmp(out.data, t.bytes.data, out.len) == 0);
		buf_free(&out);
	}
	/* Of what is refused nothing comes through from the entry on, whatever the pieces. */
	t.bytes.len -= 1024;
	tar_make_entry(&t, '0', "../x", NULL, data, 10);
	tar_make_end(&t);
	for (unsigned int i = 0; i < 10; i++) {
		struct buf out = BUF_INIT(1U << 20);

		CHECK_INT(copy(&t, i == 0 ? 1 : 0, &out, i), -1);
		CHECK_CONTAINS(guard.error, "'../x'");
		CHECK(out.len <= t.bytes.len - 2048 && (!out.len || memcmp(out.data, t.bytes.data, out.len) == 0));
		buf_free(&out);
	}
	/* Half a block is no block. */
	t.bytes.len = TAR_BLOCK * 2 + 100;
	for (unsigned int i = 0; i < 3; i++) {
		struct buf out = BUF_INIT(1U << 20);

		CHECK_INT(copy(&t, 0, &out, i), -1);
		CHECK_CONTAINS(guard.error, "cut short");
		buf_free(&out);
	}
	tar_make_free(&t);
}

/* Whatever comes, the guard says something, and touches nothing that is not its own. */
TEST(rubbish)
{
	struct tar_make t = TAR_MAKE_INIT;

	srandom(1);
	sparse(&t, "4096", "2\n0\n512\n1024\n512\n", 1024);
	pax(&t, "path=a", "size=5", "linkpath=b", NULL, NULL);
	tar_make_entry(&t, '0', "x", NULL, "abcde", 5);
	tar_make_end(&t);
	for (int i = 0; i < 20000; i++) {
		size_t at = (size_t)random() % t.bytes.len, block = at / TAR_BLOCK * TAR_BLOCK;
		uint8_t before[TAR_BLOCK];

		memcpy(before, t.bytes.data + block, TAR_BLOCK);
		for (int k = random() % 4; k >= 0; k--)
			t.bytes.data[block + (size_t)random() % TAR_BLOCK] = (uint8_t)random();
		if (memcmp(before + 257, "ustar", 5) == 0)
			tar_make_seal(t.bytes.data + block);
		judge(&t);
		memcpy(t.bytes.data + block, before, TAR_BLOCK);
	}
	CHECK(!judge(&t));
	tar_make_free(&t);
}
