/* SPDX-License-Identifier: BSD-2-Clause */
/* The language's grammar: every kind of bad text is told where it stands, and all of it at once. */
#include "selftests/unit/policy.h"

#include "policy/tree.h"

struct bad {
	const char *text;
	unsigned int line, column;
	const char *message, *hint; /* parts of them */
};

static const struct bad bad[] = {
	{"", 1, 1, "empty", "ringfence: 1"},
	{"# only a comment\n", 1, 1, "empty", "ringfence: 1"},
	{"- a\n", 1, 1, "must be a map", "ringfence: 1"},
	{"name: t\n", 1, 1, "`ringfence`", "ringfence: 1"},
	{"ringfence: 1\n", 1, 1, "`name`", "name: my-policy"},
	{"ringfence: 2\nname: t\n", 1, 12, "version \"2\"", "ringfence: 1"},
	{"ringfence: 1\nname: a b\n", 2, 7, "cannot be a name", "letters"},
	{"ringfence: 1\nname: [a]\n", 2, 7, "single value", NULL},
	{HEAD "fils: []\n", 3, 1, "unknown key `fils`", "did you mean `files`?"},
	{HEAD "xyzzy: []\n", 3, 1, "unknown key `xyzzy`", "one of ringfence, name"},
	{HEAD "mode: auditt\n", 3, 7, "unknown value", "did you mean `audit`?"},
	{HEAD "log: none\n", 3, 6, "unknown value", "one of denies, all"},
	{HEAD "name: u\n", 3, 1, "already given in line 2", "put both into one"},
	{HEAD "files: x\n", 3, 8, "must be a list", "allow: read"},
	{HEAD "files: [x]\n", 3, 9, "must be a map", "allow: read"},
	{HEAD "files:\n  - paths: [/a]\n", 4, 5, "without `allow`", "allow: read"},
	{HEAD "files:\n  - allow: read\n", 4, 5, "without `paths`", "paths"},
	{HEAD "files:\n  - allow: read\n    paths: []\n", 5, 12, "is empty", NULL},
	{HEAD "files:\n  - allow: []\n    paths: [/a]\n", 4, 12, "is empty", NULL},
	{HEAD "files:\n  - allow: raed\n    paths: [/a]\n", 4, 12, "unknown right",
	 "did you mean `read`?"},
	{HEAD "files:\n  - allow: [read, 7]\n    paths: [/a]\n", 4, 19, "unknown right", "one of"},
	{HEAD "files:\n  - allow: [[read]]\n    paths: [/a]\n", 4, 13, "a right must be", NULL},
	{HEAD "files:\n  - allow: read\n    deny: write\n    paths: [/a]\n", 5, 11, "one of",
	 "two items"},
	{HEAD "files:\n  - allow: read\n    path: [/a]\n", 5, 5, "unknown key `path`",
	 "did you mean `paths`?"},
	{HEAD "files:\n  - allow: read\n    paths: [/a]\n    reopens: yes\n", 6, 14,
	 "unknown value", "one of false, true"},
	{HEAD "files:\n  - allow: read\n    paths: [/a]\n    program: curl\n", 6, 5, "program",
	 "nested `ringfence run`"},
	{HEAD "files:\n  - allow: read\n    paths: [etc]\n", 5, 13, "relative", "begin it with /"},
	{HEAD "files:\n  - allow: read\n    paths: [/ok, ./x]\n", 5, 18, "relative",
	 "begin it with /"},
	{HEAD "files:\n  - allow: read\n    paths: [\"*.c\"]\n", 5, 13, "relative", "**/"},
	{HEAD "files:\n  - allow: read\n    paths: [\"\"]\n", 5, 13, "empty path", NULL},
	{HEAD "files:\n  - allow: read\n    paths: [/a/../b]\n", 5, 13, "`..`", "without .."},
	{HEAD "files:\n  - allow: read\n    paths: [\"/a/${NOPE}/b\"]\n", 5, 17,
	 "no value for NOPE", "--var NOPE="},
	{HEAD "files:\n  - allow: read\n    paths: [\"${env:NOPE}\"]\n", 5, 13,
	 "no value for env:NOPE", "environment"},
	{HEAD "files:\n  - allow: read\n    paths: [\"${RELATIVE}\"]\n", 5, 13, "no absolute path",
	 "begin with /"},
	{HEAD "files:\n  - allow: read\n    paths: [\"${DOTS}\"]\n", 5, 13, "`..`", NULL},
	{HEAD "files:\n  - allow: read\n    paths: [~bob/x]\n", 5, 13, "another user's home", NULL},
	{HEAD "files:\n  - allow: read\n    paths: [{a: b}]\n", 5, 13, "a path must be", NULL},
	{HEAD "files:\n  - allow: read\n    paths: [${WORKSPACE}]\n", 5, 14, "", "quote"},
	{HEAD "files:\n  - allow: read\n    paths: [**/.env]\n", 5, 13, "", "quote a pattern"},
	{HEAD "files:\n  - &a { allow: read, paths: [/a] }\n  - *a\n", 4, 5, "anchor", NULL},
	{HEAD "files: *rc\n", 3, 8, "alias", "quote"},
	{HEAD "mode: !!str audit\n", 3, 7, "tags", NULL},
	{HEAD "--- \n" HEAD, 3, 1, "second YAML document", NULL},
	{HEAD "files:\n\t- x\n", 4, 1, "", "spaces"},
	{HEAD "name: \"a\\0b\"\n", 3, 7, "NUL", NULL},
	{HEAD "files: [\"a\n", 4, 1, "", NULL},
	{HEAD "files: [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n", 3, 23, "nested too deep", NULL},
	{HEAD "unix: []\n", 3, 1, "`unix` is not supported yet", "remove it"},
	{HEAD "ask: [files]\n", 3, 1, "`ask` is not supported yet", "remove it"},
	{HEAD "detached: [raed]\n", 3, 12, "unknown right", "`read`"},
	{HEAD "files:\n  - deny: read\n    paths: [/a]\n    reopens: true\n", 4, 5,
	 "is for an allow", NULL},
	{HEAD "vars: [a]\n", 3, 7, "must be a map", NULL},
	{HEAD "vars: { A-B: x }\n", 3, 9, "no name of a variable", NULL},
	{HEAD "vars: { HOME: /x }\n", 3, 9, "`HOME` is set at the start", NULL},
	{HEAD "vars: { A: [x] }\n", 3, 12, "single value", NULL},
	{HEAD "vars: { A: \"${A}\" }\n", 3, 12, "defined by itself", "give it a value"},
	{HEAD "vars: { A: \"${B}\", B: \"x${A}\" }\n", 3, 12, "defined by itself", NULL},
	{HEAD "vars: { A: \"/x/${NOPE}\" }\n", 3, 16, "no value for NOPE", "`vars`"},
	{HEAD "vars: { A: \"${env:NOPE}\" }\n", 3, 12, "no value for env:NOPE", NULL},
	{HEAD "vars: { A: x }\nfiles:\n  - allow: read\n    paths: [\"${A}\"]\n", 6, 13,
	 "no absolute path", NULL},
	{HEAD "extends: [nope]\n", 3, 11, "no policy \"nope\"", "looked up"},
	{HEAD "extends: []\n", 3, 10, "is empty", NULL},
	{HEAD "extends: { a: b }\n", 3, 10, "must be a list", NULL},
	{HEAD "extends: [[a]]\n", 3, 11, "a parent must be", NULL},
	{HEAD "network: x\n", 3, 10, "must be a list", NULL},
	{HEAD "network:\n  - allow: conect\n    to: [\"*\"]\n", 4, 12, "unknown value",
	 "`connect`"},
	{HEAD "network:\n  - allow: bind\n    to: [\"*\"]\n", 4, 12, "`bind` is not supported",
	 NULL},
	{HEAD "network:\n  - allow: connect\n", 4, 5, "without `to`", NULL},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.1:70000\"]\n", 5, 20, "bad port",
	 "65535"},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.1:9-8\"]\n", 5, 20, "range", "swap"},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.0/33\"]\n", 5, 19, "prefix length",
	 "0 to 32"},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.1/8\"]\n", 5, 10, "bits behind",
	 "clear"},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.256\"]\n", 5, 10, "no address",
	 NULL},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.1:80/sctp\"]\n", 5, 22,
	 "not understood", "tcp or /udp"},
	{HEAD "network:\n  - allow: connect\n    to: [\"2001:db8::1\"]\n", 5, 10, "not clear",
	 "brackets"},
	{HEAD "network:\n  - allow: connect\n    to: [\"[2001:db8::1:443\"]\n", 5, 10,
	 "without `]`", NULL},
	{HEAD "network:\n  - allow: connect\n    to: [\"example.org:443\", session]\n", 5, 10,
	 "domains", "addresses"},
	{HEAD "network:\n  - allow: connect\n    to: [{ name: x }]\n", 5, 10, "domains", NULL},
	{HEAD "network:\n  - allow: connect\n    to: [{ port: 1, name: x }]\n", 5, 10, "domains",
	 NULL},
	{HEAD "network:\n  - allow: connect\n    to: [{}]\n", 5, 10, "single value", NULL},
	{HEAD "network:\n  - allow: connect\n    to: [{ [a]: b }]\n", 5, 10, "single value", NULL},
	{HEAD "network:\n  - allow: connect\n    to: [[a]]\n", 5, 10, "single value", NULL},
	/* What leads to the next error is not proposed. */
	{HEAD "network:\n  - allow: read\n    to: [\"*\"]\n", 4, 12, "unknown value",
	 "only connect"},
	{HEAD "unixs: []\n", 3, 1, "unknown key `unixs`", "network, limits, detached, tests"},
	/* What is written in other languages. */
	{HEAD "files:\n  - allow: read, write\n    paths: [/a]\n", 4, 12, "unknown right",
	 "brackets: [read, write]"},
	{HEAD "files:\n  - allow: [read+exec]\n    paths: [/a]\n", 4, 13, "unknown right",
	 "brackets: [read, exec]"},
	{HEAD "files:\n  - allow: read, wriet\n    paths: [/a]\n", 4, 12, "unknown right",
	 "one of"},
	{HEAD "files:\n  - allow: read\n    paths: [\"${WORKSPCE}\"]\n", 5, 13, "for WORKSPCE",
	 "did you mean WORKSPACE? Else give it with --var WORKSPCE="},
	{HEAD "vars: { CACHE: /c }\nfiles:\n  - allow: read\n    paths: [\"${CACHES}\"]\n", 6, 13,
	 "for CACHES", "did you mean CACHE?"},
	{HEAD "files:\n  - allow: read\n    paths: [\"${SOCKET}\"]\n", 5, 13, "for SOCKET",
	 "did you mean ${env:SOCKET}"},
	{HEAD "files:\n  - allow: [read]\n\tpaths: [/a]\n", 5, 1, "", "spaces, not with tabs"},
	{HEAD "files:\n  - allow: read\n    \tpaths: [/a]\n", 5, 5, "", "spaces, not with tabs"},
	{"\xef\xbb\xbf" HEAD "fils: []\n", 3, 1, "unknown key", NULL},
	{"\xef\xbb\xbfringfenc: 1\nname: t\nringfence: 1\n", 1, 1, "unknown key", NULL},
	{HEAD "network:\n  - allow: connect\n    to: [\"https://10.0.0.1/x\"]\n", 5, 10, "is a URL",
	 "10.0.0.1:443"},
	{HEAD "network:\n  - allow: connect\n    to: [\"http://example.org\"]\n", 5, 10, "is a URL",
	 "alone"},
	{HEAD "network:\n  - allow: connect\n    to: [\"fd00::1:8080\"]\n", 5, 10, "not clear",
	 "brackets"},
	{HEAD "network:\n  - allow: connect\n    to: [\"localhost:80\"]\n", 5, 10, "domains",
	 "127.0.0.0/8"},
	{HEAD "network:\n  - allow: connect\n    to: [\":443\"]\n", 5, 10, "no address",
	 "\"*:443\""},
	{HEAD "network:\n  - allow: connect\n    to: [443]\n", 5, 10, "no address", "\"*:443\""},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.1:80:443\"]\n", 5, 10, "not clear",
	 "one port"},
	{HEAD "network:\n  - allow: connect\n    to: [\"10.0.0.1-10.0.0.9\"]\n", 5, 19,
	 "not understood", "prefix"},
	{HEAD "network:\n  - allow: connect\n    to: [10.0.0.1: 443]\n", 5, 10, "single value",
	 "no space behind a colon"},
	{HEAD "network:\n  - allow: connect\n    to: [[::1]:443]\n", 5, 11, "", "\"[::1]:443\""},
	{HEAD "network:\n  - allow: connect\n    to: [::1]\n", 5, 10, "", "\"[::1]:443\""},
	{HEAD "network:\n  - allow: connect\n    to: \n      - [2001:db8::1]:443\n", 6, 22, "",
	 "quote what begins with ["},
	{HEAD "files:\n  - deny: read\n    paths: [~bob/.ssh]\n", 5, 13, "another user's home",
	 "/home/NAME"},
	{HEAD "files:\n  - deny: read\n    paths: [\"$HOME/.ssh\"]\n", 5, 13, "without braces",
	 "~ for $HOME"},
	{HEAD "files:\n  - deny: read\n    paths: [./src]\n", 5, 13, "a relative path",
	 "${WORKSPACE}"},
	{HEAD "files:\n  - deny: read\n\tpaths: [/a]\n", 5, 1, "tab", "indent with spaces"},
	{HEAD "limits: { memory: 4X }\n", 3, 19, "no amount of memory", "4G"},
	{HEAD "limits: { memory: 5K }\n", 3, 19, "no amount of memory", "1M"},
	{HEAD "limits: { tasks: 0 }\n", 3, 18, "no number of tasks", NULL},
	{HEAD "limits: { tasks: 1.5 }\n", 3, 18, "no number of tasks", NULL},
	{HEAD "limits: { cpu: 0.001 }\n", 3, 16, "no share", NULL},
	{HEAD "limits: { cpu: . }\n", 3, 16, "no share", NULL},
	{HEAD "limits: { cpus: 1 }\n", 3, 11, "unknown key", "`cpu`"},
	{HEAD "tests: [{ op: read }]\n", 3, 9, "a test needs", NULL},
	{HEAD "tests: [{ op: read, path: /a, to: \"*\", expect: deny }]\n", 3, 9, "a test needs",
	 NULL},
	{HEAD "tests: [{ op: connect, path: /a, expect: deny }]\n", 3, 9, "a test needs", NULL},
	{HEAD "files: [{ allow: rename, paths: [/] }]\n", 3, 18, "unknown right", "of the new"},
	{HEAD "files: [{ allow: RW, paths: [/] }]\n", 3, 18, "unknown right", "[read, write]"},
	{HEAD "tests: [{ op: chmod, path: /a, expect: deny }]\n", 3, 15, "unknown operation",
	 "say `attr`"},
	{HEAD "tests: [{ op: reed, path: /a, expect: deny }]\n", 3, 15, "unknown operation",
	 "read"},
	{HEAD "tests: [{ op: read, path: a, expect: deny }]\n", 3, 27, "relative path", NULL},
	{HEAD "tests: [{ op: read, path: /a/../b, expect: deny }]\n", 3, 30, "`..`", NULL},
	{HEAD "tests: [{ op: read, path: /a, expect: dney }]\n", 3, 39, "unknown value", "`deny`"},
	{HEAD "tests: [{ op: connect, to: 10.0.0.1, expect: deny }]\n", 3, 28,
	 "not one address and port", NULL},
	{"\xff\xfe" HEAD, 0, 0, "not text", "UTF-8"},
	{"\x7f"
	 "ELF\x02\x01\x01",
	 0, 0, "not text", "UTF-8"},
};

