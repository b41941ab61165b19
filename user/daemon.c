/* SPDX-License-Identifier: BSD-2-Clause */
/* ringfenced: its clients and their requests, see daemon.h. The sessions: session.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <syslog.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "policy/util.h"
#include "user/cgroup.h"
#include "user/cleanup.h"
#include "user/control.h"
#include "user/daemon.h"
#include "user/kernel.h"
#include "user/limits.h"
#include "user/past.h"
#include "user/peer.h"
#include "user/session.h"
#include "user/text.h"

#define CLIENTS_MAX 256
#define NAMES_MAX 131072 /* of one client */
#define NAMES_BYTES_MAX (32u << 20) /* all their paths together */
#define TEXT_MAX 4096 /* bytes of a text that a client sends about itself */
#define COMMAND_MAX 1024 /* bytes of a command that are kept */
#define PAST_AT_ONCE 64 /* events read from the logs for one client at a time */

enum { EXIT_INVALID_POLICY = 3, EXIT_CANNOT_ENFORCE = 4 };

struct client {
	struct daemon *daemon;
	struct client *next;
	struct rf_peer *peer;
	pid_t pid;
	/* What it has anchored, until it starts a session. */
	struct rf_session_name *names;
	size_t n_names, capacity, names_bytes;
	struct rf_live_session *session; /* that it owns */
	bool session_events; /* wants the events of its session */
	bool ending; /* waits for the reply to `end` */
	/* A subscription to events. */
	bool subscribed, follow;
	char *only; /* the session that it is about; NULL: all */
	struct rf_past *past; /* what it is sent first */
};

struct daemon {
	const struct rf_daemon_config *config;
	sd_event *event;
	int lock, start_lock; /* start_lock: held once we leave */
	int listen;
	char *own_socket; /* path to remove at the end; NULL: it is not ours */
	sd_event_source *accept, *idle;
	struct rf_kernel *kernel; /* NULL: see failure */
	struct rf_diags failure;
	int failure_error, failure_exit;
	char *cgroup_root;
	struct rf_sessions *sessions;
	struct client *clients;
	size_t n_clients;
};

__attribute__((format(printf, 3, 4))) static void say(const struct daemon *d, int priority,
						      const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		text = NULL;
	else
		d->config->log(d->config->userdata, priority, text);
}

static void say_diags(const struct daemon *d, const struct rf_diags *diags)
{
	static const int priority[] = {
		[RF_NOTE] = LOG_INFO, [RF_WARNING] = LOG_WARNING, [RF_ERROR] = LOG_ERR};

	for (size_t i = 0; i < diags->n; i++) {
		_cleanup_free_ char *text = rf_diag_text(&diags->items[i]);

		if (text)
			say(d, priority[diags->items[i].severity], "%s", text);
	}
}

/* ---- replies ----------------------------------------------------------- */

static json_t *refusal(int error, int exit, const struct rf_diags *diags)
{
	return json_pack("{s:b, s:i, s:i, s:o}", "ok", 0, "errno", -error, "exit", exit, "diags",
			 rf_control_diags(diags));
}

__attribute__((format(printf, 4, 5))) static void refuse(struct client *c, int error,
							 const char *hint, const char *format, ...)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	rf_diag(&diags, RF_ERROR, NULL, 0, 0, hint, "%s", text ? text : strerror(-error));
	rf_peer_send(c->peer, refusal(error, 1, &diags), -1);
}

/* `fields` (stolen) of a reply that says yes. */
static void reply(struct client *c, json_t *fields, int fd)
{
	if (fields)
		json_object_set_new(fields, "ok", json_true());
	rf_peer_send(c->peer, fields, fd);
}

/* The last word on events: what was lost is told before. */
static void done(struct client *c)
{
	rf_peer_tell_lost(c->peer);
	rf_peer_send(c->peer, json_pack("{s:b}", "done", 1), -1);
}

/* ---- fields of requests ------------------------------------------------ */

/* Is it as rf_escape() writes it, safe to be shown to others? */
static bool escaped(const char *text)
{
	_cleanup_free_ char *bytes = NULL;
	_cleanup_free_ char *again = NULL;
	size_t size;

	if (rf_unescape(text, &bytes, &size))
		return false;
	again = rf_escape(bytes, size);
	return again && !strcmp(again, text);
}

/*
 * A text of a request: 0 with *ret_text NULL if there is none, -EPROTO if it is no
 * escaped text or too long.
 */
static int text_field(const json_t *request, const char *key, const char **ret_text)
{
	const json_t *value = json_object_get(request, key);

	if (!value || json_is_null(value)) {
		*ret_text = NULL;
		return 0;
	}
	if (!json_is_string(value) || json_string_length(value) > TEXT_MAX ||
	    !escaped(json_string_value(value)))
		return -EPROTO;
	*ret_text = json_string_value(value);
	return 0;
}

