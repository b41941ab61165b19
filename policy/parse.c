/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language's grammar: from a tree of YAML nodes to rules. Each key has an
 * entry in a table; an error is noted and parsing goes on, so that a person sees
 * all of a file at once.
 */
#include "policy/policy.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "policy/rules.h"
#include "policy/tree.h"

#define NAME_MAX_BYTES 40

struct parser {
	const char *file;
	const struct rf_policy_env *env;
	struct rf_policy *policy;
	struct rf_diags *diags;
	bool no_memory;
};

/* What is known of an item of `files` while its keys are read. */
struct item {
	const struct rf_yaml *node;
	const struct rf_yaml *action_node, *paths;
	struct rf_rule_sense sense;
	const char *rights;
};

struct key {
	const char *name;
	/* NULL: part of the language, not of this version of ringfence */
	void (*parse)(struct parser *p, const struct rf_yaml *value, void *userdata);
};

#define ERROR(p, node, hint, ...)                                                                  \
	rf_diag((p)->diags, RF_ERROR, (p)->file, (node)->line, (node)->column, hint, __VA_ARGS__)

const char *const rf_action_names[3] = {"allow", "deny", "forbid"};

const char *const rf_right_names[RF_RIGHT_NAMES] = {"read", "modify", "create", "delete",
						    "attr", "exec",   "write",	"all"};

uint8_t rf_right(const char *name)
{
	static const uint8_t masks[RF_RIGHT_NAMES] = {RF_READ, RF_MODIFY, RF_CREATE, RF_DELETE,
						      RF_ATTR, RF_EXEC,	  RF_WRITE,  RF_ALL_RIGHTS};

	for (size_t i = 0; i < RF_RIGHT_NAMES; i++)
		if (!strcmp(name, rf_right_names[i]))
			return masks[i];
	return 0;
}

/* "did you mean `x`?" in `buffer`, or `otherwise`. */
static const char *did_you_mean(char *buffer, size_t size, const char *word,
				const char *const *names, size_t n, const char *otherwise)
{
	const char *nearest = rf_nearest(word, names, n);

	if (!nearest)
		return otherwise;
	snprintf(buffer, size, "did you mean `%s`?", nearest);
	return buffer;
}

/* "a, b or c" in `buffer`. */
static const char *one_of(char *buffer, size_t size, const char *const *names, size_t n)
{
	size_t at = snprintf(buffer, size, "one of ");

	for (size_t i = 0; i < n && at < size; i++)
		at += snprintf(buffer + at, size - at, "%s%s", i ? ", " : "", names[i]);
	return buffer;
}

static void unknown_key(struct parser *p, const struct rf_yaml *key, const struct key *keys,
			size_t n)
{
	const char *names[32];
	char hint[80], all[300];

	if (!strcmp(key->text, "program") || !strcmp(key->text, "programs")) {
		ERROR(p, key,
		      "subjects are sessions: start the program with a nested `ringfence run` under "
		      "a narrower policy",
		      "there are no rules by program");
		return;
	}
	for (size_t i = 0; i < n; i++)
		names[i] = keys[i].name;
	ERROR(p, key,
	      did_you_mean(hint, sizeof(hint), key->text, names, n,
			   one_of(all, sizeof(all), names, n)),
	      "unknown key `%.80s`", key->text);
}

static bool expect(struct parser *p, const struct rf_yaml *node, enum rf_kind kind,
		   const char *what, const char *hint)
{
	if (node->kind == kind)
		return true;
	ERROR(p, node, hint, "%s must be %s", what,
	      kind == RF_SCALAR ? "a single value"
	      : kind == RF_LIST ? "a list"
				: "a map of keys and values");
	return false;
}

static void parse_map(struct parser *p, const struct rf_yaml *map, const struct key *keys, size_t n,
		      void *userdata)
{
	for (const struct rf_yaml *key = map->first; key; key = key->next->next) {
		size_t i;

		if (key->kind != RF_SCALAR)
			continue; /* already an error */
		for (i = 0; i < n && strcmp(keys[i].name, key->text); i++)
			;
		if (i == n)
			unknown_key(p, key, keys, n);
		else if (!keys[i].parse)
			ERROR(p, key, "this version of ringfence cannot enforce it; remove it",
			      "`%s` is not supported yet", key->text);
		else
			keys[i].parse(p, key->next, userdata);
	}
}

static char *copy(struct parser *p, const char *text)
{
	char *copied = rf_arena_copy(&p->policy->arena, text, strlen(text));

	if (!copied)
		p->no_memory = true;
	return copied;
}

