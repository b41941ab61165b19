/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the logs hold, read piece by piece. The end of a log is found when it is
 * reached: what was appended in between has been read.
 */
#ifndef RF_USER_PAST_H
#define RF_USER_PAST_H

#include <jansson.h>
#include <stdbool.h>

struct rf_past;

/* The log of one session, or with NULL all, the one written last coming last. -ENOENT. */
int rf_past_open(const char *log_dir, const char *session, struct rf_past **ret_past);
void rf_past_free(struct rf_past *past);
/* The next event (new; lines that are no events are left out); NULL: all logs have been read. */
json_t *rf_past_next(struct rf_past *past);
/* Is the end of this session's log still ahead? */
bool rf_past_pending(const struct rf_past *past, const char *session);

#endif
