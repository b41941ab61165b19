/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringfence explain: what would a policy say to an act, and by which rule? The
 * decision is the kernel's own code on the host. Needs no privilege and no kernel, but for
 * the policy that is in force for a session, which the daemon knows.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/explain.h"
#include "policy/object.h"
#include "tools/command.h"
#include "user/client.h"
#include "user/event.h"
#include "user/text.h"

enum { KEY_POLICY = 'p', KEY_SESSION = 's' };

static const struct command_option options[] = {
	{KEY_POLICY, "policy", "POLICY", "a policy's name or path (default: " DEFAULT_POLICY ")"},
	{KEY_SESSION, "session", "SESSION", "the policy that is in force for this session"},
	OPTIONS_LOAD,
	OPTION_END,
};

static const char *const right_names[RF_RIGHTS] = {"read",   "modify", "create",
						   "delete", "attr",   "exec"};

struct act {
	const char *op; /* as written */
	struct rf_object object;
	const char *text; /* the object, a path normalised */
	struct rf_explanation explanation; /* of the act as a whole */
	struct rf_explained parts[RF_RIGHTS]; /* its rights */
	size_t nparts;
};

/* The policy of a session is known by its image alone, with the mode in `audit`. */
static bool only_reports(const struct load *load)
{
	return load->policy ? rf_policy_audit(load->policy) : load->audit;
}

static const char *verdict_name(const struct rf_verdict *v)
{
	return !v->missing ? "allow" : v->missing == v->want ? "deny" : "partly";
}

/* The part whose rule decides the act as a whole. */
static const struct rf_explained *deciding(const struct act *act)
{
	size_t i = 0;

	while (i + 1 < act->nparts && act->parts[i].verdict.rule != act->explanation.verdict.rule)
		i++;
	return &act->parts[i];
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

/* Set a member of `object`, the value taken over. False on no memory. */
static bool put(json_t *object, const char *name, json_t *value)
{
	return value && json_object_set_new(object, name, value) == 0;
}

/* What a verdict says, its rule, the rule behind that one, and what audited rules say. */
static bool put_verdict(json_t *object, const struct load *load, const struct rf_verdict *v,
			uint32_t runner_up)
{
	const void *image = load->image;
	json_t *decision = json_decision(image, v->rule);
	uint8_t audited = rf_verdict_audited(v);
	bool good;

	good = put(object, "verdict", json_string(verdict_name(v))) && decision &&
	       json_object_update(object, decision) == 0;
	json_decref(decision);
	if (good && v->rule && load->policy)
		good = put(object, "runner_up", json_decision(image, runner_up));
	if (!good || !audited)
		return good;
	decision = json_decision(image, v->audited_rule);
	return put(object, "audited", decision) &&
	       put(decision, "verdict", json_string(rf_decision_name(audited)));
}

static json_t *json_parts(const struct act *act, const struct load *load)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < act->nparts; i++) {
		const struct rf_explained *part = &act->parts[i];
		json_t *object = json_pack("{s:o}", "rights", json_rights(part->rights));

		if (!object || !put_verdict(object, load, &part->verdict, part->runner_up)) {
			json_decref(object);
			json_decref(array);
			return NULL;
		}
		json_array_append_new(array, object);
	}
	return array;
}

static int print_act_json(const struct act *act, const struct load *load,
			  const struct rf_diags *diags)
{
	const struct rf_verdict *v = &act->explanation.verdict;
	json_t *result;

	result = json_pack("{s:s, s:o, s:o, s:s, s:o}", "op", act->op, "object", escaped(act->text),
			   "policy", escaped(load->file), "mode",
			   only_reports(load) ? "audit" : "enforce", "diagnostics",
			   json_diags(diags));
	if (result && !load->policy)
		json_object_set_new(result, "session", json_escaped(load->name));
	if (result && (!put_verdict(result, load, v, deciding(act)->runner_up) ||
		       (act->object.rights && (!put(result, "missing", json_rights(v->missing)) ||
					       !put(result, "parts", json_parts(act, load)))))) {
		json_decref(result);
		result = NULL;
	}
	return print_json(result, true);
}

/* ---- text ---------------------------------------------------------------- */

static void add_row(struct table *table, const char *name, const char *text)
{
	table_row(table, (const char *const[]){name, text});
}

/* "FILE:LINE: RULE", with a word before it if there is one. */
static void add_rule(struct table *table, const char *name, const char *word, const void *image,
		     uint32_t n)
{
	_cleanup_free_ char *text = NULL;
	struct rf_image_rule rule;

	if (!rf_image_rule(image, n, &rule))
		add_row(table, name, "none");
	else if (asprintf(&text, "%s%s%s:%u: %s", word, *word ? ": " : "", rule.file, rule.line,
			  rule.text) < 0)
		table->failed = true;
	else
		add_row(table, name, text);
}

