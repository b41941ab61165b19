/* SPDX-License-Identifier: BSD-2-Clause */
/* A parsed policy, as the phases of the library share it. Not for users of the library. */
#ifndef RF_POLICY_RULES_H
#define RF_POLICY_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/pattern.h"
#include "policy/policy.h"
#include "policy/winners.h"

/* One path of an item of `files`; its number is its place, from 1. */
struct rf_path_rule {
	struct rf_rule_sense sense;
	const char *file;
	unsigned int line, column; /* of the path */
	const char *rights; /* as written, joined by commas */
	const char *written; /* the path */
	struct rf_pattern pattern;
};

struct rf_policy {
	struct rf_arena arena; /* holds every string and pattern */
	const char *file; /* the text that was given, not a parent */
	const char *name;
	bool audit;
	bool log_all;
	uint8_t detached;
	struct rf_path_rule *rules; /* in order */
	size_t nrules, rules_capacity;
	struct rf_sets sets;
	size_t natoms; /* of all patterns */
	const char **paths; /* see rf_policy_paths() */
	size_t npaths;
};

#define RF_ATOMS_MAX (4u << 20) /* of all patterns of a policy */

extern const char *const rf_action_names[3]; /* by enum rf_action */

/* The right of a name ("read", "write", "all", ...) as a mask, 0 if there is none. */
uint8_t rf_right(const char *name);
#define RF_RIGHT_NAMES 8
extern const char *const rf_right_names[RF_RIGHT_NAMES];

/*
 * The rules as one minimised automaton; its outcomes are in nfa->winners. What
 * `diags` gets is warnings about rules, and the error where a limit is passed
 * (-E2BIG). Release both.
 */
struct rf_nfa;
struct rf_dfa;
int rf_policy_automaton(const struct rf_policy *policy, struct rf_diags *diags,
			struct rf_nfa *ret_nfa, struct rf_dfa *ret_dfa);

#endif
