/* SPDX-License-Identifier: BSD-2-Clause */
/* rf_names_collect(): by which names a session knows what lies behind a link. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
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
	       mkdir("doors", 0700) || symlink("../store/a", "doors/in") || mkdir("open", 0700) ||
	       mkdir("open/to", 0700) || link("doors/in", "open/in") ||
	       symlink("../doors/../open/in", "doors/chain") || symlink("../open", "doors/open") ||
	       mkdir("bound", 0700) || mkdir("merged", 0700);
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return chdir("/") < 0 ? -1 : system(command);
}

static void *compile(const char *rules, struct rf_policy **ret_policy)
{
	static const struct rf_policy_env env = {.variable = test_variable,
						 .features = RF_ALL_FEATURES};
	struct rf_diags diags = {0};
	void *image = NULL;
	char text[2000];
	size_t size;

	snprintf(text, sizeof(text), "ringfence: 1\nname: n\nfiles:\n");
	for (const char *c = rules; *c; c++) {
		char add[2] = {*c, 0};

		strcat(text, *c == '@' ? root : add);
	}
	assert_int_equal(rf_policy_parse("p", text, strlen(text), &env, &diags, ret_policy), 0);
	assert_int_equal(rf_policy_compile(*ret_policy, &diags, &image, &size), 0);
	rf_diags_done(&diags);
	return image;
}

/* Whose session it is, and what was in force in it before. */
static struct rf_planter planter;

