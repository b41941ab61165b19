/* SPDX-License-Identifier: BSD-2-Clause */
/* A parsed policy, as the phases of the library share it. Not for users of the library. */
#ifndef RF_POLICY_RULES_H
#define RF_POLICY_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/address.h"
#include "policy/pattern.h"
#include "policy/policy.h"
#include "policy/winners.h"

/* What every rule has. */
struct rf_rule_head {
	struct rf_rule_sense sense;
	const char *file;
	unsigned int line, column; /* of the path or target */
	const char *rights; /* as written, joined by commas */
	const char *written; /* the path or target */
};

/* One path of an item of `files`; its number is its place, from 1. */
struct rf_path_rule {
	struct rf_rule_head head;
	struct rf_pattern pattern;
};

/* One target of an item of `network`; its number follows those of the paths. */
struct rf_net_rule {
	struct rf_rule_head head;
	struct rf_target target;
};

/* One item of `tests`. */
struct rf_test {
	unsigned int line, column;
	const char *op; /* as written */
	const char *object;
	uint8_t rights; /* 0: of the network */
	bool expect_deny;
	const char *path; /* normalised */
	struct rf_target target;
};

struct rf_policy {
	struct rf_arena arena; /* holds every string and pattern */
	const char *file; /* the text that was given, not a parent */
	const char *home; /* what ~ stands for, NULL if that is not known */
	const char *name;
	bool audit;
	bool log_all;
	unsigned int files_dashes, network_dashes; /* see rf_policy_dashes() */
	uint8_t detached;
	struct rf_limits limits;
	struct rf_path_rule *rules; /* in order */
	size_t nrules, rules_capacity;
	struct rf_net_rule *net;
	size_t nnet, net_capacity;
	struct rf_test *tests;
	size_t ntests, tests_capacity;
	struct rf_need *needs;
	size_t nneeds, needs_capacity;
	struct rf_sets sets;
	size_t natoms; /* of all patterns */
	const char **paths; /* see rf_policy_paths() */
	size_t npaths;
};

#define RF_ATOMS_MAX (4u << 20) /* of all patterns of a policy */

extern const char *const rf_action_names[3]; /* by enum rf_action */

/* The right of a name ("read", "write", "all", ...) as a mask, 0 if there is none. */
uint8_t rf_right(const char *name);
/* What to write for a word of other tools, as "chmod": a hint, or NULL. Static. */
const char *rf_right_hint(const char *word);
#define RF_RIGHT_NAMES 8
extern const char *const rf_right_names[RF_RIGHT_NAMES];

/* Rule number n of either kind, from 1. */
static inline const struct rf_rule_head *rf_policy_rule(const struct rf_policy *policy, size_t n)
{
	return n <= policy->nrules ? &policy->rules[n - 1].head
				   : &policy->net[n - 1 - policy->nrules].head;
}

/*
 * Paths that follow each other in a file with the same action and rights are one rule
 * to the verdict: it is the same whichever of them decides. As one rule to the automaton,
 * too, they share what comes after them, which makes it several times smaller where globs
 * follow; but events then name their first. So it is done where there are many, or where
 * the image would be too large.
 *
 * Each path rule's number, malloc'ed; with `grouped` that of its group's first. NULL on
 * no memory.
 */
#define RF_RULES_UNGROUPED 4096 /* path rules of a policy that is not grouped from the start */
uint16_t *rf_policy_numbers(const struct rf_policy *policy, bool grouped);

/*
 * The path rules by these numbers as one minimised automaton; its outcomes are in
 * nfa->winners. Number `without` (0: none) is left out. What `diags` gets is warnings about
 * rules, and the error where a limit is passed (-E2BIG). Release both.
 */
struct rf_nfa;
struct rf_dfa;
int rf_policy_automaton(const struct rf_policy *policy, const uint16_t *numbers, size_t without,
			struct rf_diags *diags, struct rf_nfa *ret_nfa, struct rf_dfa *ret_dfa);

/* rf_policy_compile() without one rule, or a group (struct rf_image_rule). */
int rf_policy_compile_without(const struct rf_policy *policy, size_t without, bool group,
			      struct rf_diags *diags, void **ret_image, size_t *ret_size);

#endif
