/* SPDX-License-Identifier: BSD-2-Clause */
/* What a compiled policy says to an act: the decision of bpf/verdict.h, on the host. */
#ifndef RF_POLICY_EXPLAIN_H
#define RF_POLICY_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/verdict.h"
#include "policy/image.h"

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

#endif