static const char *why(const struct rf_verdict *v, const void *image)
{
	struct rf_image_rule rule;

	if (!rf_image_rule(image, v->rule, &rule))
		return "no rule that matches allows it, and what is not allowed is denied";
	if (!strncmp(rule.text, "forbid ", strlen("forbid ")))
		return "a forbid matches, which no later rule takes back";
	return "of the rules that match, the last one wins, and this is it";
}

static void add_part(struct table *table, const struct rf_explained *part, const struct load *load)
{
	const void *image = load->image;
	const struct rf_verdict *v = &part->verdict;
	uint8_t audited = rf_verdict_audited(v);

	add_rule(table, "rule", "", image, v->rule);
	add_row(table, "why", why(v, image));
	if (v->rule && load->policy && !part->runner_up)
		add_row(table, "runner-up", "none: without this rule no rule allows it");
	else if (v->rule && load->policy)
		add_rule(table, "runner-up", "", image, part->runner_up);
	if (audited)
		add_rule(table, "audited", rf_decision_name(audited), image, v->audited_rule);
}

static void print_rights(uint8_t rights)
{
	const char *between = "";

	for (unsigned int i = 0; i < RF_RIGHTS; i++) {
		if (!(rights & 1u << i))
			continue;
		printf("%s%s", between, right_names[i]);
		between = ", ";
	}
	putchar('\n');
}

static int print_act(const struct act *act, const struct load *load)
{
	bool audit = act->explanation.verdict.missing && only_reports(load);
	int code = EXIT_OK;

	printf("%s: %s ", verdict_name(&act->explanation.verdict), act->op);
	print_clean(act->text, stdout);
	putchar('\n');
	/* Where rights differ each group of them is a paragraph of its own. */
	for (size_t i = 0; code == EXIT_OK && i < act->nparts; i++) {
		const struct rf_explained *part = &act->parts[i];
		_cleanup_table_ struct table table = {.columns = 2};

		if (act->nparts > 1) {
			printf("  %s: ", verdict_name(&part->verdict));
			print_rights(part->rights);
		}
		add_part(&table, part, load);
		if (audit && i + 1 == act->nparts)
			add_row(&table, "mode", "audit: it is only reported");
		code = table_print(&table, stdout, act->nparts > 1 ? "    " : "  ");
	}
	return code;
}

/* ---- the command --------------------------------------------------------- */

/* The bytes of a descriptor, which is a sealed memfd of the daemon's. */
static int read_image(int fd, struct load *load)
{
	struct stat st;
	size_t at = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	load->size = (size_t)st.st_size;
	load->image = aligned_alloc(8, (load->size + 7) & ~(size_t)7);
	if (!load->image)
		return -ENOMEM;
	while (at < load->size) {
		ssize_t n = pread(fd, (char *)load->image + at, load->size - at, (off_t)at);

		if (n <= 0)
			return n ? -errno : -EIO;
		at += (size_t)n;
	}
	return 0;
}

/* The policy in force, as the daemon has it. -errno with diagnostics. */
static int load_session(struct load *load, const char *session, struct rf_diags *diags)
{
	_cleanup_json_ json_t *reply = NULL;
	struct rf_client *client = NULL;
	_cleanup_fd_ int fd = -1;
	int r = daemon_connect(diags, &client);

	if (r == 0 && !client) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL,
			"there is no session \"%s\": ringfenced is not running", session);
		r = -ENOENT;
	}
	if (r == 0)
		r = rf_client_call(client,
				   json_pack("{s:s, s:s}", "op", "policy", "session", session),
				   NULL, 0, diags, &reply, &fd, NULL);
	rf_client_close(client);
	if (r < 0)
		return r;
	r = read_image(fd, load);
	if (r == 0)
		r = rf_image_verify(load->image, load->size, diags);
	if (r == 0)
		r = rf_unescape(json_text(reply, "policy_file"), &load->file, NULL);
	load->audit = !strcmp(json_text(reply, "mode"), "audit");
	load->name = session;
	if (r < 0)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL,
			"the policy of session \"%s\" cannot be read: %s", session, strerror(-r));
	return r;
}

static int look_up(void *userdata, const char *name, bool env, const char **ret_value,
		   struct rf_pattern_error *error)
{
	struct load *load = userdata;
	/* What the names of a session's policy stood for is not known. */
	const char *value = load->workspace ? load_variable(load, name, env) : NULL;

	if (value) {
		*ret_value = value;
		return 0;
	}
	snprintf(error->message, sizeof(error->message), "no value for %s%s", env ? "env:" : "",
		 name);
	snprintf(error->hint, sizeof(error->hint), "write the path itself");
	return -ENOENT;
}

