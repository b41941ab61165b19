/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection at the daemon's end: messages in, messages out through a bounded
 * queue. A peer that does not read loses events, which are counted and told, and
 * is not read from meanwhile; it never holds up the daemon.
 */
#ifndef RF_USER_PEER_H
#define RF_USER_PEER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#define RF_PEER_QUEUE 2048 /* messages */

struct rf_peer;

struct rf_peer_handler {
	/* A message; it and the descriptors are borrowed (descriptors that the handler keeps it sets to -1). */
	void (*request)(void *userdata, json_t *message, int *fds, size_t n);
	/* The queue is nearly empty: what is waiting elsewhere may be sent. May be NULL. */
	void (*room)(void *userdata);
	/* The connection has ended; the handler frees the peer. */
	void (*closed)(void *userdata);
	void *userdata;
};

/* Takes the socket over, which is made non-blocking (also on failure it is closed). */
int rf_peer_new(sd_event *event, int fd, const struct rf_peer_handler *handler,
		struct rf_peer **ret_peer);
void rf_peer_free(struct rf_peer *peer);

/* Queue a message (stolen) with a descriptor (stolen; -1: none). */
void rf_peer_send(struct rf_peer *peer, json_t *message, int fd);
/* Queue {"event": event} (borrowed), or count it as lost where the queue is full. */
void rf_peer_send_event(struct rf_peer *peer, json_t *event);
/* Count the acts of an event that the peer should have got but cannot. */
void rf_peer_lose(struct rf_peer *peer, const json_t *event);
/* Queue now what is otherwise told once there is room: how many acts of each session it has lost. */
void rf_peer_tell_lost(struct rf_peer *peer);
/* Call room() when the queue is nearly empty, until it is turned off. */
void rf_peer_want_room(struct rf_peer *peer, bool wanted);
/* Send what is queued, read no more, then close. */
void rf_peer_finish(struct rf_peer *peer);

#endif
