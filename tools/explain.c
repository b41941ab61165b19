/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringfence explain: what would a policy say to an act, and by which rule? The
 * decision is the kernel's own code on the host. Needs no privilege and no kernel.
 */
#include <errno.h>
#include <string.h>

#include "policy/explain.h"
#include "policy/object.h"
#include "tools/command.h"
#include "user/run.h"
#include "user/text.h"

enum { KEY_POLICY = 'p', KEY_VAR = 'v', KEY_USER = 'u' };

static const struct command_option options[] = {
	{KEY_POLICY, "policy", "POLICY", "a policy's name or path (required)"},
	OPTION_JSON,
	{KEY_USER, "user", "USER", "whose home ~ is (default: yours)"},
	{KEY_VAR, "var", "NAME=VALUE", "set a variable of the policy; may be repeated"},
	OPTION_END,
};

static const char *const right_names[RF_RIGHTS] = {"read",   "modify", "create",
						   "delete", "attr",   "exec"};

struct act {
	const char *op; /* as written */
	struct rf_object object;
	const char *text; /* the object, a path normalised */
	struct rf_explanation explanation;
	uint32_t runner_up; /* number of a rule, 0: the default */
};

static const char *verdict_name(const struct rf_verdict *v)
{
	return !v->missing ? "allow" : v->missing == v->want ? "deny" : "partly";
}

/* ---- JSON: rules and paths are as in events ------------------------------ */

static json_t *escaped(const char *text)
{
	_cleanup_free_ char *clean = rf_escape(text, strlen(text));

	return clean ? json_string(clean) : NULL;
}

/* {"rule": {...}}, or {"default": true} for number 0. */
static json_t *json_decision(const void *image, uint32_t n)
{
	struct rf_image_rule rule;

	if (!rf_image_rule(image, n, &rule))
		return json_pack("{s:b}", "default", 1);
	return json_pack("{s:{s:o, s:i, s:i, s:o, s:i}}", "rule", "file", escaped(rule.file),
			 "line", (int)rule.line, "column", (int)rule.column, "text",
			 escaped(rule.text), "n", (int)n);
}

static json_t *json_rights(uint8_t rights)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < RF_RIGHTS; i++)
		if (rights & 1u << i)
			json_array_append_new(array, json_string(right_names[i]));
	return array;
}

static int print_act_json(const struct act *act, const struct load *load,
			  const struct rf_diags *diags)
{
	const struct rf_verdict *v = &act->explanation.verdict;
	json_t *decision = json_decision(load->image, v->rule), *result;

	result = json_pack("{s:s, s:o, s:s, s:o, s:s, s:o}", "op", act->op, "object",
			   escaped(act->text), "verdict", verdict_name(v), "policy",
			   escaped(load->file), "mode",
			   rf_policy_audit(load->policy) ? "audit" : "enforce", "diagnostics",
			   json_diags(diags));
	if (result &&
	    (!decision || json_object_update(result, decision) < 0 ||
	     (act->object.rights &&
	      json_object_set_new(result, "missing", json_rights(v->missing)) < 0) ||
	     (v->rule && json_object_set_new(result, "runner_up",
					     json_decision(load->image, act->runner_up)) < 0))) {
		json_decref(result);
		result = NULL;
	}
	json_decref(decision);
	return print_json(result, true);
}

/* ---- text ---------------------------------------------------------------- */

static void add_row(struct table *table, const char *name, const char *text)
{
	table_row(table, (const char *const[]){name, text});
}

static void add_rule(struct table *table, const char *name, const void *image, uint32_t n)
{
	_cleanup_free_ char *text = NULL;
	struct rf_image_rule rule;

	if (!rf_image_rule(image, n, &rule))
		add_row(table, name, "none");
	else if (asprintf(&text, "%s:%u: %s", rule.file, rule.line, rule.text) < 0)
		table->failed = true;
	else
		add_row(table, name, text);
}

static void add_missing(struct table *table, uint8_t rights)
{
	_cleanup_text_ struct rf_text text = {0};

	for (unsigned int i = 0; i < RF_RIGHTS; i++) {
		if (!(rights & 1u << i))
			continue;
		if (text.n)
			rf_text_add(&text, ", ", 2);
		rf_text_add(&text, right_names[i], strlen(right_names[i]));
	}
	if (text.failed)
		table->failed = true;
	else
		add_row(table, "denied", text.text);
}