static int bool_field(const json_t *request, const char *key, bool *ret_value)
{
	const json_t *value = json_object_get(request, key);

	if (value && !json_is_boolean(value))
		return -EPROTO;
	*ret_value = json_is_true(value);
	return 0;
}

/* The words of a command, as far as there is room for them. */
static int command_field(const json_t *request, json_t **ret_command)
{
	const json_t *words = json_object_get(request, "command");
	_cleanup_json_ json_t *command = json_array();
	const json_t *word;
	size_t i, bytes = 0;

	if (words && !json_is_array(words))
		return -EPROTO;
	if (!command)
		return -ENOMEM;
	json_array_foreach (words, i, word) {
		if (!json_is_string(word) || !escaped(json_string_value(word)))
			return -EPROTO;
		bytes += json_string_length(word) + 1;
		if (bytes > COMMAND_MAX) {
			json_array_append_new(command, json_string("..."));
			break;
		}
		json_array_append(command, (json_t *)word);
	}
	*ret_command = rf_steal(&command);
	return 0;
}

/* "/" or "/name/name": no empty name, no "." or "..", no slash at the end. */
static bool normalised(const char *path)
{
	if (!strcmp(path, "/"))
		return true;
	if (*path != '/')
		return false;
	while (*path) {
		size_t n = strcspn(++path, "/");

		if (!n || n > NAME_MAX || (n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += n;
	}
	return true;
}

/* ---- anchor ------------------------------------------------------------ */

static void forget_names(struct client *c)
{
	for (size_t i = 0; i < c->n_names; i++)
		free(c->names[i].path);
	free(c->names);
	c->names = NULL;
	c->n_names = c->capacity = c->names_bytes = 0;
}

/* One name of an anchor request; its object is found out later. */
static int take_name(struct client *c, const json_t *item)
{
	const char *escaped = json_string_value(json_object_get(item, "path"));
	_cleanup_free_ char *path = NULL;
	bool deny_only;
	size_t size;
	int err = escaped ? rf_unescape(escaped, &path, &size) : -EPROTO;

	if (!err)
		err = bool_field(item, "deny_only", &deny_only);
	if (err)
		return err == -EINVAL ? -EPROTO : err;
	if (size >= PATH_MAX || strlen(path) != size || !normalised(path))
		return -EPROTO;
	if (c->n_names == NAMES_MAX || c->names_bytes + size > NAMES_BYTES_MAX)
		return -E2BIG;
	if (rf_grow(&c->names, &c->capacity, c->n_names + 1, sizeof(*c->names)))
		return -ENOMEM;
	c->names_bytes += size;
	c->names[c->n_names++] =
		(struct rf_session_name){.path = rf_steal(&path), .deny_only = deny_only};
	return 0;
}

static void on_anchor(struct client *c, const json_t *request, int *fds, size_t n)
{
	const json_t *names = json_object_get(request, "names"), *item;
	struct rf_identity identities[RF_CONTROL_FDS];
	size_t first = c->n_names, i;
	int err = 0;

	if (c->session) {
		refuse(c, -EBUSY, NULL, "the session of this connection has been started");
		return;
	}
	if (!json_is_array(names) || json_array_size(names) != n || !n) {
		refuse(c, -EPROTO, NULL, "anchor: each name needs one descriptor");
		return;
	}
	json_array_foreach (names, i, item) {
		err = take_name(c, item);
		if (err)
			break;
	}
	if (!err)
		err = rf_kernel_identify(c->daemon->kernel, fds, n, identities);
	if (err) {
		while (c->n_names > first) {
			c->names_bytes -= strlen(c->names[--c->n_names].path);
			free(c->names[c->n_names].path);
		}
		if (err == -EPROTO)
			refuse(c, err, NULL, "anchor: name %zu is not a normalised path", i + 1);
		else if (err == -E2BIG)
			refuse(c, err, "name fewer paths in the policy", "more than %d names",
			       NAMES_MAX);
		else
			refuse(c, err, NULL, "cannot tell the objects' identities: %s",
			       strerror(-err));
		return;
	}
	for (i = 0; i < n; i++)
		c->names[first + i].identity = identities[i];
	reply(c, json_object(), -1);
}

/* ---- start and end ----------------------------------------------------- */

/*
 * The image in a client's descriptor. That it is memory is checked first: another
 * kind of file may block as long as its owner likes.
 */
static int read_image(int fd, void **ret_image, size_t *ret_size)
{
	_cleanup_free_ char *image = NULL;
	size_t size, at = 0;
	struct stat st;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st))
		return -EBADF;
	if (st.st_size < (off_t)sizeof(struct rf_image) || st.st_size > RF_IMAGE_MAX)
		return -EFBIG;
	size = (size_t)st.st_size;
	image = aligned_alloc(8, (size + 7) & ~(size_t)7);
	if (!image)
		return -ENOMEM;
	while (at < size) {
		ssize_t n = pread(fd, image + at, size - at, (off_t)at);

		if (n <= 0)
			return -EIO;
		at += (size_t)n;
	}
	*ret_image = rf_steal(&image);
	*ret_size = size;
	return 0;
}

