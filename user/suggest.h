/* SPDX-License-Identifier: BSD-2-Clause */
/* From a denial to the line of a policy that would allow it. */
#ifndef RF_USER_SUGGEST_H
#define RF_USER_SUGGEST_H

#include <jansson.h>

/* What `${WORKSPACE}` and `~` stand for; bytes, borrowed; NULL: not to be used. */
struct rf_suggest_places {
	const char *workspace, *home;
};

/*
 * For the event of a denial (borrowed): {key: "files" or "network", line: an item for the end
 * of that list of the policy, in YAML}, with which the policy is valid and the act allowed.
 * NULL where no rule can allow it, or none can but others with it, or on no memory. Whether to add
 * it is another question.
 *
 * A file that could not be made in a folder for temporary files has another name each time: for
 * it the line is about all names there.
 */
json_t *rf_suggest(const json_t *event, const struct rf_suggest_places *places);

/*
 * The items for the list `key` that allow all of these denials, the values of an object: an array of
 * texts, one for each path, with all its rights. NULL on no memory.
 */
json_t *rf_suggest_lines(const json_t *denials, const char *key,
			 const struct rf_suggest_places *places);

#endif
