/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cgroups of sessions: ROOT/ringfence/SESSION in the cgroup v2 hierarchy, which
 * hosts with the v1 controllers have beside them. No controller is needed but for
 * limits: the cgroup is where the kernel finds the session of a task.
 */
#ifndef RF_USER_CGROUP_H
#define RF_USER_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/diag.h"
#include "policy/policy.h"

struct rf_session_cgroup {
	char *path; /* malloc'ed */
	uint64_t id; /* as the kernel knows it; not reused while the machine runs */
	int fd; /* the directory */
	int events; /* cgroup.events: POLLPRI when `populated` may have changed */
};
#define RF_SESSION_CGROUP_NONE ((struct rf_session_cgroup){.fd = -1, .events = -1})

/*
 * Find a writable cgroup v2 hierarchy in `mountinfo` (/proc/self/mountinfo) and make
 * the folder `ringfence` in it. *ret_root (malloc'ed) is its path. -EOPNOTSUPP with a
 * diagnostic where there is none.
 */
int rf_cgroup_root(const char *mountinfo, struct rf_diags *diags, char **ret_root);

/* Where the first cgroup v2 hierarchy is mounted, malloc'ed; NULL if there is none. Makes nothing. */
char *rf_cgroup_mount(const char *mountinfo);

/* Make ROOT/NAME. -EEXIST: the name is taken. */
int rf_cgroup_create(const char *root, const char *name, struct rf_diags *diags,
		     struct rf_session_cgroup *ret_cgroup);
/* Open one that an earlier daemon made. -ENOENT, or -ESTALE where it has another id. */
int rf_cgroup_open(const char *path, uint64_t id, struct rf_session_cgroup *ret_cgroup);
/* Forget the descriptors; the cgroup stays. */
void rf_cgroup_done(struct rf_session_cgroup *cgroup);

/* A descriptor of cgroup.procs for writing, or -errno. */
int rf_cgroup_procs(const struct rf_session_cgroup *cgroup);
/* Kill all tasks in it and below. 0 or -errno; they are gone when it is no longer populated. */
int rf_cgroup_kill(const struct rf_session_cgroup *cgroup);
/* 1 if there are live tasks in it or below, 0 if not; rearms `events`. */
int rf_cgroup_populated(const struct rf_session_cgroup *cgroup);
/* The number of processes in it and below. */
size_t rf_cgroup_count(const struct rf_session_cgroup *cgroup);
/* Remove it and what is below. -EBUSY: there are tasks. */
int rf_cgroup_remove(const struct rf_session_cgroup *cgroup);
/*
 * Limit what it and all below use together; a limit of 0 is lifted. A controller
 * that is needed is enabled from the top of the hierarchy down to ROOT, and stays so: others
 * may rely on it by then. Memory is limited without swap, or more of it could be used; at
 * the limit the kernel kills one process, as it would on a full machine, not all of them.
 * -EOPNOTSUPP, with a diagnostic at the limit's place: the hierarchy does not have the
 * controller, as where v1 holds it. On failure some may be set: the caller sets the
 * earlier ones again.
 */
int rf_cgroup_limit(const char *root, const struct rf_session_cgroup *cgroup,
		    const struct rf_limits *limits, struct rf_diags *diags);
/* How often its limits were reached, as far as the kernel counts it. */
struct rf_limit_hits {
	uint64_t killed; /* processes, for memory */
	uint64_t refused; /* tasks that could not be made */
};
struct rf_limit_hits rf_cgroup_hits(const struct rf_session_cgroup *cgroup);
/* Does the hierarchy of ROOT have this controller? */
bool rf_cgroup_has_controller(const char *root, const char *controller);
/* Remove those in ROOT that are empty: of sessions that nobody knows any more. */
void rf_cgroup_sweep(const char *root);

#endif
