/* SPDX-License-Identifier: BSD-2-Clause */
/* Parents and variables: whose rules and values come first, and what cannot be. */
#include "selftests/unit/policy.h"

#define PARENT(name, rest) "ringfence: 1\nname: " name "\n" rest

static const struct test_parent parents[] = {
	{"base", PARENT("base", "mode: audit\nlog: all\ndetached: [exec]\n"
				"vars: { DATA: /base, LOG: \"${DATA}/log\" }\nfiles:\n"
				"  - allow: read\n    paths: [/a, \"${LOG}\"]\n"
				"  - deny: read\n    paths: [/a/secret]\n")},
	{"left", PARENT("left", "extends: [base]\nfiles:\n"
				"  - allow: read\n    paths: [/a/secret]\n    reopens: true\n")},
	{"right",
	 PARENT("right", "extends: base\nfiles:\n  - allow: write\n    paths: [/right]\n")},
	{"self", PARENT("self", "extends: [self]\n")},
	{"ping", PARENT("ping", "extends: [pong]\n")},
	{"pong", PARENT("pong", "extends: [ping]\n")},
	{"bad", PARENT("bad", "files: 7\n")},
	{"tested", PARENT("tested", "files:\n  - allow: read\n    paths: [/x]\n"
				    "tests: [{ op: read, path: /x, expect: allow }]\n")},
	{NULL, NULL},
};

static int setup(void **state)
{
	(void)state;
	test_parents = parents;
	return 0;
}

static void test_order(void **state)
{
	struct rf_diags diags = {0};
	size_t size;
	void *image;

	(void)state;
	image = test_image(HEAD "extends: [base]\nfiles:\n  - deny: read\n    paths: [/a/b]\n",
			   &diags, &size);
	assert_int_equal(test_judge(image, "read", "/a"), 9);
	assert_int_equal(test_judge(image, "read", "/a/secret"), -11);
	assert_int_equal(test_judge(image, "read", "/a/b"), -6);
	free(image);
	rf_diags_done(&diags);
}

/* What both parents extend counts once, where it comes first. */
static void test_diamond(void **state)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	size_t size;
	void *image;

	(void)state;
	image = test_image(HEAD "extends: [left, right]\n", &diags, &size);
	assert_int_equal(test_judge(image, "read", "/a/secret"), 6);
	assert_int_equal(test_judge(image, "write", "/right"), 6);
	free(image);
	assert_int_equal(test_parse(HEAD "extends: [left, right]\n", &diags, &policy), 0);
	assert_int_equal(policy->nrules, 5);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

/* Settings come down, but for `mode`: that a policy only watches is said in itself. */
static void test_settings(void **state)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};

	(void)state;
	assert_int_equal(test_parse(HEAD "extends: [base]\n", &diags, &policy), 0);
	assert_string_equal(rf_policy_name(policy), "t");
	assert_false(rf_policy_audit(policy));
	assert_true(rf_policy_log_all(policy));
	assert_int_equal(policy->detached, RF_EXEC);
	rf_policy_free(policy);
	assert_int_equal(
		test_parse(HEAD "extends: [base]\nlog: denies\ndetached: []\n", &diags, &policy),
		0);
	assert_false(rf_policy_log_all(policy));
	assert_int_equal(policy->detached, 0);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

static void test_variables(void **state)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	const char *const *paths;

	(void)state;
	/* A child's value holds in its parents' rules, too; the caller's before both. */
	assert_int_equal(test_parse(HEAD "extends: [base]\nvars: { DATA: ~/own, GLOB: /never }\n"
					 "files:\n  - allow: read\n    paths: [\"${GLOB}\"]\n",
				    &diags, &policy),
			 0);
	assert_int_equal(rf_policy_paths(policy, &paths), 4);
	assert_string_equal(paths[0], "/a");
	assert_string_equal(paths[2], "/home/u/own/log");
	assert_string_equal(paths[3], "/srv/[a*]{b,c}?\\x");
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

static void test_parents_tests(void **state)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	void *image;
	size_t size, n = 7;

	(void)state;
	assert_int_equal(test_parse(HEAD "extends: [tested]\nfiles:\n  - deny: read\n"
					 "    paths: [/x]\n",
				    &diags, &policy),
			 0);
	assert_int_equal(rf_policy_compile(policy, &diags, &image, &size), 0);
	assert_int_equal(rf_policy_test(policy, image, &diags, &n), 0);
	assert_int_equal(n, 0);
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

static void test_bad(void **state)
{
	static const struct {
		const char *text, *file;
		unsigned int line, column;
		const char *message;
	} rows[] = {
		{HEAD "extends: [self]\n", "self", 3, 11, "extends itself"},
		{HEAD "extends: [ping]\n", "pong", 3, 11, "extends itself: pong extends ping"},
		{HEAD "extends: [bad]\n", "bad", 3, 8, "must be a list"},
		{HEAD "extends: [base, nope]\n", "t.yaml", 3, 17, "no policy \"nope\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rf_policy *policy = NULL;
		struct rf_diags diags = {0};
		const struct rf_diag *d;

		assert_int_equal(test_parse(rows[i].text, &diags, &policy), -EINVAL);
		d = &diags.items[0];
		if (strcmp(d->file, rows[i].file) || d->line != rows[i].line ||
		    d->column != rows[i].column || !strstr(d->message, rows[i].message)) {
			test_show(&diags);
			fail_msg("%s", rows[i].message);
		}
		rf_diags_done(&diags);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	 cmocka_unit_test(test_diamond),
		cmocka_unit_test(test_settings), cmocka_unit_test(test_variables),
		cmocka_unit_test(test_bad),	 cmocka_unit_test(test_parents_tests),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
