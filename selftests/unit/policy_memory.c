/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No memory, at each allocation in turn: the call says so, and nothing is leaked or
 * half done. The sanitizers have malloc for themselves; with them the same runs once,
 * without failures.
 */
#include "selftests/unit/policy.h"

#include "policy/print.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

static unsigned long fail_at, calls;
static long live;

#ifndef SANITIZED
/* glibc's own, under the names that it keeps for this. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void __libc_free(void *p);

static bool fails(void)
{
	calls++;
	if (!fail_at || calls != fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	if (fails())
		return NULL;
	live++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	if (fails())
		return NULL;
	live++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	if (fails())
		return NULL;
	live += !p;
	return __libc_realloc(p, size);
}

void free(void *p)
{
	live -= !!p;
	__libc_free(p);
}
#endif

static const char text[] =
	HEAD "extends: [p]\nvars: { A: ~/x, B: \"${A}/y\" }\n"
	     "limits: { memory: 4G, tasks: 5, cpu: 1.5 }\ndetached: [read]\n"
	     "files:\n"
	     "  - allow: [read, exec]\n    paths: [/usr, \"/a/*b/**/[cd]?\", \"${B}/{x,y}\"]\n"
	     "  - deny: all\n    paths: [/usr/x, \"**/.env\", \"**/.env\"]\n    audit: true\n"
	     "  - allow: read\n    paths: [/usr/x/y]\n"
	     "network:\n  - allow: connect\n    to: [\"10.0.0.0/8:80\", \"*:443\"]\n"
	     "  - deny: connect\n    to: [\"[2001:db8::]/33\"]\n"
	     "tests:\n  - { op: read, path: /usr/y, expect: allow }\n"
	     "  - { op: read, path: /usr/y, expect: deny }\n"
	     "  - { op: connect, to: \"10.0.0.1:80\", expect: allow }\n";

static const struct test_parent parents[] = {
	{"p", "ringfence: 1\nname: p\nfiles:\n  - allow: read\n    paths: [/p, /q]\n"},
	{NULL, NULL},
};

static const char errors[] = HEAD "naem: x\nfiles:\n  - allow: raed\n    paths: [x, \"/${N}\"]\n";

/* Everything that the library does with a policy; the first error ends it. */
static int everything(const char *policy_text, FILE *out)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	struct rf_explanation e;
	struct rf_object object = {.rights = RF_READ, .path = (char *)"/usr/x/y"};
	void *image = NULL;
	struct rf_explained explained[RF_RIGHTS];
	size_t size, n;
	int r;

	r = test_parse(policy_text, &diags, &policy);
	if (!r)
		r = rf_policy_compile(policy, &diags, &image, &size);
	if (!r)
		r = rf_image_verify(image, size, &diags);
	if (!r) {
		r = rf_policy_test(policy, image, &diags, &n);
		r = r == -EINVAL ? 0 : r; /* one of the tests fails */
	}
	if (!r)
		r = rf_explain_object(image, &object, &e);
	if (!r)
		r = rf_explain_rights(policy, image, &object, explained, &n);
	if (!r)
		r = rf_print_rules(policy, out);
	if (!r)
		r = rf_print_patterns(policy, out);
	if (!r)
		r = rf_print_dfa(policy, out);
	if (!r)
		r = rf_print_net(policy, out);
	for (size_t i = 0; i < diags.n; i++)
		free(rf_diag_text(&diags.items[i]));
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
	return r;
}

static void each_failure(const char *policy_text, int expected)
{
	FILE *out = fopen("/dev/null", "w");
	unsigned long n;
	long before;

	assert_non_null(out);
	setvbuf(out, NULL, _IONBF, 0);
	test_parents = parents;
	assert_int_equal(everything(policy_text, out), expected);
	before = live;
	calls = 0;
	assert_int_equal(everything(policy_text, out), expected);
	n = calls;
	assert_int_equal(live, before);
#ifndef SANITIZED
	assert_in_range(n, 30, 100000);
#endif
	for (unsigned long i = 1; i <= n; i++) {
		int r;

		calls = 0;
		fail_at = i;
		r = everything(policy_text, out);
		fail_at = 0;
		/* A diagnostic that finds no memory is counted, and that is all. */
		if (r != -ENOMEM && r != expected)
			fail_msg("allocation %lu of %lu: %d", i, n, r);
		if (live != before)
			fail_msg("allocation %lu of %lu: %ld left over", i, n, live - before);
	}
	fclose(out);
}

static void test_good(void **state)
{
	(void)state;
	each_failure(text, 0);
}

static void test_errors(void **state)
{
	(void)state;
	each_failure(errors, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
