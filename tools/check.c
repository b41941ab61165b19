/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringfence check: is this policy valid, and does it say what its tests expect?
 * Needs no privilege and no kernel.
 */
#include <errno.h>
#include <string.h>

#include "policy/print.h"
#include "tools/command.h"

enum { KEY_PRINT = 'P' };

static const struct command_option options[] = {
	OPTIONS_LOAD,
	{KEY_PRINT, "print", "PHASE",
	 "print what the compiler makes: rules, patterns, dfa, net or image"},
	OPTION_END,
};

static const struct phase {
	const char *name;
	int (*print)(const struct rf_policy *policy, FILE *out); /* NULL: rf_print_image() */
} phases[] = {
	{"rules", rf_print_rules}, {"patterns", rf_print_patterns},
	{"dfa", rf_print_dfa},	   {"net", rf_print_net},
	{"image", NULL},
};

static const struct phase *find_phase(const char *name)
{
	for (size_t i = 0; i < RF_COUNT(phases); i++)
		if (!strcmp(phases[i].name, name))
			return &phases[i];
	return NULL;
}

/* By way of a buffer, since a policy's texts may hold what a terminal obeys. */
static int print_phase(const struct phase *phase, const struct load *load)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	char *rest, *line;
	int r;

	if (!out) {
		say("no memory");
		return EXIT_FAILED;
	}
	r = phase->print ? phase->print(load->policy, out) : rf_print_image(load->image, out);
	if (r == 0 && ferror(out))
		r = -ENOMEM;
	if (fclose(out) != 0 && r == 0)
		r = -errno;
	if (r < 0) {
		say("cannot print the %s: %s", phase->name, strerror(-r));
		return EXIT_FAILED;
	}
	rest = text;
	while ((line = strsep(&rest, "\n")) && (*line || rest)) {
		print_clean(line, stdout);
		putchar('\n');
	}
	return EXIT_OK;
}

/* What came of the policy. */
struct result {
	int r; /* of load_policy(), then of the tests */
	size_t tests; /* that ran, where all passed */
	size_t failed; /* tests */
};

static struct result check(struct load *load, struct rf_diags *diags)
{
	struct result result = {.r = load_policy(load, diags)};
	size_t errors = diags->errors;

	if (result.r < 0)
		return result;
	result.r = rf_policy_test(load->policy, load->image, diags, &result.tests);
	result.failed = diags->errors - errors;
	/* A failure that no diagnostic tells. */
	if (result.r < 0 && !result.failed)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot run the tests: %s",
			strerror(-result.r));
	return result;
}

static int print_result(const struct load *load, const struct rf_diags *diags,
			const struct result *check)
{
	json_t *result =
		json_pack("{s:b, s:o}", "ok", check->r == 0, "diagnostics", json_diags(diags));

	/* What is not known of a broken policy is not there. */
	if (result && load->file)
		json_object_set_new(result, "file", json_string(load->file));
	if (result && load->image) {
		const struct rf_image *image = load->image;

		json_object_set_new(result, "name", json_string(rf_policy_name(load->policy)));
		json_object_set_new(
			result, "mode",
			json_string(rf_policy_audit(load->policy) ? "audit" : "enforce"));
		json_object_set_new(result, "rules", json_integer(image->nrules));
		json_object_set_new(result, "states", json_integer(image->nstates));
		json_object_set_new(result, "image_bytes", json_integer((json_int_t)load->size));
		json_object_set_new(result, "tests_failed",
				    json_integer((json_int_t)check->failed));
		if (check->r == 0)
			json_object_set_new(result, "tests_passed",
					    json_integer((json_int_t)check->tests));
	}
	return print_json(result, true);
}

static void print_ok(const struct load *load, const struct result *check)
{
	print_clean(load->file, stdout);
	printf(": ok (%s, %s", rf_policy_name(load->policy),
	       rf_policy_audit(load->policy) ? "audit" : "enforce");
	if (check->tests)
		printf(", %zu test%s passed", check->tests, check->tests == 1 ? "" : "s");
	puts(")");
}

static int run_check(const struct command *command, int argc, char **argv)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_load_ struct load load = {.features = RF_ALL_FEATURES};
	const struct phase *phase = NULL;
	struct result result;
	int key, code = EXIT_OK;

	while ((key = load_getopt(command, argc, argv, &load)) != OPTIONS_DONE) {
		if (key != KEY_PRINT)
			return command_getopt_end(command, key);
		phase = find_phase(optarg);
		if (!phase)
			return command_misused(
				command, "--print takes rules, patterns, dfa, net or image, not %s",
				optarg);
	}
	if (argc - optind != 1)
		return command_misused(command, "one policy, please");
	if (load.json && phase)
		return command_misused(command, "either --json or --print");

	load.name = argv[optind];
	if (load_home(&load, &diags) < 0) {
		print_diags(&diags, RF_NOTE);
		return EXIT_FAILED;
	}
	result = check(&load, &diags);
	if (load.json)
		code = print_result(&load, &diags, &result);
	else
		print_diags(&diags, RF_NOTE);
	/* Whoever looks for why a test failed needs the phases, too. */
	if (phase && load.image)
		code = print_phase(phase, &load);
	if (result.r < 0)
		return EXIT_POLICY;
	if (!load.json && !phase)
		print_ok(&load, &result);
	return code;
}

const struct command command_check = {
	.name = "check",
	.arguments = "POLICY",
	.summary = "check a policy and say what is wrong with it",
	.about = "POLICY is a path if it has a '/' in it, else a name: NAME.yaml in ./.ringfence,\n"
		 "~/.config/ringfence, /etc/ringfence or among the profiles of ringfence.\n"
		 "${WORKSPACE} is the working directory. The policy's tests are run.\n"
		 "Exit status: 0 valid, 3 not valid, or a test failed.\n",
	.options = options,
	.run = run_check,
};
