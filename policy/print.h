/* SPDX-License-Identifier: BSD-2-Clause */
/* Each phase of the compiler, for people to read (`ringfence check --print`). */
#ifndef RF_POLICY_PRINT_H
#define RF_POLICY_PRINT_H

#include <stddef.h>
#include <stdio.h>

#include "policy/policy.h"

/* Write to `out`; its errors are the caller's to look for (ferror). 0 or -errno. */
int rf_print_rules(const struct rf_policy *policy, FILE *out);
int rf_print_patterns(const struct rf_policy *policy, FILE *out);
int rf_print_dfa(const struct rf_policy *policy, FILE *out);
int rf_print_net(const struct rf_policy *policy, FILE *out);
/* `image` has passed rf_image_verify(). */
int rf_print_image(const void *image, FILE *out);

#endif
