/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ringfenced writes down of a session, so that a restarted daemon can take it
 * over: one JSON file each, replaced as a whole.
 */
#ifndef RF_USER_STATE_H
#define RF_USER_STATE_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/abi.h"
#include "policy/policy.h"
#include "user/kernel.h"

/* A name of an anchored object, for the paths of events. */
struct rf_anchor_name {
	struct rf_anchor_key key;
	uint32_t name; /* index in the anchor */
	char *path;
};

/* Texts are malloc'ed; those marked so are escaped by rf_escape(). */
struct rf_session_state {
	struct rf_kernel_session kernel;
	struct rf_image_ref image;
	struct rf_limits limits; /* that hold now; without places */
	char *name;
	char *policy; /* escaped: the policy's name */
	char *policy_file; /* escaped; NULL: not known */
	char *cgroup; /* path */
	char *log; /* path */
	char *started; /* RFC 3339 */
	char *user, *cwd; /* escaped; NULL: not known */
	char *workspace, *home; /* of the policy's variables; the same */
	json_t *command; /* array of escaped strings */
	uid_t uid; /* who the session runs as, by the client's word */
	pid_t pid; /* of the client */
	uint64_t pid_start; /* its start time in clock ticks since boot, 0: not known */
	uint64_t seq; /* number of the last event */
	uint64_t lost[RF_LOSSES]; /* events lost in the kernel that have been told */
	struct rf_anchor_name *anchors; /* sorted by rf_anchor_names_sort() */
	size_t n_anchors;
};

void rf_session_state_done(struct rf_session_state *state);

/* Write DIR/ID.json. 0 or -errno; a failure leaves the old file. */
int rf_session_state_save(int dir, const struct rf_session_state *state);
/*
 * A policy swap: write what will be to DIR/ID.next before, and let it take the place of
 * DIR/ID.json after. Where both are there, the word in the kernel tells which holds.
 */
int rf_session_state_save_next(int dir, const struct rf_session_state *state);
int rf_session_state_commit_next(int dir, uint64_t id);
int rf_session_state_load_next(int dir, uint64_t id, struct rf_session_state *ret_state);
int rf_session_state_remove_next(int dir, uint64_t id);
/* Read and check DIR/FILE. -EBADMSG: not a whole state file. */
int rf_session_state_load(int dir, const char *file, struct rf_session_state *ret_state);
/*
 * The images of the policies that have been in force before, in DIR/ID.images, one after
 * the other: a later policy asks what they gave. Add one (verified), unless it is there.
 */
int rf_session_images_add(int dir, uint64_t id, const void *image);
/* All of them as one; without any, NULL and 0. Owned by the caller. */
int rf_session_images_load(int dir, uint64_t id, void **ret_images, size_t *ret_size);
/* All files. */
int rf_session_state_remove(int dir, uint64_t id);

/* Sort, keeping the first of the paths that share key and name. */
void rf_anchor_names_sort(struct rf_anchor_name *names, size_t *n);
/* The path of a name, NULL if it is not known. */
const char *rf_anchor_names_find(const struct rf_anchor_name *names, size_t n,
				 const struct rf_anchor_key *key, uint32_t name);

/* The start time of a process (field 22 of /proc/PID/stat), 0 if it is gone. */
uint64_t rf_pid_start(pid_t pid);

#endif
