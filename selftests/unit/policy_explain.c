/* SPDX-License-Identifier: BSD-2-Clause */
/* From text to verdict: order of rules, rights, directories, names, and the rule that decided. */
#include "selftests/unit/policy.h"

static void check(const char *text, const char *const acts[][2], const int *lines, size_t n)
{
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(text, &diags, &size);

	for (size_t i = 0; i < n; i++) {
		int line = test_judge(image, acts[i][0], acts[i][1]);

		if (line != lines[i])
			fail_msg("%s %s: %d instead of %d", acts[i][0], acts[i][1], line, lines[i]);
	}
	free(image);
	rf_diags_done(&diags);
}

#define CHECK(text, ...)                                                                           \
	do {                                                                                       \
		static const struct {                                                              \
			const char *act[2];                                                        \
			int line;                                                                  \
		} rows[] = {__VA_ARGS__};                                                          \
		const char *acts[sizeof(rows) / sizeof(*rows)][2];                                 \
		int lines[sizeof(rows) / sizeof(*rows)];                                           \
                                                                                                   \
		for (size_t row = 0; row < sizeof(rows) / sizeof(*rows); row++) {                  \
			acts[row][0] = rows[row].act[0];                                           \
			acts[row][1] = rows[row].act[1];                                           \
			lines[row] = rows[row].line;                                               \
		}                                                                                  \
		check(text, (const char *const(*)[2])acts, lines, sizeof(rows) / sizeof(*rows));   \
	} while (0)

static void test_order(void **state)
{
	(void)state;
	CHECK(HEAD "files:\n"
		   "  - allow: [read, exec]\n"
		   "    paths:\n"
		   "      - /usr\n" /* 6 */
		   "      - ~\n" /* 7 */
		   "  - deny: all\n"
		   "    paths: [~/.ssh]\n" /* 9 */
		   "  - allow: read\n"
		   "    paths: [~/.ssh/known_hosts]\n" /* 11 */
		   "    reopens: true\n"
		   "  - forbid: all\n"
		   "    paths: [/usr/secret]\n" /* 14 */
		   "  - allow: all\n"
		   "    paths: [/usr/secret/open]\n", /* 16 */
	      {{"read", "/usr"}, 6}, {{"read", "/usr/bin/ls"}, 6}, {{"exec", "/usr/bin/ls"}, 6},
	      {{"write", "/usr/bin/ls"}, 0}, {{"read", "/usrx"}, 0}, {{"read", "/us"}, 0},
	      {{"read", "/"}, 0}, {{"read", "/home/u"}, 7}, {{"read", "/home"}, 0},
	      {{"read", "/home/u/.ssh"}, -9}, {{"read", "/home/u/.ssh/id"}, -9},
	      {{"read", "/home/u/.ssh/known_hosts"}, 11},
	      {{"modify", "/home/u/.ssh/known_hosts"}, -9},
	      {{"read", "/home/u/.ssh/known_hosts.old"}, -9}, {{"read", "/usr/secret/a"}, -14},
	      {{"read", "/usr/secret/open/a"}, -14}, {{"read", "/usr/secretary"}, 6});
}

static void test_root(void **state)
{
	(void)state;
	CHECK(HEAD
	      "files:\n  - allow: read\n    paths: [/]\n  - deny: read\n    paths: [\"/*/x\"]\n",
	      {{"read", "/"}, 5}, {{"read", "/a"}, 5}, {{"read", "/a/b/c"}, 5},
	      {{"read", "/a/x"}, -7}, {{"read", "/a/x/y"}, -7}, {{"exec", "/a"}, 0});
}

static void test_default(void **state)
{
	(void)state;
	CHECK(HEAD, {{"read", "/"}, 0}, {{"all", "/a/b"}, 0});
}

