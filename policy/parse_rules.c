/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys `files` and `network`: items of an action and its objects, see parse.h. */
#include <errno.h>
#include <string.h>

#include "policy/parse.h"

static bool begin_action(struct rf_parser *p, const struct rf_yaml *node,
			 struct rf_action_item *item, enum rf_action action)
{
	if (item->action) {
		RF_ERROR_AT(p, node, "write two items",
			    "an item has one of `allow`, `deny` and `forbid`");
		return false;
	}
	item->action = node;
	item->sense.action = action;
	return true;
}

static void parse_file_action(struct rf_parser *p, const struct rf_yaml *key,
			      const struct rf_yaml *node, void *userdata, enum rf_action action)
{
	struct rf_action_item *item = userdata;
	char what[16];

	snprintf(what, sizeof(what), "`%s`", key->text);
	if (begin_action(p, node, item, action))
		item->sense.rights = rf_parse_rights(p, node, what, &item->rights);
}

/* What is done to a network target. `bind` comes with a later version. */
static void parse_net_action(struct rf_parser *p, const struct rf_yaml *node, void *userdata,
			     enum rf_action action)
{
	static const char *const names[] = {"connect"};
	struct rf_action_item *item = userdata;

	if (!begin_action(p, node, item, action))
		return;
	if (node->kind == RF_SCALAR && !strcmp(node->text, "bind"))
		RF_ERROR_AT(p, node, "this version of ringfence cannot enforce it; remove it",
			    "`bind` is not supported yet");
	else
		rf_parse_word(p, node, names, RF_COUNT(names), "a right of `network`");
	item->sense.rights = RF_NET_CONNECT;
	item->rights = "connect";
}

#define ACTION(name, action)                                                                       \
	static void parse_file_##name(struct rf_parser *p, const struct rf_yaml *key,              \
				      const struct rf_yaml *node, void *item)                      \
	{                                                                                          \
		parse_file_action(p, key, node, item, action);                                     \
	}                                                                                          \
	static void parse_net_##name(struct rf_parser *p, const struct rf_yaml *key,               \
				     const struct rf_yaml *node, void *item)                       \
	{                                                                                          \
		(void)key;                                                                         \
		parse_net_action(p, node, item, action);                                           \
	}
ACTION(allow, RF_RULE_ALLOW)
ACTION(deny, RF_RULE_DENY)
ACTION(forbid, RF_RULE_FORBID)

static void parse_objects(struct rf_parser *p, const struct rf_yaml *key,
			  const struct rf_yaml *node, void *item)
{
	(void)p;
	(void)key;
	((struct rf_action_item *)item)->objects = node;
}

static const char *const truth[] = {"false", "true"};

static void parse_reopens(struct rf_parser *p, const struct rf_yaml *key,
			  const struct rf_yaml *node, void *item)
{
	(void)key;
	rf_parse_choice(p, node, truth, "`reopens`",
			&((struct rf_action_item *)item)->sense.reopens);
}

static void parse_audit(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
			void *item)
{
	bool audited = false;

	rf_parse_choice(p, node, truth, "`audit`", &audited);
	if (!audited)
		return;
	rf_parse_need(p, key, RF_FEATURE_AUDITED_RULES);
	((struct rf_action_item *)item)->sense.audited = true;
}

/* Room for one more rule? Beyond the limit it is said once. */
static bool room(struct rf_parser *p, const struct rf_yaml *node)
{
	size_t n = p->policy->nrules + p->policy->nnet;

	if (n < RF_MAX_RULES)
		return true;
	if (!p->full)
		RF_ERROR_AT(p, node, "cover several with one pattern or prefix",
			    "more than %u paths and targets in a policy", RF_MAX_RULES);
	p->full = true;
	return false;
}

static struct rf_rule_head head_of(struct rf_parser *p, const struct rf_action_item *item,
				   const struct rf_yaml *node)
{
	return (struct rf_rule_head){
		.sense = item->sense,
		.file = p->file,
		.line = node->line,
		.column = node->column,
		.rights = item->rights,
		.written = rf_parse_copy(p, node->text),
	};
}

/* `paths: ~/.a, ~/.b` without brackets, which denies neither. */
static void warn_of_comma(struct rf_parser *p, const struct rf_yaml *node)
{
	const char *comma = node->plain ? strstr(node->text, ", ") : NULL;

	if (comma && comma[2] && strchr("/~$*", comma[2]))
		rf_diag(p->diags, RF_WARNING, p->file, node->line,
			rf_yaml_column(node, comma - node->text),
			"several paths need brackets: [/a, /b]",
			"this is one path, with a comma in it");
}

static void add_path(struct rf_parser *p, const struct rf_action_item *item,
		     const struct rf_yaml *node)
{
	const struct rf_pattern_env env = {rf_vars_look_up, p};
	struct rf_policy *policy = p->policy;
	struct rf_pattern_error error;
	struct rf_path_rule *rule;
	int r;

	if (!rf_expect(p, node, RF_SCALAR, "a path", "quote patterns with { } or a colon") ||
	    !room(p, node))
		return;
	if (rf_grow(&policy->rules, &policy->rules_capacity, policy->nrules + 1,
		    sizeof(*policy->rules))) {
		p->no_memory = true;
		return;
	}
	rule = &policy->rules[policy->nrules];
	rule->head = head_of(p, item, node);
	r = rf_pattern_parse(node->text, &env, &policy->sets, &policy->arena, &rule->pattern,
			     &error);
	if (r == -EINVAL)
		rf_pattern_diag(p, node, &error);
	else if (r)
		p->no_memory = true;
	if (r)
		return;
	warn_of_comma(p, node);
	for (size_t i = 0; i < rule->pattern.n; i++)
		policy->natoms += rule->pattern.sequences[i].n;
	policy->nrules++;
	if (policy->natoms > RF_ATOMS_MAX && !p->full) {
		RF_ERROR_AT(p, node, "fewer alternatives, shorter patterns",
			    "the patterns are too long together");
		p->full = true;
	}
}

