/* SPDX-License-Identifier: BSD-2-Clause */
/* rf_find_policy(): the order of the folders, paths, and what cannot be read. */
#include <errno.h>
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

#include "policy/util.h"
#include "user/find.h"

static char root[] = "/tmp/rf-find-XXXXXX";
static char home[64];

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(root) || chdir(root) < 0)
		return -1;
	snprintf(home, sizeof(home), "%s/home", root);
	if (mkdir(".ringfence", 0700) < 0 || mkdir("home", 0700) < 0 ||
	    mkdir("home/.config", 0700) < 0 || mkdir("home/.config/ringfence", 0700) < 0)
		return -1;
	put(".ringfence/ours.yaml", "ours");
	put(".ringfence/both.yaml", "near");
	put("home/.config/ringfence/both.yaml", "far");
	put("home/.config/ringfence/mine.yaml", "mine");
	put("plain", "plain");
	put(".ringfence/empty.yaml", "");
	return mkdir(".ringfence/folder.yaml", 0700);
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return chdir("/") < 0 ? -1 : system(command);
}

static void expect(const char *name, const char *from, const char *file, const char *text)
{
	_cleanup_free_ char *got_file = NULL, *got = NULL;
	size_t size = 99;

	assert_int_equal(rf_find_policy(name, from, home, &got_file, &got, &size), 0);
	assert_string_equal(got_file, file);
	assert_string_equal(got, text);
	assert_int_equal(size, strlen(text));
}

static int error(const char *name, const char *from)
{
	char *file = NULL, *text = NULL;
	size_t size;
	int r = rf_find_policy(name, from, home, &file, &text, &size);

	assert_true(r < 0);
	assert_null(file);
	assert_null(text);
	return r;
}

static void names(void **state)
{
	_cleanup_free_ char *mine = NULL;

	(void)state;
	assert_true(asprintf(&mine, "%s/.config/ringfence/mine.yaml", home) > 0);
	expect("ours", NULL, ".ringfence/ours.yaml", "ours");
	expect("mine", NULL, mine, "mine");
	expect("empty", NULL, ".ringfence/empty.yaml", "");
	assert_int_equal(error("missing", NULL), -ENOENT);
	assert_int_equal(error("", NULL), -EINVAL);
	/* Not a name of the working directory. */
	assert_int_equal(error("plain", NULL), -ENOENT);
}

static void paths(void **state)
{
	_cleanup_free_ char *absolute = NULL;

	(void)state;
	assert_true(asprintf(&absolute, "%s/plain", root) > 0);
	expect("./plain", NULL, "./plain", "plain");
	expect(absolute, NULL, absolute, "plain");
	assert_int_equal(error("./missing", NULL), -ENOENT);
	/* A relative path of `extends` starts from the file that has it. */
	expect("./both.yaml", ".ringfence/x.yaml", ".ringfence/both.yaml", "near");
	expect("../plain", ".ringfence/x.yaml", ".ringfence/../plain", "plain");
	expect("./plain", "x.yaml", "./plain", "plain");
	expect(absolute, ".ringfence/x.yaml", absolute, "plain");
}

/* A project that was fetched does not redefine a name; its file can be meant by path. */
static void project_hides_nothing(void **state)
{
	(void)state;
	assert_int_equal(error("both", NULL), -EEXIST);
	expect("./.ringfence/both.yaml", NULL, "./.ringfence/both.yaml", "near");
}

/* What stands first but cannot be read hides what comes later: no silent other policy. */
static void unreadable(void **state)
{
	(void)state;
	assert_int_equal(error("folder", NULL), -EISDIR);
	assert_int_equal(error("/dev/zero", NULL), -EFBIG);
}

static void no_home(void **state)
{
	_cleanup_free_ char *file = NULL, *text = NULL, *places = NULL, *all = NULL;
	size_t size;

	(void)state;
	assert_int_equal(rf_find_policy("mine", NULL, NULL, &file, &text, &size), -ENOENT);
	places = rf_find_places(NULL);
	all = rf_find_places(home);
	assert_non_null(places);
	assert_non_null(all);
	assert_null(strstr(places, ".config"));
	assert_non_null(strstr(all, ".config"));
	assert_non_null(strstr(all, "/etc/ringfence"));
}

static void shipped(void **state)
{
	_cleanup_free_ char *places = rf_find_places(NULL), *file = NULL, *below = NULL;
	const char *folder = strrchr(places, ' ') + 1; /* the last one is ringfence's */

	(void)state;
	assert_true(asprintf(&file, "%s/observe.yaml", folder) > 0);
	assert_true(asprintf(&below, "%s/x/observe.yaml", folder) > 0);
	assert_true(rf_find_shipped(file));
	assert_false(rf_find_shipped(below));
	assert_false(rf_find_shipped("./observe.yaml"));
	assert_false(rf_find_shipped("/etc/ringfence/observe.yaml"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(paths),
		cmocka_unit_test(project_hides_nothing),
		cmocka_unit_test(unreadable),
		cmocka_unit_test(no_home),
		cmocka_unit_test(shipped),
	};

	return cmocka_run_group_tests_name("find", tests, setup, teardown);
}