/* What a request says of a policy. */
static int policy_request(const json_t *json, struct rf_session_request *ret_request)
{
	struct rf_session_request r = {0};
	int err;

	err = text_field(json, "policy", &r.policy)
	      ?: text_field(json, "policy_file", &r.policy_file)
	      ?: bool_field(json, "audit", &r.audit) ?: bool_field(json, "log_all", &r.log_all)
	      ?: rf_limits_take(json_object_get(json, "limits"), &r.limits);
	if (err)
		return err;
	if (!r.policy)
		return -EPROTO;
	*ret_request = r;
	return 0;
}

static int start_request(const json_t *json, struct rf_session_request *ret_request,
			 bool *ret_events)
{
	const json_t *uid = json_object_get(json, "uid");
	struct rf_session_request r;
	int err;

	err = policy_request(json, &r)
	      ?: text_field(json, "user", &r.user) ?: text_field(json, "cwd", &r.cwd)
	      ?: text_field(json, "workspace", &r.workspace) ?: text_field(json, "home", &r.home)
	      ?: bool_field(json, "events", ret_events);
	if (err)
		return err;
	if (!json_is_integer(uid) || json_integer_value(uid) < 0 ||
	    json_integer_value(uid) >= UINT32_MAX)
		return -EPROTO;
	r.uid = (uid_t)json_integer_value(uid);
	err = command_field(json, &r.command);
	if (err)
		return err;
	*ret_request = r;
	return 0;
}

static void on_start(struct client *c, const json_t *json, int *fds, size_t n)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_json_ json_t *command = NULL;
	_cleanup_free_ void *image = NULL;
	struct rf_session_request request;
	const struct rf_session_state *state;
	bool events;
	int err, procs, exit = 1;

	if (c->session) {
		refuse(c, -EBUSY, NULL, "this connection has a session already");
		return;
	}
	err = start_request(json, &request, &events);
	if (err) {
		refuse(c, err, NULL, "start: a field is missing or is not what it should be");
		return;
	}
	command = request.command;
	if (n != 1) {
		refuse(c, -EPROTO, NULL, "start: one descriptor is needed, the image's");
		return;
	}
	err = read_image(fds[0], &image, &request.image_size);
	if (err) {
		refuse(c, err, NULL, "start: cannot read the image: %s", strerror(-err));
		return;
	}
	request.image = image;
	request.pid = c->pid;
	request.names = c->names;
	request.n_names = c->n_names;
	err = rf_sessions_start(c->daemon->sessions, &request, c, &diags, &c->session, &exit);
	forget_names(c);
	if (err) {
		rf_peer_send(c->peer, refusal(err, exit, &diags), -1);
		return;
	}
	c->session_events = events;
	state = rf_session_state(c->session);
	procs = rf_session_procs(c->session);
	if (procs < 0) {
		struct rf_session_totals totals;

		refuse(c, procs, NULL, "cannot open the session's cgroup: %s", strerror(-procs));
		rf_session_end(c->session, false, &totals);
		return;
	}
	say(c->daemon, LOG_INFO, "%s: started for pid %d, uid %u", state->name, (int)c->pid,
	    (unsigned int)state->uid);
	reply(c,
	      json_pack("{s:s, s:I, s:s, s:s, s:o}", "session", state->name, "id",
			(json_int_t)state->kernel.id, "cgroup", state->cgroup, "log", state->log,
			"diags", rf_control_diags(&diags)),
	      procs);
}

static void on_reload(struct client *c, const json_t *json, int *fds, size_t n)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_free_ void *image = NULL;
	struct rf_session_request request;
	const struct rf_session_state *state;
	struct rf_live_session *session;
	const char *name;
	int err, exit = 1;

	err = policy_request(json, &request) ?: text_field(json, "session", &name);
	if (err || !name || n != 1) {
		refuse(c, -EPROTO, NULL,
		       "reload: a field is missing or is not what it should be, or the image is");
		return;
	}
	session = rf_sessions_find(c->daemon->sessions, name);
	if (!session) {
		refuse(c, -ENOENT, "ringfence ps lists them", "there is no session \"%s\"", name);
		return;
	}
	err = read_image(fds[0], &image, &request.image_size);
	if (err) {
		refuse(c, err, NULL, "reload: cannot read the image: %s", strerror(-err));
		return;
	}
	request.image = image;
	request.pid = c->pid;
	request.names = c->names;
	request.n_names = c->n_names;
	err = rf_session_reload(session, &request, &diags, &exit);
	forget_names(c);
	if (err) {
		rf_peer_send(c->peer, refusal(err, exit, &diags), -1);
		return;
	}
	state = rf_session_state(session);
	reply(c,
	      json_pack("{s:s, s:s, s:s, s:o, s:o}", "session", state->name, "policy",
			state->policy, "mode", request.audit ? "audit" : "enforce", "limits",
			rf_limits_json(&state->limits, false), "diags", rf_control_diags(&diags)),
	      -1);
}

