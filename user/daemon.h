/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringfenced: one process that alone writes the kernel side, owns the sessions and
 * serves clients over the control socket. Single-threaded, never blocks on a client.
 */
#ifndef RF_USER_DAEMON_H
#define RF_USER_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

/* All borrowed during the run. */
struct rf_daemon_config {
	const char *run_dir, *log_dir, *pin_dir;
	const char *mountinfo; /* where to look for the cgroup hierarchy */
	bool on_demand; /* leave, unloading, when nobody needs it any more */
	int listen_fd; /* a listening SOCK_SEQPACKET socket; -1: make run_dir/control.sock */
	uint64_t end_usec; /* how long the end of a session may take */
	uint64_t idle_usec; /* how long an idle daemon on demand stays */
	void (*log)(void *userdata, int priority, const char *text); /* as in syslog(3) */
	void (*notify)(void *userdata, const char *state); /* as sd_notify(); may be NULL */
	void *userdata;
};

/*
 * Run until told to leave. The exit code: 0, 1 failure (also: another one runs), 4
 * this kernel cannot enforce. Where a socket was handed over, clients are told
 * why before it leaves with 1 or 4.
 *
 * SIGTERM and SIGINT must be blocked by the caller; they end it. Sessions then go
 * on confined, for the next daemon to take over; without sessions it unloads.
 */
int rf_daemon_run(const struct rf_daemon_config *config);

#endif