/* What a pattern matches, each line a promise of LANGUAGE.md. */
static void test_patterns(void **state)
{
	(void)state;
	CHECK(HEAD "files:\n  - allow: read\n    paths:\n"
		   "      - \"/a/*.c\"\n" /* 6 */
		   "      - \"/b/**\"\n" /* 7 */
		   "      - \"/c/**/x\"\n" /* 8 */
		   "      - \"/d/?\"\n" /* 9 */
		   "      - \"/e/[a-c]\"\n" /* 10 */
		   "      - \"/f/[!a-c]\"\n" /* 11 */
		   "      - \"/g/{p,q/r}\"\n" /* 12 */
		   "      - '/h/\\*'\n" /* 13 */
		   "      - \"**/.env\"\n" /* 14 */
		   "      - \"/i/*a*b*\"\n" /* 15 */
		   "      - ${GLOB}\n", /* 16 */
	      {{"read", "/a/x.c"}, 6}, {{"read", "/a/.c"}, 6}, {{"read", "/a/.x.c"}, 6},
	      {{"read", "/a/x.cc"}, 0}, {{"read", "/a/y/x.c"}, 0}, {{"read", "/a/x.c/below"}, 6},
	      {{"read", "/b"}, 0}, {{"read", "/b/x"}, 7}, {{"read", "/b/x/y"}, 7},
	      {{"read", "/c/x"}, 8}, {{"read", "/c/y/z/x"}, 8}, {{"read", "/c/yx"}, 0},
	      {{"read", "/c"}, 0}, {{"read", "/d/z"}, 9}, {{"read", "/d/\xff"}, 9},
	      {{"read", "/d/ab"}, 0}, {{"read", "/e/b"}, 10}, {{"read", "/e/d"}, 0},
	      {{"read", "/f/d"}, 11}, {{"read", "/f/b"}, 0}, {{"read", "/g/p"}, 12},
	      {{"read", "/g/q/r"}, 12}, {{"read", "/g/q"}, 0}, {{"read", "/h/*"}, 13},
	      {{"read", "/h/x"}, 0}, {{"read", "/.env"}, 14}, {{"read", "/z/.env"}, 14},
	      {{"read", "/z/y/.env/x"}, 14}, {{"read", "/z/.envx"}, 0}, {{"read", "/i/xaxxbx"}, 15},
	      {{"read", "/i/ba"}, 0}, {{"read", "/srv/[a*]{b,c}?\\x"}, 16},
	      {{"read", "/srv/ab1x"}, 0});
}

/* Of several names a deny by any wins; without one, an allow by any is enough. */
static void test_names(void **state)
{
	static const char text[] = HEAD "files:\n  - allow: read\n    paths: [/a]\n"
					"  - deny: read\n    paths: [/b]\n";
	const char *allow_deny[] = {"/a", "/b/x"}, *none_allow[] = {"/z", "/a"};
	struct rf_explanation e;
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(text, &diags, &size);

	(void)state;
	assert_int_equal(rf_explain(image, RF_READ, allow_deny, 2, &e), 0);
	assert_int_equal(e.verdict.missing, RF_READ);
	assert_int_equal(e.verdict.name, 1);
	assert_int_equal(e.rule.line, 7);
	assert_string_equal(e.rule.text, "deny read /b");
	assert_string_equal(e.rule.file, "t.yaml");
	assert_int_equal(rf_explain(image, RF_READ, none_allow, 2, &e), 0);
	assert_int_equal(e.verdict.missing, 0);
	assert_int_equal(e.rule.line, 5);
	free(image);
	rf_diags_done(&diags);
}

/* A name that can only take away (RF_NAME_DENY_ONLY), and what audited rules say of it. */
static void test_deny_only(void **state)
{
	static const char text[] = HEAD "files:\n  - allow: read\n    paths: [/a]\n"
					"  - { deny: read, paths: [/a/try], audit: true }\n" /* 6 */
					"  - { allow: read, paths: [/b], audit: true }\n" /* 7 */
					"  - { deny: read, paths: [/c] }\n"
					"  - { allow: read, paths: [/c/d], audit: true }\n"; /* 9 */
	static const struct {
		const char *names[2]; /* the second one can only take away */
		uint8_t missing, audited;
		unsigned int line; /* of the audited rule */
	} rows[] = {
		{{"/a/x", "/a/try"}, 0, RF_WOULD_DENY, 6},
		{{"/z", "/a/x"}, RF_READ, 0, 0},
		{{"/z", "/b"}, RF_READ, 0, 0},
		{{"/b", "/z"}, RF_READ, RF_WOULD_ALLOW, 7},
		{{"/a/x", "/c/d"}, RF_READ, RF_WOULD_ALLOW, 9},
		{{"/z", "/c/d"}, RF_READ, 0, 0},
	};
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(text, &diags, &size);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rf_image_rule rule;
		struct rf_verdict v;

		rf_verdict_begin(&v, RF_READ);
		for (unsigned int k = 0; k < 2; k++) {
			const char *name = rows[i].names[k];

			rf_verdict_add(&v, image, RF_NO_MASK,
				       rf_image_state(image, name, strlen(name)),
				       k ? RF_NAME_DENY_ONLY : 0, k);
		}
		rf_verdict_end(&v);
		assert_int_equal(v.missing, rows[i].missing);
		assert_int_equal(rf_verdict_audited(&v), rows[i].audited);
		if (!rows[i].audited)
			continue;
		assert_int_equal(v.audited_missing, rows[i].audited == RF_WOULD_DENY ? RF_READ : 0);
		assert_true(rf_image_rule(image, v.audited_rule, &rule));
		assert_int_equal(rule.line, rows[i].line);
		assert_int_equal(v.audited_name, rows[i].line != 7);
		rf_verdict_fail(&v, RF_REASON_RACED);
		assert_int_equal(rf_verdict_audited(&v), 0);
	}
	free(image);
	rf_diags_done(&diags);
}

