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

/* What is said of some rights of an act, alike for each of them. */
struct rf_explained {
	struct rf_verdict verdict; /* of the first of them alone */
	uint32_t runner_up; /* the rule that would decide if verdict.rule were not there, 0 none */
	uint8_t rights;
};

/*
 * Each right of the act by itself, those of which the same is said together, in the
 * order of their first; of a connection it is one. The policy is compiled again without
 * each rule that decides; where it is not known (NULL) there are no runners-up. 0, or -errno.
 */
int rf_explain_rights(const struct rf_policy *policy, const void *image,
		      const struct rf_object *object, struct rf_explained ret_explained[RF_RIGHTS],
		      size_t *ret_n);

#endif