/* Images in memory that nobody can change. */
static int image_memfd(const void *image, size_t size, int *ret_fd)
{
	_cleanup_fd_ int fd = memfd_create("ringfence-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t at = 0;

	if (fd < 0)
		return -errno;
	while (at < size) {
		ssize_t n = write(fd, (const char *)image + at, size - at);

		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		return -errno;
	*ret_fd = rf_steal_fd(&fd);
	return 0;
}

/* The session that the request is about; NULL: the request has been refused. */
static struct rf_live_session *session_of(struct client *c, const json_t *json, const char *op)
{
	struct rf_live_session *session;
	const char *name;

	if (text_field(json, "session", &name) || !name) {
		refuse(c, -EPROTO, NULL, "%s: of which session?", op);
		return NULL;
	}
	session = rf_sessions_find(c->daemon->sessions, name);
	if (!session)
		refuse(c, -ENOENT, "ringfence ps lists them", "there is no session \"%s\"", name);
	return session;
}

static void on_images(struct client *c, const json_t *json)
{
	struct rf_live_session *session = session_of(c, json, "images");
	_cleanup_free_ void *images = NULL;
	size_t size;
	int err, fd = -1;

	if (!session)
		return;
	err = rf_session_images(session, &images, &size) ?: image_memfd(images, size, &fd);
	if (err)
		refuse(c, err, NULL, "cannot read the images of the session's policies: %s",
		       strerror(-err));
	else
		reply(c, json_object(), fd);
}

static void on_policy(struct client *c, const json_t *json)
{
	struct rf_live_session *session = session_of(c, json, "policy");
	const struct rf_session_state *state;
	_cleanup_free_ void *image = NULL;
	int err, fd = -1;
	size_t size;

	if (!session)
		return;
	state = rf_session_state(session);
	err = rf_kernel_get_image(c->daemon->kernel, state->image, &image, &size)
		      ?: image_memfd(image, size, &fd);
	if (err) {
		refuse(c, err, NULL, "cannot read the image of the session's policy: %s",
		       strerror(-err));
		return;
	}
	reply(c,
	      json_pack("{s:s, s:s, s:s, s:s}", "session", state->name, "policy",
			state->policy ? state->policy : "", "policy_file",
			state->policy_file ? state->policy_file : "", "mode",
			state->kernel.word & RF_WORD_AUDIT ? "audit" : "enforce"),
	      fd);
}

static json_t *totals_json(const struct rf_live_session *session,
			   const struct rf_session_totals *totals)
{
	const struct rf_session_state *state = rf_session_state(session);
	json_t *reached = json_object();

	if (totals->hits.killed)
		json_object_set_new(reached, "memory",
				    json_pack("{s:I, s:I}", "limit",
					      (json_int_t)state->limits.memory, "killed",
					      (json_int_t)totals->hits.killed));
	if (totals->hits.refused)
		json_object_set_new(reached, "tasks",
				    json_pack("{s:I, s:I}", "limit",
					      (json_int_t)state->limits.tasks, "refused",
					      (json_int_t)totals->hits.refused));
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "session", state->name, "denied",
			 (json_int_t)totals->denied, "would_deny", (json_int_t)totals->would_deny,
			 "lost", (json_int_t)totals->lost, "unlogged", (json_int_t)totals->unlogged,
			 "killed", (json_int_t)totals->killed, "limits_reached", reached);
}

static void on_end_request(struct client *c, const json_t *request)
{
	struct rf_session_totals totals;
	bool keep;

	if (!c->session || c->ending) {
		refuse(c, -ENOENT, NULL, "this connection has no session");
		return;
	}
	if (bool_field(request, "keep", &keep)) {
		refuse(c, -EPROTO, NULL, "end: keep is true or false");
		return;
	}
	c->ending = true;
	if (rf_session_end(c->session, keep, &totals) == 1) {
		rf_peer_tell_lost(c->peer);
		reply(c, totals_json(c->session, &totals), -1);
		c->session = NULL;
		c->ending = false;
	}
}

static void check_idle(struct daemon *d);

static void on_session_end(void *userdata, struct rf_live_session *session, int error,
			   const struct rf_session_totals *totals)
{
	struct daemon *d = userdata;
	struct client *owner = rf_session_owner(session);
	const char *name = rf_session_state(session)->name;

	if (owner && owner->ending)
		rf_peer_tell_lost(owner->peer);
	if (owner && owner->ending && !error)
		reply(owner, totals_json(session, totals), -1);
	else if (owner && owner->ending)
		refuse(owner, error, "see ringfence ps",
		       "%s: cannot end it: %s; what is left stays confined", name,
		       strerror(-error));
	if (owner) {
		owner->session = NULL;
		owner->ending = false;
	}
	if (error)
		return;
	for (struct client *c = d->clients; c; c = c->next) {
		if (!c->subscribed || c->past || !c->only || strcmp(c->only, name) != 0)
			continue;
		done(c);
		c->subscribed = false;
	}
	check_idle(d);
}

/* ---- events ------------------------------------------------------------ */

static void on_session_event(void *userdata, struct rf_live_session *session, json_t *event,
			     bool logged)
{
	struct daemon *d = userdata;
	const char *name = rf_session_state(session)->name;

	for (struct client *c = d->clients; c; c = c->next) {
		bool own = c->session == session && c->session_events;

		if (!own && (!c->subscribed || (c->only && strcmp(c->only, name) != 0)))
			continue;
		/* What will still be read from the log is not sent twice. */
		if (!own && c->past && rf_past_pending(c->past, name)) {
			if (!logged)
				rf_peer_lose(c->peer, event);
			continue;
		}
		if (own || c->follow)
			rf_peer_send_event(c->peer, event);
	}
}

/* The logs have been read: go on with what comes, or be done. */
static void past_read(struct client *c)
{
	rf_past_free(c->past);
	c->past = NULL;
	rf_peer_want_room(c->peer, false);
	/* The session may have ended meanwhile. */
	if (c->follow && !(c->only && !rf_sessions_find(c->daemon->sessions, c->only)))
		return;
	c->subscribed = false;
	done(c);
}

static void on_room(void *userdata)
{
	struct client *c = userdata;

	for (int i = 0; c->past && i < PAST_AT_ONCE; i++) {
		json_t *event = rf_past_next(c->past);

		if (event)
			rf_peer_send_event(c->peer, event);
		else
			past_read(c);
		json_decref(event);
	}
}

static void on_events(struct client *c, const json_t *request)
{
	struct daemon *d = c->daemon;
	struct rf_past *logs = NULL;
	const char *session;
	bool follow, past;
	int err;

	if (c->subscribed) {
		refuse(c, -EALREADY, NULL, "this connection follows events already");
		return;
	}
	if (text_field(request, "session", &session) || bool_field(request, "follow", &follow) ||
	    bool_field(request, "past", &past)) {
		refuse(c, -EPROTO, NULL, "events: a field is not what it should be");
		return;
	}
	rf_sessions_consume(d->sessions);
	if (past || (session && !rf_sessions_find(d->sessions, session))) {
		err = rf_past_open(d->config->log_dir, session, &logs);
		if (err == -ENOENT && session)
			refuse(c, err, "ringfence ps lists them", "there is no session \"%s\"",
			       session);
		else if (err)
			refuse(c, err, NULL, "cannot read %s: %s", d->config->log_dir,
			       strerror(-err));
		if (err)
			return;
	}
	if (!past) { /* it was only asked whether there is such a session */
		rf_past_free(logs);
		logs = NULL;
	}
	free(c->only);
	c->only = session ? strdup(session) : NULL;
	if (session && !c->only) {
		rf_past_free(logs);
		refuse(c, -ENOMEM, NULL, "no memory");
		return;
	}
	c->subscribed = true;
	c->follow = follow;
	c->past = logs;
	reply(c, json_object(), -1);
	if (logs)
		rf_peer_want_room(c->peer, true);
	else
		past_read(c);
}

/* ---- hello, list, status ----------------------------------------------- */

static void on_hello(struct client *c, const json_t *request)
{
	const json_t *version = json_object_get(request, "version");

	if (!json_is_integer(version) || json_integer_value(version) != RF_CONTROL_VERSION) {
		refuse(c, -EPROTO, "use the ringfence of the same version",
		       "ringfenced speaks version %d of the control protocol", RF_CONTROL_VERSION);
		return;
	}
	reply(c,
	      json_pack("{s:i, s:i, s:b}", "version", RF_CONTROL_VERSION, "pid", (int)getpid(),
			"adopted", rf_kernel_adopted(c->daemon->kernel)),
	      -1);
}

static void on_list(struct client *c)
{
	rf_sessions_consume(c->daemon->sessions);
	reply(c, json_pack("{s:o}", "sessions", rf_sessions_list(c->daemon->sessions)), -1);
}

/* The program behind the pin of a link: {name, id, attach}, NULL if it is none. */
static json_t *program_json(const char *dir, const char *pin)
{
	struct bpf_link_info link = {0};
	struct bpf_prog_info program = {0};
	__u32 size = sizeof(link);
	_cleanup_free_ char *path = NULL;
	_cleanup_fd_ int link_fd = -1;
	_cleanup_fd_ int program_fd = -1;

	if (asprintf(&path, "%s/%s", dir, pin) < 0) {
		path = NULL;
		return NULL;
	}
	link_fd = bpf_obj_get(path);
	if (link_fd < 0 || bpf_obj_get_info_by_fd(link_fd, &link, &size))
		return NULL;
	program_fd = bpf_prog_get_fd_by_id(link.prog_id);
	size = sizeof(program);
	if (program_fd < 0 || bpf_obj_get_info_by_fd(program_fd, &program, &size))
		return NULL;
	return json_pack("{s:s, s:I, s:s}", "name", program.name, "id", (json_int_t)link.prog_id,
			 "attach", strchr(pin, '-') + 1);
}

static json_t *programs_json(const char *pin_dir)
{
	json_t *array = json_array();
	_cleanup_dir_ DIR *dir = opendir(pin_dir);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		json_t *program = strncmp(entry->d_name, "link-", 5) != 0
					  ? NULL
					  : program_json(pin_dir, entry->d_name);

		if (program)
			json_array_append_new(array, program);
	}
	return array;
}

