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
		cmocka_unit_test(test_bomb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