static bool has(const struct rf_diags *diags, const struct bad *b)
{
	for (size_t i = 0; i < diags->n; i++) {
		const struct rf_diag *d = &diags->items[i];

		if (d->severity == RF_ERROR && d->line == b->line && d->column == b->column &&
		    strstr(d->message, b->message) &&
		    (!b->hint || (d->hint && strstr(d->hint, b->hint))) &&
		    !strcmp(d->file, "t.yaml"))
			return true;
	}
	return false;
}

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct rf_policy *policy = NULL;
		struct rf_diags diags = {0};

		assert_int_equal(test_parse(bad[i].text, &diags, &policy), -EINVAL);
		assert_null(policy);
		if (!has(&diags, &bad[i])) {
			print_message("%s---\nexpected %u:%u %s (%s), got:\n", bad[i].text,
				      bad[i].line, bad[i].column, bad[i].message,
				      bad[i].hint ? bad[i].hint : "");
			test_show(&diags);
			fail();
		}
		rf_diags_done(&diags);
	}
}

/* What a caller cannot enforce is an error for it, by name; nothing is passed over. */
static void test_features(void **state)
{
	static const char text[] = HEAD "limits: { tasks: 5 }\nnetwork: []\nfiles:\n"
					"  - allow: read\n    paths: [/a]\n    audit: true\n";
	static const struct bad all[] = {
		{NULL, 3, 1, "`limits` is not supported yet", NULL},
		{NULL, 4, 1, "`network` is not supported yet", NULL},
		{NULL, 8, 5, "`audit on a rule` is not supported yet", NULL},
	};
	const struct rf_policy_env env = {test_variable, test_parent, test_hint, NULL, 0};
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	const struct rf_need *needs;

	(void)state;
	assert_int_equal(rf_policy_parse("t.yaml", text, strlen(text), &env, &diags, &policy),
			 -EINVAL);
	assert_int_equal(diags.errors, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(has(&diags, &all[i]));
	rf_diags_done(&diags);
	assert_int_equal(test_parse(text, &diags, &policy), 0);
	assert_int_equal(rf_policy_needs(policy, &needs), 3);
	assert_string_equal(needs[1].name, "network");
	assert_int_equal(needs[1].line, 4);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

static void test_limits(void **state)
{
	static const struct {
		const char *text;
		uint64_t memory;
		uint32_t tasks, cpu;
	} rows[] = {
		{"limits: { memory: 4G, tasks: 512, cpu: 2.0 }\n", UINT64_C(4) << 30, 512, 2000},
		{"limits: { memory: 1.5M }\n", 3 << 19, 0, 0},
		{"limits: { memory: 2097152, cpu: 0.125 }\n", 2 << 20, 0, 125},
		{"limits: { memory: 1024T }\n", UINT64_C(1) << 50, 0, 0},
		{"", 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rf_policy *policy = NULL;
		struct rf_diags diags = {0};
		char text[200];

		snprintf(text, sizeof(text), HEAD "%s", rows[i].text);
		assert_int_equal(test_parse(text, &diags, &policy), 0);
		assert_int_equal(rf_policy_limits(policy)->memory, rows[i].memory);
		assert_int_equal(rf_policy_limits(policy)->tasks, rows[i].tasks);
		assert_int_equal(rf_policy_limits(policy)->cpu, rows[i].cpu);
		rf_policy_free(policy);
		rf_diags_done(&diags);
	}
}

/* Every error of a file, in one go. */
static void test_all_at_once(void **state)
{
	static const struct bad all[] = {
		{NULL, 2, 7, "cannot be a name", NULL},
		{NULL, 3, 1, "unknown key `moed`", "did you mean `mode`?"},
		{NULL, 5, 12, "unknown right", NULL},
		{NULL, 6, 13, "relative", NULL},
		{NULL, 6, 23, "`..`", NULL},
		{NULL, 7, 5, "unknown key `tests`", NULL},
		{NULL, 8, 1, "already given", NULL},
	};
	static const char text[] = "ringfence: 1\nname: \"?\"\nmoed: audit\nfiles:\n"
				   "  - allow: rread\n    paths: [etc, /ok, /a/..]\n    tests: 1\n"
				   "moed: x\n";
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};

	(void)state;
	assert_int_equal(test_parse(text, &diags, &policy), -EINVAL);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!has(&diags, &all[i])) {
			test_show(&diags);
			fail_msg("%u:%u", all[i].line, all[i].column);
		}
	rf_diags_done(&diags);
}

static void test_nul_and_size(void **state)
{
	static const char nul[] = "ringfence: 1\nna\0me: t\n";
	size_t size = RF_TEXT_MAX + 1;
	char *large = malloc(size);
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};

	(void)state;
	assert_int_equal(
		rf_policy_parse("t.yaml", nul, sizeof(nul) - 1, &test_env, &diags, &policy),
		-EINVAL);
	assert_true(has(&diags, &(struct bad){NULL, 2, 3, "NUL", "UTF-8"}));
	rf_diags_done(&diags);
	assert_non_null(large);
	memset(large, '#', size);
	assert_int_equal(rf_policy_parse("t.yaml", large, size, &test_env, &diags, &policy),
			 -EINVAL);
	assert_true(has(&diags, &(struct bad){NULL, 0, 0, "too large", "extends"}));
	rf_diags_done(&diags);
	free(large);
}