static void on_status(struct client *c)
{
	struct daemon *d = c->daemon;
	const char *root = d->cgroup_root;
	struct utsname kernel;

	uname(&kernel);
	reply(c,
	      json_pack("{s:s, s:i, s:i, s:s, s:b, s:b, s:I, s:s, s:{s:b, s:b, s:b}, s:o}",
			"version", RF_VERSION, "abi", RF_ABI_VERSION, "pid", (int)getpid(),
			"kernel", kernel.release, "adopted", rf_kernel_adopted(d->kernel),
			"on_demand", d->config->on_demand, "sessions",
			(json_int_t)rf_sessions_count(d->sessions), "pins", d->config->pin_dir,
			"limits", "memory", rf_cgroup_has_controller(root, "memory"), "tasks",
			rf_cgroup_has_controller(root, "pids"), "cpu",
			rf_cgroup_has_controller(root, "cpu"), "programs",
			programs_json(d->config->pin_dir)),
	      -1);
}

/* ---- clients ----------------------------------------------------------- */

static void on_request(void *userdata, json_t *request, int *fds, size_t n)
{
	struct client *c = userdata;
	const char *op = json_string_value(json_object_get(request, "op"));

	if (!c->daemon->kernel)
		rf_peer_send(c->peer,
			     refusal(c->daemon->failure_error, c->daemon->failure_exit,
				     &c->daemon->failure),
			     -1);
	else if (!op)
		refuse(c, -EPROTO, NULL, "a request needs an \"op\"");
	else if (!strcmp(op, "anchor"))
		on_anchor(c, request, fds, n);
	else if (!strcmp(op, "start"))
		on_start(c, request, fds, n);
	else if (!strcmp(op, "reload"))
		on_reload(c, request, fds, n);
	else if (n)
		refuse(c, -EPROTO, NULL, "%s takes no descriptors", op);
	else if (!strcmp(op, "hello"))
		on_hello(c, request);
	else if (!strcmp(op, "end"))
		on_end_request(c, request);
	else if (!strcmp(op, "list"))
		on_list(c);
	else if (!strcmp(op, "events"))
		on_events(c, request);
	else if (!strcmp(op, "status"))
		on_status(c);
	else if (!strcmp(op, "policy"))
		on_policy(c, request);
	else if (!strcmp(op, "images"))
		on_images(c, request);
	else
		refuse(c, -EOPNOTSUPP, NULL, "ringfenced does not know the request \"%.64s\"", op);
}

