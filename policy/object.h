/* SPDX-License-Identifier: BSD-2-Clause */
/* An act as people write it, for `explain` and `tests`: an operation and its object. */
#ifndef RF_POLICY_OBJECT_H
#define RF_POLICY_OBJECT_H

#include "policy/address.h"
#include "policy/pattern.h"

struct rf_object {
	uint8_t rights; /* on a path; 0: `connect` */
	char *path; /* normalised, as rf_image_state() takes it */
	struct rf_target target; /* one address, port and protocol */
};

/*
 * `op` is a right ("read", "write", "all", ...) or several ("read+modify", "read,modify") and `object` an absolute path, or
 * "connect" and an address with a port: "10.0.0.1:443", "[::1]:53/udp" (TCP if it
 * is not said). 0 with *ret_object, its path in `arena`; -EINVAL with *error, whose
 * `at` counts in `object` (`op` is at fault: RF_OBJECT_OP); -ENOMEM.
 */
#define RF_OBJECT_OP SIZE_MAX
int rf_object_parse(const char *op, const char *object, struct rf_arena *arena,
		    struct rf_object *ret_object, struct rf_pattern_error *error);

#endif
