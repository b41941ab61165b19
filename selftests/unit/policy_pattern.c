/* SPDX-License-Identifier: BSD-2-Clause */
/* Patterns: normalised text, errors with their place, and what each matches. */
#include "selftests/unit/policy.h"

#include "policy/pattern.h"

static int variable(void *userdata, const char *name, bool env, const char **ret_value,
		    struct rf_pattern_error *error)
{
	const char *value = test_variable(userdata, name, env);

	if (!value) {
		snprintf(error->message, sizeof(error->message), "no value for %s", name);
		return -ENOENT;
	}
	*ret_value = value;
	return 0;
}

static const struct rf_pattern_env env = {variable, NULL};

/* Patterns, and their sequences normalised, divided by a blank. */
static const struct {
	const char *text, *normal, *literal;
} good[] = {
	{"/", "/", "/"},
	{"//", "/", "/"},
	{"/.", "/", "/"},
	{"/a/b", "/a/b", "/a/b"},
	{"/a/b/", "/a/b", "/a/b"},
	{"//a///./b/.", "/a/b", "/a/b"},
	{"~", "/home/u", "/home/u"},
	{"~/", "/home/u", "/home/u"},
	{"~/x", "/home/u/x", "/home/u/x"},
	{"${WORKSPACE}/.git", "/home/u/w/.git", "/home/u/w/.git"},
	{"${GLOB}/y", "/srv/\\[a\\*]\\{b\\,c\\}\\?\\\\x/y", "/srv/[a*]{b,c}?\\x/y"},
	{"/a/${env:SOCKET}", "/a/run/user/1000/agent.sock", "/a/run/user/1000/agent.sock"},
	{"/a~", "/a\\~", "/a~"},
	{"/a b,c", "/a b\\,c", "/a b,c"},
	{"/\\*\\?\\[\\{\\\\", "/\\*\\?\\[\\{\\\\", "/*?[{\\"},
	{"/\\$HOME", "/\\$HOME", "/$HOME"},
	{"/\xc3\xbc", "/\xc3\xbc", "/\xc3\xbc"},
	{"/a/*", "/a/*", "/a"},
	{"/a/*.c", "/a/*.c", "/a"},
	{"/a*/b", "/a*/b", "/"},
	{"/a/?", "/a/?", "/a"},
	{"/a/**", "/a/*", "/a"},
	{"/a/**/", "/a/*", "/a"},
	{"/a/**/**", "/a/**/*", "/a"},
	{"/**", "/*", "/"},
	{"**", "/*", "/"},
	{"**/", "/*", "/"},
	{"**/.env", "/**/.env", "/"},
	{"/a/**/**/b", "/a/**/b", "/a"},
	{"/a/**/b/*", "/a/**/b/*", "/a"},
	{"/a/[abc]", "/a/[a-c]", "/a"},
	{"/a/[ab]", "/a/[ab]", "/a"},
	{"/a/[!x-z]", "/a/[!x-z]", "/a"},
	{"/a/[\\]\\-]", "/a/[\\-\\]]", "/a"},
	{"/a/[a-]", "/a/[\\-a]", "/a"},
	{"/a/{b,c}", "/a/b /a/c", "/a/b"},
	{"/a/{b,c/d}/e", "/a/b/e /a/c/d/e", "/a/b/e"},
	{"/a/{b,}", "/a/b /a", "/a/b"},
	{"/{a,b}{c,d}", "/ac /ad /bc /bd", "/ac"},
	{"/{a{b,c},d}", "/ab /ac /d", "/ab"},
	{"/a/{b}", "/a/b", "/a/b"},
	{"/a{*,b}*", "/a* /ab*", "/"},
	{"/a/{**,x}/b", "/a/**/b /a/x/b", "/a"},
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct rf_arena arena = {0};
		struct rf_sets sets = {0};
		struct rf_text text = {0};
		struct rf_pattern pattern;
		struct rf_pattern_error error;
		int r;

		r = rf_pattern_parse(good[i].text, &env, &sets, &arena, &pattern, &error);
		if (r)
			fail_msg("%s: %s", good[i].text, error.message);
		for (size_t k = 0; k < pattern.n; k++) {
			if (k)
				rf_text_byte(&text, ' ');
			rf_sequence_text(&pattern.sequences[k], &sets, &text);
		}
		assert_string_equal(text.text, good[i].normal);
		assert_string_equal(rf_sequence_literal(&pattern.sequences[0], &arena),
				    good[i].literal);
		rf_text_done(&text);
		rf_sets_done(&sets);
		rf_arena_done(&arena);
	}
}