/* What another name may give, this one need not. */
static void test_keep_refused(void **state)
{
	static const char text[] = HEAD "files:\n  - allow: read\n    paths: [/a]\n"
					"  - { deny: read, paths: [/a/try], audit: true }\n"
					"  - { allow: read, paths: [/b], audit: true }\n"
					"  - { deny: read, paths: [/c] }\n"
					"  - { allow: read, paths: [/c/d], audit: true }\n";
	static const struct {
		const char *name;
		uint8_t missing, audited;
	} rows[] = {
		{"/a/x", 0, 0},	      {"/z", 0, 0},
		{"/c/x", RF_READ, 0}, {"/a/try", 0, RF_WOULD_DENY},
		{"/b", 0, 0},	      {"/c/d", RF_READ, RF_WOULD_ALLOW},
	};
	struct rf_diags diags = {0};
	struct rf_verdict v;
	size_t size;
	void *image = test_image(text, &diags, &size);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *name = rows[i].name;

		rf_verdict_begin(&v, RF_READ | RF_EXEC);
		rf_verdict_add(&v, image, RF_NO_MASK, rf_image_state(image, name, strlen(name)), 0,
			       0);
		rf_verdict_end(&v);
		rf_verdict_keep_refused(&v);
		assert_int_equal(v.missing, rows[i].missing);
		assert_int_equal(!rf_verdict_denies(&v), !rows[i].missing);
		assert_int_equal(rf_verdict_audited(&v), rows[i].audited);
	}
	/* No policy was asked: that stays a denial. */
	rf_verdict_fail(&v, RF_REASON_RACED);
	rf_verdict_keep_refused(&v);
	assert_int_equal(v.missing, RF_READ | RF_EXEC);
	assert_true(rf_verdict_denies(&v));
	free(image);
	rf_diags_done(&diags);
}

static void test_not_paths(void **state)
{
	static const char *const not_paths[] = {"a", "/a/", "//", "/a//b", "/./a", "/a/..", "./a"};
	struct rf_explanation e;
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(HEAD, &diags, &size);

	(void)state;
	for (size_t i = 0; i < sizeof(not_paths) / sizeof(*not_paths); i++)
		assert_int_equal(rf_explain(image, RF_READ, &not_paths[i], 1, &e), -EINVAL);
	free(image);
	rf_diags_done(&diags);
}

