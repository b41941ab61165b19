/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which rule wins, for each right: the algebra of the order of rules (the last
 * one wins, a forbid before all), and a table that holds each outcome once.
 */
#ifndef RF_POLICY_WINNERS_H
#define RF_POLICY_WINNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

/* A rule as the automaton sees it; its number is its place in the policy, from 1. */
enum rf_action { RF_RULE_ALLOW, RF_RULE_DENY, RF_RULE_FORBID };
struct rf_rule_sense {
	uint8_t action; /* enum rf_action */
	uint8_t rights;
	bool audited;
	bool reopens;
};

/*
 * Priorities by right: 0 for none, a rule's number, or for a forbid
 * RF_PRIORITY_FORBID and the number. Plane 0 is the verdict; plane 1 is the one
 * with the audited rules in force.
 */
#define RF_PLANES 2
#define RF_PRIORITY_FORBID RF_MAX_RULES
struct rf_winners {
	uint16_t at[RF_PLANES][RF_RIGHTS];
};

static inline uint16_t rf_priority_rule(uint16_t priority)
{
	return priority > RF_PRIORITY_FORBID ? priority - RF_PRIORITY_FORBID : priority;
}

/* For each allow without `reopens` an earlier deny that it takes something from, 0 for none. */
struct rf_lint {
	const struct rf_rule_sense *rules;
	size_t nrules;
	uint16_t *reopened; /* nrules + 1, by number */
};

/* Outcomes, each once. Item 0 is "no rule". Zero-initialise. */
struct rf_winners_table {
	struct rf_winners *items;
	size_t n, capacity;
	uint32_t *slots;
	size_t nslots;
};

/* The item's index in *ret_id; 0 or -ENOMEM. */
int rf_winners_intern(struct rf_winners_table *table, const struct rf_winners *winners,
		      uint32_t *ret_id);
void rf_winners_done(struct rf_winners_table *table);

/* What `rule` alone gives. */
void rf_winners_of_rule(const struct rf_rule_sense *sense, uint16_t rule,
			struct rf_winners *ret_winners);

/* Take from `more` what is higher; an allow that beats a deny is noted in `lint` (or NULL). */
void rf_winners_merge(struct rf_winners *winners, const struct rf_winners *more,
		      struct rf_lint *lint);

/* Could `more` change anything in `winners`? */
bool rf_winners_beat(const struct rf_winners *more, const struct rf_winners *winners);

#endif
