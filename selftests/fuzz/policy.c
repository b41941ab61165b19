/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzer: policy text to image. Whatever the text, the parser says what is wrong or
 * makes a policy; what compiles passes the verifier and can be judged and printed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/explain.h"
#include "policy/image.h"
#include "policy/policy.h"
#include "policy/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *variable(void *userdata, const char *name, bool env)
{
	(void)userdata;
	if (env)
		return strcmp(name, "EMPTY") ? NULL : "";
	if (!strcmp(name, "HOME"))
		return "/home/u";
	return strcmp(name, "WORKSPACE") ? NULL : "/home/u/[w]*";
}

/* A parent is the text itself after a line of dashes, so that there can be cycles. */
struct texts {
	const char *parent;
	size_t size;
};

static int parent(void *userdata, const char *name, const char *from, char **ret_file,
		  char **ret_text, size_t *ret_size)
{
	const struct texts *t = userdata;

	(void)from;
	if (!t->parent)
		return -2; /* ENOENT */
	*ret_file = strdup(name);
	*ret_text = malloc(t->size + 1);
	if (!*ret_file || !*ret_text)
		abort();
	memcpy(*ret_text, t->parent, t->size);
	*ret_size = t->size;
	return 0;
}

static void use(const struct rf_policy *policy, const void *image, FILE *out)
{
	static const char *const paths[] = {"/", "/a", "/home/u/.ssh/id", "/usr/bin/ls",
					    "/a/b.c/x"};
	const char *const *list;
	size_t n = rf_policy_paths(policy, &list);

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct rf_explanation e;

		if (rf_explain(image, RF_ALL_RIGHTS, &paths[i], 1, &e))
			abort();
	}
	for (size_t i = 0; i < n && i < 100; i++) {
		struct rf_explanation e;

		/* Only a byte that no path has can keep it from being one. */
		if (rf_explain(image, RF_READ, &list[i], 1, &e))
			abort();
	}
	rf_print_rules(policy, out);
	rf_print_patterns(policy, out);
	rf_print_net(policy, out);
	rf_print_image(image, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char mark[] = "\n--------\n";
	static FILE *out;
	struct texts texts = {0};
	const struct rf_policy_env env = {variable, parent, NULL, &texts, RF_ALL_FEATURES};
	const uint8_t *second = memmem(data, size, mark, sizeof(mark) - 1);
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	void *image = NULL;
	size_t image_size, n;
	int r;

	if (!out)
		out = fopen("/dev/null", "we");
	if (second) {
		texts.parent = (const char *)second + sizeof(mark) - 1;
		texts.size = size - (second - data) - (sizeof(mark) - 1);
		size = second - data;
	}
	r = rf_policy_parse("fuzz", (const char *)data, size, &env, &diags, &policy);
	if (!r != !diags.errors)
		abort();
	if (!r)
		r = rf_policy_compile(policy, &diags, &image, &image_size);
	if (!r) {
		if (rf_image_verify(image, image_size, &diags))
			abort();
		use(policy, image, out);
		if (rf_policy_test(policy, image, &diags, &n) && !diags.errors)
			abort();
	} else if (!diags.errors) {
		abort();
	}
	for (size_t i = 0; i < diags.n; i++)
		free(rf_diag_text(&diags.items[i]));
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
	return 0;
}