static const char *why(const struct rf_explanation *e)
{
	if (!e->has_rule)
		return "no rule that matches allows it, and what is not allowed is denied";
	if (!strncmp(e->rule.text, "forbid ", strlen("forbid ")))
		return "a forbid matches, which no later rule takes back";
	return "of the rules that match, the last one wins, and this is it";
}

static int print_act(const struct act *act, const struct load *load)
{
	_cleanup_table_ struct table table = {.columns = 2};
	const struct rf_verdict *v = &act->explanation.verdict;

	printf("%s: %s ", verdict_name(v), act->op);
	print_clean(act->text, stdout);
	putchar('\n');
	if (v->missing && v->missing != v->want)
		add_missing(&table, v->missing);
	add_rule(&table, "rule", load->image, v->rule);
	add_row(&table, "why", why(&act->explanation));
	if (v->rule && !act->runner_up)
		add_row(&table, "runner-up", "none: without this rule no rule allows it");
	else if (v->rule)
		add_rule(&table, "runner-up", load->image, act->runner_up);
	if (v->missing && rf_policy_audit(load->policy))
		add_row(&table, "mode", "audit: it is only reported");
	return table_print(&table, stdout, "  ");
}

/* ---- the command --------------------------------------------------------- */

static int explain(const struct command *command, struct load *load, struct rf_diags *diags,
		   bool json, char **words)
{
	__attribute__((cleanup(rf_arena_done))) struct rf_arena arena = {0};
	struct rf_pattern_error error;
	struct act act = {.op = words[0], .text = words[1]};
	int r;

	/* What is wrong with the command line is said first. */
	r = rf_object_parse(act.op, act.text, &arena, &act.object, &error);
	if (r == -EINVAL)
		return command_misused(command, "%s: %s%s%s",
				       error.at == RF_OBJECT_OP ? act.op : act.text, error.message,
				       *error.hint ? "; " : "", error.hint);
	if (act.object.rights)
		act.text = act.object.path;
	if (!r)
		r = load_policy(load, diags);
	if (r && r != -ENOMEM) {
		print_diags(diags, RF_NOTE);
		return EXIT_POLICY;
	}
	if (!r)
		r = rf_explain_object(load->image, &act.object, &act.explanation);
	if (!r)
		r = rf_explain_runner_up(load->policy, &act.object, &act.explanation,
					 &act.runner_up);
	if (r) {
		say("cannot explain it: %s", strerror(-r));
		return EXIT_FAILED;
	}
	if (json)
		return print_act_json(&act, load, diags);
	print_diags(diags, RF_NOTE);
	return print_act(&act, load);
}

static int run_explain(const struct command *command, int argc, char **argv)
{
	__attribute__((cleanup(rf_run_identity_done))) struct rf_run_identity identity = {0};
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_load_ struct load load = {.features = RF_ALL_FEATURES};
	const char *user = NULL;
	bool json = false;
	int key;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		switch (key) {
		case 'j':
			json = true;
			break;
		case KEY_POLICY:
			load.name = optarg;
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
	if (!load.name)
		return command_misused(command, "which policy? Give --policy");
	if (argc - optind != 2)
		return command_misused(command, "one operation and one object, please");

	if (rf_run_identity(user, &diags, &identity) < 0) {
		print_diags(&diags, RF_NOTE);
		return EXIT_FAILED;
	}
	load.home = identity.home;
	return explain(command, &load, &diags, json, argv + optind);
}

const struct command command_explain = {
	.name = "explain",
	.arguments = "OP OBJECT",
	.summary = "say what a policy would decide, and by which rule",
	.about =
		"OP is read, modify, create, delete, attr, exec, write or all, and OBJECT an absolute\n"
		"path, which need not exist and is taken as it is: links are not followed. Or OP is\n"
		"connect, and OBJECT an address with a port: 10.0.0.1:443, [::1]:53/udp.\n"
		"Exit status: 0 whatever the verdict, 3 if the policy is not valid.\n",
	.options = options,
	.run = run_explain,
};