static const struct {
	const char *text;
	unsigned int line;
	const char *message; /* NULL: no warning but that of `exec` */
} lints[] = {
	{"  - deny: all\n    paths: [/a]\n  - allow: read\n    paths: [/a/b]\n", 7,
	 "reopens a part"},
	{"  - deny: all\n    paths: [/a]\n  - allow: read\n    paths: [/a/b]\n    reopens: true\n",
	 0, NULL},
	{"  - deny: all\n    paths: [/a/b]\n  - allow: read\n    paths: [/a]\n", 7,
	 "reopens a part"},
	{"  - deny: all\n    paths: [\"**/.env\"]\n  - allow: read\n    paths: [/a]\n", 7,
	 "reopens a part of `deny all **/.env` (t.yaml:5)"},
	{"  - deny: all\n    paths: [/a]\n  - allow: all\n    paths: [/a]\n", 7, "reopens a part"},
	{"  - deny: write\n    paths: [/a]\n  - allow: read\n    paths: [/a/b]\n", 0, NULL},
	{"  - allow: read\n    paths: [/a]\n  - deny: all\n    paths: [/a/b]\n", 0, NULL},
	{"  - forbid: all\n    paths: [/a]\n  - allow: read\n    paths: [/a/b]\n", 7,
	 "never win: allow read /a/b; `forbid all /a` (t.yaml:5) decides about /a/b"},
	{"  - allow: read\n    paths: [/a/b]\n  - allow: all\n    paths: [/a]\n", 5, "never win"},
	{"  - allow: read\n    paths: [\"/a/*.c\"]\n  - allow: all\n    paths: [\"/a/**\"]\n", 5,
	 "never win: allow read /a/*.c; `allow all /a/**` (t.yaml:7) decides about /a/x.c"},
	/* The one that wins there, not the next. */
	{"  - deny: all\n    paths: [\"**/[ab]?\", /c]\n  - deny: all\n    paths: [\"/**/a*\"]\n"
	 "  - deny: all\n    paths: [/]\n",
	 5, "never win: deny all **/[ab]?; `deny all /` (t.yaml:9) decides about /ax"},
	{"  - deny: all\n    paths: [/]\n  - deny: all\n    paths: [/, /b]\n", 5,
	 "never win: deny all /; `deny all /` (t.yaml:7) decides about /"},
	{"  - allow: [read, exec]\n    paths: [/a/b]\n  - allow: read\n    paths: [/a]\n", 0, NULL},
	{"  - deny: all\n    paths: [\"/[ab]/x\"]\n  - deny: read\n    paths: [/a/x, /b/x]\n", 0,
	 NULL},
	{"  - deny: read\n    paths: [\"/[ab]/x\"]\n  - deny: all\n    paths: [/a/x, /b/x]\n", 5,
	 "never win"},
	{"  - allow: read\n    paths: [/a, /b, /a]\n", 5,
	 "never win: allow read /a; `allow read /a` (t.yaml:5) decides about /a"},
	/* Void only where the workspace (/home/u/w) and the home lie; a deny that is void all the same. */
	{"  - allow: read\n    paths: [/home/u/w, \"${WORKSPACE}\"]\n", 0, NULL},
	{"  - allow: read\n    paths: [\"${WORKSPACE}/a\", /home/u/w]\n", 0, NULL},
	{"  - allow: read\n    paths: [\"${WORKSPACE}/a\", ~]\n", 0, NULL},
	{"  - allow: read\n    paths: [\"${WORKSPACE}/a\", \"${WORKSPACE}\"]\n", 5,
	 "never win: allow read ${WORKSPACE}/a"},
	{"  - allow: read\n    paths: [\"${WORKSPACE}/a\", /]\n", 5, "never win"},
	{"  - deny: all\n    paths: [~/.ssh]\n  - allow: all\n    paths: [/home]\n    reopens: true\n",
	 5, "never win: deny all ~/.ssh; `allow all /home` (t.yaml:7)"},
	/* Wide ones. */
	{"  - allow: all\n    paths: [/]\n", 0, NULL},
	{"  - allow: write\n    paths: [/]\n", 5, "lets the session write ~/.bashrc"},
	{"  - allow: all\n    paths: [/]\n  - deny: write\n    paths: [~]\n", 5,
	 "`allow all /` lets the session write /usr/bin/env"},
	{"  - allow: all\n    paths: [/]\n  - deny: write\n    paths: [~, /usr, /etc]\n", 0, NULL},
	{"  - allow: all\n    paths: [/]\n    audit: true\n", 0, NULL},
	{"  - allow: [read, exec]\n    paths: [/]\n  - deny: all\n    paths: [\"**/*.pem\"]\n", 7,
	 "hits certificates that programs need: /etc/ssl/cert.pem"},
	{"  - allow: read\n    paths: [/etc/ssl]\n  - deny: all\n    paths: [\"**/*.pem\"]\n"
	 "  - allow: read\n    paths: [/etc/ssl/cert.pem]\n    reopens: true\n",
	 0, NULL},
	{"  - allow: read\n    paths: [/a]\n  - deny: all\n    paths: [\"**/*.pem\"]\n", 0, NULL},
	/* All below a directory, and not the directory. */
	{"  - allow: read\n    paths: [\"/a/**\"]\n", 5,
	 "not match /a itself, which cannot be listed"},
	{"  - allow: read\n    paths: [\"/**\"]\n", 5,
	 "not match / itself, which cannot be listed"},
	{"  - allow: read\n    paths: [/a, \"/a/**\"]\n", 0, NULL},
	{"  - allow: exec\n    paths: [\"/a/**\"]\n", 0, NULL},
	{"  - deny: read\n    paths: [/a]\n  - allow: read\n    paths: [\"/a/**\"]\n"
	 "    reopens: true\n",
	 0, NULL},
	{"  - deny: read\n    paths: [\"/a/**\"]\n", 0, NULL},
	{"  - allow: read\n    paths: [/]\n  - deny: read\n    paths: [\"/a/**\"]\n", 7,
	 "`/a/**` does not match /a itself, which can be listed"},
	{"  - allow: read\n    paths: [/]\n  - deny: read\n    paths: [\"/*/a/**\"]\n", 0, NULL},
};

