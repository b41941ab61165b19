/* SPDX-License-Identifier: BSD-2-Clause */
/* Policies that are too much: each is refused with a reason, soon and in little memory. */
#include "selftests/unit/policy.h"

#include <time.h>

static char text[4 << 20];
static size_t size;

__attribute__((format(printf, 1, 2))) static void add(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	size += vsnprintf(text + size, sizeof(text) - size, format, args);
	va_end(args);
	assert_true(size < sizeof(text));
}

static void begin(void)
{
	size = 0;
	add(HEAD "files:\n");
}

/* The first error's message has this part; parse or compile gives it within seconds. */
static void expect(const char *message)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	clock_t start = clock();
	void *image = NULL;
	size_t image_size;
	int r;

	r = rf_policy_parse("t.yaml", text, size, &test_env, &diags, &policy);
	if (!r)
		r = rf_policy_compile(policy, &diags, &image, &image_size);
	assert_int_equal(r, -EINVAL);
	for (size_t i = 0; i < diags.n; i++) {
		if (diags.items[i].severity != RF_ERROR)
			continue;
		if (!strstr(diags.items[i].message, message))
			fail_msg("%s instead of %s", diags.items[i].message, message);
		break;
	}
	assert_in_range(diags.errors, 1, 1000000);
	assert_in_range((clock() - start) / CLOCKS_PER_SEC, 0, 20); /* sanitizers are slow */
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

static void test_explosion(void **state)
{
	static const char *const rights[] = {"read", "modify", "create", "exec"};

	(void)state;
	begin();
	for (unsigned int i = 0; i < 80; i++)
		add("  - { deny: %s, paths: [\"**/*%c%cx*/**/*%c*\"] }\n", rights[i % 4],
		    'a' + i % 20, 'a' + i / 20, 'a' + i % 7);
	expect("the patterns combine in too many ways, most of all **/*");
}

static void test_large_image(void **state)
{
	(void)state;
	begin();
	add("  - allow: read\n    paths:\n");
	for (unsigned int i = 0; i < 9000; i++)
		add("      - /%08x-%08x-%08x-%08x-%08x-%08x\n", i * 2654435761u, i * 40503u,
		    i * 2246822519u, i, i * 3266489917u, i * 668265263u);
	expect("the compiled policy has");
}

/* The image of the policy in `text`, and the policy. */
static void *image_of(struct rf_policy **ret_policy, struct rf_diags *diags)
{
	void *image;
	size_t n;

	assert_int_equal(rf_policy_parse("t.yaml", text, size, &test_env, diags, ret_policy), 0);
	assert_int_equal(rf_policy_compile(*ret_policy, diags, &image, &n), 0);
	assert_int_equal(rf_image_verify(image, n, diags), 0);
	return image;
}

/*
 * What is too large with a rule for each path is compiled in groups, at once or in a
 * second attempt: the verdicts are those of the paths, the rule is the group's.
 */
static void test_groups(void **state)
{
	static const struct {
		unsigned int paths, globs;
	} sizes[] = {{5000, 1}, {4000, 8}};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(sizes); i++) {
		const char *path = "/home/1/2.env/.env";
		const struct rf_object object = {.rights = RF_READ | RF_EXEC, .path = (char *)path};
		struct rf_explained parts[RF_RIGHTS];
		struct rf_policy *policy;
		struct rf_diags diags = {0};
		struct rf_explanation e;
		size_t warnings = 0, n;
		char expected[100];
		void *image;

		begin();
		add("  - allow: [read, exec]\n    paths: [/usr]\n" /* 5 */
		    "  - allow: read\n    paths:\n");
		for (unsigned int k = 0; k < sizes[i].paths; k++)
			add("      - /home/%u/%u.env\n", k % 64, k * 2654435761u % 100000);
		add("      - /home/1/2.env\n"
		    "  - deny: exec\n    paths: [/home/1/2.env, \"**/.env\"]\n"
		    "  - deny: read\n    paths: [\"**/*.pem\"");
		for (unsigned int k = 0; k < sizes[i].globs; k++)
			add(", \"**/*%c%c\"", 'a' + k, 'q' - k);
		add("]\n  - allow: read\n    paths: [/x/y, /x/z]\n" /* never wins: */
		    "  - allow: read\n    paths: [/x]\n    reopens: true\n");
		image = image_of(&policy, &diags);
		for (size_t k = 0; k < diags.n; k++)
			warnings += !!strstr(diags.items[k].message,
					     "never win: allow read /x/y and 1 more");
		assert_int_equal(warnings, 1);
		assert_int_equal(test_judge(image, "read", "/usr/x"), 5);
		assert_int_equal(test_judge(image, "read", path), 8);
		assert_int_equal(test_judge(image, "read", "/home/1/2.envx"), 0);
		assert_int_equal(test_judge(image, "read", "/home/1/2.env/x.pem"),
				 -(int)(12 + sizes[i].paths));
		assert_int_equal(rf_explain(image, RF_READ, &path, 1, &e), 0);
		snprintf(expected, sizeof(expected), "allow read /home/0/0.env and %u more",
			 sizes[i].paths);
		assert_string_equal(e.rule.text, expected);
		assert_true(e.rule.group);
		/* Without the group, not without its first path only. */
		assert_int_equal(rf_explain_rights(policy, image, &object, parts, &n), 0);
		assert_int_equal(n, 2);
		assert_int_equal(parts[0].verdict.rule, 2);
		assert_int_equal(parts[0].runner_up, 0);
		assert_int_equal(parts[1].verdict.missing, RF_EXEC);
		assert_int_equal(parts[1].runner_up, 0);
		free(image);
		rf_policy_free(policy);
		rf_diags_done(&diags);
	}
}

