/* SPDX-License-Identifier: BSD-2-Clause */
/* What a compiled policy says to an act: the decision of bpf/verdict.h, on the host. */
#ifndef RF_POLICY_EXPLAIN_H
#define RF_POLICY_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/verdict.h"
#include "policy/image.h"
#include "policy/object.h"
#include "policy/policy.h"

struct rf_explanation {
	struct rf_verdict verdict; /* missing == 0: allowed */
	bool has_rule;
	struct rf_image_rule rule; /* the rule that decided */
};

/*
 * Judge the rights `want` on the object whose names are `paths` (one or more;
 * as rf_image_state() takes them). `image` has passed rf_image_verify(), and
 * must live as long as *ret_explanation. 0, or -EINVAL if a path is no path.
 */
int rf_explain(const void *image, uint8_t want, const char *const *paths, size_t npaths,
	       struct rf_explanation *ret_explanation);

/* Judge a connection. The verdict's `want` is RF_NET_CONNECT of abi.h. */
int rf_explain_net(const void *image, const struct rf_target *target,
		   struct rf_explanation *ret_explanation);

/* Either of these for an object as people write it. */
int rf_explain_object(const void *image, const struct rf_object *object,
		      struct rf_explanation *ret_explanation);

/*
 * The rule that would have decided instead, had `explanation`'s rule not been
 * there: its number, 0 for the default. The policy is compiled again without the
 * rule. 0, or -errno.
 */
int rf_explain_runner_up(const struct rf_policy *policy, const struct rf_object *object,
			 const struct rf_explanation *explanation, uint32_t *ret_rule);

#endif
