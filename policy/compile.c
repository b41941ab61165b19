/* SPDX-License-Identifier: BSD-2-Clause */
/* From rules to an image: the phases in their order, and what they tell about the rules. */
#include "policy/policy.h"

#include <errno.h>
#include <string.h>

#include "policy/dfa.h"
#include "policy/net.h"
#include "policy/nfa.h"
#include "policy/rules.h"
#include "policy/write.h"

static void never_wins(const struct rf_rule_head *rule, struct rf_diags *diags)
{
	rf_diag(diags, RF_WARNING, rule->file, rule->line, rule->column,
		"later rules decide everything that it matches: remove or move it",
		"this rule can never win: %s %s %s", rf_action_names[rule->sense.action],
		rule->rights, rule->written);
}

/* A rule that decides nothing anywhere, an allow that takes back a deny. */
static int warn_rules(const struct rf_policy *policy, const struct rf_nfa *nfa,
		      const struct rf_dfa *dfa, const struct rf_lint *lint, struct rf_diags *diags)
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
		const struct rf_rule_head *rule = rf_policy_rule(policy, n), *deny;

		/* That a child changes what its parents say is what children are for. */
		if (strcmp(rule->file, policy->file) != 0)
			continue;
		if (!wins[n])
			never_wins(rule, diags);
		if (!lint->reopened[n])
			continue;
		deny = rf_policy_rule(policy, lint->reopened[n]);
		rf_diag(diags, RF_WARNING, rule->file, rule->line, rule->column,
			"say `reopens: true` if this is meant, else move it before the deny",
			"this allow reopens a part of `deny %s %s` (%s:%u)", deny->rights,
			deny->written, deny->file, deny->line);
	}
	return 0;
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

int rf_policy_automaton(const struct rf_policy *policy, size_t without, struct rf_diags *diags,
			struct rf_nfa *ret_nfa, struct rf_dfa *ret_dfa)
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
		for (size_t k = 0; !r && i + 1 != without && k < policy->rules[i].pattern.n; k++)
			r = rf_nfa_add(&nfa, &policy->rules[i].pattern.sequences[k], i + 1, &lint);
	if (!r)
		r = rf_nfa_finish(&nfa);
	if (!r)
		r = rf_dfa_build(&nfa, &policy->sets, &lint, &dfa, culprits);
	if (r == -E2BIG)
		explosion(policy, culprits, diags);
	if (!r)
		r = rf_dfa_minimise(&dfa);
	if (!r && !without)
		r = warn_rules(policy, &nfa, &dfa, &lint, diags);
	if (r) {
		rf_nfa_done(&nfa);
		rf_dfa_done(&dfa);
		return r;
	}
	*ret_nfa = nfa;
	*ret_dfa = dfa;
	return 0;
}

/* "deny all ~/.ssh", in `arena`. */
static const char *rule_text(const struct rf_rule_head *rule, struct rf_arena *arena)
{
	_cleanup_text_ struct rf_text t = {0};
	const char *parts[] = {rf_action_names[rule->sense.action], " ", rule->rights, " ",
			       rule->written};

	for (size_t i = 0; i < RF_COUNT(parts); i++)
		rf_text_add(&t, parts[i], strlen(parts[i]));
	return t.failed ? NULL : rf_arena_copy(arena, t.text, t.n);
}

/* The tables for the network, and the warnings about its rules. */
static int build_net(const struct rf_policy *policy, size_t without, struct rf_diags *diags,
		     struct rf_net *net)
{
	_cleanup_free_ bool *wins = calloc(RF_MAX_RULES + 1, sizeof(*wins));
	int r;

	if (!wins)
		return -ENOMEM;
	r = rf_net_build(policy, without, net);
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
	for (size_t i = 0; i < policy->nnet; i++)
		if (!wins[i] && !strcmp(policy->net[i].head.file, policy->file))
			never_wins(&policy->net[i].head, diags);
	return 0;
}

int rf_policy_compile_without(const struct rf_policy *policy, size_t without,
			      struct rf_diags *diags, void **ret_image, size_t *ret_size)
{
	size_t n = policy->nrules + policy->nnet, first = diags->n;
	_cleanup_free_ struct rf_write_rule *rules = calloc(n + 1, sizeof(*rules));
	_cleanup_free_ struct rf_rule_sense *senses = calloc(n + 1, sizeof(*senses));
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
	int r = rules && senses ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < n; i++) {
		const struct rf_rule_head *rule = rf_policy_rule(policy, i + 1);

		senses[i] = rule->sense;
		rules[i] = (struct rf_write_rule){
			.file = rule->file,
			.line = rule->line,
			.column = rule->column,
			.text = rule_text(rule, &texts),
		};
		if (!rules[i].text)
			r = -ENOMEM;
	}
	if (!r)
		r = rf_policy_automaton(policy, without, diags, &nfa, &dfa);
	if (!r)
		r = build_net(policy, without, diags, &net);
	if (!r)
		r = rf_image_write(&write, policy->file, diags, ret_image, ret_size);
	rf_nfa_done(&nfa);
	rf_dfa_done(&dfa);
	rf_net_done(&net);
	rf_arena_done(&texts);
	rf_diags_sort(diags, first);
	return r == -E2BIG ? -EINVAL : r;
}

int rf_policy_compile(const struct rf_policy *policy, struct rf_diags *diags, void **ret_image,
		      size_t *ret_size)
{
	return rf_policy_compile_without(policy, 0, diags, ret_image, ret_size);
}
