/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Start one command inside a session and wait for it: the part of `ringfence
 * run` between the daemon's reply and the exit status.
 */
#ifndef RF_USER_RUN_H
#define RF_USER_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "policy/diag.h"

struct rf_run_identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* supplementary */
	int n_groups;
	bool change; /* not what the caller is already: become it */
	char *name, *home, *shell; /* NULL where the uid has no entry */
};

struct rf_run {
	char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
	int cgroup_procs; /* the session's cgroup.procs, writable */
	bool setid; /* do not set no_new_privs */
	const struct sigaction *sigpipe; /* the command's; NULL: as ours */
	/*
	 * Called when `watch_fd` (-1: none) can be read or has ended; false: do
	 * not watch it any longer.
	 */
	int watch_fd;
	bool (*readable)(void *userdata);
	void *userdata;
};

/*
 * Descriptors 0 to 2 that the caller closed are opened on /dev/null, so that no
 * other file gets their numbers. Call this first of all. 0 or -errno.
 */
int rf_run_stdio(void);

/*
 * Who the command runs as: `user` (a name or a number), or with NULL under sudo the
 * invoking user, else the caller. A number without an entry gets the group of the
 * same number and no others. Release with rf_run_identity_done(). -ENOENT: no such
 * user; -EPERM: another user, and the caller is not root.
 */
int rf_run_identity(const char *user, struct rf_diags *diags, struct rf_run_identity *ret_identity);
void rf_run_identity_done(struct rf_run_identity *identity);

/*
 * Fork; the child gives up descriptors above 2, becomes the user, sets
 * no_new_privs, enters the session's cgroup and only then executes the command, so
 * that its first instruction is confined. The parent passes on SIGTERM, SIGHUP,
 * SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT and SIGTSTP that were sent to it (not
 * those that the terminal sent to both), and stops when the child stops, if a shell
 * could continue it.
 *
 * *ret_status is an exit status as a shell's: the command's own, 128 + N for a
 * signal, 127 or 126 if it was not found or could not be executed (then with a
 * diagnostic). -errno, with a diagnostic, only if the command was not started.
 */
int rf_run(const struct rf_run *run, const struct rf_run_identity *identity, struct rf_diags *diags,
	   int *ret_status);

#endif
