/* SPDX-License-Identifier: BSD-2-Clause */
/* From rules to an image: the phases in their order, and what they tell about the rules. */
#include "policy/policy.h"

#include <errno.h>
#include <string.h>

#include "policy/dfa.h"
#include "policy/lint.h"
#include "policy/net.h"
#include "policy/nfa.h"
#include "policy/rules.h"
#include "policy/write.h"

/* "~/.ssh", or of a group "~/.ssh and 3 more". */
static void add_written(struct rf_text *t, const struct rf_rule_head *rule, size_t members)
{
	char more[40];

	rf_text_add(t, rule->written, strlen(rule->written));
	if (members > 1)
		rf_text_add(t, more, snprintf(more, sizeof(more), " and %zu more", members - 1));
}

/* "deny all ~/.ssh". */
static void add_rule(struct rf_text *t, const struct rf_rule_head *rule, size_t members)
{
	const char *parts[] = {rf_action_names[rule->sense.action], " ", rule->rights, " "};

	for (size_t i = 0; i < RF_COUNT(parts); i++)
		rf_text_add(t, parts[i], strlen(parts[i]));
	add_written(t, rule, members);
}

static bool same_group(const struct rf_rule_head *a, const struct rf_rule_head *b)
{
	return !strcmp(a->file, b->file) && a->sense.action == b->sense.action &&
	       a->sense.rights == b->sense.rights && a->sense.audited == b->sense.audited &&
	       a->sense.reopens == b->sense.reopens;
}

uint16_t *rf_policy_numbers(const struct rf_policy *policy, bool grouped)
{
	uint16_t *numbers = calloc(policy->nrules + 1, sizeof(*numbers));

	for (size_t i = 0; numbers && i < policy->nrules; i++)
		numbers[i] = grouped && i &&
					     same_group(&policy->rules[i - 1].head,
							&policy->rules[i].head)
				     ? numbers[i - 1]
				     : i + 1;
	return numbers;
}

/* How many paths have the number of path rule `i`, its first; 0 for one that is not. */
static size_t members_of(const struct rf_policy *policy, const uint16_t *numbers, size_t i)
{
	size_t n = 0;

	if (numbers[i] != i + 1)
		return 0;
	while (i + n < policy->nrules && numbers[i + n] == numbers[i])
		n++;
	return n;
}

/* `by` (NULL: not known) decides instead, `about` what. */
static void never_wins(const struct rf_rule_head *rule, size_t members,
		       const struct rf_rule_head *by, size_t by_members, const char *about,
		       struct rf_diags *diags)
{
	_cleanup_text_ struct rf_text text = {0};
	char at[32];

	add_rule(&text, rule, members);
	if (by) {
		rf_text_add(&text, "; `", 3);
		add_rule(&text, by, by_members);
		rf_text_add(&text, "` (", 3);
		rf_text_add(&text, by->file, strlen(by->file));
		rf_text_add(&text, at, snprintf(at, sizeof(at), ":%u) decides about ", by->line));
		rf_text_add(&text, about, strlen(about));
	}
	rf_diag(diags, RF_WARNING, rule->file, rule->line, rule->column,
		"other rules decide everything that it matches: remove or move it",
		"this rule can never win: %s", text.text ? text.text : "");
}

static void reopens(const struct rf_rule_head *rule, const struct rf_rule_head *deny,
		    struct rf_diags *diags)
{
	rf_diag(diags, RF_WARNING, rule->file, rule->line, rule->column,
		"say `reopens: true` if this is meant, else move it before the deny",
		"this allow reopens a part of `deny %s %s` (%s:%u)", deny->rights, deny->written,
		deny->file, deny->line);
}

/* An allow of 0.0.0.0 or :: alone: it would have to be one of every address. */
static void allows_nothing(const struct rf_rule_head *rule, struct rf_diags *diags)
{
	rf_diag(diags, RF_WARNING, rule->file, rule->line, rule->column,
		"write the address that is meant, as 127.0.0.1 or [::1], and connect to that",
		"this rule allows nothing: %s leads to any address of this host, and is allowed "
		"where all addresses are",
		rule->written);
}