static void client_free(struct client *c)
{
	rf_peer_free(c->peer);
	forget_names(c);
	free(c->only);
	rf_past_free(c->past);
	free(c);
}

static void unlink_client(struct client *c)
{
	struct daemon *d = c->daemon;

	for (struct client **at = &d->clients; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			d->n_clients--;
			break;
		}
}

/* Its session does not outlive a client that has gone without a word. */
static void on_closed(void *userdata)
{
	struct client *c = userdata;
	struct daemon *d = c->daemon;
	struct rf_session_totals totals;
	struct rf_live_session *session = c->session;
	bool ending = c->ending;

	unlink_client(c);
	c->session = NULL;
	c->ending = false;
	if (session)
		rf_session_disown(session);
	if (session && !ending)
		rf_session_end(session, false, &totals);
	client_free(c);
	check_idle(d);
}

/* A connection that is not served is told so, without waiting for its request. */
static void turn_away(int fd, int error, const char *hint, const char *message)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_json_ json_t *json = NULL;

	rf_diag(&diags, RF_ERROR, NULL, 0, 0, hint, "%s", message);
	json = refusal(error, 1, &diags);
	if (json)
		rf_control_send(fd, json, NULL, 0);
	close(fd);
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct daemon *d = userdata;
	struct rf_peer_handler handler = {
		.request = on_request, .room = on_room, .closed = on_closed};
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct client *c;
	int own = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), err;

	(void)source;
	(void)revents;
	if (own < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			say(d, LOG_ERR, "cannot accept a connection: %s", strerror(errno));
		return 0;
	}
	if (getsockopt(own, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != 0) {
		turn_away(own, -EPERM, "use sudo", "only root is served in this version");
		return 0;
	}
	if (d->n_clients >= CLIENTS_MAX) {
		turn_away(own, -EBUSY, "try again later", "ringfenced has too many clients");
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(own);
		return 0;
	}
	c->daemon = d;
	c->pid = peer.pid;
	handler.userdata = c;
	err = rf_peer_new(d->event, own, &handler, &c->peer);
	if (err) {
		say(d, LOG_ERR, "cannot serve a connection: %s", strerror(-err));
		free(c);
		return 0;
	}
	c->next = d->clients;
	d->clients = c;
	d->n_clients++;
	return 0;
}