/* Where a path is relative the one that is meant, as far as there is room for it. */
static void hint_of_relative(const char *text, struct rf_pattern_error *error)
{
	_cleanup_free_ char *folder = getcwd(NULL, 0);
	int n;

	while (!strncmp(text, "./", 2))
		text += 2 + strspn(text + 2, "/");
	if (!folder || !*text || *text == '~' || *text == '$' || strstr(text, ".."))
		return;
	if (!strcmp(text, "."))
		text = "";
	n = snprintf(error->hint, sizeof(error->hint), "write \"$PWD%s%s\", which is %s%s%s here",
		     *text ? "/" : "", text, strcmp(folder, "/") != 0 ? folder : "",
		     *text ? "/" : "", text);
	if (n < 0 || (size_t)n >= sizeof(error->hint))
		snprintf(error->hint, sizeof(error->hint), "write \"$PWD/%s\"",
			 strlen(text) < sizeof(error->hint) / 2 ? text : "...");
}

/*
 * The act of the command line. What begins with ~ or ${NAME} is no path yet; all else is
 * taken as it is, since a path from an event may hold anything.
 */
static int parse_act(struct load *load, struct rf_arena *arena, struct act *act,
		     struct rf_pattern_error *error)
{
	const struct rf_pattern_env env = {look_up, load};
	const char *text = act->text;
	char *value;
	int r;

	if (*text == '~' || !strncmp(text, "${", 2)) {
		r = rf_value_parse(text, &env, arena, &value, error);
		if (r)
			return r;
		text = value;
	}
	r = rf_object_parse(act->op, text, arena, &act->object, error);
	if (r == -EINVAL && error->at != RF_OBJECT_OP && strcmp(act->op, "connect") != 0 &&
	    *text != '/')
		hint_of_relative(text, error);
	if (!r)
		act->text = act->object.rights ? act->object.path : text;
	return r;
}

static int explain(const struct command *command, struct load *load, const char *session,
		   struct rf_diags *diags, char **words)
{
	__attribute__((cleanup(rf_arena_done))) struct rf_arena arena = {0};
	struct rf_pattern_error error;
	struct act act = {.op = words[0], .text = words[1]};
	int r;

	/* What is wrong with the command line is said first. */
	r = parse_act(load, &arena, &act, &error);
	if (r == -EINVAL)
		return command_misused(command, "%s: %s%s%s",
				       error.at == RF_OBJECT_OP ? act.op : act.text, error.message,
				       *error.hint ? "; " : "", error.hint);
	if (!r && session) {
		if (load_session(load, session, diags) < 0) {
			print_diags(diags, RF_NOTE);
			return EXIT_FAILED;
		}
	} else if (!r) {
		r = load_policy(load, diags);
	}
	if (r && r != -ENOMEM) {
		print_diags(diags, RF_NOTE);
		return EXIT_POLICY;
	}
	if (!r)
		r = rf_explain_object(load->image, &act.object, &act.explanation);
	if (!r)
		r = rf_explain_rights(load->policy, load->image, &act.object, act.parts,
				      &act.nparts);
	if (r) {
		say("cannot explain it: %s", strerror(-r));
		return EXIT_FAILED;
	}
	if (load->json)
		return print_act_json(&act, load, diags);
	print_diags(diags, RF_NOTE);
	return print_act(&act, load);
}

static int run_explain(const struct command *command, int argc, char **argv)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_load_ struct load load = {.features = RF_ALL_FEATURES};
	const char *session = NULL;
	int key;

	while ((key = load_getopt(command, argc, argv, &load)) != OPTIONS_DONE) {
		if (key == KEY_POLICY)
			load.name = optarg;
		else if (key == KEY_SESSION)
			session = optarg;
		else
			return command_getopt_end(command, key);
	}
	if (session && (load.name || load.user || load.n_vars))
		return command_misused(command,
				       "--session is the policy that is in force, with its "
				       "variables: no --policy, --user or --var with it");
	if (argc - optind != 2)
		return command_misused(command, "one operation and one object, please");

	if (!session) {
		if (!load.name)
			load.name = DEFAULT_POLICY;
		if (load_home(&load, &diags) < 0 || load_places(&load, &diags) < 0) {
			print_diags(&diags, RF_NOTE);
			return EXIT_FAILED;
		}
	}
	return explain(command, &load, session, &diags, argv + optind);
}

const struct command command_explain = {
	.name = "explain",
	.arguments = "OP OBJECT",
	.summary = "say what a policy would decide, and by which rule",
	.about =
		"OP is read, modify, create, delete, attr, exec, write or all, or several of them as\n"
		"read+modify, and OBJECT an absolute path, which need not exist and is taken as it is:\n"
		"links are not followed. It may begin with ~ or ${NAME}, as in a policy, unless the\n"
		"policy is a session's. Or OP is connect, and OBJECT an address with a port:\n"
		"10.0.0.1:443, [::1]:53/udp.\n"
		"Of a session there is no runner-up; only root can ask for one.\n"
		"Exit status: 0 whatever the verdict, 3 if the policy is not valid.\n",
	.options = options,
	.run = run_explain,
};
