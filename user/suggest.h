/* SPDX-License-Identifier: BSD-2-Clause */
/* From a denial to the line of a policy that would allow it. */
#ifndef RF_USER_SUGGEST_H
#define RF_USER_SUGGEST_H

#include <jansson.h>

/*
 * For the event of a denial (borrowed): {key: "files" or "network", line: an item for the end
 * of that list of the policy, in YAML}, with which the policy is valid and the act allowed.
 * NULL where no rule can allow it, or on no memory. Whether to add it is another question.
 */
json_t *rf_suggest(const json_t *event);

#endif