static const struct {
	const char *text;
	size_t at;
	const char *message;
} bad[] = {
	{"", 0, "empty path"},
	{"a", 0, "relative"},
	{"./a", 0, "relative"},
	{"../a", 0, "relative"},
	{"*/a", 0, "relative"},
	{"{/a,/b}", 0, "relative"},
	{"$HOME/x", 0, "without braces"},
	{"/a/$HOME", 3, "without braces"},
	{"/a/${HOME", 3, "without `}`"},
	{"/a/${}", 3, "no name"},
	{"/a/${1}", 3, "no name"},
	{"/a/${a-b}", 3, "no name"},
	{"/a/${NOPE}", 3, "no value"},
	{"/a/${env:NOPE}", 3, "no value"},
	{"~bob", 0, "another user"},
	{"/..", 0, "`..`"},
	{"/a/../b", 0, "`..`"},
	{"/a/\\.\\.", 0, "`..`"},
	{"/a/{b,..}", 0, "`..`"},
	{"/a/**b", 0, "not a whole component"},
	{"/a/b**", 0, "not a whole component"},
	{"**a", 0, "not a whole component"},
	{"/a/***", 3, "more than two stars"},
	{"/a/[", 4, "without `]`"},
	{"/a/[b", 5, "without `]`"},
	{"/a/[b-", 6, "without `]`"},
	{"/a/[]", 3, "empty class"},
	{"/a/[!]", 3, "empty class"},
	{"/a/[^b]", 4, "`^`"},
	{"/a/[b/c]", 5, "`/` in a class"},
	{"/a/[z-a]", 3, "range"},
	{"/a/[[:alpha:]]", 4, "named classes"},
	{"/a/[\xc3\xbc]", 4, "several bytes"},
	{"/a/{b", 5, "`{` without `}`"},
	{"/a/b}", 4, "`}` without `{`"},
	{"/a\\", 2, "backslash"},
	{"/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", 0, "alternatives"},
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct rf_arena arena = {0};
		struct rf_sets sets = {0};
		struct rf_pattern pattern;
		struct rf_pattern_error error = {0};

		if (rf_pattern_parse(bad[i].text, &env, &sets, &arena, &pattern, &error) != -EINVAL)
			fail_msg("%s is accepted", bad[i].text);
		if (error.at != bad[i].at || !strstr(error.message, bad[i].message))
			fail_msg("%s: at %zu: %s", bad[i].text, error.at, error.message);
		rf_sets_done(&sets);
		rf_arena_done(&arena);
	}
}

/* A name of 255 bytes can be, one of 256 can not; a pattern has an end, too. */
static void test_lengths(void **state)
{
	static char text[RF_PATTERN_MAX + 300];
	struct rf_arena arena = {0};
	struct rf_sets sets = {0};
	struct rf_pattern pattern;
	struct rf_pattern_error error;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[0] = '/';
	text[256] = 0;
	assert_int_equal(rf_pattern_parse(text, &env, &sets, &arena, &pattern, &error), 0);
	text[256] = 'x';
	text[257] = 0;
	assert_int_equal(rf_pattern_parse(text, &env, &sets, &arena, &pattern, &error), -EINVAL);
	assert_non_null(strstr(error.message, "can match nothing"));
	text[257] = 'x';
	for (size_t i = 0; i < sizeof(text) - 1; i += 16)
		text[i] = '/';
	assert_int_equal(rf_pattern_parse(text, &env, &sets, &arena, &pattern, &error), -EINVAL);
	assert_non_null(strstr(error.message, "longer than"));
	rf_sets_done(&sets);
	rf_arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
