/* SPDX-License-Identifier: BSD-2-Clause */
/* rf_escape() and rf_unescape(): round trips, and what must not get through. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/text.h"

static void expect(const char *bytes, size_t size, const char *text)
{
	_cleanup_free_ char *escaped = rf_escape(bytes, size);
	_cleanup_free_ char *back = NULL;
	size_t n;

	assert_string_equal(escaped, text);
	assert_int_equal(rf_unescape(escaped, &back, &n), 0);
	assert_int_equal(n, size);
	assert_memory_equal(back, bytes, size);
	assert_int_equal(back[n], 0);
}
#define EXPECT(bytes, text) expect(bytes, sizeof(bytes) - 1, text)

static void escapes(void **state)
{
	(void)state;
	EXPECT("", "");
	EXPECT("/home/a b", "/home/a b");
	EXPECT("a\\b", "a\\\\b");
	EXPECT("a\nb\tc\x1b[31m", "a\\x0ab\\x09c\\x1b[31m");
	EXPECT("\0x\x7f", "\\x00x\\x7f");
	EXPECT("gr\xc3\xbc\xc3\x9f \xf0\x9f\x8e\x89", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x8e\x89");
	/* Not UTF-8: lone, cut, overlong, surrogate, beyond the last character. */
	EXPECT("\xff", "\\xff");
	EXPECT("\xc3", "\\xc3");
	EXPECT("\xc3(", "\\xc3(");
	EXPECT("\xc0\xaf", "\\xc0\\xaf");
	EXPECT("\xe0\x80\xaf", "\\xe0\\x80\\xaf");
	EXPECT("\xed\xa0\x80", "\\xed\\xa0\\x80");
	EXPECT("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
	/* C1 controls, line separators, marks of direction. */
	EXPECT("\xc2\x9b"
	       "31m",
	       "\\xc2\\x9b31m");
	EXPECT("\xe2\x80\xa8", "\\xe2\\x80\\xa8");
	EXPECT("\xe2\x80\xae"
	       "txt",
	       "\\xe2\\x80\\xaetxt");
}

static void cleans(void **state)
{
	_cleanup_free_ char *clean = rf_clean("a\\b \x1b[1m\x9b\xc2\x9b\xe2\x80\xae\xc3\xbc");

	(void)state;
	assert_string_equal(clean, "a\\b \\x1b[1m\\x9b\\xc2\\x9b\\xe2\\x80\\xae\xc3\xbc");
}

static void quotes(void **state)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
		{"/a/b-c_d.e", "/a/b-c_d.e"},
		{"", "\"\""},
		{"/a b", "\"/a b\""},
		{"/f read  (rule)  x[1]", "\"/f read  (rule)  x[1]\""},
		{"/a\"b", "\"/a\\\"b\""},
		{"/a\\x0ab", "/a\\x0ab"},
		{"/a\\\\b c", "\"/a\\\\b c\""},
		{"/cut...", "\"/cut...\""},
		{"/no\xc2\xa0"
		 "break",
		 "\"/no\xc2\xa0"
		 "break\""},
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		_cleanup_free_ char *word = rf_quote(cases[i].text);

		assert_string_equal(word, cases[i].word);
	}
}

static void random_bytes(void **state)
{
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		char bytes[64];
		size_t size = (size_t)rand_r(&seed) % sizeof(bytes), n;
		_cleanup_free_ char *escaped = NULL;
		_cleanup_free_ char *back = NULL;

		for (size_t i = 0; i < size; i++)
			bytes[i] = (char)rand_r(&seed);
		escaped = rf_escape(bytes, size);
		assert_non_null(escaped);
		for (const char *c = escaped; *c; c++)
			assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
		assert_int_equal(rf_unescape(escaped, &back, &n), 0);
		assert_int_equal(n, size);
		assert_memory_equal(back, bytes, size);
	}
}

static void refuses(void **state)
{
	static const char *const bad[] = {"\\",	  "a\\",   "\\n",   "\\x",
					  "\\x1", "\\xg0", "\\x0g", "\\X00"};
	char *bytes;

	(void)state;
	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_int_equal(rf_unescape(bad[i], &bytes, NULL), -EINVAL);
}

static void octal(void **state)
{
	static const char *const pairs[][2] = {
		{"", ""},
		{"/plain", "/plain"},
		{"/a\\040b", "/a b"},
		{"\\134\\012", "\\\n"},
		{"\\377", "\377"},
		{"/a\\04", "/a\\04"},
		{"\\400", "\\400"},
		{"\\089", "\\089"},
		{"\\", "\\"},
		{"\\\\040", "\\ "},
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(pairs); i++) {
		char text[32];

		strcpy(text, pairs[i][0]);
		rf_unescape_octal(text);
		assert_string_equal(text, pairs[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes),	cmocka_unit_test(cleans),  cmocka_unit_test(quotes),
		cmocka_unit_test(random_bytes), cmocka_unit_test(refuses), cmocka_unit_test(octal),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
