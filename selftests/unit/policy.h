/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the policy library share: an environment, and texts to images. */
#ifndef RF_SELFTESTS_POLICY_H
#define RF_SELFTESTS_POLICY_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/explain.h"
#include "policy/image.h"
#include "policy/policy.h"
#include "policy/rules.h"

static inline const char *test_variable(void *userdata, const char *name, bool env)
{
	(void)userdata;
	if (env)
		return strcmp(name, "SOCKET") ? NULL : "/run/user/1000/agent.sock";
	if (!strcmp(name, "HOME"))
		return "/home/u";
	if (!strcmp(name, "WORKSPACE"))
		return "/home/u/w";
	if (!strcmp(name, "GLOB"))
		return "/srv/[a*]{b,c}?\\x";
	if (!strcmp(name, "RELATIVE"))
		return "srv/x";
	return strcmp(name, "DOTS") ? NULL : "/srv/../etc";
}

/* Parents are named after their whole text, for short: "parent NAME" is looked up in a table. */
static const struct test_parent {
	const char *name, *text;
} * test_parents;

static inline int test_parent(void *userdata, const char *name, const char *from, char **ret_file,
			      char **ret_text, size_t *ret_size)
{
	(void)userdata;
	(void)from;
	for (const struct test_parent *p = test_parents; p && p->name; p++) {
		if (strcmp(p->name, name) != 0)
			continue;
		*ret_file = strdup(name);
		*ret_text = strdup(p->text);
		if (!*ret_file || !*ret_text) {
			free(*ret_file);
			free(*ret_text);
			return -ENOMEM;
		}
		*ret_size = strlen(p->text);
		return 0;
	}
	return -2; /* ENOENT */
}

static char *test_hint(void *userdata, const char *name, const char *from, int error)
{
	char *hint;

	(void)userdata;
	(void)from;
	return error == 2 && asprintf(&hint, "%s was looked up", name) > 0 ? hint : NULL;
}

static const struct rf_policy_env test_env = {test_variable, test_parent, test_hint, NULL,
					      RF_ALL_FEATURES};

#define HEAD "ringfence: 1\nname: t\n"

static inline int test_parse(const char *text, struct rf_diags *diags, struct rf_policy **policy)
{
	return rf_policy_parse("t.yaml", text, strlen(text), &test_env, diags, policy);
}

static inline void test_show(const struct rf_diags *diags)
{
	for (size_t i = 0; i < diags->n; i++) {
		char *text = rf_diag_text(&diags->items[i]);

		print_message("%s\n", text);
		free(text);
	}
}

/* An image that passed the verifier; release it with free(). */
static inline void *test_image(const char *text, struct rf_diags *diags, size_t *ret_size)
{
	struct rf_policy *policy = NULL;
	void *image = NULL;

	if (test_parse(text, diags, &policy)) {
		test_show(diags);
		fail_msg("the policy does not parse");
	}
	if (rf_policy_compile(policy, diags, &image, ret_size)) {
		test_show(diags);
		fail_msg("the policy does not compile");
	}
	rf_policy_free(policy);
	if (rf_image_verify(image, *ret_size, diags)) {
		test_show(diags);
		fail_msg("the image does not verify");
	}
	return image;
}

/* Line of the deciding rule, negative for a deny; 0 for the default. */
static inline int test_judge(const void *image, const char *right, const char *path)
{
	struct rf_explanation e;

	assert_int_equal(rf_explain(image, rf_right(right), &path, 1, &e), 0);
	if (!e.has_rule)
		return 0;
	return e.verdict.missing ? -(int)e.rule.line : (int)e.rule.line;
}

#endif
