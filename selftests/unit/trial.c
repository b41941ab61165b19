/* SPDX-License-Identifier: BSD-2-Clause */
/* Outside of sessions the acts of a trial work, and its policy is about them. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/explain.h"
#include "policy/policy.h"
#include "policy/util.h"
#include "user/cleanup.h"
#include "user/trial.h"

static struct rf_trial *trial;
static struct rf_diags diags;

static int setup(void **state)
{
	(void)state;
	return geteuid() ? 0 : rf_trial_new(&diags, &trial);
}

static int teardown(void **state)
{
	(void)state;
	rf_trial_free(trial);
	trial = NULL;
	rf_diags_done(&diags);
	return 0;
}

static size_t pair_of(const char *name)
{
	size_t i = 0;

	while (rf_trial_pairs[i].name && strcmp(rf_trial_pairs[i].name, name) != 0)
		i++;
	assert_non_null(rf_trial_pairs[i].name);
	return i;
}

static void outside(void **state)
{
	static const char *const always[] = {"open", "write",	     "exec",	  "fork",
					     "pty",  "connect-ipv4", "send-ipv4", "netlink"};
	struct rf_trial_result results[RF_TRIAL_PAIRS_MAX];
	size_t n = 0;

	(void)state;
	if (!trial)
		skip();
	assert_int_equal(rf_trial_run(trial, -1, NULL, results), 0);
	for (; rf_trial_pairs[n].name; n++) {
		/* Done, whether or not this machine can. */
		assert_true(results[n].denied >= 0 && results[n].allowed >= 0);
	}
	assert_int_equal(results[n].denied, -1);
	for (size_t i = 0; i < RF_COUNT(always); i++) {
		assert_int_equal(results[pair_of(always[i])].denied, 0);
		assert_int_equal(results[pair_of(always[i])].allowed, 0);
	}
}

/* A process that cannot enter the session does nothing at all. */
static void no_session(void **state)
{
	struct rf_trial_result results[RF_TRIAL_PAIRS_MAX];
	_cleanup_fd_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	if (!trial)
		skip();
	assert_int_equal(rf_trial_run(trial, null, NULL, results), -ECHILD);
	for (size_t i = 0; i < RF_TRIAL_PAIRS_MAX; i++)
		assert_true(results[i].denied == -1 && results[i].allowed == -1);
}

/* One that could not be moved has not done the last pair. */
static void not_moved(void **state)
{
	struct rf_trial_result results[RF_TRIAL_PAIRS_MAX];
	size_t last = pair_of("label");

	(void)state;
	if (!trial)
		skip();
	assert_int_equal(rf_trial_run(trial, -1, "/nowhere", results), 0);
	assert_int_equal(results[last].denied, -1);
	assert_int_equal(results[last - 1].allowed < 0, 0);
	assert_null(rf_trial_pairs[last + 1].name);
}

static const char *variable(void *userdata, const char *name, bool env)
{
	return env ? NULL : rf_trial_variable(userdata, name);
}

static void policy(void **state)
{
	static const struct {
		const char *pair, *op;
	} denied[] = {{"open", "read"},
		      {"write", "write"},
		      {"exec", "exec"},
		      {"fork", "read"},
		      {"label", "read"},
		      {"pty", "read"},
		      {"connect-ipv4", "connect"},
		      {"send-ipv4", "connect"}};
	const struct rf_policy_env env = {.variable = variable, .userdata = trial, .features = ~0u};
	__attribute__((cleanup(rf_arena_done))) struct rf_arena arena = {0};
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ void *image = NULL;
	struct rf_explanation explanation;
	struct rf_pattern_error error;
	struct rf_policy *parsed;
	struct rf_object object;
	size_t size;

	(void)state;
	if (!trial)
		skip();
	text = rf_trial_policy(trial);
	assert_int_equal(rf_policy_parse("t", text, strlen(text), &env, &diags, &parsed), 0);
	assert_int_equal(rf_policy_compile(parsed, &diags, &image, &size), 0);
	for (size_t i = 0; i < RF_COUNT(denied); i++) {
		const char *told = rf_trial_object(trial, pair_of(denied[i].pair));

		assert_int_equal(rf_object_parse(denied[i].op, told, &arena, &object, &error), 0);
		assert_int_equal(rf_explain_object(image, &object, &explanation), 0);
		assert_int_equal(explanation.verdict.missing, explanation.verdict.want);
	}
	assert_int_equal(rf_object_parse("all", "/usr/bin/true", &arena, &object, &error), 0);
	assert_int_equal(rf_explain_object(image, &object, &explanation), 0);
	assert_int_equal(explanation.verdict.missing, 0);
	rf_policy_free(parsed);
}

static void leaves_nothing(void **state)
{
	const char *folder;
	char copy[256];

	(void)state;
	if (!trial)
		skip();
	folder = rf_trial_variable(trial, "FOLDER");
	assert_true((size_t)snprintf(copy, sizeof(copy), "%s", folder) < sizeof(copy));
	assert_int_equal(access(copy, F_OK), 0);
	rf_trial_free(trial);
	trial = NULL;
	assert_int_equal(access(copy, F_OK), -1);
}

/* `exec` tries this very program. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(outside, setup, teardown),
		cmocka_unit_test_setup_teardown(no_session, setup, teardown),
		cmocka_unit_test_setup_teardown(not_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(policy, setup, teardown),
		cmocka_unit_test_setup_teardown(leaves_nothing, setup, teardown),
	};

	if (argc == 2 && !strcmp(argv[1], "--version"))
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
