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

#endif
