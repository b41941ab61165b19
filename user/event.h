/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events for people and programs: from the kernel's record to one JSON object
 * (fields of the README's table) and from that to one line of text.
 */
#ifndef RF_USER_EVENT_H
#define RF_USER_EVENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

/* What an event is told with; all borrowed. */
struct rf_event_context {
	const char *session, *policy, *mode; /* names as shown */
	const void *image; /* for the rule's place and text; verified; may be NULL */
	/* The name number `name` of an anchored object, or NULL: then the path is shown without it. */
	const char *(*anchor)(void *userdata, const struct rf_anchor_key *key, uint32_t name);
	void *userdata;
	uint64_t seq; /* per session, from 1 */
};

/*
 * A new object; NULL on no memory. Beyond the README's fields: `partial` true where
 * the path's beginning is not known, `truncated` where it was cut.
 */
json_t *rf_event_json(const struct rf_event *event, const struct rf_event_context *context);

/* A time of CLOCK_BOOTTIME in ns (0: now) as RFC 3339 in UTC with ns; NULL on no memory. */
json_t *rf_event_time(uint64_t boottime);

/*
 * What the act was on, as shown to people: the path, with dots for what is not known of
 * it, "10.0.0.1:443/tcp", "packet"; "" for nothing. malloc'ed; NULL on no memory.
 */
char *rf_event_object(const json_t *event);

/* One line without the newline, malloc'ed; NULL on no memory. ANSI colours only with `colour`. */
char *rf_event_text(const json_t *event, bool colour);

/* Names as in JSON: "open", "deny", "default"...; never NULL. */
const char *rf_op_name(unsigned int op);
const char *rf_decision_name(unsigned int decision);
const char *rf_reason_name(unsigned int reason);
const char *rf_loss_name(unsigned int loss);
/* "read", "read+modify", ...: into buf of at least 48 bytes, returned. */
char *rf_rights_text(unsigned int rights, char *buf, size_t size);

#endif
