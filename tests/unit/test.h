/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unit tests' harness: TEST(name) defines a case; each runs in a child process of its own under an alarm, and
 * the count of open descriptors before and after must agree. CHECK and friends end the case at the first failure.
 * One line per case on stdout ("ok NAME" or "FAILED NAME"), exit code 1 when one failed.
 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * For what must come: a machine may give a process no turn for seconds. Below the alarm of a case, so that the line
 * that waits is told. A bound that is itself the promise is ten times the promise.
 */
#define PATIENCE_MS 50000

struct test_case {
	const char *name;
	void (*fn)(void);
	struct test_case *next;
};

void test_register(struct test_case *test);
void __attribute__((noreturn, format(printf, 3, 4))) test_fail(const char *file, int line, const char *format, ...);
/* A fresh directory, removed with all its contents after the case. */
const char *test_dir(void);

#define TEST(name)                                                                         \
	static void test_##name(void);                                                     \
	static void __attribute__((constructor)) register_##name(void)                     \
	{                                                                                  \
		static struct test_case test = { #name, test_##name, NULL };               \
		test_register(&test);                                                      \
	}                                                                                  \
	static void test_##name(void)

#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition))                                                          \
			test_fail(__FILE__, __LINE__, "%s", #condition);                   \
	} while (0)
#define CHECK_INT(actual, expected)                                                        \
	do {                                                                               \
		long long a_ = (long long)(actual), e_ = (long long)(expected);            \
		if (a_ != e_)                                                              \
			test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #actual, a_, e_); \
	} while (0)
#define CHECK_STR(actual, expected)                                                        \
	do {                                                                               \
		const char *a_ = (actual), *e_ = (expected);                               \
		if (!a_ || strcmp(a_, e_) != 0)                                            \
			test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #actual, a_ ? a_ : "(null)", e_); \
	} while (0)
#define CHECK_CONTAINS(actual, part)                                                       \
	do {                                                                               \
		const char *a_ = (actual), *p_ = (part);                                   \
		if (!a_ || !strstr(a_, p_))                                                \
			test_fail(__FILE__, __LINE__, "%s is \"%s\", without \"%s\"", #actual,             \
				  a_ ? a_ : "(null)", p_);                                               \
	} while (0)

#endif
