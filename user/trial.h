/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does the wall hold? Acts of which a policy denies one half and allows the other,
 * for each kind that is judged: done by a process outside of every session, where all
 * of them have to work, then by one inside. For `ringfence doctor`; needs root.
 */
#ifndef RF_USER_TRIAL_H
#define RF_USER_TRIAL_H

#include <stddef.h>

#include "policy/diag.h"

/* A pair of acts. */
struct rf_trial_pair {
	const char *name; /* "open", ... */
	const char *denied, *allowed; /* what they are, for people */
	const char *op; /* of the event of the denied one */
};
#define RF_TRIAL_PAIRS_MAX 32
extern const struct rf_trial_pair rf_trial_pairs[]; /* ends with a NULL name */

/* How the acts of a pair ended: 0 or an errno; -1: not done. */
struct rf_trial_result {
	int denied, allowed;
};

struct rf_trial;

/* Make the files, sockets and the terminal that the acts are on. -errno with a diagnostic. */
int rf_trial_new(struct rf_diags *diags, struct rf_trial **ret_trial);
void rf_trial_free(struct rf_trial *trial);
static inline void rf_trial_freep(struct rf_trial **trial)
{
	rf_trial_free(*trial);
}

/* The policy under which they are denied and allowed, malloc'ed; NULL on no memory. */
char *rf_trial_policy(const struct rf_trial *trial);
/* The value of a variable of that policy, NULL if it has none of that name. */
const char *rf_trial_variable(const struct rf_trial *trial, const char *name);
/* What the event of a pair's denied act tells as its object, as rf_event_object(); "" for anything. */
const char *rf_trial_object(const struct rf_trial *trial, size_t pair);

/*
 * Do all of them in a process of its own, outside of every session if `cgroup_procs` is
 * -1, else in the session whose cgroup.procs it is, to write. For the last pair the process is
 * moved to the cgroup whose cgroup.procs `outside` is the path of. -errno if that failed.
 */
int rf_trial_run(struct rf_trial *trial, int cgroup_procs, const char *outside,
		 struct rf_trial_result ret_results[RF_TRIAL_PAIRS_MAX]);

#endif