/* Does it begin like a domain, and no URL? These, and `session`, come with a later version. */
static bool is_domain(const char *text)
{
	size_t n = strcspn(text, "[:/");
	const char *colon = strchr(text, ':');

	/* A URL; an IPv6 address without brackets. */
	if (strstr(text, "://") || (colon && strchr(colon + 1, ':')))
		return false;
	for (size_t i = 0; i < n; i++)
		if ((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z')
			return true;
	return false;
}

/* `{ name: example.org, port: 443 }`, as a later version has it. */
static bool has_name(const struct rf_yaml *map)
{
	const struct rf_yaml *key = map->first;

	while (key && !(key->text && !strcmp(key->text, "name")))
		key = rf_yaml_next_key(key);
	return key;
}

static void add_target(struct rf_parser *p, const struct rf_action_item *item,
		       const struct rf_yaml *node)
{
	struct rf_policy *policy = p->policy;
	struct rf_pattern_error error;
	struct rf_net_rule *rule;

	if (node->kind == RF_MAP ? has_name(node) : node->text && is_domain(node->text)) {
		const char *hint = "name addresses, as in 10.0.0.0/8:443";

		if (node->text && !strncmp(node->text, "localhost", strlen("localhost")))
			hint = "this host is 127.0.0.0/8 and \"[::1]\", with the port behind it";
		RF_ERROR_AT(p, node, hint,
			    "domains and `session` as targets are not supported yet");
		return;
	}
	if (!rf_expect(p, node, RF_SCALAR, "a target",
		       "in quotes, and no space behind a colon: \"10.0.0.0/8:443\"") ||
	    !room(p, node))
		return;
	if (rf_grow(&policy->net, &policy->net_capacity, policy->nnet + 1, sizeof(*policy->net))) {
		p->no_memory = true;
		return;
	}
	rule = &policy->net[policy->nnet];
	rule->head = head_of(p, item, node);
	if (rf_target_parse(node->text, &rule->target, &error))
		rf_pattern_diag(p, node, &error);
	else
		policy->nnet++;
}

static void parse_item(struct rf_parser *p, const struct rf_yaml *node, const struct rf_key *keys,
		       size_t nkeys, const char *objects,
		       void (*add)(struct rf_parser *p, const struct rf_action_item *item,
				   const struct rf_yaml *node))
{
	struct rf_action_item item = {.node = node, .rights = ""};
	char what[16];

	if (!rf_expect(p, node, RF_MAP, "an item", "as in `- allow: read`"))
		return;
	rf_parse_map(p, node, keys, nkeys, &item);
	if (!item.action)
		RF_ERROR_AT(p, node, "as in `allow: read`",
			    "an item without `allow`, `deny` or `forbid`");
	if (!item.objects) {
		RF_ERROR_AT(p, node,
			    *objects == 'p' ? "as in `paths: [/usr]`" : "as in `to: [10.0.0.0/8]`",
			    "an item without `%s`", objects);
		return;
	}
	if (item.sense.reopens && item.sense.action != RF_RULE_ALLOW)
		RF_ERROR_AT(p, node, "remove it", "`reopens` is for an allow");
	snprintf(what, sizeof(what), "`%s`", objects);
	for (const struct rf_yaml *m = rf_first_member(p, item.objects, what);
	     m && !p->no_memory && !p->full; m = rf_next_member(item.objects, m))
		add(p, &item, m);
}

static void note_dashes(const struct rf_parser *p, const struct rf_yaml *list,
			unsigned int *ret_column)
{
	if (p->top && list->plain)
		*ret_column = list->column;
}

void rf_parse_files(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		    void *userdata)
{
	static const struct rf_key keys[] = {
		{"allow", parse_file_allow},   {"deny", parse_file_deny},
		{"forbid", parse_file_forbid}, {"paths", parse_objects},
		{"reopens", parse_reopens},    {"audit", parse_audit},
	};

	(void)key;
	(void)userdata;
	if (!rf_expect(p, node, RF_LIST, "`files`",
		       "as in `files: [{ allow: read, paths: [/usr] }]`"))
		return;
	note_dashes(p, node, &p->policy->files_dashes);
	for (const struct rf_yaml *m = node->first; m; m = m->next)
		parse_item(p, m, keys, RF_COUNT(keys), "paths", add_path);
}

void rf_parse_network(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		      void *userdata)
{
	static const struct rf_key keys[] = {
		{"allow", parse_net_allow},   {"deny", parse_net_deny},
		{"forbid", parse_net_forbid}, {"to", parse_objects},
		{"reopens", parse_reopens},   {"audit", parse_audit},
	};

	(void)userdata;
	rf_parse_need(p, key, RF_FEATURE_NETWORK);
	if (!rf_expect(p, node, RF_LIST, "`network`",
		       "as in `network: [{ allow: connect, to: [\"10.0.0.0/8:443\"] }]`"))
		return;
	note_dashes(p, node, &p->policy->network_dashes);
	for (const struct rf_yaml *m = node->first; m; m = m->next)
		parse_item(p, m, keys, RF_COUNT(keys), "to", add_target);
}
