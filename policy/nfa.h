/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All patterns of a policy as one nondeterministic automaton: a tree of atoms,
 * so that equal beginnings are shared. A node stands for a position in some
 * patterns; where one ends the node carries the rule.
 */
#ifndef RF_POLICY_NFA_H
#define RF_POLICY_NFA_H

#include <stddef.h>
#include <stdint.h>

#include "policy/pattern.h"
#include "policy/winners.h"

#define RF_NONE UINT32_MAX

enum rf_loop { RF_LOOP_NONE, RF_LOOP_NAME, RF_LOOP_ALL };

struct rf_nfa_node {
	uint32_t child; /* the first child over a byte or a set; the rest by sibling */
	uint32_t sibling;
	uint32_t star; /* child over RF_ATOM_STAR: entered without a byte, loops on a name */
	uint32_t glob; /* child over RF_ATOM_GLOB: entered without a byte */
	uint32_t run; /* of a glob: its run, entered on '/'. It loops on all bytes, and
		       * enters its glob again without one */
	uint16_t atom; /* by which it is entered */
	uint8_t loop; /* enum rf_loop */
	/* Outcomes, as indices into the table: */
	uint32_t end; /* of the patterns that end here */
	uint32_t reach; /* the most that patterns can give from here on */
	uint32_t reach_deny; /* the most that denies can, for the lint */
};

struct rf_nfa {
	struct rf_nfa_node *nodes; /* 0 is the root: the empty path */
	size_t n, capacity;
	struct rf_winners_table winners;
};

/* Zero-initialise, add sequences in the order of the rules, then finish. 0 or -ENOMEM. */
int rf_nfa_add(struct rf_nfa *nfa, const struct rf_sequence *sequence, uint16_t rule,
	       struct rf_lint *lint);
int rf_nfa_finish(struct rf_nfa *nfa);
void rf_nfa_done(struct rf_nfa *nfa);

#endif
