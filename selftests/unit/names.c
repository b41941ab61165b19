/* SPDX-License-Identifier: BSD-2-Clause */
/* rf_names_collect(): by which names a session knows what lies behind a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "selftests/unit/policy.h"
#include "user/names.h"

/* Memory, since objects of an overlay are known by name alone. */
static char root[] = "/dev/shm/rf-names-XXXXXX";

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(root) || chdir(root) < 0)
		return -1;
	return mkdir("store", 0700) || mkdir("store/a", 0700) || mkdir("store/a/b", 0700) ||
	       mkdir("doors", 0700) || symlink("../store/a", "doors/in");
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return chdir("/") < 0 ? -1 : system(command);
}

/* 'g' if the object at `real` has the name and it can give, 'd' if it can only take away, else 0. */
static char named(const char *rules, const char *real, const char *name)
{
	static const struct rf_policy_env env = {.variable = test_variable,
						 .features = RF_ALL_FEATURES};
	char text[2000], path[100], want[100], found = 0;
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	struct rf_names names = {0};
	struct stat object, st;
	void *image = NULL;
	size_t size;

	snprintf(text, sizeof(text), "ringfence: 1\nname: n\nfiles:\n");
	for (const char *c = rules; *c; c++) {
		char add[2] = {*c, 0};

		strcat(text, *c == '@' ? root : add);
	}
	snprintf(path, sizeof(path), "%s/%s", root, real);
	snprintf(want, sizeof(want), "%s/%s", root, name);
	assert_int_equal(stat(path, &object), 0);
	assert_int_equal(rf_policy_parse("p", text, strlen(text), &env, &diags, &policy), 0);
	assert_int_equal(rf_policy_compile(policy, &diags, &image, &size), 0);
	assert_int_equal(rf_names_collect(policy, image, &diags, &names), 0);
	for (size_t i = 0; i < names.n; i++) {
		assert_int_equal(fstat(names.items[i].fd, &st), 0);
		if (st.st_ino == object.st_ino && st.st_dev == object.st_dev &&
		    !strcmp(names.items[i].path, want))
			found = names.items[i].deny_only ? 'd' : 'g';
	}
	rf_names_done(&names);
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
	return found;
}

#define RULE(how, path) "  - {" how ": read, paths: [\"@/" path "\"]}\n"

static void test_target(void **state)
{
	(void)state;
	assert_int_equal(named(RULE("deny", "doors/in"), "store/a", "doors/in"), 'g');
	assert_int_equal(named(RULE("deny", "doors/in"), "store/a", "store/a"), 'g');
}

/* The nearest anchor is where a walk ends, so it must know the name by the link. */
static void test_below_target(void **state)
{
	(void)state;
	assert_int_equal(named(RULE("deny", "doors/in") RULE("allow", "store/a/b"), "store/a/b",
			       "doors/in/b"),
			 'g');
	assert_int_equal(named(RULE("allow", "doors/in") RULE("deny", "store/a/b"), "store/a/b",
			       "doors/in/b"),
			 'g');
	/* Both names say the same: one is enough. */
	assert_int_equal(named(RULE("deny", "doors/in") RULE("deny", "store/a/b"), "store/a/b",
			       "doors/in/b"),
			 0);
}

static void test_planted(void **state)
{
	(void)state;
	assert_int_equal(named("  - {allow: create, paths: [\"@/doors\"]}\n" RULE(
				       "allow", "doors/in") RULE("deny", "store/a/b"),
			       "store/a/b", "doors/in/b"),
			 'd');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_below_target),
		cmocka_unit_test(test_planted),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