static void test_too_many_rules(void **state)
{
	size_t size = 0, n = RF_MAX_RULES + 100;
	char *text = malloc(n * 8 + 100);
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};

	(void)state;
	assert_non_null(text);
	size += sprintf(text, HEAD "files: [{ allow: read, paths: [");
	for (size_t i = 0; i < n; i++)
		size += sprintf(text + size, "/%zu,", i);
	size += sprintf(text + size, "/z] }]\n");
	assert_int_equal(rf_policy_parse("t.yaml", text, size, &test_env, &diags, &policy),
			 -EINVAL);
	assert_int_equal(diags.errors, 1);
	assert_non_null(strstr(diags.items[0].message, "more than 16384 paths"));
	rf_diags_done(&diags);
	free(text);
}

static void test_many_errors(void **state)
{
	char text[8000];
	size_t size = sprintf(text, HEAD "files:\n  - allow: read\n    paths: [");
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};

	(void)state;
	for (size_t i = 0; i < 150; i++)
		size += sprintf(text + size, "x%zu, ", i);
	size += sprintf(text + size, "/a]\n");
	assert_int_equal(test_parse(text, &diags, &policy), -EINVAL);
	assert_int_equal(diags.n, RF_DIAGS_MAX);
	assert_int_equal(diags.errors, 150);
	assert_int_equal(diags.omitted, 50);
	rf_diags_done(&diags);
}