/* One word out of two: is it the second? */
static void parse_choice(struct parser *p, const struct rf_yaml *node, const char *const names[2],
			 const char *what, bool *ret_second)
{
	char hint[80];

	snprintf(hint, sizeof(hint), "%s or %s", names[0], names[1]);
	if (!expect(p, node, RF_SCALAR, what, hint))
		return;
	if (!strcmp(node->text, names[1]))
		*ret_second = true;
	else if (!strcmp(node->text, names[0]))
		*ret_second = false;
	else
		ERROR(p, node, hint, "%s: unknown value \"%.80s\"", what, node->text);
}

static void parse_version(struct parser *p, const struct rf_yaml *node, void *userdata)
{
	(void)userdata;
	if (expect(p, node, RF_SCALAR, "`ringfence`", "write `ringfence: 1`") &&
	    strcmp(node->text, "1") != 0)
		ERROR(p, node, "write `ringfence: 1`",
		      "version \"%.40s\" of the language is not known", node->text);
}

static void parse_name(struct parser *p, const struct rf_yaml *node, void *userdata)
{
	const char *c;

	(void)userdata;
	if (!expect(p, node, RF_SCALAR, "`name`", NULL))
		return;
	for (c = node->text; *c && (isalnum((unsigned char)*c) || strchr("._-", *c)); c++)
		;
	if (*c || !isalnum((unsigned char)*node->text) || strlen(node->text) > NAME_MAX_BYTES)
		ERROR(p, node, "letters, digits, dot, dash and underscore, at most 40",
		      "\"%.80s\" cannot be a name", node->text);
	else
		p->policy->name = copy(p, node->text);
}

static void parse_mode(struct parser *p, const struct rf_yaml *node, void *userdata)
{
	static const char *const names[] = {"enforce", "audit"};

	(void)userdata;
	parse_choice(p, node, names, "`mode`", &p->policy->audit);
}

static void parse_log(struct parser *p, const struct rf_yaml *node, void *userdata)
{
	static const char *const names[] = {"denies", "all"};

	(void)userdata;
	parse_choice(p, node, names, "`log`", &p->policy->log_all);
}

/* A value or a list of values: the first of them; the rest by `next`, which is NULL for a value. */
static const struct rf_yaml *members(struct parser *p, const struct rf_yaml *node, const char *what)
{
	if (node->kind == RF_SCALAR)
		return node;
	if (!expect(p, node, RF_LIST, what, NULL))
		return NULL;
	if (!node->first)
		ERROR(p, node, NULL, "%s is empty", what);
	return node->first;
}

static const struct rf_yaml *next_member(const struct rf_yaml *list, const struct rf_yaml *member)
{
	return list->kind == RF_LIST ? member->next : NULL;
}

static uint8_t parse_rights(struct parser *p, const struct rf_yaml *node, const char *what,
			    const char **ret_written)
{
	_cleanup_text_ struct rf_text written = {0};
	uint8_t rights = 0;

	for (const struct rf_yaml *m = members(p, node, what); m; m = next_member(node, m)) {
		char hint[80], all[160];
		uint8_t right;

		if (!expect(p, m, RF_SCALAR, "a right", "as in `allow: [read, exec]`"))
			continue;
		right = rf_right(m->text);
		if (!right)
			ERROR(p, m,
			      did_you_mean(
				      hint, sizeof(hint), m->text, rf_right_names, RF_RIGHT_NAMES,
				      one_of(all, sizeof(all), rf_right_names, RF_RIGHT_NAMES)),
			      "unknown right \"%.80s\"", m->text);
		rights |= right;
		if (written.n)
			rf_text_byte(&written, ',');
		rf_text_add(&written, m->text, strlen(m->text));
	}
	p->no_memory |= written.failed;
	*ret_written = written.n ? copy(p, written.text) : "";
	return rights;
}

static void parse_action(struct parser *p, const struct rf_yaml *node, struct item *item,
			 enum rf_action action)
{
	char what[16];

	if (item->action_node) {
		ERROR(p, node, "write two items",
		      "an item has one of `allow`, `deny` and `forbid`");
		return;
	}
	snprintf(what, sizeof(what), "`%s`", rf_action_names[action]);
	item->action_node = node;
	item->sense.action = action;
	item->sense.rights = parse_rights(p, node, what, &item->rights);
}

static void parse_allow(struct parser *p, const struct rf_yaml *node, void *item)
{
	parse_action(p, node, item, RF_RULE_ALLOW);
}

