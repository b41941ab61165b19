/* SPDX-License-Identifier: BSD-2-Clause */
/* ringfence check: is this policy valid? Needs no privilege and no kernel. */
#include <string.h>

#include "tools/command.h"
#include "user/run.h"

enum { KEY_VAR = 'v', KEY_USER = 'u' };

static const struct command_option options[] = {
	OPTION_JSON,
	{KEY_USER, "user", "USER", "whose home ~ is (default: yours)"},
	{KEY_VAR, "var", "NAME=VALUE", "set a variable of the policy; may be repeated"},
	OPTION_END,
};

static int print_result(const struct load *load, const struct rf_diags *diags, int r)
{
	json_t *result = json_pack("{s:b, s:o}", "ok", r == 0, "diagnostics", json_diags(diags));

	/* What is not known of a broken policy is not there. */
	if (result && load->file)
		json_object_set_new(result, "file", json_string(load->file));
	if (result && r == 0) {
		const struct rf_image *image = load->image;

		json_object_set_new(result, "name", json_string(rf_policy_name(load->policy)));
		json_object_set_new(
			result, "mode",
			json_string(rf_policy_audit(load->policy) ? "audit" : "enforce"));
		json_object_set_new(result, "rules", json_integer(image->nrules));
		json_object_set_new(result, "states", json_integer(image->nstates));
		json_object_set_new(result, "image_bytes", json_integer((json_int_t)load->size));
	}
	return print_json(result, true);
}

static int run_check(const struct command *command, int argc, char **argv)
{
	__attribute__((cleanup(rf_run_identity_done))) struct rf_run_identity identity = {0};
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_load_ struct load load = {0};
	const char *user = NULL;
	bool json = false;
	int key, r;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		switch (key) {
		case 'j':
			json = true;
			break;
		case KEY_USER:
			user = optarg;
			break;
		case KEY_VAR:
			if (!load_var(&load, optarg))
				return command_misused(command, "--var takes NAME=VALUE, not %s",
						       optarg);
			break;
		default:
			return command_getopt_end(command, key);
		}
	}
	if (argc - optind != 1)
		return command_misused(command, "one policy, please");

	load.name = argv[optind];
	r = rf_run_identity(user, &diags, &identity);
	if (r < 0) {
		print_diags(&diags, RF_NOTE);
		return EXIT_FAILED;
	}
	load.home = identity.home;
	r = load_policy(&load, &diags);
	if (json) {
		int code = print_result(&load, &diags, r);

		return r < 0 ? EXIT_POLICY : code;
	}
	print_diags(&diags, RF_NOTE);
	if (r < 0)
		return EXIT_POLICY;
	printf("%s: ok (%s, %s)\n", load.file, rf_policy_name(load.policy),
	       rf_policy_audit(load.policy) ? "audit" : "enforce");
	return EXIT_OK;
}

const struct command command_check = {
	.name = "check",
	.arguments = "POLICY",
	.summary = "check a policy and say what is wrong with it",
	.about = "POLICY is a path if it has a '/' in it, else a name: NAME.yaml in ./.ringfence,\n"
		 "~/.config/ringfence, /etc/ringfence or among the profiles of ringfence.\n"
		 "${WORKSPACE} is the working directory. Exit status: 0 valid, 3 not.\n",
	.options = options,
	.run = run_check,
};