static void test_lint(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lints) / sizeof(*lints); i++) {
		struct rf_diags diags = {0};
		bool found = !lints[i].message;
		char text[300];
		size_t size;

		snprintf(text, sizeof(text), HEAD "files:\n%s", lints[i].text);
		free(test_image(text, &diags, &size));
		for (size_t k = 0; k < diags.n; k++) {
			const struct rf_diag *d = &diags.items[k];

			if (strstr(d->message, "no program can start"))
				continue;
			if (!lints[i].message)
				fail_msg("%s%s", lints[i].text, d->message);
			else
				found |= d->severity == RF_WARNING && d->line == lints[i].line &&
					 strstr(d->message, lints[i].message);
		}
		if (!found) {
			test_show(&diags);
			fail_msg("%sno warning: %s", lints[i].text, lints[i].message);
		}
		rf_diags_done(&diags);
	}
}

/* A policy is not blamed for its parents. */
static void test_lint_parent(void **state)
{
	static const struct test_parent parents[] = {
		{"wide", HEAD "files:\n  - { allow: all, paths: [/] }\n"
			      "  - { deny: all, paths: [\"**/*.pem\", \"/a/**\", \"/a/**\"] }\n"},
		{NULL, NULL},
	};
	struct rf_diags diags = {0};
	size_t size;

	(void)state;
	test_parents = parents;
	free(test_image(HEAD "extends: wide\n", &diags, &size));
	test_show(&diags);
	assert_int_equal(diags.n, 0);
}

