/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's end of the control protocol (user/control.h) for the commands.
 */
#ifndef RF_USER_CLIENT_H
#define RF_USER_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "policy/diag.h"
#include "user/names.h"

struct rf_client;

/*
 * Connect to ringfenced. With `start`, and none running, root starts one on
 * demand (which leaves when its last session has ended): RINGFENCED in the
 * environment, else `ringfenced` beside the running binary or in ../sbin, else
 * RF_DAEMON_PATH.
 * The listening socket is made here and handed over, so that there is nothing
 * to wait for. Says hello. Errors: diagnostics with the fix. -ENOENT or -ECONNREFUSED:
 * none is running and `start` is false.
 */
int rf_client_connect(bool start, struct rf_diags *diags, struct rf_client **ret_client);
/* The same with other folders than RF_RUN_DIR and RF_LOG_DIR. */
int rf_client_connect_at(const char *run_dir, const char *log_dir, bool start,
			 struct rf_diags *diags, struct rf_client **ret_client);
void rf_client_close(struct rf_client *client);
int rf_client_fd(const struct rf_client *client);

/*
 * One request and its reply ("ok" checked: a refusal becomes diagnostics and
 * -errno; *ret_exit, if given, is the exit code that the refusal asks for). `request` is
 * consumed. *ret_fd, if given, is the descriptor in the reply or -1. Events that arrive
 * meanwhile are handed to the callback of rf_client_on_event().
 */
int rf_client_call(struct rf_client *client, json_t *request, const int *fds, size_t n,
		   struct rf_diags *diags, json_t **ret_reply, int *ret_fd, int *ret_exit);
void rf_client_on_event(struct rf_client *client, void (*event)(void *userdata, json_t *event),
			void *userdata);
/*
 * Read one message: 1 event handed on, 0 end of the stream (done), -errno (-ECONNRESET:
 * the daemon is gone). Blocks unless polled first.
 */
int rf_client_dispatch(struct rf_client *client);

/* Send all names in messages of RF_CONTROL_FDS. */
int rf_client_anchor(struct rf_client *client, const struct rf_names *names,
		     struct rf_diags *diags);

#endif
