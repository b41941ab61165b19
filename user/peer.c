/* SPDX-License-Identifier: BSD-2-Clause */
/* A client's connection, see peer.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "user/cleanup.h"
#include "user/control.h"
#include "user/event.h"
#include "user/peer.h"

#define NEARLY_EMPTY (RF_PEER_QUEUE / 16)

struct entry {
	json_t *message;
	int fd;
};

struct rf_peer {
	int fd;
	sd_event_source *io;
	struct rf_peer_handler handler;
	/* A ring. Replies go in even when it is full for events: a few more than requests. */
	struct entry queue[2 * RF_PEER_QUEUE];
	size_t first, n;
	json_t *lost; /* session -> acts that the peer was not told of; NULL: none */
	bool want_room, finishing, broken;
};

static void update(struct rf_peer *peer)
{
	uint32_t events = 0;

	if (!peer->finishing && peer->n < RF_PEER_QUEUE)
		events |= EPOLLIN;
	if (peer->n || peer->want_room || peer->lost || peer->finishing || peer->broken)
		events |= EPOLLOUT;
	sd_event_source_set_io_events(peer->io, events);
}

static void pop(struct rf_peer *peer)
{
	struct entry *entry = &peer->queue[peer->first];

	json_decref(entry->message);
	rf_closep(&entry->fd);
	peer->first = (peer->first + 1) % (2 * RF_PEER_QUEUE);
	peer->n--;
}

static void push(struct rf_peer *peer, json_t *message, int fd)
{
	if (!message || peer->n == 2 * RF_PEER_QUEUE) {
		/* A reply that cannot be made leaves the peer waiting for ever: let it go. */
		peer->broken = true;
		json_decref(message);
		rf_closep(&fd);
	} else {
		peer->queue[(peer->first + peer->n) % (2 * RF_PEER_QUEUE)] =
			(struct entry){message, fd};
		peer->n++;
	}
	update(peer);
}

static int flush(struct rf_peer *peer)
{
	while (peer->n) {
		struct entry *entry = &peer->queue[peer->first];
		int err = rf_control_send(peer->fd, entry->message, &entry->fd, entry->fd >= 0);

		if (err == -EAGAIN || err == -ENOBUFS)
			return 0;
		if (err)
			return err;
		pop(peer);
	}
	return 0;
}

void rf_peer_tell_lost(struct rf_peer *peer)
{
	const char *session;
	json_t *count;
	void *next;

	/* Room is kept for replies; what is left over is told when there is more. */
	json_object_foreach_safe(peer->lost, next, session, count)
	{
		if (peer->n >= 2 * RF_PEER_QUEUE - NEARLY_EMPTY)
			return;
		push(peer,
		     json_pack("{s:{s:o, s:s, s:s, s:s, s:O}}", "event", "time", rf_event_time(0),
			       "session", session, "op", "lost", "reason", "slow-reader", "count",
			       count),
		     -1);
		json_object_del(peer->lost, session);
	}
	json_decref(peer->lost);
	peer->lost = NULL;
}

static int receive(struct rf_peer *peer)
{
	json_t *message = NULL;
	int fds[RF_CONTROL_FDS];
	size_t n = 0;
	int err = rf_control_receive(peer->fd, &message, fds, &n);

	if (err)
		return err == -EAGAIN ? 0 : err;
	peer->handler.request(peer->handler.userdata, message, fds, n);
	json_decref(message);
	for (size_t i = 0; i < n; i++)
		rf_closep(&fds[i]);
	return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct rf_peer *peer = userdata;
	int err = peer->broken ? -ENOMEM : 0;

	(void)source;
	(void)fd;
	if (!err && revents & EPOLLHUP)
		while (peer->n) /* nobody reads it, but what was sent before is still heard */
			pop(peer);
	if (!err && revents & EPOLLOUT)
		err = flush(peer);
	if (!err && revents & (EPOLLIN | EPOLLHUP) && !peer->finishing)
		err = receive(peer);
	if (!err && peer->finishing && (!peer->n || revents & EPOLLHUP))
		err = -ECONNRESET;
	if (!err) {
		if (peer->want_room && peer->n <= NEARLY_EMPTY && peer->handler.room)
			peer->handler.room(peer->handler.userdata);
		if (peer->n <= NEARLY_EMPTY) /* not one record for each event that finds no room */
			rf_peer_tell_lost(peer);
		update(peer);
		return 0;
	}
	peer->handler.closed(peer->handler.userdata);
	return 0;
}

int rf_peer_new(sd_event *event, int fd, const struct rf_peer_handler *handler,
		struct rf_peer **ret_peer)
{
	_cleanup_fd_ int own = fd;
	struct rf_peer *peer = calloc(1, sizeof(*peer));
	int flags = fcntl(fd, F_GETFL), err;

	if (!peer)
		return -ENOMEM;
	peer->handler = *handler;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		err = -errno;
	else
		err = sd_event_add_io(event, &peer->io, fd, EPOLLIN, on_io, peer);
	if (err < 0) {
		free(peer);
		return err;
	}
	peer->fd = rf_steal_fd(&own);
	*ret_peer = peer;
	return 0;
}

void rf_peer_free(struct rf_peer *peer)
{
	if (!peer)
		return;
	while (peer->n)
		pop(peer);
	json_decref(peer->lost);
	sd_event_source_disable_unref(peer->io);
	rf_closep(&peer->fd);
	free(peer);
}

void rf_peer_send(struct rf_peer *peer, json_t *message, int fd)
{
	push(peer, message, fd);
}

void rf_peer_send_event(struct rf_peer *peer, json_t *event)
{
	json_t *message = peer->n < RF_PEER_QUEUE ? json_pack("{s:O}", "event", event) : NULL;

	if (message)
		push(peer, message, -1);
	else
		rf_peer_lose(peer, event);
}

void rf_peer_lose(struct rf_peer *peer, const json_t *event)
{
	const char *session = json_string_value(json_object_get(event, "session"));
	json_int_t count = json_integer_value(json_object_get(event, "count"));

	if (!session) /* a line of a log that is none of ours */
		session = "?";
	if (!peer->lost)
		peer->lost = json_object();
	count += json_integer_value(json_object_get(peer->lost, session));
	if (json_object_set_new(peer->lost, session, json_integer(count)))
		peer->broken = true; /* no memory: it must not go on as if nothing were missing */
	update(peer);
}

void rf_peer_want_room(struct rf_peer *peer, bool wanted)
{
	peer->want_room = wanted;
	update(peer);
}

void rf_peer_finish(struct rf_peer *peer)
{
	peer->finishing = true;
	update(peer);
}