/* ---- leaving ----------------------------------------------------------- */

static bool needed(const struct daemon *d)
{
	return d->clients || (d->sessions && rf_sessions_count(d->sessions));
}

/* A daemon on demand, or one that can only say why it cannot work, leaves by itself. */
static void check_idle(struct daemon *d)
{
	if (d->idle && !needed(d)) {
		sd_event_source_set_time_relative(d->idle, d->config->idle_usec);
		sd_event_source_set_enabled(d->idle, SD_EVENT_ONESHOT);
	}
}

/*
 * Whoever starts a daemon holds start.lock from the look at the socket until it has
 * been greeted, so that none connects to a daemon that is about to leave. It is
 * held by us until we are gone.
 */
static bool may_leave(struct daemon *d)
{
	struct pollfd poller = {.fd = d->listen, .events = POLLIN};

	if (d->start_lock >= 0 && flock(d->start_lock, LOCK_EX | LOCK_NB))
		return false;
	if (poll(&poller, 1, 0) <= 0)
		return true;
	if (d->start_lock >= 0)
		flock(d->start_lock, LOCK_UN);
	return false;
}

static int on_idle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct daemon *d = userdata;

	(void)source;
	(void)usec;
	if (needed(d))
		return 0;
	if (!may_leave(d)) {
		check_idle(d);
		return 0;
	}
	return sd_event_exit(d->event, 0);
}

/* ---- setting up -------------------------------------------------------- */

static int make_dir(struct daemon *d, const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST) {
		say(d, LOG_ERR, "cannot make %s: %s", path, strerror(errno));
		return -errno;
	}
	if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
		say(d, LOG_ERR, "%s is not a directory of ours", path);
		return -EPERM;
	}
	return 0;
}

static int open_lock(struct daemon *d, const char *name, int *ret_fd)
{
	_cleanup_free_ char *path = NULL;
	int fd;

	if (asprintf(&path, "%s/%s", d->config->run_dir, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		say(d, LOG_ERR, "cannot open %s: %s", path, strerror(errno));
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

/* One instance; its pid is in the file. */
static int take_lock(struct daemon *d)
{
	char pid[32] = "";
	bool held = true;
	ssize_t n;
	int err = open_lock(d, "lock", &d->lock);

	if (err)
		return err;
	/* A client that looks whether we run has it for a moment. */
	for (int i = 0; i < 5 && (held = flock(d->lock, LOCK_EX | LOCK_NB) != 0); i++)
		usleep(20000);
	if (held) {
		n = pread(d->lock, pid, sizeof(pid) - 1, 0);
		if (n > 0)
			pid[strcspn(pid, "\n")] = 0;
		say(d, LOG_ERR, "ringfenced is running already (pid %s)", n > 0 ? pid : "unknown");
		return -EBUSY;
	}
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(d->lock, 0) || pwrite(d->lock, pid, (size_t)n, 0) != n)
		say(d, LOG_WARNING, "cannot write our pid: %s", strerror(errno));
	return 0;
}

static int make_socket(struct daemon *d)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_fd_ int fd = -1;
	int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.sock",
			 d->config->run_dir);

	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Left by a daemon that was killed: we hold the lock, so nobody listens there. */
	if (unlink(address.sun_path) && errno != ENOENT)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    chmod(address.sun_path, 0600) || listen(fd, SOMAXCONN))
		return -errno;
	d->listen = rf_steal_fd(&fd);
	d->own_socket = strdup(address.sun_path);
	return d->own_socket ? 0 : -ENOMEM;
}

static int take_socket(struct daemon *d)
{
	int flags, err;

	if (d->config->listen_fd < 0) {
		err = make_socket(d);
		if (err)
			say(d, LOG_ERR, "cannot make the control socket: %s", strerror(-err));
		return err;
	}
	d->listen = d->config->listen_fd;
	flags = fcntl(d->listen, F_GETFL);
	if (flags < 0 || fcntl(d->listen, F_SETFL, flags | O_NONBLOCK) ||
	    fcntl(d->listen, F_SETFD, FD_CLOEXEC))
		return -errno;
	/* Whoever starts us on demand leaves the socket to us; systemd keeps its own. */
	if (d->config->on_demand &&
	    asprintf(&d->own_socket, "%s/control.sock", d->config->run_dir) < 0) {
		d->own_socket = NULL;
		return -ENOMEM;
	}
	return 0;
}

