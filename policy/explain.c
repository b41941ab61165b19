/* SPDX-License-Identifier: BSD-2-Clause */
/* What a compiled policy says to an act, see explain.h. */
#include "policy/explain.h"

#include <errno.h>
#include <string.h>

int rf_explain(const void *image, uint8_t want, const char *const *paths, size_t npaths,
	       struct rf_explanation *ret_explanation)
{
	struct rf_explanation e = {0};

	rf_verdict_begin(&e.verdict, want);
	for (size_t i = 0; i < npaths; i++) {
		uint32_t state = rf_image_state(image, paths[i], strlen(paths[i]));

		if (!state)
			return -EINVAL;
		rf_verdict_add(&e.verdict, image, RF_NO_MASK, state, 0, i);
	}
	rf_verdict_end(&e.verdict);
	e.has_rule = rf_image_rule(image, e.verdict.rule, &e.rule);
	*ret_explanation = e;
	return 0;
}