/* That a child changes what its parents say is what children are for. */
static bool is_own(const struct rf_policy *policy, const struct rf_rule_head *rule)
{
	return strcmp(rule->file, policy->file) == 0;
}

/* The variable of the caller's at the start of a path: its length, 0 for none. */
static size_t place_at_start(const char *written)
{
	static const char *const starts[] = {"~", "${HOME}", "${WORKSPACE}", "${env:"};

	for (size_t i = 0; i < RF_COUNT(starts); i++) {
		size_t n = strlen(starts[i]);

		if (!strncmp(written, starts[i], n))
			return starts[i][n - 1] == ':' ? strcspn(written, "}") + 1 : n;
	}
	return 0;
}

/*
 * Does a rule lose to another that says the same, only because of where the session has its
 * home or its workspace? With /tmp as the workspace `/tmp` loses to `${WORKSPACE}` beside it,
 * and the policy is none the worse. What matches everything wins anywhere; and where a deny
 * loses to an allow it matters, whatever the reason.
 */
static bool loses_by_place(const struct rf_rule_head *rule, const struct rf_rule_head *by)
{
	size_t n = place_at_start(rule->written), m = place_at_start(by->written);

	if ((!n && !m) || rule->sense.action != by->sense.action)
		return false;
	if (!m)
		return by->written[0] == '/' && by->written[1] && !strchr("*?[{", by->written[1]);
	return n != m || strncmp(rule->written, by->written, n) != 0;
}

/* Rules that decide nothing anywhere. */
static int warn_unused(const struct rf_policy *policy, const uint16_t *numbers,
		       const struct rf_nfa *nfa, const struct rf_dfa *dfa, const void *image,
		       struct rf_diags *diags)
{
	_cleanup_free_ bool *wins = calloc(policy->nrules + 1, sizeof(*wins));

	if (!wins)
		return -ENOMEM;
	for (size_t i = 0; i < dfa->nstates; i++) {
		const struct rf_winners *w = &nfa->winners.items[dfa->states[i].accept];

		for (unsigned int k = 0; k < RF_PLANES * RF_RIGHTS; k++)
			wins[rf_priority_rule(w->at[k / RF_RIGHTS][k % RF_RIGHTS])] = true;
	}
	for (size_t n = 1; n <= policy->nrules; n++) {
		const struct rf_rule_head *rule = rf_policy_rule(policy, n);
		size_t members = members_of(policy, numbers, n - 1), by_members;
		_cleanup_text_ struct rf_text path = {0};
		uint16_t by;

		if (!members || wins[n] || !is_own(policy, rule))
			continue;
		by = rf_lint_decider(policy, image, n, &path);
		by_members = by ? members_of(policy, numbers, by - 1) : 0;
		/* Of several paths in one rule it is not known which one decides. */
		if (by_members == 1 && loses_by_place(rule, rf_policy_rule(policy, by)))
			continue;
		never_wins(rule, members, by ? rf_policy_rule(policy, by) : NULL, by_members,
			   path.text, diags);
	}
	return 0;
}

/* Allows that take back a deny. */
static void warn_reopened(const struct rf_policy *policy, const uint16_t *numbers,
			  const struct rf_lint *lint, struct rf_diags *diags)
{
	for (size_t n = 1; n <= policy->nrules; n++) {
		const struct rf_rule_head *rule = rf_policy_rule(policy, n);

		if (lint->reopened[n] && members_of(policy, numbers, n - 1) && is_own(policy, rule))
			reopens(rule, rf_policy_rule(policy, lint->reopened[n]), diags);
	}
}

static void explosion(const struct rf_policy *policy, const uint16_t culprits[RF_CULPRITS],
		      struct rf_diags *diags)
{
	const struct rf_rule_head *first = NULL;
	_cleanup_text_ struct rf_text names = {0};

