/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sessions of ringfenced: start, events, end, and taking over what an earlier
 * daemon left. Knows nothing of clients; it runs on an event loop and never waits.
 *
 * A session is owned by whoever started it until it is ended, kept or disowned. An
 * owned session may be empty; one without an owner ends when its cgroup is empty.
 */
#ifndef RF_USER_SESSION_H
#define RF_USER_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "user/cgroup.h"
#include "user/kernel.h"
#include "user/state.h"

struct rf_sessions; /* all of them */
struct rf_live_session;

struct rf_session_totals {
	uint64_t denied, would_deny;
	uint64_t lost; /* in the kernel's ring */
	uint64_t unlogged; /* that the log had no room for */
	size_t killed; /* processes that were left at the end */
	struct rf_limit_hits hits; /* of the limits in force at the end */
};

/* All borrowed, for as long as the sessions live. */
struct rf_sessions_config {
	struct rf_kernel *kernel;
	sd_event *event;
	const char *run_dir, *log_dir;
	const char *cgroup_root; /* of rf_cgroup_root() */
	uint64_t end_usec; /* how long an end may take before it is reported as failed */
	/* An event of a session; `logged` false: it is not in the session's log. */
	void (*on_event)(void *userdata, struct rf_live_session *session, json_t *event,
			 bool logged);
	/*
	 * With error 0 the session has ended and is freed after the call. Else the end
	 * that was asked for could not be completed in time (-ETIMEDOUT): the session goes
	 * on without an owner.
	 */
	void (*on_end)(void *userdata, struct rf_live_session *session, int error,
		       const struct rf_session_totals *totals);
	/* A line for the daemon's log; priority as in syslog(3). */
	void (*log)(void *userdata, int priority, const char *text);
	void *userdata;
};

int rf_sessions_new(const struct rf_sessions_config *config, struct rf_sessions **ret_sessions);
/* Write the states and forget the sessions; in the kernel they go on. NULL is fine. */
void rf_sessions_free(struct rf_sessions *sessions);

/*
 * Take over the sessions whose states lie in run_dir. If the kernel side was not
 * adopted but loaded anew, their wall is gone: what runs in their cgroups is killed.
 */
int rf_sessions_take_over(struct rf_sessions *sessions);

/* A name of an object that the client sent, with the object's identity. */
struct rf_session_name {
	char *path; /* normalised bytes */
	bool deny_only;
	struct rf_identity identity;
};

/* All borrowed. Texts are escaped. */
struct rf_session_request {
	const char *policy, *policy_file, *user, *cwd; /* NULL: not known, but for policy */
	json_t *command; /* array of strings */
	uid_t uid;
	pid_t pid;
	bool audit, log_all;
	struct rf_limits limits;
	const char *workspace, *home; /* of the policy's variables; NULL: not known */
	const void *image;
	size_t image_size;
	const struct rf_session_name *names;
	size_t n_names;
};

/*
 * Start a session, owned by `owner` (not NULL). On failure all is undone, `diags`
 * says why, and *ret_exit is the exit code for it.
 */
int rf_sessions_start(struct rf_sessions *sessions, const struct rf_session_request *request,
		      void *owner, struct rf_diags *diags, struct rf_live_session **ret_session,
		      int *ret_exit);

/*
 * Switch the session to another policy, for its very next check. Of the request count
 * the policy, its flags and limits, the image, the names, and who asks (pid). A failure leaves the old
 * one in force, with its limits; `diags` and *ret_exit as above. The call waits for
 * checks that are under way.
 */
int rf_session_reload(struct rf_live_session *session, const struct rf_session_request *request,
		      struct rf_diags *diags, int *ret_exit);

/*
 * The images of all policies that have been in force, that of today first, one after the
 * other. Owned by the caller.
 */
int rf_session_images(const struct rf_live_session *session, void **ret_images, size_t *ret_size);

/*
 * End a session: kill what is left, wait, read all its events, remove it, then call
 * on_end (perhaps before this returns). With `keep` tasks are left running and
 * on_end is called at once only if there are none: returns 1 if the session goes on
 * without an owner, with *ret_totals as of now.
 */
int rf_session_end(struct rf_live_session *session, bool keep,
		   struct rf_session_totals *ret_totals);

/* Its owner is gone: nobody is to be told of its end. */
void rf_session_disown(struct rf_live_session *session);

struct rf_live_session *rf_sessions_find(struct rf_sessions *sessions, const char *name);
/* Those that the kernel enforces, also those whose state could not be read. */
size_t rf_sessions_count(const struct rf_sessions *sessions);
/* As in the reply to `list`; a new array. */
json_t *rf_sessions_list(struct rf_sessions *sessions);
/* Read events, at most as many as rf_kernel_consume() does at once; their number or -errno. */
int rf_sessions_consume(struct rf_sessions *sessions);

const struct rf_session_state *rf_session_state(const struct rf_live_session *session);
void *rf_session_owner(const struct rf_live_session *session);
/* A new descriptor of the session's cgroup.procs, or -errno. */
int rf_session_procs(const struct rf_live_session *session);

/* May it be the name of a session (and so of a cgroup and a log)? */
bool rf_session_name_valid(const char *name);

#endif
