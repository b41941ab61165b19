/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The deterministic automaton over path bytes: subset construction from the
 * patterns and minimisation. Its states say which rule wins for each right; what
 * matched at a directory stays matched below.
 */
#ifndef RF_POLICY_DFA_H
#define RF_POLICY_DFA_H

#include <stddef.h>
#include <stdint.h>

#include "policy/nfa.h"

/* Limits of the construction: reached by patterns whose combinations explode. */
#define RF_DFA_STATES_MAX 600000
#define RF_DFA_WORK_MAX 12000000 /* positions of patterns entered, all moves together */

struct rf_edge {
	uint32_t cls;
	uint32_t target;
};

struct rf_dfa_state {
	uint32_t accept; /* index into the table of outcomes */
	uint32_t target; /* for every class without an edge */
	uint32_t edges; /* index of its first edge */
	uint32_t nedges; /* sorted by class, none of them to `target` */
};

struct rf_dfa {
	struct rf_dfa_state *states;
	size_t nstates, states_capacity;
	struct rf_edge *edges;
	size_t nedges, edges_capacity;
	uint32_t start;
	uint32_t nclasses;
	uint8_t cls[256];
};

/*
 * 0 with *ret_dfa (release with rf_dfa_done), -E2BIG where a limit is passed,
 * then with the three rules most at it in `culprits` (0 for fewer), -ENOMEM.
 */
#define RF_CULPRITS 3
int rf_dfa_build(struct rf_nfa *nfa, const struct rf_sets *sets, struct rf_lint *lint,
		 struct rf_dfa *ret_dfa, uint16_t culprits[RF_CULPRITS]);

/* Merge states that nothing tells apart, number them from the start outward. 0 or -ENOMEM. */
int rf_dfa_minimise(struct rf_dfa *dfa);

uint32_t rf_dfa_step(const struct rf_dfa *dfa, uint32_t state, uint8_t byte);
void rf_dfa_done(struct rf_dfa *dfa);

#endif