	for (unsigned int i = 0; i < RF_CULPRITS; i++) {
		const struct rf_rule_head *rule;

		if (!culprits[i])
			continue;
		rule = rf_policy_rule(policy, culprits[i]);
		if (first)
			rf_text_add(&names, ", ", 2);
		else
			first = rule;
		rf_text_add(&names, rule->written, strlen(rule->written));
	}
	rf_diag(diags, RF_ERROR, first ? first->file : policy->file, first ? first->line : 1,
		first ? first->column : 1,
		"use fewer patterns with * inside of names or several **, or begin them with a "
		"directory",
		"the patterns combine in too many ways, most of all %s",
		names.text ? names.text : "");
}

int rf_policy_automaton(const struct rf_policy *policy, const uint16_t *numbers, size_t without,
			struct rf_diags *diags, struct rf_nfa *ret_nfa, struct rf_dfa *ret_dfa)
{
	_cleanup_free_ struct rf_rule_sense *senses = calloc(policy->nrules + 1, sizeof(*senses));
	_cleanup_free_ uint16_t *reopened = calloc(policy->nrules + 1, sizeof(*reopened));
	struct rf_lint lint = {senses, policy->nrules, reopened};
	uint16_t culprits[RF_CULPRITS] = {0};
	struct rf_nfa nfa = {0};
	struct rf_dfa dfa = {0};
	int r = 0;

	if (!senses || !reopened)
		return -ENOMEM;
	for (size_t i = 0; i < policy->nrules; i++)
		senses[i] = policy->rules[i].head.sense;
	for (size_t i = 0; !r && i < policy->nrules; i++)
		for (size_t k = 0; !r && numbers[i] != without && k < policy->rules[i].pattern.n;
		     k++)
			r = rf_nfa_add(&nfa, &policy->rules[i].pattern.sequences[k], numbers[i],
				       &lint);
	if (!r)
		r = rf_nfa_finish(&nfa);
	if (!r)
		r = rf_dfa_build(&nfa, &policy->sets, &lint, &dfa, culprits);
	if (r == -E2BIG)
		explosion(policy, culprits, diags);
	if (!r)
		r = rf_dfa_minimise(&dfa);
	if (!r && !without)
		warn_reopened(policy, numbers, &lint, diags);
	if (r) {
		rf_nfa_done(&nfa);
		rf_dfa_done(&dfa);
		return r;
	}
	*ret_nfa = nfa;
	*ret_dfa = dfa;
	return 0;
}

/* The tables for the network, and the warnings about its rules. */
static int build_net(const struct rf_policy *policy, size_t without, struct rf_diags *diags,
		     struct rf_net *net)
{
	_cleanup_free_ bool *wins = calloc(RF_MAX_RULES + 1, sizeof(*wins));
	_cleanup_free_ struct rf_net_lint *lint = calloc(RF_MAX_RULES + 1, sizeof(*lint));
	int r;

	if (!wins || !lint)
		return -ENOMEM;
	r = rf_net_build(policy, without, lint, net);
	if (r == -E2BIG)
		rf_diag(diags, RF_ERROR, policy->net[0].head.file, policy->net[0].head.line, 1,
			"use fewer, wider prefixes and port ranges",
			"the rules of `network` combine in too many ways");
	if (r || without)
		return r;
	for (size_t i = 0; i < net->nports; i++) {
		if (net->ports[i].rule)
			wins[net->ports[i].rule - policy->nrules - 1] = true;
		if (net->ports[i].audited_rule)
			wins[net->ports[i].audited_rule - policy->nrules - 1] = true;
	}
	for (size_t i = 0; i < policy->nnet; i++) {
		const struct rf_net_rule *rule = &policy->net[i];
		const struct rf_net_lint *l = &lint[i];

		if (!is_own(policy, &rule->head))
			continue;
		if (wins[i] && l->reopened)
			reopens(&rule->head, &l->reopened->head, diags);
		else if (wins[i])
			continue;
		else if (rule->head.sense.action == RF_RULE_ALLOW &&
			 rf_target_is_any(&rule->target))
			allows_nothing(&rule->head, diags);
		else
			never_wins(&rule->head, 1, l->beaten_by ? &l->beaten_by->head : NULL, 1,
				   rule->head.written, diags);
	}
	return 0;
}

