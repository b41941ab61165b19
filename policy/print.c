/* SPDX-License-Identifier: BSD-2-Clause */
/* Each phase of the compiler, for people to read, see print.h. */
#include "policy/print.h"

#include <errno.h>

#include "policy/dfa.h"
#include "policy/image.h"
#include "policy/net.h"
#include "policy/nfa.h"
#include "policy/rules.h"
#include "policy/util.h"

int rf_print_rules(const struct rf_policy *policy, FILE *out)
{
	fprintf(out, "policy %s, mode %s, log %s\n", policy->name,
		policy->audit ? "audit" : "enforce", policy->log_all ? "all" : "denies");
	for (size_t i = 0; i < policy->nrules + policy->nnet; i++) {
		const struct rf_rule_head *r = rf_policy_rule(policy, i + 1);

		fprintf(out, "%5zu  %-6s %-18s %s  (%s:%u)%s%s\n", i + 1,
			rf_action_names[r->sense.action], r->rights, r->written, r->file, r->line,
			r->sense.audited ? " audit" : "", r->sense.reopens ? " reopens" : "");
	}
	return 0;
}

int rf_print_patterns(const struct rf_policy *policy, FILE *out)
{
	for (size_t i = 0; i < policy->nrules; i++) {
		const struct rf_pattern *pattern = &policy->rules[i].pattern;

		for (size_t k = 0; k < pattern->n; k++) {
			_cleanup_text_ struct rf_text text = {0};

			rf_sequence_text(&pattern->sequences[k], &policy->sets, &text);
			if (text.failed)
				return -ENOMEM;
			fprintf(out, "%5zu  %s\n", i + 1, text.text);
		}
	}
	return 0;
}

static void print_winners(const struct rf_winners *w, FILE *out)
{
	static const char letters[RF_RIGHTS + 1] = "rmcdax";

	for (unsigned int i = 0; i < RF_RIGHTS; i++) {
		if (w->at[0][i])
			fprintf(out, " %c:%u", letters[i], rf_priority_rule(w->at[0][i]));
		if (w->at[1][i] != w->at[0][i])
			fprintf(out, " %c:%u(audit)", letters[i], rf_priority_rule(w->at[1][i]));
	}
}

static void print_class(const struct rf_dfa *dfa, uint32_t cls, FILE *out)
{
	bool first = true;

	for (unsigned int b = 0; b < 256; b++) {
		if (dfa->cls[b] != cls)
			continue;
		if (b > ' ' && b < 127)
			fprintf(out, "%s%c", first ? "" : "|", b);
		else
			fprintf(out, "%s\\x%02x", first ? "" : "|", b);
		first = false;
	}
}

int rf_print_dfa(const struct rf_policy *policy, FILE *out)
{
	_cleanup_free_ uint16_t *numbers =
		rf_policy_numbers(policy, policy->nrules > RF_RULES_UNGROUPED);
	struct rf_diags diags = {0};
	struct rf_nfa nfa;
	struct rf_dfa dfa;
	int r;

	if (!numbers)
		return -ENOMEM;
	r = rf_policy_automaton(policy, numbers, 0, &diags, &nfa, &dfa);
	rf_diags_done(&diags);
	if (r)
		return r == -E2BIG ? -EINVAL : r;
	fprintf(out, "%zu states, %zu edges, %u classes, start 0; rights rmcdax:rule\n",
		dfa.nstates, dfa.nedges, dfa.nclasses);
	for (size_t i = 0; i < dfa.nstates; i++) {
		const struct rf_dfa_state *s = &dfa.states[i];

		fprintf(out, "%zu:", i);
		print_winners(&nfa.winners.items[s->accept], out);
		for (uint32_t e = 0; e < s->nedges; e++) {
			fputs("  ", out);
			print_class(&dfa, dfa.edges[s->edges + e].cls, out);
			fprintf(out, "->%u", dfa.edges[s->edges + e].target);
		}
		fprintf(out, "  else->%u\n", s->target);
	}
	rf_nfa_done(&nfa);
	rf_dfa_done(&dfa);
	return 0;
}

/* Addresses that lead to the same leaf, by prefix, then what the leaf says. */
static void print_tree(const struct rf_net *net, uint32_t child, struct rf_target *t, FILE *out)
{
	unsigned int depth = t->prefix / 4;

	if (child & RF_NODE_LEAF) {
		_cleanup_text_ struct rf_text text = {0};

		rf_target_text(t, &text);
		fprintf(out, "%-32s leaf %u\n", text.text ? text.text : "", child & ~RF_NODE_LEAF);
		return;
	}
	t->prefix += 4;
	for (unsigned int half = 0; half < 16; half++) {
		t->address[depth / 2] &= depth % 2 ? 0xf0 : 0x0f;
		t->address[depth / 2] |= depth % 2 ? half : half << 4;
		print_tree(net, net->nodes[child][half], t, out);
	}
	t->address[depth / 2] &= depth % 2 ? 0xf0 : 0x0f;
	t->prefix -= 4;
}

int rf_print_net(const struct rf_policy *policy, FILE *out)
{
	static const char *const verdicts[] = {"default", "allow", "deny", "forbid"};
	struct rf_target t = {.protocols = RF_TCP | RF_UDP, .last = UINT16_MAX};
	struct rf_net net;
	int r;

	r = rf_net_build(policy, 0, NULL, &net);
	if (r)
		return r == -E2BIG ? -EINVAL : r;
	fprintf(out, "%zu nodes, %zu leaves, %zu port ranges\n", net.nnodes, net.nleaves,
		net.nports);
	if (net.nleaves)
		print_tree(&net, net.root, &t, out);
	for (size_t i = 0; i < net.nleaves; i++) {
		const struct rf_leaf *l = &net.leaves[i];

		for (unsigned int k = 0; k < (unsigned int)l->ntcp + l->nudp; k++) {
			const struct rf_port *p = &net.ports[l->first + k];

			fprintf(out, "leaf %zu: %s up to %-5u %s", i, k < l->ntcp ? "tcp" : "udp",
				p->last, verdicts[p->verdict]);
			if (p->rule)
				fprintf(out, " by rule %u", p->rule);
			if (p->audited_rule != p->rule)
				fprintf(out, "; audited: %s by rule %u", verdicts[p->audited],
					p->audited_rule);
			fputc('\n', out);
		}
	}
	rf_net_done(&net);
	return 0;
}

int rf_print_image(const void *image, FILE *out)
{
	const struct rf_image *h = image;
	uint32_t flat = 0;

	for (uint32_t i = 1; i < h->nstates; i++)
		flat += !!RF_STATE_FLAT(((const uint64_t *)image)[h->states + i]);
	fprintf(out,
		"version %u, %u bytes, checksum %08x, class %d\n"
		"start %u, detached 0x%02x\n"
		"%u states (%u flat) at word %u\n"
		"%u cells at word %u\n"
		"%u accepts at word %u\n"
		"%u rules at word %u\n"
		"network: %u nodes, %u leaves, %u port ranges\n"
		"%u bytes of strings at word %u\n",
		h->version, h->size, h->checksum, rf_image_class(h->size), h->start, h->detached,
		h->nstates, flat, h->states, h->ncells, h->cells, h->naccepts, h->accepts,
		h->nrules, h->rules, h->nnodes, h->nleaves, h->nports, h->nstrings, h->strings);
	return 0;
}
