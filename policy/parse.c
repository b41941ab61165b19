/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Policies: the top-level keys, and the texts that a policy extends. An error is
 * noted and parsing goes on, so that a person sees all of a file at once.
 */
#include "policy/policy.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "policy/parse.h"

#define NAME_BYTES 40
#define FILES_MAX 64 /* of one policy: itself and its parents */
#define LEVELS_MAX 16

/* A text of the policy, in the order in which its rules count. */
struct document {
	const char *file;
	const struct rf_yaml *root;
	bool top;
};

struct loader {
	struct rf_parser parser;
	struct rf_arena trees;
	struct document documents[FILES_MAX];
	size_t ndocuments;
	const char *open[LEVELS_MAX]; /* files whose parents are being read */
	size_t nopen;
};

static void parse_version(struct rf_parser *p, const struct rf_yaml *key,
			  const struct rf_yaml *node, void *userdata)
{
	(void)key;
	(void)userdata;
	if (rf_expect(p, node, RF_SCALAR, "`ringfence`", "write `ringfence: 1`") &&
	    strcmp(node->text, "1") != 0)
		RF_ERROR_AT(p, node, "write `ringfence: 1`",
			    "version \"%.40s\" of the language is not known", node->text);
}

static void parse_name(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		       void *userdata)
{
	const char *c;

	(void)key;
	(void)userdata;
	if (!rf_expect(p, node, RF_SCALAR, "`name`", NULL))
		return;
	for (c = node->text; *c && (isalnum((unsigned char)*c) || strchr("._-", *c)); c++)
		;
	if (*c || !isalnum((unsigned char)*node->text) || strlen(node->text) > NAME_BYTES)
		RF_ERROR_AT(p, node, "letters, digits, dot, dash and underscore, at most 40",
			    "\"%.80s\" cannot be a name", node->text);
	else
		p->policy->name = rf_parse_copy(p, node->text);
}

static void parse_mode(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		       void *userdata)
{
	static const char *const names[] = {"enforce", "audit"};
	bool ignored;

	(void)key;
	(void)userdata;
	/* Not taken over from a parent: that a policy only watches is said in itself. */
	rf_parse_choice(p, node, names, "`mode`", p->top ? &p->policy->audit : &ignored);
}

static void parse_log(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		      void *userdata)
{
	static const char *const names[] = {"denies", "all"};

	(void)key;
	(void)userdata;
	rf_parse_choice(p, node, names, "`log`", &p->policy->log_all);
}

static void parse_detached(struct rf_parser *p, const struct rf_yaml *key,
			   const struct rf_yaml *node, void *userdata)
{
	const char *written;

	(void)key;
	(void)userdata;
	p->policy->detached = 0;
	if (node->kind != RF_LIST || node->first)
		p->policy->detached = rf_parse_rights(p, node, "`detached`", &written);
}

/* Taken care of before the rules, since these may need them. */
static void parse_before(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
			 void *userdata)
{
	(void)p;
	(void)key;
	(void)node;
	(void)userdata;
}

static const struct rf_key keys[] = {
	{"ringfence", parse_version},
	{"name", parse_name},
	{"mode", parse_mode},
	{"log", parse_log},
	{"extends", parse_before},
	{"vars", parse_before},
	{"files", rf_parse_files},
	{"network", rf_parse_network},
	{"limits", rf_parse_limits},
	{"detached", parse_detached},
	{"tests", rf_parse_tests},
	/* Of later versions. */
	{"unix", NULL},
	{"families", NULL},
	{"process", NULL},
	{"cgroup", NULL},
	{"ask", NULL},
};

static const struct rf_yaml *value_of(const struct rf_yaml *root, const char *name)
{
	for (const struct rf_yaml *key = root->first; key; key = rf_yaml_next_key(key))
		if (key->kind == RF_SCALAR && !strcmp(key->text, name))
			return key->next;
	return NULL;
}

static int load(struct loader *l, const char *file, const char *text, size_t size, bool top);

static int load_parent(struct loader *l, const char *from, const struct rf_yaml *node)
{
	struct rf_parser *p = &l->parser;
	char *file = NULL, *text = NULL, *own;
	size_t size;
	int r;

	p->file = from;
	if (!rf_expect(p, node, RF_SCALAR, "a parent", "as in `extends: [baseline]`"))
		return 0;
	r = p->env->parent ? p->env->parent(p->env->userdata, node->text, from, &file, &text, &size)
			   : -ENOENT;
	if (r == -ENOMEM)
		return r;
	if (r) {
		_cleanup_free_ char *hint = NULL;

		if (p->env->parent_hint)
			hint = p->env->parent_hint(p->env->userdata, node->text, from, -r);
		if (r == -EEXIST)
			RF_ERROR_AT(p, node, hint, RF_SHADOWED, node->text);
		else
			RF_ERROR_AT(p, node, hint, "no policy \"%.80s\" to extend: %s", node->text,
				    strerror(-r));
		return 0;
	}
	for (size_t i = 0; i < l->nopen; i++) {
		if (strcmp(l->open[i], file) != 0)
			continue;
		RF_ERROR_AT(p, node, "remove one of them from `extends`",
			    "the policy extends itself: %s extends %s", from, file);
		goto done;
	}
	for (size_t i = 0; i < l->ndocuments; i++)
		if (!strcmp(l->documents[i].file, file))
			goto done; /* through another parent: its rules count once */
	if (l->ndocuments + l->nopen >= FILES_MAX || l->nopen == LEVELS_MAX) {
		RF_ERROR_AT(p, node, NULL, "too many parents");
		goto done;
	}
	own = rf_arena_copy(&p->policy->arena, file, strlen(file));
	r = own ? load(l, own, text, size, false) : -ENOMEM;
	if (r == -EINVAL) {
		p->file = from;
		RF_ERROR_AT(p, node, NULL, "\"%.80s\" is no valid policy", node->text);
		r = 0;
	}
done:
	free(file);
	free(text);
	return r;
}