static void parse_deny(struct parser *p, const struct rf_yaml *node, void *item)
{
	parse_action(p, node, item, RF_RULE_DENY);
}

static void parse_forbid(struct parser *p, const struct rf_yaml *node, void *item)
{
	parse_action(p, node, item, RF_RULE_FORBID);
}

static void parse_paths(struct parser *p, const struct rf_yaml *node, void *item)
{
	(void)p;
	((struct item *)item)->paths = node;
}

static void parse_reopens(struct parser *p, const struct rf_yaml *node, void *item)
{
	static const char *const names[] = {"false", "true"};

	parse_choice(p, node, names, "`reopens`", &((struct item *)item)->sense.reopens);
}

static int look_up(void *userdata, const char *name, bool env, const char **ret_value,
		   struct rf_pattern_error *error)
{
	const struct parser *p = userdata;
	const char *value = p->env->variable(p->env->userdata, name, env);

	if (value) {
		*ret_value = value;
		return 0;
	}
	snprintf(error->message, sizeof(error->message), "no value for %s%s", env ? "env:" : "",
		 name);
	snprintf(error->hint, sizeof(error->hint),
		 env ? "set %s in the environment" : "give it with --var %s=VALUE", name);
	return -ENOENT;
}

static void add_path(struct parser *p, const struct item *item, const struct rf_yaml *node)
{
	const struct rf_pattern_env env = {.variable = look_up, .userdata = p};
	struct rf_policy *policy = p->policy;
	struct rf_pattern_error error;
	struct rf_path_rule *rule;
	int r;

	if (!expect(p, node, RF_SCALAR, "a path", "quote patterns with { } or a colon"))
		return;
	if (policy->nrules == RF_MAX_RULES) {
		ERROR(p, node, "cover several paths with one pattern",
		      "more than %u paths in a policy", RF_MAX_RULES);
		policy->nrules++; /* say it once */
	}
	if (policy->nrules > RF_MAX_RULES)
		return;
	if (rf_grow(&policy->rules, &policy->rules_capacity, policy->nrules + 1,
		    sizeof(*policy->rules))) {
		p->no_memory = true;
		return;
	}
	rule = &policy->rules[policy->nrules];
	*rule = (struct rf_path_rule){
		.sense = item->sense,
		.file = p->file,
		.line = node->line,
		.column = node->column,
		.rights = item->rights,
		.written = copy(p, node->text),
	};
	r = rf_pattern_parse(node->text, &env, &policy->sets, &policy->arena, &rule->pattern,
			     &error);
	if (r == -EINVAL)
		rf_diag(p->diags, RF_ERROR, p->file, node->line, rf_yaml_column(node, error.at),
			*error.hint ? error.hint : NULL, "%s", error.message);
	else if (r)
		p->no_memory = true;
	if (r)
		return;
	for (size_t i = 0; i < rule->pattern.n; i++)
		policy->natoms += rule->pattern.sequences[i].n;
	policy->nrules++;
}

static void parse_file_item(struct parser *p, const struct rf_yaml *node)
{
	static const struct key keys[] = {
		{"allow", parse_allow}, {"deny", parse_deny},	    {"forbid", parse_forbid},
		{"paths", parse_paths}, {"reopens", parse_reopens}, {"audit", NULL},
	};
	struct item item = {.node = node};

	if (!expect(p, node, RF_MAP, "an item of `files`", "as in `- allow: read`"))
		return;
	parse_map(p, node, keys, RF_COUNT(keys), &item);
	if (!item.action_node)
		ERROR(p, node, "as in `allow: read`",
		      "an item without `allow`, `deny` or `forbid`");
	if (!item.paths) {
		ERROR(p, node, "as in `paths: [/usr]`", "an item without `paths`");
		return;
	}
	for (const struct rf_yaml *m = members(p, item.paths, "`paths`"); m && !p->no_memory;
	     m = next_member(item.paths, m)) {
		add_path(p, &item, m);
		if (p->policy->natoms <= RF_ATOMS_MAX)
			continue;
		ERROR(p, m, "fewer alternatives, shorter patterns",
		      "the patterns are too long together");
		p->no_memory = false;
		return;
	}
}

static void parse_files(struct parser *p, const struct rf_yaml *node, void *userdata)
{
	(void)userdata;
	if (!expect(p, node, RF_LIST, "`files`", "as in `files: [{ allow: read, paths: [/usr] }]`"))
		return;
	for (const struct rf_yaml *m = node->first; m; m = m->next)
		parse_file_item(p, m);
}