/* Each right by itself: what is said of it, and by whom if that rule were not there. */
static void test_rights(void **state)
{
	static const char policy_text[] =
		HEAD "files:\n  - allow: read\n    paths: [/, /a, /a/b]\n"
		     "  - deny: read\n    paths: [/a/b/c]\n" /* 4 */
		     "  - { allow: [modify, create], paths: [/m] }\n" /* 5 */
		     "  - { deny: [create, delete], paths: [/m] }\n"
		     "  - { allow: delete, paths: [/m], audit: true }\n" /* 7 */
		     "network:\n  - { allow: connect, to: [\"*\"] }\n" /* 8 */
		     "  - { deny: connect, to: [10.0.0.0/8] }\n"
		     "  - { deny: connect, to: [12.0.0.0/8], audit: true }\n" /* 10 */
		     "  - { deny: connect, to: [\"13.0.0.0/8:2\"] }\n";
	static const struct {
		const char *op, *object;
		struct {
			uint8_t rights, missing;
			uint32_t rule, runner_up, audited;
		} parts[RF_RIGHTS];
	} rows[] = {
		{"read", "/a/b/c/d", {{RF_READ, RF_READ, 4, 3, 0}}},
		{"read", "/a/b", {{RF_READ, 0, 3, 2, 0}}},
		{"read", "/x", {{RF_READ, 0, 1, 0, 0}}},
		{"write", "/x", {{RF_WRITE, RF_MODIFY, 0, 0, 0}}},
		{"all",
		 "/m/x",
		 {{RF_READ, 0, 1, 0, 0},
		  {RF_MODIFY, 0, 5, 0, 0},
		  {RF_CREATE, RF_CREATE, 6, 5, 0},
		  {RF_DELETE, RF_DELETE, 6, 0, 7},
		  {RF_ATTR | RF_EXEC, RF_ATTR, 0, 0, 0}}},
		{"connect", "10.0.0.1:1", {{RF_NET_CONNECT, RF_NET_CONNECT, 9, 8, 0}}},
		{"connect", "11.0.0.1:1", {{RF_NET_CONNECT, 0, 8, 0, 0}}},
		{"connect", "12.0.0.1:1", {{RF_NET_CONNECT, 0, 8, 0, 10}}},
		/* Any address: the last rule that denies one, and without it the one before. */
		{"connect", "0.0.0.0:2", {{RF_NET_CONNECT, RF_NET_CONNECT, 11, 9, 0}}},
		{"connect", "[::]:1", {{RF_NET_CONNECT, RF_NET_CONNECT, 9, 8, 0}}},
	};
	struct rf_policy *policy = NULL;
	struct rf_arena arena = {0};
	struct rf_diags diags = {0};
	size_t size;
	void *image;

	(void)state;
	assert_int_equal(test_parse(policy_text, &diags, &policy), 0);
	assert_int_equal(rf_policy_compile(policy, &diags, &image, &size), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rf_explained parts[RF_RIGHTS];
		struct rf_pattern_error error;
		struct rf_object object;
		size_t n;

		assert_int_equal(
			rf_object_parse(rows[i].op, rows[i].object, &arena, &object, &error), 0);
		assert_int_equal(rf_explain_rights(policy, image, &object, parts, &n), 0);
		for (size_t k = 0; k < n; k++) {
			const struct rf_verdict *v = &parts[k].verdict;

			assert_int_equal(parts[k].rights, rows[i].parts[k].rights);
			assert_int_equal(v->missing, rows[i].parts[k].missing);
			assert_int_equal(v->rule, rows[i].parts[k].rule);
			assert_int_equal(parts[k].runner_up, rows[i].parts[k].runner_up);
			assert_int_equal(rf_verdict_audited(v) ? v->audited_rule : 0,
					 rows[i].parts[k].audited);
		}
		assert_true(n == RF_RIGHTS || !rows[i].parts[n].rights);
	}
	rf_arena_done(&arena);
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

static void test_tests(void **state)
{
	static const char policy_text[] =
		HEAD "files:\n  - allow: read\n    paths: [/a]\n"
		     "tests:\n"
		     "  - { op: read, path: /a, expect: allow }\n"
		     "  - { op: read, path: /a, expect: deny }\n" /* 8 */
		     "  - { op: all, path: /a, expect: deny }\n" /* 9 */
		     "  - { op: read, path: /b, expect: allow }\n" /* 10 */
		     "  - { op: write, path: //a/./b/, expect: deny }\n"
		     "  - { op: connect, to: \"10.0.0.1:80\", expect: deny }\n";
	static const struct {
		unsigned int line;
		const char *message;
	} failures[] = {
		{8, "read /a is expected to be deny, it is allow, by `allow read /a` (t.yaml:5)"},
		{9, "all /a is expected to be deny, it is partly, no rule matches"},
		{10, "read /b is expected to be allow, it is deny, no rule matches"},
	};
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	size_t size, n, first;
	void *image;

	(void)state;
	assert_int_equal(test_parse(policy_text, &diags, &policy), 0);
	assert_int_equal(rf_policy_compile(policy, &diags, &image, &size), 0);
	first = diags.n;
	assert_int_equal(rf_policy_test(policy, image, &diags, &n), -EINVAL);
	assert_int_equal(diags.n - first, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(diags.items[first + i].line, failures[i].line);
		assert_non_null(strstr(diags.items[first + i].message, failures[i].message));
	}
	free(image);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	     cmocka_unit_test(test_root),
		cmocka_unit_test(test_default),	     cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_names),	     cmocka_unit_test(test_deny_only),
		cmocka_unit_test(test_keep_refused), cmocka_unit_test(test_not_paths),
		cmocka_unit_test(test_lint),	     cmocka_unit_test(test_lint_parent),
		cmocka_unit_test(test_rights),	     cmocka_unit_test(test_tests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
