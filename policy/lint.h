/* SPDX-License-Identifier: BSD-2-Clause */
/* Warnings about patterns that are wider, or narrower, than what they seem to say. */
#ifndef RF_POLICY_LINT_H
#define RF_POLICY_LINT_H

#include "policy/rules.h"

/*
 * Ask the verified image what the policy comes to where mistakes show; a warning in
 * `diags` for each of the policy's own rules that makes one. 0 or -ENOMEM.
 */
int rf_lint_patterns(const struct rf_policy *policy, const void *image, struct rf_diags *diags);

/*
 * The number of the rule that decides about a path which path rule `n` matches, for one of
 * its rights; the path goes into `path`. 0 if there is none, or no memory.
 */
uint16_t rf_lint_decider(const struct rf_policy *policy, const void *image, size_t n,
			 struct rf_text *path);

#endif