static void parse_document(struct parser *p, const struct rf_yaml *root)
{
	static const struct key keys[] = {
		{"ringfence", parse_version},
		{"name", parse_name},
		{"mode", parse_mode},
		{"log", parse_log},
		{"files", parse_files},
		{"extends", NULL},
		{"vars", NULL},
		{"detached", NULL},
		{"network", NULL},
		{"unix", NULL},
		{"families", NULL},
		{"process", NULL},
		{"cgroup", NULL},
		{"limits", NULL},
		{"ask", NULL},
		{"tests", NULL},
	};
	bool version = false, name = false;

	if (!expect(p, root, RF_MAP, "a policy", "begin with `ringfence: 1`"))
		return;
	for (const struct rf_yaml *key = root->first; key; key = key->next->next) {
		version |= key->kind == RF_SCALAR && !strcmp(key->text, "ringfence");
		name |= key->kind == RF_SCALAR && !strcmp(key->text, "name");
	}
	if (!version)
		ERROR(p, root, "begin with `ringfence: 1`",
		      "the key `ringfence` with the version of the language is missing");
	if (!name)
		ERROR(p, root, "as in `name: my-policy`", "the key `name` is missing");
	parse_map(p, root, keys, RF_COUNT(keys), NULL);
}

static int by_string(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The paths to anchor: every sequence's literal beginning, sorted, each once. */
static int collect_paths(struct rf_policy *policy)
{
	size_t n = 0, capacity = 0;

	for (size_t i = 0; i < policy->nrules; i++) {
		const struct rf_pattern *pattern = &policy->rules[i].pattern;

		for (size_t k = 0; k < pattern->n; k++) {
			if (rf_grow(&policy->paths, &capacity, n + 1, sizeof(*policy->paths)))
				return -ENOMEM;
			policy->paths[n] =
				rf_sequence_literal(&pattern->sequences[k], &policy->arena);
			if (!policy->paths[n++])
				return -ENOMEM;
		}
	}
	if (n)
		qsort(policy->paths, n, sizeof(*policy->paths), by_string);
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(policy->paths[i], policy->paths[policy->npaths - 1]) != 0)
			policy->paths[policy->npaths++] = policy->paths[i];
	return 0;
}

static void warn(const struct rf_policy *policy, struct rf_diags *diags)
{
	for (size_t i = 0; i < policy->nrules; i++)
		if (policy->rules[i].sense.action == RF_RULE_ALLOW &&
		    (policy->rules[i].sense.rights & RF_EXEC))
			return;
	rf_diag(diags, RF_WARNING, policy->file, 1, 1, "as in `allow: [read, exec]` for /usr",
		"no rule allows `exec`: no program can start under this policy");
}

int rf_policy_parse(const char *file, const char *text, size_t size,
		    const struct rf_policy_env *env, struct rf_diags *diags,
		    struct rf_policy **ret_policy)
{
	struct rf_policy *policy = calloc(1, sizeof(*policy));
	struct parser p = {.env = env, .policy = policy, .diags = diags};
	struct rf_arena tree = {0};
	size_t errors = diags->errors, first = diags->n;
	struct rf_yaml *root;
	int r;

	if (!policy)
		return -ENOMEM;
	policy->detached = RF_READ | RF_MODIFY;
	policy->file = p.file = rf_arena_copy(&policy->arena, file, strlen(file));
	r = policy->file ? rf_yaml_parse(file, text, size, &tree, diags, &root) : -ENOMEM;
	if (!r) {
		parse_document(&p, root);
		r = p.no_memory ? -ENOMEM : diags->errors != errors ? -EINVAL : 0;
	}
	rf_arena_done(&tree);
	rf_diags_sort(diags, first);
	if (!r)
		r = collect_paths(policy);
	if (r) {
		rf_policy_free(policy);
		return r;
	}
	warn(policy, diags);
	*ret_policy = policy;
	return 0;
}

void rf_policy_free(struct rf_policy *policy)
{
	if (!policy)
		return;
	free(policy->rules);
	free(policy->paths);
	rf_sets_done(&policy->sets);
	rf_arena_done(&policy->arena);
	free(policy);
}

const char *rf_policy_name(const struct rf_policy *policy)
{
	return policy->name;
}

bool rf_policy_audit(const struct rf_policy *policy)
{
	return policy->audit;
}

bool rf_policy_log_all(const struct rf_policy *policy)
{
	return policy->log_all;
}

size_t rf_policy_paths(const struct rf_policy *policy, const char *const **ret_paths)
{
	*ret_paths = policy->paths;
	return policy->npaths;
}