/* 'g' if the object at `real` has the name and it can give, 'd' if it can only take away, else 0. */
static char named(const char *rules, const char *real, const char *name)
{
	char path[100], want[100], found = 0;
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	struct rf_names names = {0};
	void *image = compile(rules, &policy);
	struct stat object, st;

	snprintf(path, sizeof(path), "%s/%s", root, real);
	snprintf(want, sizeof(want), "%s/%s", root, name);
	assert_int_equal(stat(path, &object), 0);
	assert_int_equal(rf_names_collect(policy, image, &planter, &diags, &names), 0);
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

#define CREATE(path) "  - {allow: create, paths: [\"@/" path "\"]}\n"
#define KEEP(path) "  - {deny: create, paths: [\"@/" path "\"]}\n"

/* The link's own path is what counts, as much as its directory's. */
static void test_planted_itself(void **state)
{
	(void)state;
	assert_int_equal(named(CREATE("doors/**") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(named(CREATE("doors/i*") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(named(CREATE("doors/in") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(
		named(CREATE("doors/other") RULE("allow", "doors/in"), "store/a", "doors/in"), 'g');
}

/* A directory that takes the place of another brings its links along. */
static void test_planted_above(void **state)
{
	(void)state;
	assert_int_equal(named("  - {allow: create, paths: [\"@\"]}\n" KEEP("doors")
				       RULE("allow", "doors/in"),
			       "store/a", "doors/in"),
			 'd');
	assert_int_equal(named(CREATE("store") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'g');
}

/* A link to a link, by a way that goes up again: each of them counts. */
static void test_planted_chain(void **state)
{
	(void)state;
	assert_int_equal(named(RULE("allow", "doors/chain"), "store/a", "doors/chain"), 'g');
	assert_int_equal(
		named(CREATE("open") RULE("allow", "doors/chain"), "store/a", "doors/chain"), 'd');
	assert_int_equal(
		named(CREATE("open/in") RULE("allow", "doors/chain"), "store/a", "doors/chain"),
		'd');
}

/* One link with two names: each is asked for by itself. */
static void test_planted_hard_link(void **state)
{
	(void)state;
	assert_int_equal(named(CREATE("open") RULE("allow", "open/in"), "store/a", "open/in"), 'd');
	assert_int_equal(named(CREATE("open") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'g');
}

static void test_planted_before(void **state)
{
	struct rf_policy *policies[2] = {0};
	const void *images[] = {compile(RULE("allow", "doors"), &policies[0]),
				compile(CREATE("doors"), &policies[1])};

	(void)state;
	planter = (struct rf_planter){.images = images, .n = 1};
	assert_int_equal(named(RULE("allow", "doors/in"), "store/a", "doors/in"), 'g');
	planter.n = 2;
	assert_int_equal(named(RULE("allow", "doors/in"), "store/a", "doors/in"), 'd');
	planter = (struct rf_planter){0};
	for (size_t i = 0; i < 2; i++) {
		rf_policy_free(policies[i]);
		free((void *)images[i]);
	}
}

/* What whoever set up the machine has put there works, by the very path that the rule gives. */
static void test_root_link(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	planter.uid = 1000;
	assert_int_equal(named(CREATE("doors/in") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'g');
	assert_int_equal(named(CREATE("doors") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	/* A name by such a link is one by which links below can be made. */
	assert_int_equal(named(RULE("allow", "open/in"), "store/a", "open/in"), 'g');
	assert_int_equal(named(CREATE("doors/open") RULE("allow", "open/in"), "store/a", "open/in"),
			 'd');
	assert_int_equal(lchown("doors/in", 1000, 1000), 0);
	assert_int_equal(named(CREATE("doors/in") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(lchown("doors/in", 0, 0), 0);
	/* Another link of root's can be moved there. */
	assert_int_equal(chown("doors", 1000, 1000), 0);
	assert_int_equal(named(CREATE("doors/in") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(chown("doors", 0, 0), 0);
	assert_int_equal(chmod("doors", 01777), 0);
	assert_int_equal(named(CREATE("doors/in") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(chmod("doors", 0755), 0);
	/* Nor where the directory can be moved. */
	assert_int_equal(chmod(root, 0777), 0);
	assert_int_equal(named(CREATE("doors/in") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(chmod(root, 01777), 0);
	assert_int_equal(named(CREATE("doors/in") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'g');
	assert_int_equal(chmod(root, 0700), 0);
	planter.uid = 0;
}

static bool warned(const char *rules, const char *words)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	struct rf_names names = {0};
	void *image = compile(rules, &policy);
	bool found = false;

	assert_int_equal(rf_names_collect(policy, image, &planter, &diags, &names), 0);
	for (size_t i = 0; i < diags.n; i++)
		found |= diags.items[i].severity == RF_WARNING &&
			 strstr(diags.items[i].message, words);
	rf_names_done(&names);
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
	return found;
}

/* Who puts a link where a denied path is not yet has its target denied to the next session. */
static void test_taken_away(void **state)
{
	static const char taken[] = "which is denied, is a link of the user's to ";

	(void)state;
	planter.uid = 1000;
	assert_false(warned(RULE("deny", "doors/in"), taken));
	assert_int_equal(lchown("doors/in", 1000, 1000), 0);
	assert_true(warned(RULE("deny", "doors/in"), taken));
	assert_true(warned(RULE("deny", "doors/in/b"), taken));
	assert_true(warned(CREATE("doors") RULE("deny", "doors/in"), taken));
	/* It is allowed, denied all the same, the user's own, or the link is another's. */
	assert_false(warned(RULE("allow", "doors/in"), taken));
	assert_false(warned(RULE("deny", "doors/in") RULE("deny", "store"), taken));
	assert_int_equal(chown("store/a", 1000, 1000), 0);
	assert_false(warned(RULE("deny", "doors/in"), taken));
	assert_int_equal(chown("store/a", 0, 0), 0);
	planter.uid = 1001;
	assert_false(warned(RULE("deny", "doors/in"), taken));
	planter.uid = 0;
	assert_int_equal(lchown("doors/in", 0, 0), 0);
	assert_false(warned(RULE("deny", "doors/in"), taken));
}

/* What is not there is counted, what cannot be looked at is named. */
static void test_notes(void **state)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	struct rf_names names = {0};
	char want[100];
	void *image;

	(void)state;
	assert_int_equal(symlink("loop", "loop"), 0);
	image = compile(RULE("deny", "none") RULE("deny", "loop") RULE("deny", "none/x")
				RULE("deny", "loop/x") RULE("deny", "store"),
			&policy);
	assert_int_equal(rf_names_collect(policy, image, &planter, &diags, &names), 0);
	assert_int_equal(names.absent, 2);
	assert_int_equal(diags.n, 3);
	snprintf(want, sizeof(want),
		 "%s/loop: Too many levels of symbolic links; the rule holds by name", root);
	assert_string_equal(diags.items[0].message, want);
	assert_string_equal(diags.items[2].message,
			    "2 paths of the policy do not exist yet; their rules hold by name");
	rf_names_done(&names);
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

/* What the session may create by one mount is there in the other one. */
static void test_mounts(void **state)
{
	char options[200];

	(void)state;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		skip();
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("doors", "bound", NULL, MS_BIND, NULL), 0);
	assert_int_equal(named(CREATE("open") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'g');
	assert_int_equal(named(CREATE("bound") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(named(CREATE("doors/**") RULE("allow", "bound/in"), "store/a", "bound/in"),
			 'd');
	assert_int_equal(umount("bound"), 0);
	/* The folder that a link leads to now need not be the one that was mounted. */
	snprintf(options, sizeof(options), "lowerdir=%s/doors/in:%s/open", root, root);
	assert_int_equal(mount("overlay", "merged", "overlay", 0, options), 0);
	assert_int_equal(named(RULE("allow", "merged"), "store/a", "merged"), 'g');
	assert_int_equal(named(CREATE("doors") RULE("allow", "merged"), "store/a", "merged"), 'd');
	assert_int_equal(umount("merged"), 0);
	/* What is put into a layer is there in the overlay, and the other way round. */
	snprintf(options, sizeof(options), "lowerdir=%s/doors:%s/open", root, root);
	assert_int_equal(mount("overlay", "merged", "overlay", 0, options), 0);
	assert_int_equal(named(RULE("allow", "merged/in"), "store/a", "merged/in"), 'g');
	assert_int_equal(
		named(CREATE("doors/**") RULE("allow", "merged/in"), "store/a", "merged/in"), 'd');
	assert_int_equal(named(CREATE("merged") RULE("allow", "doors/in"), "store/a", "doors/in"),
			 'd');
	assert_int_equal(umount("merged"), 0);
}

static void put(const char *path)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
}

static void overlay(const char *lower, const char *upper)
{
	char options[300];

	snprintf(options, sizeof(options), "lowerdir=%s/%s,upperdir=%s/%s,workdir=%s/side", root,
		 lower, root, upper, root);
	assert_int_equal(mount("overlay", "merged", "overlay", 0, options), 0);
}

/* A file of an overlay is an object of its layers, which another name may lead to. */
static void test_layers(void **state)
{
	char half[200];

	(void)state;
	snprintf(half, sizeof(half), "lowerdir=%s/low,upperdir=aside,workdir=side", root);
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		skip();
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mkdir("low", 0700) | mkdir("up", 0700) | mkdir("up/dir", 0700) |
				 mkdir("side", 0700) | mkdir("aside", 0700),
			 0);
	put("low/file");
	put("up/file");
	put("up/dir/file");
	put("aside/file");
	put("store/a/lone");
	assert_int_equal(link("low/file", "low/hard"), 0);
	assert_int_equal(symlink("../aside", "low/dir"), 0);
	assert_int_equal(mkfifo("low/fifo", 0600), 0);
	assert_int_equal(symlink("file", "low/link"), 0);
	overlay("low", "up");
	/* What a higher layer hides may lose by the path that once was its own, not gain. */
	assert_int_equal(named(RULE("deny", "merged/file"), "low/file", "merged/file"), 'd');
	assert_int_equal(named(RULE("deny", "merged/file"), "low/hard", "merged/file"), 'd');
	assert_int_equal(named(RULE("deny", "merged/file"), "up/file", "merged/file"), 'g');
	assert_int_equal(named(RULE("allow", "merged/file"), "up/file", "merged/file"), 'g');
	assert_int_equal(named(RULE("deny", "merged/hard"), "low/file", "merged/hard"), 'g');
	/* Its own name there is a name of the object only where the policy names it. */
	assert_int_equal(named(RULE("deny", "merged/file"), "low/file", "low/file"), 0);
	assert_int_equal(
		named(RULE("deny", "merged/file") RULE("deny", "low/file"), "low/file", "low/file"),
		'g');
	/* What the overlay shows there is not behind the link of a layer below. */
	assert_int_equal(named(RULE("deny", "merged/dir/file"), "up/dir/file", "merged/dir/file"),
			 'g');
	assert_int_equal(named(RULE("deny", "merged/dir/file"), "aside/file", "merged/dir/file"),
			 0);
	/* A directory is known by its layer's root; what is no file has no content there. */
	assert_int_equal(named(RULE("deny", "merged/dir"), "up/dir", "merged/dir"), 0);
	assert_int_equal(named(RULE("deny", "merged/fifo"), "low/fifo", "merged/fifo"), 0);
	/* What is mounted on it is not what the overlay opens. */
	assert_false(warned(RULE("deny", "merged/file"), "cannot be looked at"));
	assert_int_equal(mount("aside/file", "low/file", NULL, MS_BIND, NULL), 0);
	assert_true(warned(RULE("deny", "merged/file"), "cannot be looked at"));
	assert_int_equal(named(RULE("deny", "merged/file"), "aside/file", "merged/file"), 0);
	assert_int_equal(umount("low/file"), 0);
	/* By a link in the overlay: the place that it leads to. */
	assert_int_equal(named(RULE("allow", "merged/link"), "up/file", "merged/file"), 'g');
	assert_int_equal(named(RULE("allow", "merged/link"), "up/file", "merged/link"), 0);
	/* A part of it that is mounted elsewhere, too. */
	assert_int_equal(mount("merged/dir", "bound", NULL, MS_BIND, NULL), 0);
	assert_int_equal(named(RULE("deny", "bound/file"), "up/dir/file", "bound/file"), 'g');
	assert_int_equal(named(RULE("deny", "bound/file"), "up/dir/file", "merged/dir/file"), 'd');
	assert_int_equal(named(RULE("deny", "bound/file"), "aside/file", "bound/file"), 0);
	assert_int_equal(named(RULE("deny", "bound/file"), "up/dir", "bound"), 'g');
	assert_int_equal(named(RULE("deny", "bound/file"), "aside", "bound"), 0);
	assert_int_equal(umount("bound"), 0);
	assert_int_equal(umount("merged"), 0);
	/* The folder that a link leads to now need not be the layer. */
	overlay("doors/in", "up");
	assert_int_equal(named(RULE("allow", "merged/lone"), "store/a/lone", "merged/lone"), 'g');
	assert_int_equal(
		named(CREATE("doors") RULE("allow", "merged/lone"), "store/a/lone", "merged/lone"),
		'd');
	assert_int_equal(umount("merged"), 0);
	/* Names of layers that the kernel tells in escapes, of its own or the caller's. */
	assert_int_equal(mkdir("od:d", 0700) | mkdir("com,ma", 0700) | mkdir("back\\x2d", 0700), 0);
	put("od:d/odd");
	put("com,ma/comma");
	put("back\\x2d/back");
	overlay("od\\:d", "com\\,ma");
	assert_int_equal(named(RULE("deny", "merged/odd"), "od:d/odd", "merged/odd"), 'g');
	assert_int_equal(named(RULE("deny", "merged/comma"), "com,ma/comma", "merged/comma"), 'g');
	assert_int_equal(umount("merged"), 0);
	/* What a layer that cannot be seen may hide. */
	assert_int_equal(mount("overlay", "merged", "overlay", 0,
			       "lowerdir=low:doors,upperdir=com\\,ma,workdir=side"),
			 0);
	assert_int_equal(named(RULE("allow", "merged/hard"), "low/hard", "merged/hard"), 0);
	assert_int_equal(umount("merged"), 0);
	assert_int_equal(mount("overlay", "merged", "overlay", 0, half), 0);
	assert_int_equal(named(RULE("allow", "merged/hard"), "low/hard", "merged/hard"), 'd');
	assert_int_equal(umount("merged"), 0);
	overlay("back\\\\x2d", "up");
	assert_int_equal(named(RULE("deny", "merged/back"), "back\\x2d/back", "merged/back"), 'g');
	assert_int_equal(umount("merged"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_below_target),
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_planted_itself),
		cmocka_unit_test(test_planted_above),
		cmocka_unit_test(test_planted_chain),
		cmocka_unit_test(test_planted_hard_link),
		cmocka_unit_test(test_planted_before),
		cmocka_unit_test(test_root_link),
		cmocka_unit_test(test_taken_away),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_layers),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