static void test_good(void **state)
{
	static const char text[] =
		HEAD "mode: audit\nlog: all\nfiles:\n"
		     "  - allow: [read, write]\n    paths: [/a, ~, \"~/x y\", '/b\\*', /c//d/./]\n"
		     "  - deny: all\n    paths: ${WORKSPACE}/.git\n"
		     "  - forbid: [exec]\n    paths: [\"/g/*/h\", /]\n";
	static const char *const expected[] = {
		"/", "/a", "/b*", "/c/d", "/g", "/home/u", "/home/u/w/.git", "/home/u/x y"};
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	const char *const *paths;

	(void)state;
	assert_int_equal(test_parse(text, &diags, &policy), 0);
	assert_int_equal(diags.errors, 0);
	assert_string_equal(rf_policy_name(policy), "t");
	assert_true(rf_policy_audit(policy));
	assert_true(rf_policy_log_all(policy));
	assert_int_equal(policy->nrules, 8);
	assert_int_equal(policy->rules[2].head.line, 7);
	assert_int_equal(policy->rules[2].head.column, 20);
	assert_int_equal(policy->rules[0].head.sense.rights, RF_READ | RF_WRITE);
	assert_int_equal(policy->rules[6].head.sense.action, RF_RULE_FORBID);
	assert_int_equal(rf_policy_paths(policy, &paths), sizeof(expected) / sizeof(*expected));
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert_string_equal(paths[i], expected[i]);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

/* A policy under which nothing can run is told so. */
static void test_no_exec(void **state)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};

	(void)state;
	assert_int_equal(test_parse(HEAD, &diags, &policy), 0);
	assert_int_equal(diags.n, 1);
	assert_int_equal(diags.items[0].severity, RF_WARNING);
	assert_non_null(strstr(diags.items[0].message, "no program can start"));
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

