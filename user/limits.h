/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A policy's `limits` as JSON: {memory: bytes, tasks, cpu: processors}, a member for
 * each limit that there is. In the control protocol, state files and lists of sessions.
 */
#ifndef RF_USER_LIMITS_H
#define RF_USER_LIMITS_H

#include <jansson.h>

#include "policy/policy.h"

/* The limits without their places, which may not live as long. */
struct rf_limits rf_limits_values(const struct rf_limits *limits);
/* With `places` also `at`: {memory: [file, line, column], ...}. NULL on no memory. */
json_t *rf_limits_json(const struct rf_limits *limits, bool places);
/*
 * The reverse, of untrusted input; NULL or null is no limit. The places' files belong to
 * `json`. -EPROTO: not such an object, or not within the bounds of the language.
 */
int rf_limits_take(const json_t *json, struct rf_limits *ret_limits);

#endif