/* Read a text and its parents, which go before it. */
static int load(struct loader *l, const char *file, const char *text, size_t size, bool top)
{
	struct rf_parser *p = &l->parser;
	const struct rf_yaml *extends;
	struct rf_yaml *root;
	int r;

	r = rf_yaml_parse(file, text, size, &l->trees, p->diags, &root);
	if (r)
		return r;
	p->file = file;
	if (!rf_expect(p, root, RF_MAP, "a policy", "begin with `ringfence: 1`"))
		return 0;
	l->open[l->nopen++] = file;
	extends = value_of(root, "extends");
	if (extends)
		for (const struct rf_yaml *m = rf_first_member(p, extends, "`extends`"); m && !r;
		     m = rf_next_member(extends, m))
			r = load_parent(l, file, m);
	l->nopen--;
	l->documents[l->ndocuments++] = (struct document){file, root, top};
	return r;
}

static void parse_document(struct rf_parser *p, const struct document *d)
{
	p->file = d->file;
	p->top = d->top;
	if (!value_of(d->root, "ringfence"))
		RF_ERROR_AT(p, d->root, "begin with `ringfence: 1`",
			    "the key `ringfence` with the version of the language is missing");
	if (!value_of(d->root, "name"))
		RF_ERROR_AT(p, d->root, "as in `name: my-policy`", "the key `name` is missing");
	rf_parse_map(p, d->root, keys, RF_COUNT(keys), NULL);
}

static void parse_documents(struct loader *l)
{
	struct rf_parser *p = &l->parser;

	for (size_t i = 0; i < l->ndocuments; i++) {
		const struct rf_yaml *vars = value_of(l->documents[i].root, "vars");

		p->file = l->documents[i].file;
		if (vars)
			rf_vars_add(p, vars);
	}
	rf_vars_resolve(p);
	for (size_t i = 0; i < l->ndocuments; i++)
		parse_document(p, &l->documents[i]);
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
		if (policy->rules[i].head.sense.action == RF_RULE_ALLOW &&
		    (policy->rules[i].head.sense.rights & RF_EXEC))
			return;
	rf_diag(diags, RF_WARNING, policy->file, 1, 1, "as in `allow: [read, exec]` for /usr",
		"no rule allows `exec`: no program can start under this policy");
}

int rf_policy_parse(const char *file, const char *text, size_t size,
		    const struct rf_policy_env *env, struct rf_diags *diags,
		    struct rf_policy **ret_policy)
{
	struct rf_policy *policy = calloc(1, sizeof(*policy));
	struct rf_vars vars = {0};
	struct loader l = {.parser = {.env = env, .vars = &vars, .policy = policy, .diags = diags}};
	size_t errors = diags->errors, first = diags->n;
	const char *home;
	int r;

	if (!policy)
		return -ENOMEM;
	policy->detached = RF_READ | RF_WRITE;
	policy->file = rf_arena_copy(&policy->arena, file, strlen(file));
	home = env->variable(env->userdata, "HOME", false);
	if (home)
		policy->home = rf_arena_copy(&policy->arena, home, strlen(home));
	r = policy->file && !home == !policy->home ? load(&l, policy->file, text, size, true)
						   : -ENOMEM;
	if (!r) {
		parse_documents(&l);
		r = l.parser.no_memory ? -ENOMEM : diags->errors != errors ? -EINVAL : 0;
	}
	rf_arena_done(&l.trees);
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
	free(policy->net);
	free(policy->tests);
	free(policy->needs);
	free(policy->paths);
	rf_sets_done(&policy->sets);
	rf_arena_done(&policy->arena);
	free(policy);
}

const char *rf_policy_name(const struct rf_policy *policy)
{
	return policy->name;
}

unsigned int rf_policy_dashes(const struct rf_policy *policy, bool network)
{
	return network ? policy->network_dashes : policy->files_dashes;
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

size_t rf_policy_needs(const struct rf_policy *policy, const struct rf_need **ret_needs)
{
	*ret_needs = policy->needs;
	return policy->nneeds;
}

const struct rf_limits *rf_policy_limits(const struct rf_policy *policy)
{
	return &policy->limits;
}