/* Where a line can be added to a list. */
static void test_dashes(void **state)
{
	static const struct {
		const char *text;
		unsigned int files, network;
	} all[] = {
		{HEAD "files:\n- {allow: exec, paths: [/]}\n", 1, 0},
		{HEAD
		 "files:\n  - allow: exec\n    paths: [/]\nnetwork:\n    - {allow: connect, to: ['*']}\n",
		 3, 5},
		{HEAD "files:\n    # a remark\n    -   allow: exec\n        paths: [/]\n", 5, 0},
		{HEAD "files: [{allow: exec, paths: [/]}]\n", 0, 0},
		{HEAD "files:\n  [{allow: exec, paths: [/]}]\n", 0, 0},
		{HEAD "extends: [other]\n", 0, 0},
	};
	static const struct test_parent parents[] = {
		{"other", "ringfence: 1\nname: o\nfiles:\n  - {allow: exec, paths: [/]}\n"},
		{NULL, NULL},
	};

	(void)state;
	test_parents = parents;
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		struct rf_policy *policy = NULL;
		struct rf_diags diags = {0};

		assert_int_equal(test_parse(all[i].text, &diags, &policy), 0);
		assert_int_equal(rf_policy_dashes(policy, false), all[i].files);
		assert_int_equal(rf_policy_dashes(policy, true), all[i].network);
		rf_policy_free(policy);
		rf_diags_done(&diags);
	}
	test_parents = NULL;
}

static void test_diag_text(void **state)
{
	struct rf_diags diags = {0};
	char *text;

	(void)state;
	rf_diag(&diags, RF_ERROR, "f", 3, 4, "do that", "no %s", "x");
	rf_diag(&diags, RF_WARNING, NULL, 0, 0, NULL, "plain");
	rf_diag(&diags, RF_NOTE, "f", 7, 0, NULL, "line only");
	text = rf_diag_text(&diags.items[0]);
	assert_string_equal(text, "f:3:4: error: no x (hint: do that)");
	free(text);
	text = rf_diag_text(&diags.items[1]);
	assert_string_equal(text, "warning: plain");
	free(text);
	text = rf_diag_text(&diags.items[2]);
	assert_string_equal(text, "f:7: note: line only");
	free(text);
	assert_int_equal(diags.errors, 1);
	rf_diags_done(&diags);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad),	     cmocka_unit_test(test_features),
		cmocka_unit_test(test_limits),	     cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_nul_and_size), cmocka_unit_test(test_too_many_rules),
		cmocka_unit_test(test_many_errors),  cmocka_unit_test(test_good),
		cmocka_unit_test(test_no_exec),	     cmocka_unit_test(test_diag_text),
		cmocka_unit_test(test_dashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
