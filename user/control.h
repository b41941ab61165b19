/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control protocol between ringfenced and its clients: one JSON object per
 * SOCK_SEQPACKET message over RF_CONTROL_SOCKET, descriptors by SCM_RIGHTS. A
 * request has "op", a reply "ok" (true, or false with "errno", "exit" and
 * "diags": [{severity, file, line, column, message, hint}]). Replies may have
 * "diags" too: notes and warnings. Bytes of paths and commands are escaped by
 * rf_escape(). The peer is known by SO_PEERCRED.
 *
 *   hello  {version}                                -> {version, pid, adopted}
 *   anchor {names: [{path, deny_only}]} + n fds     -> {}       n <= RF_CONTROL_FDS
 *          before start and reload; repeated for more; the daemon closes its copies
 *   start  {policy, policy_file, audit, log_all, limits, workspace, home, command: [..],
 *           user, uid, cwd, pid, events: bool} + 1 fd: memfd with the image
 *          limits: {memory?, tasks?, cpu?, at?}, see user/limits.h
 *          -> {session, id, cgroup, log} + 1 fd: cgroup.procs of the session, writable:
 *          whoever writes "0" to it is in the session. The connection is the
 *          session's: when it closes, the session ends as by `end`. With events
 *          true, each event of the session follows as {event: {...}}.
 *   reload {session, policy, policy_file, audit, log_all, limits} + 1 fd: memfd with the image
 *          -> {session, policy, mode, limits}; the names were sent by `anchor` before
 *   policy {session}      -> {session, policy, policy_file, mode} + 1 fd: memfd with the image
 *          that is in force
 *   images {session}      -> {} + 1 fd: memfd with the images of all policies that have
 *          been in force in the session, one after the other
 *   end    {keep: bool}   kill what is left in the session's cgroup, read all its
 *          events, remove it -> {session, denied, would_deny, lost, killed, limits_reached:
 *          {memory: {limit, killed}?, tasks: {limit, refused}?}}
 *          (after the last {event}); keep leaves the tasks confined
 *   list   {}             -> {sessions: [{session, id, policy, policy_file, mode, user, uid, pid,
 *                             command, cwd, workspace, home, cgroup, log, started, limits,
 *                             tasks, counters: {...}}]}
 *   events {session?, follow: bool, past: bool}  -> {} then {event} messages; with past
 *          what the logs hold first, without `session` those of ended sessions too;
 *          without follow, or when the session that was named ends, {done: true}. A
 *          client too slow for its events is told how many acts it missed: for each
 *          session an event with op "lost" and reason "slow-reader"
 *   status {}             -> {version, abi, pid, kernel, adopted, on_demand, sessions, pins,
 *                             limits: {memory: bool, tasks: bool, cpu: bool} (can be enforced),
 *                             programs: [{name, id, attach}]}
 */
#ifndef RF_USER_CONTROL_H
#define RF_USER_CONTROL_H

#include <jansson.h>
#include <stddef.h>

#include "policy/diag.h"

#define RF_RUN_DIR "/run/ringfence"
#define RF_CONTROL_SOCKET RF_RUN_DIR "/control.sock"
#define RF_LOG_DIR "/var/log/ringfence"
#define RF_CONTROL_VERSION 1
#define RF_CONTROL_FDS 200 /* descriptors in one message (the kernel's limit is 253) */
#define RF_CONTROL_INLINE (64u << 10) /* bytes; longer messages travel in a memfd */
#define RF_CONTROL_MAX (16u << 20) /* bytes of any message */

/*
 * Send a message (borrowed) with n descriptors (borrowed). 0 or -errno; -EAGAIN on
 * a non-blocking socket that is full; -EMSGSIZE beyond RF_CONTROL_MAX.
 */
int rf_control_send(int fd, const json_t *message, const int *fds, size_t n);

/*
 * Receive one message. *ret_message is owned by the caller (json_decref), as are
 * the *ret_n descriptors (O_CLOEXEC) put into fds[RF_CONTROL_FDS]; what the caller
 * did not expect it must close. -ECONNRESET at the end of the connection,
 * -EPROTO for what is not a JSON object or was cut.
 */
int rf_control_receive(int fd, json_t **ret_message, int fds[RF_CONTROL_FDS], size_t *ret_n);

/* Diagnostics as the array `diags` of a refusal; NULL on no memory. */
json_t *rf_control_diags(const struct rf_diags *diags);
/* The reverse: add what `array` holds (as untrusted input). */
void rf_control_take_diags(const json_t *array, struct rf_diags *diags);

#endif