static void test_alternatives(void **state)
{
	(void)state;
	begin();
	add("  - allow: read\n    paths:\n");
	for (unsigned int i = 0; i < 3000; i++)
		add("      - \"/{a,b,c,d}{a,b,c,d}{a,b,c,d}{a,b,c,d}%u\"\n", i);
	expect("the patterns are too long together");
}

static void test_classes(void **state)
{
	(void)state;
	begin();
	add("  - allow: read\n    paths:\n");
	/* 4095 different sets of twelve letters, and one more. */
	for (unsigned int i = 1; i < 8192; i++) {
		add("      - \"/[");
		for (unsigned int k = 0; k < 13; k++)
			if (i & 1u << k)
				add("%c", 'a' + k);
		add("]\"\n");
	}
	expect("different classes");
}

static void test_network(void **state)
{
	(void)state;
	size = 0;
	add(HEAD "network:\n  - allow: connect\n    to:\n");
	for (unsigned int i = 0; i < 9000; i++)
		add("      - \"*:%u-%u\"\n", i, 65000 - i * 3);
	expect("the rules of `network` combine in too many ways");
}

static void test_variables(void **state)
{
	(void)state;
	size = 0;
	add(HEAD "vars:\n");
	for (unsigned int i = 0; i < 40000; i++)
		add("  V%u: x\n", i);
	expect("more than 256 variables");
	size = 0;
	add(HEAD "vars:\n  V0: /aaaaaaaaaaaaaaa\n");
	for (unsigned int i = 1; i < 40; i++)
		add("  V%u: \"${V%u}${V%u}\"\n", i, i - 1, i - 1);
	expect("longer than");
}

static void test_deep(void **state)
{
	(void)state;
	size = 0;
	add(HEAD "files: ");
	for (unsigned int i = 0; i < 500000; i++)
		add("[");
	expect("nested too deep");
}

static void test_nodes(void **state)
{
	(void)state;
	size = 0;
	add(HEAD "files: [");
	for (unsigned int i = 0; i < 300000; i++)
		add("a,");
	add("]\n");
	expect("too many YAML nodes");
}

/* The bomb is refused at its first anchor. */
static void test_bomb(void **state)
{
	(void)state;
	size = 0;
	add(HEAD "a: &a [x, x, x, x, x, x, x, x, x, x]\n");
	for (unsigned int i = 0; i < 20; i++)
		add("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c]\n", 'b' + i, 'b' + i, 'a' + i, 'a' + i,
		    'a' + i, 'a' + i, 'a' + i, 'a' + i);
	expect("anchors are not allowed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_explosion), cmocka_unit_test(test_large_image),
		cmocka_unit_test(test_classes),	  cmocka_unit_test(test_alternatives),
		cmocka_unit_test(test_network),	  cmocka_unit_test(test_deep),
		cmocka_unit_test(test_nodes),	  cmocka_unit_test(test_variables),
		cmocka_unit_test(test_bomb),	  cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