/* Where each rule stands and what it says, a group's once; the texts in `arena`. 0 or -ENOMEM. */
static int describe(const struct rf_policy *policy, const uint16_t *numbers, struct rf_arena *arena,
		    struct rf_write_rule *rules)
{
	for (size_t i = 0; i < policy->nrules + policy->nnet; i++) {
		const struct rf_rule_head *rule = rf_policy_rule(policy, i + 1);
		size_t members = i < policy->nrules ? members_of(policy, numbers, i) : 1;
		_cleanup_text_ struct rf_text text = {0};

		if (!members) {
			rules[i] = rules[i - 1];
			continue;
		}
		add_rule(&text, rule, members);
		rules[i] = (struct rf_write_rule){
			.file = rule->file,
			.line = rule->line,
			.column = rule->column,
			.text = text.failed ? NULL : rf_arena_copy(arena, text.text, text.n),
			.group = members > 1,
		};
		if (!rules[i].text)
			return -ENOMEM;
	}
	return 0;
}

/* 0, -E2BIG where a limit is passed, -ENOMEM. */
static int compile(const struct rf_policy *policy, bool grouped, size_t without,
		   struct rf_diags *diags, void **ret_image, size_t *ret_size)
{
	size_t n = policy->nrules + policy->nnet;
	_cleanup_free_ struct rf_write_rule *rules = calloc(n + 1, sizeof(*rules));
	_cleanup_free_ struct rf_rule_sense *senses = calloc(n + 1, sizeof(*senses));
	_cleanup_free_ uint16_t *numbers = rf_policy_numbers(policy, grouped);
	_cleanup_free_ void *image = NULL;
	struct rf_arena texts = {0};
	struct rf_net net = {0};
	struct rf_nfa nfa = {0};
	struct rf_dfa dfa = {0};
	struct rf_write write = {
		.dfa = &dfa,
		.winners = &nfa.winners,
		.net = &net,
		.senses = senses,
		.rules = rules,
		.nrules = n,
		.detached = policy->detached,
	};
	int r = rules && senses && numbers ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < n; i++)
		senses[i] = rf_policy_rule(policy, i + 1)->sense;
	if (!r)
		r = describe(policy, numbers, &texts, rules);
	if (!r)
		r = rf_policy_automaton(policy, numbers, without, diags, &nfa, &dfa);
	if (!r)
		r = build_net(policy, without, diags, &net);
	if (!r)
		r = rf_image_write(&write, policy->file, diags, &image, ret_size);
	if (!r && !without)
		r = warn_unused(policy, numbers, &nfa, &dfa, image, diags);
	if (!r && !without)
		r = rf_lint_patterns(policy, image, diags);
	if (!r) {
		*ret_image = image;
		image = NULL;
	}
	rf_nfa_done(&nfa);
	rf_dfa_done(&dfa);
	rf_net_done(&net);
	rf_arena_done(&texts);
	return r;
}

static bool has_groups(const struct rf_policy *policy)
{
	for (size_t i = 1; i < policy->nrules; i++)
		if (same_group(&policy->rules[i - 1].head, &policy->rules[i].head))
			return true;
	return false;
}

int rf_policy_compile_without(const struct rf_policy *policy, size_t without, bool group,
			      struct rf_diags *diags, void **ret_image, size_t *ret_size)
{
	bool grouped = group || policy->nrules > RF_RULES_UNGROUPED;
	struct rf_diags found = {0};
	int r;

	r = compile(policy, grouped, without, &found, ret_image, ret_size);
	if (r == -E2BIG && !grouped && has_groups(policy)) {
		rf_diags_done(&found);
		r = compile(policy, true, without, &found, ret_image, ret_size);
	}
	rf_diags_sort(&found, 0);
	rf_diags_move(diags, &found);
	return r == -E2BIG ? -EINVAL : r;
}

int rf_policy_compile(const struct rf_policy *policy, struct rf_diags *diags, void **ret_image,
		      size_t *ret_size)
{
	return rf_policy_compile_without(policy, 0, false, diags, ret_image, ret_size);
}
