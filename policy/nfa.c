/* SPDX-License-Identifier: BSD-2-Clause */
/* The patterns of a policy as one nondeterministic automaton, see nfa.h. */
#include "policy/nfa.h"

#include <errno.h>
#include <string.h>

static int new_node(struct rf_nfa *nfa, uint16_t atom, enum rf_loop loop, uint32_t *ret_node)
{
	struct rf_nfa_node *node;

	if (rf_grow(&nfa->nodes, &nfa->capacity, nfa->n + 1, sizeof(*nfa->nodes)))
		return -ENOMEM;
	node = &nfa->nodes[nfa->n];
	memset(node, 0, sizeof(*node));
	node->child = node->sibling = node->star = node->glob = node->run = RF_NONE;
	node->atom = atom;
	node->loop = loop;
	*ret_node = nfa->n++;
	return 0;
}

static int add_star(struct rf_nfa *nfa, uint32_t at, uint32_t *ret_node)
{
	uint32_t star;
	int r;

	if (nfa->nodes[at].star == RF_NONE) {
		r = new_node(nfa, RF_ATOM_STAR, RF_LOOP_NAME, &star);
		if (r)
			return r;
		nfa->nodes[at].star = star;
	}
	*ret_node = nfa->nodes[at].star;
	return 0;
}

static int add_glob(struct rf_nfa *nfa, uint32_t at, uint32_t *ret_node)
{
	uint32_t glob, run;
	int r;

	if (nfa->nodes[at].glob == RF_NONE) {
		r = new_node(nfa, RF_ATOM_GLOB, RF_LOOP_NONE, &glob);
		if (r)
			return r;
		r = new_node(nfa, RF_ATOM_GLOB, RF_LOOP_ALL, &run);
		if (r)
			return r;
		nfa->nodes[run].glob = glob;
		nfa->nodes[glob].run = run;
		nfa->nodes[at].glob = glob;
	}
	*ret_node = nfa->nodes[at].glob;
	return 0;
}

static int add_child(struct rf_nfa *nfa, uint32_t at, uint16_t atom, uint32_t *ret_node)
{
	uint32_t child;
	int r;

	for (child = nfa->nodes[at].child; child != RF_NONE; child = nfa->nodes[child].sibling) {
		if (nfa->nodes[child].atom != atom)
			continue;
		*ret_node = child;
		return 0;
	}
	r = new_node(nfa, atom, RF_LOOP_NONE, &child);
	if (r)
		return r;
	nfa->nodes[child].sibling = nfa->nodes[at].child;
	nfa->nodes[at].child = child;
	*ret_node = child;
	return 0;
}

/* Raise an outcome of a node, held as an index, by `more`. */
static int raise(struct rf_nfa *nfa, uint32_t *id, const struct rf_winners *more,
		 struct rf_lint *lint)
{
	struct rf_winners sum = {0};

	if (nfa->winners.n)
		sum = nfa->winners.items[*id];
	rf_winners_merge(&sum, more, lint);
	return rf_winners_intern(&nfa->winners, &sum, id);
}

int rf_nfa_add(struct rf_nfa *nfa, const struct rf_sequence *sequence, uint16_t rule,
	       struct rf_lint *lint)
{
	const struct rf_rule_sense *sense = &lint->rules[rule - 1];
	struct rf_winners winners;
	uint32_t at = 0;
	int r = 0;

	if (!nfa->n)
		r = new_node(nfa, 0, RF_LOOP_NONE, &at);
	for (size_t i = 0; !r && i < sequence->n; i++) {
		uint16_t atom = sequence->atoms[i];

		if (atom == RF_ATOM_STAR)
			r = add_star(nfa, at, &at);
		else if (atom == RF_ATOM_GLOB)
			r = add_glob(nfa, at, &at);
		else
			r = add_child(nfa, at, atom, &at);
	}
	rf_winners_of_rule(sense, rule, &winners);
	if (!r)
		r = raise(nfa, &nfa->nodes[at].end, &winners, lint);
	if (!r && sense->action == RF_RULE_DENY)
		r = raise(nfa, &nfa->nodes[at].reach_deny, &winners, NULL);
	return r;
}

static int reach_through(struct rf_nfa *nfa, struct rf_nfa_node *node, uint32_t next)
{
	struct rf_winners reach = nfa->winners.items[nfa->nodes[next].reach];
	struct rf_winners deny = nfa->winners.items[nfa->nodes[next].reach_deny];
	int r;

	r = raise(nfa, &node->reach, &reach, NULL);
	return r ? r : raise(nfa, &node->reach_deny, &deny, NULL);
}

int rf_nfa_finish(struct rf_nfa *nfa)
{
	static const struct rf_winners none;
	uint32_t id;
	int r;

	r = rf_winners_intern(&nfa->winners, &none, &id);
	if (!r && !nfa->n)
		r = new_node(nfa, 0, RF_LOOP_NONE, &id); /* no rules: a root all the same */
	/* A child stands behind its parent, so backwards each child is ready in time. */
	for (size_t i = nfa->n; !r && i--;) {
		struct rf_nfa_node *node = &nfa->nodes[i];

		node->reach = node->end;
		for (uint32_t c = node->child; !r && c != RF_NONE; c = nfa->nodes[c].sibling)
			r = reach_through(nfa, node, c);
		if (!r && node->star != RF_NONE)
			r = reach_through(nfa, node, node->star);
		if (!r && node->glob != RF_NONE && node->loop != RF_LOOP_ALL)
			r = reach_through(nfa, node, node->glob);
	}
	/* But for a run: its only way on is its glob, before it. */
	for (size_t i = 0; !r && i < nfa->n; i++)
		if (nfa->nodes[i].loop == RF_LOOP_ALL)
			r = reach_through(nfa, &nfa->nodes[i], nfa->nodes[i].glob);
	return r;
}

void rf_nfa_done(struct rf_nfa *nfa)
{
	free(nfa->nodes);
	rf_winners_done(&nfa->winners);
	memset(nfa, 0, sizeof(*nfa));
}
