/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that a session starts with: every literal path of its policy and
 * the parents of it, and the root of every mount that the caller sees, each
 * opened with the caller's credentials (O_PATH). What lies in an overlay has them in its
 * layers, where the objects are. The daemon has the kernel identify the objects behind
 * the descriptors and anchors them.
 */
#ifndef RF_USER_NAMES_H
#define RF_USER_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "policy/diag.h"
#include "policy/policy.h"

struct rf_name {
	char *path; /* a name of the object, normalised; "/" for the root */
	int fd; /* O_PATH; several names may share an object, each has a descriptor */
	bool deny_only; /* may take away but not give (RF_NAME_DENY_ONLY) */
};

struct rf_names {
	struct rf_name *items;
	size_t n;
	size_t absent; /* paths of the policy that do not exist */
};

/*
 * Who may have planted links that this policy's paths lead by, besides a session under the
 * policy itself: the one that is about to get it. All borrowed.
 */
struct rf_planter {
	uid_t uid; /* whose session it is */
	const void *const *images; /* verified: of the policies that were in force in it before */
	size_t n;
};

/*
 * `image` is the policy's (for the question which links it lets a session put in place).
 * A note says how many of the policy's paths do not exist (yet), others which cannot be looked
 * at, warnings which links are not followed for an allow, and which of the user's have what
 * is not his denied. Release with rf_names_done().
 */
int rf_names_collect(const struct rf_policy *policy, const void *image,
		     const struct rf_planter *planter, struct rf_diags *diags,
		     struct rf_names *ret_names);
void rf_names_done(struct rf_names *names);

#endif