static void raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void on_log(void *userdata, int priority, const char *text)
{
	const struct daemon *d = userdata;

	d->config->log(d->config->userdata, priority, text);
}

/* The kernel side and the sessions; what is in the way is put into d->failure. */
static int load(struct daemon *d)
{
	struct rf_sessions_config config = {
		.event = d->event,
		.run_dir = d->config->run_dir,
		.log_dir = d->config->log_dir,
		.end_usec = d->config->end_usec,
		.on_event = on_session_event,
		.on_end = on_session_end,
		.log = on_log,
		.userdata = d,
	};
	int err = rf_cgroup_root(d->config->mountinfo, &d->failure, &d->cgroup_root);

	if (!err)
		err = rf_kernel_open(d->config->pin_dir, &d->failure, &d->kernel);
	if (err)
		return err;
	config.kernel = d->kernel;
	config.cgroup_root = d->cgroup_root;
	err = rf_sessions_new(&config, &d->sessions);
	if (!err)
		err = rf_sessions_take_over(d->sessions);
	if (!err)
		return 0;
	rf_diag(&d->failure, RF_ERROR, NULL, 0, 0, NULL, "cannot set up the sessions: %s",
		strerror(-err));
	rf_sessions_free(d->sessions);
	d->sessions = NULL;
	rf_kernel_close(d->kernel);
	d->kernel = NULL;
	return err;
}

static int set_up(struct daemon *d)
{
	int err;

	raise_limits();
	err = make_dir(d, d->config->run_dir) ?: make_dir(d, d->config->log_dir) ?: take_lock(d)
	      ?: open_lock(d, "start.lock", &d->start_lock) ?: take_socket(d);
	if (err)
		return err;
	if (sd_event_new(&d->event) < 0 ||
	    sd_event_add_signal(d->event, NULL, SIGTERM, NULL, NULL) < 0 ||
	    sd_event_add_signal(d->event, NULL, SIGINT, NULL, NULL) < 0 ||
	    sd_event_set_watchdog(d->event, true) < 0 ||
	    sd_event_add_io(d->event, &d->accept, d->listen, EPOLLIN, on_accept, d) < 0) {
		say(d, LOG_ERR, "cannot set up the event loop");
		return -ENOMEM;
	}
	err = load(d);
	if (err) {
		say_diags(d, &d->failure);
		d->failure_error = err;
		d->failure_exit = err == -EOPNOTSUPP ? EXIT_CANNOT_ENFORCE : EXIT_FAILURE;
		/* Where a client waits for us it is told, else that was all. */
		if (d->config->listen_fd < 0)
			return err;
	}
	if (d->config->on_demand || err) {
		/* The first client is about to come. */
		if (sd_event_add_time_relative(d->event, &d->idle, CLOCK_MONOTONIC,
					       10 * d->config->idle_usec, 0, on_idle, d) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void tear_down(struct daemon *d)
{
	struct client *c;

	while ((c = d->clients)) {
		d->clients = c->next;
		client_free(c);
	}
	if (d->kernel && rf_sessions_count(d->sessions)) {
		say(d, LOG_INFO, "leaving %zu sessions confined", rf_sessions_count(d->sessions));
		rf_sessions_free(d->sessions);
		rf_kernel_close(d->kernel);
	} else if (d->kernel) {
		int err;

		rf_sessions_free(d->sessions);
		err = rf_kernel_unload(d->kernel);
		if (err)
			say(d, LOG_ERR, "cannot unload the kernel side: %s", strerror(-err));
	}
	if (d->own_socket)
		unlink(d->own_socket);
	free(d->own_socket);
	free(d->cgroup_root);
	rf_diags_done(&d->failure);
	sd_event_source_disable_unref(d->accept);
	sd_event_source_disable_unref(d->idle);
	sd_event_unref(d->event);
	rf_closep(&d->listen);
	/* Last of all: from here on another may start. */
	rf_closep(&d->lock);
	rf_closep(&d->start_lock);
}

int rf_daemon_run(const struct rf_daemon_config *config)
{
	struct daemon d = {.config = config, .lock = -1, .start_lock = -1, .listen = -1};
	int err = set_up(&d), exit;

	if (!err) {
		if (config->notify)
			config->notify(config->userdata, "READY=1");
		err = sd_event_loop(d.event);
		if (err < 0)
			say(&d, LOG_ERR, "the event loop failed: %s", strerror(-err));
		if (config->notify)
			config->notify(config->userdata, "STOPPING=1");
	}
	exit = d.failure_exit ? d.failure_exit : err < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	tear_down(&d);
	return exit;
}
