/* SPDX-License-Identifier: BSD-2-Clause */
/* The sessions of ringfenced, see session.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "policy/image.h"
#include "policy/util.h"
#include "user/cgroup.h"
#include "user/cleanup.h"
#include "user/event.h"
#include "user/limits.h"
#include "user/session.h"
#include "user/text.h"

#define SECOND UINT64_C(1000000)
#define NAME_MAX_POLICY 64 /* bytes of the policy's name in a session's */
#define LOG_TAIL 65536 /* bytes at the end of a log in which its last line begins */

/* An event that has been told, while equal ones may be counted in the session's meter. */
struct told {
	uint64_t tag;
	json_t *event; /* NULL: a tag of which no event is known */
	bool fresh; /* it came since the last tick: its cell may not be there yet */
	bool idle; /* nothing was counted at the last tick */
};

/*
 * A policy instance that is not in force: the next one until it is switched to, or an
 * earlier one until the last of its events has been read.
 */
struct instance {
	struct instance *next;
	struct rf_session_state state; /* what belongs to the instance; the rest is 0 */
	void *image;
	bool in_kernel; /* its image and anchors */
	bool complete; /* all its events are in the rings, and can be read */
};

struct rf_live_session {
	struct rf_sessions *all;
	struct rf_session_state state;
	struct instance *earlier;
	struct rf_session_cgroup cgroup;
	void *image; /* for the rules in events; NULL: not there */
	int log;
	int mnt_ns; /* held, so that its number is not another's */
	uint64_t unlogged; /* events that the log had no room for, */
	uint64_t untold; /* and those of them that it does not tell yet */
	uint64_t forgotten; /* acts equal to an event that is not known */
	struct told *told;
	size_t n_told, told_capacity;
	void *owner;
	sd_event_source *watch; /* on cgroup.events */
	sd_event_source *again; /* while it is ending */
	uint64_t deadline; /* of the end, 0: none */
	bool ending;
	size_t killed;
	struct rf_limit_hits hits; /* as of the last attempt to end it */
	/* What has been made and is to be undone. */
	bool has_image, has_anchors, in_kernel, has_log, has_state;
};

/* A state file that could not be read: its session is enforced, but not ours to end. */
struct broken {
	uint64_t id;
	char *file;
};

struct rf_sessions {
	struct rf_sessions_config config;
	struct rf_live_session **items; /* sorted by id */
	size_t n, capacity;
	struct broken *broken;
	size_t n_broken, broken_capacity;
	int dir, log_dir; /* state files; logs */
	sd_event_source *ring, *tick;
	uint64_t strangers; /* events of sessions that are not known */
};

static int on_watch(sd_event_source *source, int fd, uint32_t revents, void *userdata);
static int on_again(sd_event_source *source, uint64_t usec, void *userdata);

__attribute__((format(printf, 3, 4))) static void say(struct rf_sessions *all, int priority,
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
	else if (all->config.log)
		all->config.log(all->config.userdata, priority, text);
}

/* ---- the table --------------------------------------------------------- */

/* The position of the first session whose id is not below. */
static size_t position(const struct rf_sessions *all, uint64_t id)
{
	size_t low = 0, high = all->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (all->items[middle]->state.kernel.id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct rf_live_session *find_id(const struct rf_sessions *all, uint64_t id)
{
	size_t at = position(all, id);

	return at < all->n && all->items[at]->state.kernel.id == id ? all->items[at] : NULL;
}

struct rf_live_session *rf_sessions_find(struct rf_sessions *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (!strcmp(all->items[i]->state.name, name))
			return all->items[i];
	return NULL;
}

size_t rf_sessions_count(const struct rf_sessions *all)
{
	return all->n + all->n_broken;
}

/* The tick runs while there are sessions whose losses may have to be told. */
static void set_tick(struct rf_sessions *all)
{
	sd_event_source_set_enabled(all->tick, all->n ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int insert(struct rf_live_session *s)
{
	struct rf_sessions *all = s->all;
	size_t at = position(all, s->state.kernel.id);
	int err =
		rf_grow(&all->items, &all->capacity, all->n + 1, sizeof(struct rf_live_session *));

	if (err)
		return err;
	memmove(all->items + at + 1, all->items + at,
		(all->n - at) * sizeof(struct rf_live_session *));
	all->items[at] = s;
	all->n++;
	set_tick(all);
	return 0;
}

static void drop(struct rf_live_session *s)
{
	struct rf_sessions *all = s->all;
	size_t at = position(all, s->state.kernel.id);

	if (at == all->n || all->items[at] != s)
		return;
	all->n--;
	memmove(all->items + at, all->items + at + 1,
		(all->n - at) * sizeof(struct rf_live_session *));
	set_tick(all);
}

/* ---- policy instances -------------------------------------------------- */

static void instance_free(struct instance *i)
{
	rf_session_state_done(&i->state);
	free(i->image);
	free(i);
}

static void drop_anchors(struct rf_live_session *s, uint64_t word)
{
	int err = rf_kernel_drop_anchors(s->all->config.kernel, RF_WORD_POLICY(word));

	if (err)
		say(s->all, LOG_ERR, "%s: cannot remove its anchors: %s", s->state.name,
		    strerror(-err));
}

static void drop_from_kernel(struct rf_live_session *s, struct instance *i)
{
	if (!i->in_kernel)
		return;
	drop_anchors(s, i->state.kernel.word);
	rf_kernel_drop_image(s->all->config.kernel, i->state.image);
	i->in_kernel = false;
}

static void drop_earlier(struct rf_live_session *s)
{
	struct instance *i;

	while ((i = s->earlier)) {
		s->earlier = i->next;
		instance_free(i);
	}
}

#define SWAP(a, b)                                                                                 \
	do {                                                                                       \
		__typeof__(a) swap = (a);                                                          \
		(a) = (b);                                                                         \
		(b) = swap;                                                                        \
	} while (0)

/* Let the instance take the place of the one in force, and the other way round. */
static void exchange(struct rf_live_session *s, struct instance *i)
{
	SWAP(s->image, i->image);
	SWAP(s->state.kernel.word, i->state.kernel.word);
	SWAP(s->state.image, i->state.image);
	SWAP(s->state.limits, i->state.limits);
	SWAP(s->state.policy, i->state.policy);
	SWAP(s->state.policy_file, i->state.policy_file);
	SWAP(s->state.anchors, i->state.anchors);
	SWAP(s->state.n_anchors, i->state.n_anchors);
}

/* ---- one session: release, undo ---------------------------------------- */

/* Forget a session; what it has in the kernel and on disk stays. */
static void session_free(struct rf_live_session *s)
{
	sd_event_source_disable_unref(s->watch);
	sd_event_source_disable_unref(s->again);
	rf_cgroup_done(&s->cgroup);
	rf_closep(&s->log);
	rf_closep(&s->mnt_ns);
	drop_earlier(s);
	free(s->image);
	for (size_t i = 0; i < s->n_told; i++)
		json_decref(s->told[i].event);
	free(s->told);
	rf_session_state_done(&s->state);
	free(s);
}

/*
 * Undo what was made, in the reverse order of its making. The cgroup is removed by
 * the caller, who has to know that it is empty.
 */
static void undo(struct rf_live_session *s)
{
	struct rf_sessions *all = s->all;
	struct rf_kernel *kernel = all->config.kernel;
	int err;

	if (s->in_kernel) {
		err = rf_kernel_end_session(kernel, &s->state.kernel);
		if (err)
			say(all, LOG_ERR, "%s: cannot end it in the kernel: %s", s->state.name,
			    strerror(-err));
	}
	for (struct instance *i = s->earlier; i; i = i->next)
		drop_from_kernel(s, i);
	if (s->has_anchors)
		drop_anchors(s, s->state.kernel.word);
	if (s->has_image)
		rf_kernel_drop_image(kernel, s->state.image);
	if (s->has_state)
		rf_session_state_remove(all->dir, s->state.kernel.id);
	s->in_kernel = s->has_anchors = s->has_image = s->has_state = false;
}

static struct rf_live_session *session_new(struct rf_sessions *all)
{
	struct rf_live_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->all = all;
	s->cgroup = RF_SESSION_CGROUP_NONE;
	s->log = s->mnt_ns = -1;
	return s;
}

static void save(struct rf_live_session *s)
{
	int err = rf_session_state_save(s->all->dir, &s->state);

	if (err)
		say(s->all, LOG_ERR, "%s: cannot write its state: %s", s->state.name,
		    strerror(-err));
}

static int watch(struct rf_live_session *s)
{
	return sd_event_add_io(s->all->config.event, &s->watch, s->cgroup.events, EPOLLPRI,
			       on_watch, s);
}

/* ---- events ------------------------------------------------------------ */

static const char *mode_of(const struct rf_session_state *state)
{
	return state->kernel.word & RF_WORD_AUDIT ? "audit" : "enforce";
}

/* Append one line to the log, whole or not at all. */
static int log_line(struct rf_live_session *s, const json_t *event)
{
	_cleanup_free_ char *line = json_dumps(event, JSON_COMPACT);
	size_t size;
	ssize_t n;

	if (!line)
		return -ENOMEM;
	size = strlen(line);
	line[size++] = '\n'; /* in the place of the NUL */
	n = write(s->log, line, size);
	if (n == (ssize_t)size)
		return 0;
	if (n > 0) {
		off_t end = lseek(s->log, 0, SEEK_CUR);

		if (end >= n && ftruncate(s->log, end - n))
			return -errno;
		return -ENOSPC;
	}
	return -errno;
}

static json_t *lost_event(struct rf_live_session *s, uint64_t count, const char *reason)
{
	return json_pack("{s:o, s:I, s:s, s:s, s:s, s:s, s:s, s:I}", "time", rf_event_time(0),
			 "seq", (json_int_t)s->state.seq + 1, "session", s->state.name, "policy",
			 s->state.policy, "mode", mode_of(&s->state), "op", "lost", "reason",
			 reason, "count", (json_int_t)count);
}

/* Once the log has room again it says first what it does not hold. */
static void tell_unlogged(struct rf_live_session *s)
{
	_cleanup_json_ json_t *event = NULL;

	if (!s->untold)
		return;
	event = lost_event(s, s->untold, "log-full");
	if (event && !log_line(s, event)) {
		s->untold = 0;
		s->state.seq++;
	}
}

static void emit(struct rf_live_session *s, json_t *event)
{
	int err = log_line(s, event);

	s->state.seq++;
	if (err) {
		if (!s->unlogged)
			say(s->all, LOG_ERR, "%s: cannot write its log: %s", s->state.name,
			    strerror(-err));
		s->unlogged++;
		s->untold++;
	}
	s->all->config.on_event(s->all->config.userdata, s, event, !err);
}

static const char *anchor_path(void *userdata, const struct rf_anchor_key *key, uint32_t name)
{
	const struct rf_session_state *state = userdata;

	return rf_anchor_names_find(state->anchors, state->n_anchors, key, name);
}

static struct told *find_told(struct rf_live_session *s, uint64_t tag)
{
	for (size_t i = s->n_told; i-- > 0;)
		if (s->told[i].tag == RF_REPEAT_TAG(tag))
			return &s->told[i];
	return NULL;
}

/* Where there is no memory, equal acts will be told as forgotten. */
static void remember(struct rf_live_session *s, uint64_t tag, json_t *event)
{
	struct told *told = tag ? find_told(s, tag) : NULL;

	if (!tag)
		return;
	if (!told) {
		if (rf_grow(&s->told, &s->told_capacity, s->n_told + 1, sizeof(*s->told)))
			return;
		told = &s->told[s->n_told++];
		told->event = NULL;
	}
	json_decref(told->event);
	*told = (struct told){RF_REPEAT_TAG(tag), json_incref(event), true, false};
}

static void on_event(void *userdata, const struct rf_event *event, size_t size)
{
	struct rf_sessions *all = userdata;
	struct rf_live_session *s = find_id(all, event->session);
	struct rf_session_state *state;
	struct rf_event_context context;
	const void *image;
	_cleanup_json_ json_t *json = NULL;

	(void)size;
	if (!s) {
		if (!all->strangers++)
			say(all, LOG_WARNING, "event of session %" PRIu64 ", which is not known",
			    (uint64_t)event->session);
		return;
	}
	tell_unlogged(s);
	/* An act is told by the policy that judged it. */
	state = &s->state;
	image = s->image;
	for (struct instance *i = s->earlier; i; i = i->next) {
		if (RF_WORD_POLICY(i->state.kernel.word) != event->policy)
			continue;
		state = &i->state;
		image = i->image;
	}
	context = (struct rf_event_context){
		.session = s->state.name,
		.policy = state->policy,
		.mode = mode_of(state),
		.image = image,
		.anchor = anchor_path,
		.userdata = state,
		.seq = s->state.seq + 1,
	};
	json = rf_event_json(event, &context);
	remember(s, event->tag, json);
	if (json) {
		emit(s, json);
	} else {
		/* No memory: the next line that can be written says so. */
		s->unlogged++;
		s->untold++;
	}
}

int rf_sessions_consume(struct rf_sessions *all)
{
	int n = rf_kernel_consume(all->config.kernel, on_event, all);

	if (n < 0)
		say(all, LOG_ERR, "cannot read events: %s", strerror(-n));
	return n;
}

/* All that is in the rings now; what others add meanwhile does not hold us up. */
static void drain(struct rf_sessions *all)
{
	int n, left = RF_EVENTS_MAX;

	do {
		n = rf_sessions_consume(all);
		left -= n;
	} while (n >= RF_EVENTS_AT_ONCE && left > 0);
}

static int on_ring(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source;
	(void)fd;
	(void)revents;
	rf_sessions_consume(userdata);
	return 0;
}

/* The counters, zero where the slot is not this session's. */
static struct rf_counters counters_of(struct rf_live_session *s)
{
	struct rf_counters counters;
	int err = rf_kernel_counters(s->all->config.kernel, s->state.kernel.slot, &counters);

	if (err)
		say(s->all, LOG_ERR, "%s: cannot read its counters: %s", s->state.name,
		    strerror(-err));
	if (err || counters.session != s->state.kernel.id)
		memset(&counters, 0, sizeof(counters));
	return counters;
}

static void tell_loss(struct rf_live_session *s, uint64_t count, const char *reason)
{
	_cleanup_json_ json_t *event = NULL;

	tell_unlogged(s);
	event = lost_event(s, count, reason);
	if (event) {
		emit(s, event);
	} else {
		s->unlogged += count;
		s->untold += count;
	}
}

/* Put into the stream what the kernel did not write. */
static void tell_lost(struct rf_live_session *s, const struct rf_counters *counters)
{
	bool told = false;

	for (unsigned int i = 0; i < RF_LOSSES; i++) {
		if (counters->lost[i] <= s->state.lost[i])
			continue;
		tell_loss(s, counters->lost[i] - s->state.lost[i], rf_loss_name(i));
		s->state.lost[i] = counters->lost[i];
		told = true;
	}
	if (told)
		save(s);
}

/* The event once more, for `count` acts that were equal to it. */
static void tell_again(struct rf_live_session *s, json_t *event, uint64_t count)
{
	_cleanup_json_ json_t *again = NULL;

	tell_unlogged(s);
	again = json_copy(event);
	if (again && !json_object_set_new(again, "time", rf_event_time(0)) &&
	    !json_object_set_new(again, "seq", json_integer((json_int_t)s->state.seq + 1)) &&
	    !json_object_set_new(again, "count", json_integer((json_int_t)count))) {
		emit(s, again);
	} else {
		s->unlogged += count;
		s->untold += count;
	}
}

/* Take what has been counted in a cell, and the cell's tag too if no more is to be. */
static uint64_t take_count(uint64_t *cell, bool all)
{
	uint64_t word = all ? __atomic_exchange_n(cell, 0, __ATOMIC_SEQ_CST)
			    : __atomic_fetch_and(cell, ~RF_REPEAT_COUNT, __ATOMIC_SEQ_CST);

	return word & RF_REPEAT_COUNT;
}

static void settle_cell(struct rf_live_session *s, uint64_t *cell, bool last)
{
	uint64_t word = __atomic_load_n(cell, __ATOMIC_SEQ_CST), count;
	struct told *told = find_told(s, word);

	if (word & RF_REPEAT_COUNT) {
		if (!told) {
			drain(s->all); /* its event was written before the cell */
			told = find_told(s, word);
		}
		if (!told && !last) {
			/* Or its writer is held up, and so is all behind it: it has until the next time. */
			remember(s, word, NULL);
			return;
		}
		count = take_count(cell, last || !told || !told->event);
		if (told && told->event) {
			told->idle = false;
			tell_again(s, told->event, count);
		} else {
			s->forgotten += count;
			tell_loss(s, count, "forgotten");
		}
	} else if (last || !told || told->idle) {
		/* If it is counted in just now it stays. */
		__atomic_compare_exchange_n(cell, &word, 0, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
	} else {
		told->idle = true;
	}
}

static bool in_meter(const struct rf_meter *meter, uint64_t tag)
{
	for (int i = 0; i < RF_STREAMS; i++)
		for (int j = 0; j < RF_REPEATS; j++)
			if (RF_REPEAT_TAG(meter->stream[i].repeats[j]) == tag)
				return true;
	return false;
}

/* Tell what has been counted of equal acts; with `last` no more will be. */
static void tell_repeats(struct rf_live_session *s, bool last)
{
	struct rf_meter *meter = rf_kernel_meter(s->all->config.kernel, s->state.kernel.slot);
	size_t kept = 0;

	if (meter->session != s->state.kernel.id)
		return;
	for (int i = 0; i < RF_STREAMS; i++)
		for (int j = 0; j < RF_REPEATS; j++)
			if (meter->stream[i].repeats[j])
				settle_cell(s, (uint64_t *)&meter->stream[i].repeats[j], last);
	for (size_t i = 0; i < s->n_told; i++) {
		struct told *told = &s->told[i];

		if (told->fresh || in_meter(meter, told->tag)) {
			told->fresh = false;
			s->told[kept++] = *told;
		} else {
			json_decref(told->event);
		}
	}
	s->n_told = kept;
}

/* All that has not been told of a session without tasks. */
static void tell_rest(struct rf_live_session *s, struct rf_counters *ret_counters)
{
	drain(s->all);
	tell_repeats(s, true);
	*ret_counters = counters_of(s);
	tell_lost(s, ret_counters);
	tell_unlogged(s);
}

/*
 * Take earlier instances of a session out of the kernel, once no check can be using them
 * any more. For those that were out already, the last record of theirs and all before
 * it are complete by now.
 */
static int settle(struct rf_live_session *s)
{
	int err = rf_kernel_synchronize(s->all->config.kernel, s->state.image);

	if (err) {
		say(s->all, LOG_ERR, "%s: cannot wait for its last policy to be out of use: %s",
		    s->state.name, strerror(-err));
		return err;
	}
	for (struct instance *i = s->earlier; i; i = i->next) {
		i->complete = !i->in_kernel;
		drop_from_kernel(s, i);
	}
	return 0;
}

/* Forget earlier instances whose events have all been read. */
static void forget(struct rf_sessions *all)
{
	bool any = false;

	for (size_t k = 0; k < all->n; k++) {
		struct rf_live_session *s = all->items[k];

		if (!s->earlier || settle(s))
			continue;
		for (struct instance *i = s->earlier; i; i = i->next)
			any |= i->complete;
	}
	if (!any)
		return;
	drain(all);
	for (size_t k = 0; k < all->n; k++) {
		struct instance **at = &all->items[k]->earlier, *i;

		while ((i = *at)) {
			if (!i->complete) {
				at = &i->next;
				continue;
			}
			*at = i->next;
			instance_free(i);
		}
	}
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct rf_sessions *all = userdata;

	(void)usec;
	forget(all);
	for (size_t i = 0; i < all->n; i++) {
		struct rf_counters counters;

		tell_repeats(all->items[i], false);
		counters = counters_of(all->items[i]);
		tell_lost(all->items[i], &counters);
	}
	return sd_event_source_set_time_relative(source, SECOND);
}

static struct rf_session_totals totals_of(struct rf_live_session *s,
					  const struct rf_counters *counters)
{
	struct rf_session_totals totals = {
		.lost = s->forgotten,
		.unlogged = s->unlogged,
		.killed = s->killed,
		.hits.killed = s->state.limits.memory ? s->hits.killed : 0,
		.hits.refused = s->state.limits.tasks ? s->hits.refused : 0,
	};

	for (unsigned int i = 0; i < RF_LOSSES; i++)
		totals.lost += counters->lost[i];
	for (unsigned int i = 0; i < RF_REASONS; i++) {
		totals.denied += counters->denied[i];
		totals.would_deny += counters->would_deny[i];
	}
	return totals;
}

/* ---- start ------------------------------------------------------------- */

bool rf_session_name_valid(const char *name)
{
	size_t n =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && !name[n] && n <= NAME_MAX_POLICY + 16 && name[0] != '.';
}

/* The policy's name as the beginning of a file's name, and six digits. */
static char *make_name(const char *policy)
{
	char name[NAME_MAX_POLICY + 1], *all;
	uint32_t number;
	size_t n = 0;

	for (; *policy && n < NAME_MAX_POLICY; policy++) {
		char one[2] = {*policy, 0};

		/* Escapes of other bytes are shortened to one sign each. */
		if (rf_session_name_valid(one) || (n && *policy == '.'))
			name[n++] = *policy;
		else if (!n || name[n - 1] != '_')
			name[n++] = '_';
	}
	name[n] = 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return NULL;
	return asprintf(&all, "%s-%06x", n ? name : "session", number & 0xffffff) < 0 ? NULL : all;
}

/* Names of earlier sessions are taken too, as long as their logs are there. */
static int make_places(struct rf_live_session *s, const char *policy, struct rf_diags *diags)
{
	struct rf_sessions *all = s->all;

	for (int try = 0; try < 100; try++) {
		_cleanup_free_ char *name = make_name(policy);
		_cleanup_free_ char *file = NULL;
		int err;

		if (!name || asprintf(&file, "%s.jsonl", name) < 0) {
			file = NULL;
			return -ENOMEM;
		}
		s->log = openat(all->log_dir, file,
				O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
		if (s->log < 0) {
			if (errno == EEXIST)
				continue;
			err = -errno;
			rf_diag(diags, RF_ERROR, all->config.log_dir, 0, 0, NULL,
				"cannot make the session's log: %s", strerror(-err));
			return err;
		}
		s->has_log = true;
		err = rf_cgroup_create(all->config.cgroup_root, name, diags, &s->cgroup);
		if (!err) {
			s->state.name = rf_steal(&name);
			s->state.cgroup = strdup(s->cgroup.path);
			if (asprintf(&s->state.log, "%s/%s", all->config.log_dir, file) < 0)
				s->state.log = NULL;
			s->state.kernel.cgroup = s->cgroup.id;
			return s->state.cgroup && s->state.log ? 0 : -ENOMEM;
		}
		unlinkat(all->log_dir, file, 0);
		rf_closep(&s->log);
		s->log = -1;
		s->has_log = false;
		if (err != -EEXIST)
			return err;
	}
	rf_diag(diags, RF_ERROR, NULL, 0, 0, "remove old logs", "no name is free in %s",
		all->config.log_dir);
	return -EEXIST;
}

/* Is there no room for this name of an object, but one with the same effect? */
static bool said_already(const struct rf_session_state *known, const void *image,
			 const struct rf_session_name *name, uint32_t state)
{
	for (size_t i = 0; i < known->n_anchors; i++) {
		const struct rf_anchor_name *other = &known->anchors[i];

		if (other->key.ino == name->identity.ino &&
		    other->key.super == name->identity.super &&
		    other->key.generation == name->identity.generation &&
		    rf_image_same_effect(image, state,
					 rf_image_state(image, other->path, strlen(other->path))))
			return true;
	}
	return false;
}

static int add_anchor(struct rf_kernel *kernel, struct rf_session_state *known, const void *image,
		      const struct rf_session_name *from, struct rf_diags *diags)
{
	struct rf_anchor_name *to = &known->anchors[known->n_anchors];
	uint64_t policy = RF_WORD_POLICY(known->kernel.word);
	uint32_t state = rf_image_state(image, from->path, strlen(from->path));
	int err = state ? rf_kernel_add_anchor(kernel, policy, &from->identity, state,
					       from->deny_only ? RF_NAME_DENY_ONLY : 0, &to->name)
			: -EINVAL;

	if (err == -ENOSPC && said_already(known, image, from, state))
		return 0;
	if (err == -EOPNOTSUPP) {
		rf_diag(diags, RF_NOTE, NULL, 0, 0, NULL,
			"%s is on a file system whose objects cannot be recognised: rules hold "
			"by name there",
			from->path);
		return 0;
	}
	if (err == -ENOSPC)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "let fewer mounts or links lead to it",
			"%s has more than %d names that the policy tells apart, or the "
			"kernel has no room for more objects",
			from->path, RF_ANCHOR_NAMES);
	else if (err)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot anchor %s: %s", from->path,
			strerror(-err));
	if (err)
		return err;
	to->key = (struct rf_anchor_key){
		.policy = policy,
		.ino = from->identity.ino,
		.subvol = from->identity.subvol,
		.super = from->identity.super,
		.generation = from->identity.generation,
	};
	to->path = strdup(from->path);
	if (!to->path)
		return -ENOMEM;
	known->n_anchors++;
	return 0;
}

/*
 * What the kernel shows of itself has one name, whichever instance of it a session
 * mounts. Not devtmpfs, of which there is one: it has anchors where it is mounted.
 */
static const struct {
	uint64_t magic;
	char path[32];
} kernel_types[] = {
	{PROC_SUPER_MAGIC, "/proc"},
	{BINFMTFS_MAGIC, "/proc/sys/fs/binfmt_misc"},
	{SYSFS_MAGIC, "/sys"},
	{CGROUP_SUPER_MAGIC, "/sys/fs/cgroup"},
	{CGROUP2_SUPER_MAGIC, "/sys/fs/cgroup"},
	{BPF_FS_MAGIC, "/sys/fs/bpf"},
	{TRACEFS_MAGIC, "/sys/kernel/tracing"},
	{DEBUGFS_MAGIC, "/sys/kernel/debug"},
	{SECURITYFS_MAGIC, "/sys/kernel/security"},
	{0x62656570, "/sys/kernel/config"}, /* configfs */
	{DEVPTS_SUPER_MAGIC, "/dev/pts"},
	{0x19800202, "/dev/mqueue"}, /* mqueue */
	{NSFS_MAGIC, "/proc/self/ns"}, /* whosever it is: it may be in many processes, or in none */
	{NSFS_MAGIC, "/proc/1/ns"}, /* for rules that tell processes by their digits */
};

/* Anchor the names for the instance in `known`, which keeps their texts. */
static int add_anchors(struct rf_kernel *kernel, struct rf_session_state *known, const void *image,
		       const struct rf_session_request *request, struct rf_diags *diags)
{
	int err = 0;

	known->anchors = calloc(request->n_names + RF_COUNT(kernel_types), sizeof(*known->anchors));
	if (!known->anchors)
		return -ENOMEM;
	for (size_t i = 0; i < request->n_names && !err; i++)
		err = add_anchor(kernel, known, image, &request->names[i], diags);
	for (size_t i = 0; i < RF_COUNT(kernel_types) && !err; i++) {
		char path[sizeof(kernel_types[i].path)];
		struct rf_session_name name = {
			.path = memcpy(path, kernel_types[i].path, sizeof(path)),
			.identity = {.ino = kernel_types[i].magic, .subvol = RF_SUBVOL_TYPE},
		};

		err = add_anchor(kernel, known, image, &name, diags);
	}
	if (err)
		return err;
	rf_anchor_names_sort(known->anchors, &known->n_anchors);
	return 0;
}

/* The mount namespace that the session is started in. */
static int hold_mounts(struct rf_live_session *s, pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	s->mnt_ns = open(path, O_RDONLY | O_CLOEXEC);
	if (s->mnt_ns < 0 || fstat(s->mnt_ns, &st))
		return -errno;
	s->state.kernel.mnt_ns = (uint32_t)st.st_ino;
	return 0;
}

/* Names are looked up where the session looks them up, or they say something else. */
static int check_same_mounts(const struct rf_live_session *s, pid_t pid, struct rf_diags *diags,
			     int *ret_exit)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	if (stat(path, &st))
		return -errno;
	if ((uint32_t)st.st_ino == s->state.kernel.mnt_ns)
		return 0;
	rf_diag(diags, RF_ERROR, NULL, 0, 0,
		"run it where the session was started, with nsenter -t PID -m, PID being a process "
		"of the session",
		"%s was started in another mount namespace, where the policy's paths may be other "
		"files",
		s->state.name);
	*ret_exit = 4;
	return -EXDEV;
}

/* Only the first namespace of all cannot have ended while no daemon held ours. */
static void check_mounts(struct rf_live_session *s)
{
	struct stat st = {0};

	stat("/proc/1/ns/mnt", &st);
	rf_kernel_check_mounts(s->all->config.kernel, &s->state.kernel, (uint32_t)st.st_ino);
}

/* The path of a cgroup's directory as /proc/PID/cgroup writes it: below the hierarchy's root. */
static int path_in_hierarchy(const char *dir, char **ret_path)
{
	_cleanup_free_ char *line = NULL;
	char *path = NULL;
	FILE *mountinfo;
	struct statx stx;
	size_t room = 0;
	int err = -ENXIO;

	if (statx(AT_FDCWD, dir, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &stx))
		return -errno;
	if (!(stx.stx_mask & STATX_MNT_ID))
		return -EOPNOTSUPP;
	mountinfo = fopen("/proc/self/mountinfo", "re");
	if (!mountinfo)
		return -errno;
	while (err == -ENXIO && getline(&line, &room, mountinfo) > 0) {
		_cleanup_free_ char *root = NULL;
		_cleanup_free_ char *mount = NULL;
		uint64_t id;

		if (sscanf(line, "%" SCNu64 " %*s %*s %ms %ms", &id, &root, &mount) != 3 ||
		    id != stx.stx_mnt_id)
			continue;
		rf_unescape_octal(root);
		rf_unescape_octal(mount);
		if (strncmp(dir, mount, strlen(mount)) != 0)
			err = -EXDEV;
		else if (asprintf(&path, "%s%s", strcmp(root, "/") != 0 ? root : "",
				  dir + strlen(mount)) < 0)
			err = -ENOMEM;
		else
			err = 0;
	}
	fclose(mountinfo);
	if (!err)
		*ret_path = path;
	return err;
}

/* The cgroup of a process in the v2 hierarchy. */
static int cgroup_of(pid_t pid, char **ret_path)
{
	_cleanup_free_ char *line = NULL;
	char name[32];
	size_t room = 0;
	ssize_t n;
	FILE *file;
	int err = -ESRCH;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	file = fopen(name, "re");
	if (!file)
		return -errno;
	while (err == -ESRCH && (n = getline(&line, &room, file)) > 0) {
		if (strncmp(line, "0::", 3) != 0)
			continue;
		line[n - 1] = 0;
		*ret_path = strdup(line + 3);
		err = *ret_path ? 0 : -ENOMEM;
	}
	fclose(file);
	return err;
}

/*
 * A task's label is never changed, so that it cannot leave its session: not for
 * another one either. Its policy would not be enforced, so it is not started. And what is
 * confined does not choose its policy.
 */
static int check_outside(const struct rf_sessions *all, pid_t pid, const char *refusal,
			 struct rf_diags *diags, int *ret_exit)
{
	_cleanup_free_ char *home = NULL;
	_cleanup_free_ char *path = NULL;
	int err = path_in_hierarchy(all->config.cgroup_root, &home);

	if (err == -ENOENT)
		return 0; /* nobody is in a directory that is not there */
	if (!err)
		err = cgroup_of(pid, &path);
	if (!err && (!home || !path))
		err = -ENOMEM;
	if (err) {
		rf_diag(diags, RF_ERROR, all->config.cgroup_root, 0, 0, NULL,
			"cannot tell whether process %d is in a session: %s", (int)pid,
			strerror(-err));
		return err;
	}
	if (strncmp(path, home, strlen(home)) != 0 ||
	    (path[strlen(home)] && path[strlen(home)] != '/'))
		return 0;
	rf_diag(diags, RF_ERROR, NULL, 0, 0, "start it outside of the session", "%s", refusal);
	*ret_exit = 4;
	return -EOPNOTSUPP;
}

static int copy_text(const char *from, char **to)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : -ENOMEM;
}

static int describe(struct rf_session_state *state, const struct rf_session_request *request)
{
	_cleanup_json_ json_t *now = rf_event_time(0);

	state->command = json_incref(request->command);
	state->uid = request->uid;
	state->pid = request->pid;
	state->pid_start = rf_pid_start(request->pid);
	return copy_text(request->policy, &state->policy)
	       ?: copy_text(request->policy_file, &state->policy_file)
	       ?: copy_text(request->user, &state->user) ?: copy_text(request->cwd, &state->cwd)
	       ?: copy_text(request->workspace, &state->workspace)
	       ?: copy_text(request->home, &state->home)
	       ?: copy_text(json_string_value(now), &state->started)
	       ?: state->started ? 0 : -ENOMEM;
}

/*
 * Audit changes nothing for the session, and a limit cannot be watched without being
 * one: in audit mode there are none.
 */
static int set_limits(struct rf_live_session *s, const struct rf_session_request *request,
		      struct rf_diags *diags, struct rf_limits *ret_limits, int *ret_exit)
{
	const struct rf_limits *limits = &request->limits, none = {0};
	bool any = limits->memory || limits->tasks || limits->cpu;
	int err;

	if (request->audit && any) {
		rf_diag(diags, RF_NOTE, NULL, 0, 0, NULL,
			"the policy's limits do not hold in audit mode");
		limits = &none;
	}
	err = rf_cgroup_limit(s->all->config.cgroup_root, &s->cgroup, limits, diags);
	if (err == -EOPNOTSUPP)
		*ret_exit = 4;
	if (err)
		return err;
	*ret_limits = rf_limits_values(limits);
	return 0;
}

/*
 * Put the image into the kernel, for a new policy instance in `known`. It is verified
 * there: only then may its automaton be run.
 */
static int put_image(struct rf_kernel *kernel, struct rf_session_state *known, void **ret_image,
		     const struct rf_session_request *request, struct rf_diags *diags,
		     int *ret_exit)
{
	uint64_t flags =
		(request->audit ? RF_WORD_AUDIT : 0) | (request->log_all ? RF_WORD_LOG_ALL : 0);
	void *image = malloc(request->image_size);
	int err;

	if (!image)
		return -ENOMEM;
	err = rf_kernel_put_image(kernel, request->image, request->image_size, diags,
				  &known->image);
	if (err) {
		free(image);
		if (err == -EINVAL)
			*ret_exit = 3;
		return err;
	}
	*ret_image = memcpy(image, request->image, request->image_size);
	known->kernel.word = RF_WORD(rf_kernel_next_policy(kernel), known->image.class,
				     known->image.slot, flags);
	return 0;
}

static int start(struct rf_live_session *s, const struct rf_session_request *request,
		 struct rf_diags *diags, int *ret_exit)
{
	struct rf_kernel *kernel = s->all->config.kernel;
	int err;

	err = check_outside(s->all, request->pid, "a session cannot start another one yet", diags,
			    ret_exit);
	if (err)
		return err;
	err = describe(&s->state, request);
	if (err)
		return err;
	err = put_image(kernel, &s->state, &s->image, request, diags, ret_exit);
	if (err)
		return err;
	s->has_image = s->has_anchors = true;
	err = hold_mounts(s, request->pid);
	if (err)
		return err;
	s->state.kernel.id = rf_kernel_next_session(kernel);
	err = add_anchors(kernel, &s->state, s->image, request, diags);
	if (err)
		return err;
	err = make_places(s, request->policy, diags);
	if (err)
		return err;
	err = set_limits(s, request, diags, &s->state.limits, ret_exit);
	if (err)
		return err;
	err = rf_kernel_start_session(kernel, &s->state.kernel);
	if (err) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, err == -ENOSPC ? "end some sessions" : NULL,
			"the kernel cannot start another session: %s", strerror(-err));
		return err;
	}
	s->in_kernel = true;
	err = rf_session_state_save(s->all->dir, &s->state);
	if (err) {
		rf_diag(diags, RF_ERROR, s->all->config.run_dir, 0, 0, NULL,
			"cannot write the session's state: %s", strerror(-err));
		return err;
	}
	s->has_state = true;
	err = watch(s);
	return err ? err : insert(s);
}

int rf_sessions_start(struct rf_sessions *all, const struct rf_session_request *request,
		      void *owner, struct rf_diags *diags, struct rf_live_session **ret_session,
		      int *ret_exit)
{
	struct rf_live_session *s = session_new(all);
	size_t errors = diags->errors;
	int exit = 1, err = s ? start(s, request, diags, &exit) : -ENOMEM;

	if (!err) {
		s->owner = owner;
		*ret_session = s;
		return 0;
	}
	if (diags->errors == errors)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot start the session: %s",
			strerror(-err));
	if (s) {
		if (s->cgroup.fd >= 0)
			rf_cgroup_remove(&s->cgroup); /* nobody has got a way into it */
		undo(s);
		if (s->has_log)
			unlink(s->state.log ? s->state.log : "");
		session_free(s);
	}
	*ret_exit = exit;
	return err;
}

/* ---- reload ------------------------------------------------------------ */

/* All of the new instance but that it is in force. */
static int prepare(struct rf_live_session *s, struct instance *i,
		   const struct rf_session_request *request, struct rf_diags *diags, int *ret_exit)
{
	struct rf_kernel *kernel = s->all->config.kernel;
	int err;

	err = copy_text(request->policy, &i->state.policy)
	      ?: copy_text(request->policy_file, &i->state.policy_file)
	      ?: put_image(kernel, &i->state, &i->image, request, diags, ret_exit);
	if (err)
		return err;
	i->in_kernel = true;
	return add_anchors(kernel, &i->state, i->image, request, diags);
}

/*
 * The switch. Its outcome is on disk whenever the daemon may be killed: before it, the next
 * state beside the one that holds; after it, the next state in its place.
 */
static int switch_to(struct rf_live_session *s, struct instance *i)
{
	struct rf_sessions *all = s->all;
	int err;

	exchange(s, i);
	err = rf_session_state_save_next(all->dir, &s->state);
	if (!err)
		err = rf_kernel_switch_session(all->config.kernel, &s->state.kernel,
					       s->state.kernel.word);
	if (err) {
		exchange(s, i);
		rf_session_state_remove_next(all->dir, s->state.kernel.id);
		return err;
	}
	i->next = s->earlier;
	s->earlier = i;
	err = rf_session_state_commit_next(all->dir, s->state.kernel.id);
	if (err)
		say(all, LOG_ERR, "%s: cannot write its state: %s", s->state.name, strerror(-err));
	return 0;
}

int rf_session_reload(struct rf_live_session *s, const struct rf_session_request *request,
		      struct rf_diags *diags, int *ret_exit)
{
	struct instance *i = calloc(1, sizeof(*i));
	struct rf_diags ignored = {0};
	size_t errors = diags->errors;
	bool limited = false;
	int exit = 1, err = i ? 0 : -ENOMEM;

	if (!err && (s->ending || s->cgroup.fd < 0)) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "%s is ending", s->state.name);
		err = -ESHUTDOWN;
	}
	if (!err)
		err = check_outside(s->all, request->pid, "a session cannot change a policy", diags,
				    &exit);
	if (!err)
		err = check_same_mounts(s, request->pid, diags, &exit);
	if (!err)
		err = prepare(s, i, request, diags, &exit);
	if (!err) {
		limited = true;
		err = set_limits(s, request, diags, &i->state.limits, &exit);
	}
	/* First, so that what it gave is known whenever the daemon may be killed. */
	if (!err)
		err = s->image ? rf_session_images_add(s->all->dir, s->state.kernel.id, s->image)
			       : -EIO;
	if (!err)
		err = switch_to(s, i);
	if (!err) {
		say(s->all, LOG_INFO, "%s: policy %s takes the place of %s", s->state.name,
		    s->state.policy, i->state.policy);
		settle(s); /* where it fails, the tick tries again */
		return 0;
	}
	/* The old policy has been in force all the time. */
	if (limited)
		rf_cgroup_limit(s->all->config.cgroup_root, &s->cgroup, &s->state.limits, &ignored);
	rf_diags_done(&ignored);
	if (i) {
		drop_from_kernel(s, i); /* no check has ever seen it */
		instance_free(i);
	}
	if (diags->errors == errors)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "%s keeps its policy: %s", s->state.name,
			strerror(-err));
	*ret_exit = exit;
	return err;
}

int rf_session_images(const struct rf_live_session *s, void **ret_images, size_t *ret_size)
{
	_cleanup_free_ char *images = NULL;
	_cleanup_free_ void *earlier = NULL;
	size_t size, rest;
	int err = s->image
			  ? rf_session_images_load(s->all->dir, s->state.kernel.id, &earlier, &rest)
			  : -EIO;

	if (err)
		return err;
	size = ((const struct rf_image *)s->image)->size;
	images = malloc(size + rest);
	if (!images)
		return -ENOMEM;
	memcpy(images, s->image, size);
	if (rest)
		memcpy(images + size, earlier, rest);
	*ret_images = rf_steal(&images);
	*ret_size = size + rest;
	return 0;
}

/* ---- end --------------------------------------------------------------- */

static void finished(struct rf_live_session *s, const struct rf_session_totals *totals)
{
	struct rf_sessions *all = s->all;

	undo(s);
	drop(s);
	say(all, LOG_INFO, "%s: ended", s->state.name);
	all->config.on_end(all->config.userdata, s, 0, totals);
	session_free(s);
}

/*
 * End the session if its cgroup is empty. Once the cgroup is removed no task can
 * come, so all its events are in the ring. 0 if it is gone, -EBUSY if there are tasks.
 */
static int try_finish(struct rf_live_session *s)
{
	struct rf_session_totals totals;
	struct rf_counters counters;
	int err;

	s->hits = rf_cgroup_hits(&s->cgroup); /* gone with the cgroup */
	err = rf_cgroup_remove(&s->cgroup);
	if (err)
		return err;
	tell_rest(s, &counters);
	totals = totals_of(s, &counters);
	finished(s, &totals);
	return 0;
}

/* Ask again later: for a kernel without cgroup.kill, and for the time limit. */
static int arm_again(struct rf_live_session *s)
{
	sd_event *event = s->all->config.event;

	if (s->again)
		return sd_event_source_set_time_relative(s->again, SECOND / 4)
			       ?: sd_event_source_set_enabled(s->again, SD_EVENT_ONESHOT);
	return sd_event_add_time_relative(event, &s->again, CLOCK_MONOTONIC, SECOND / 4, 0,
					  on_again, s);
}

/* The end did not come about: whoever asked is told, the session goes on alone. */
static void give_up(struct rf_live_session *s, int error)
{
	struct rf_counters counters = counters_of(s);
	struct rf_session_totals totals = totals_of(s, &counters);

	s->ending = false;
	say(s->all, LOG_ERR, "%s: cannot end it yet: %s; its tasks stay confined", s->state.name,
	    strerror(-error));
	s->all->config.on_end(s->all->config.userdata, s, error, &totals);
	s->owner = NULL;
}

static int on_again(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct rf_live_session *s = userdata;
	int err;

	(void)source;
	if (!s->ending)
		return 0;
	err = try_finish(s);
	if (!err)
		return 0;
	if (usec >= s->deadline) {
		give_up(s, err == -EBUSY ? -ETIMEDOUT : err);
		return 0;
	}
	rf_cgroup_kill(&s->cgroup);
	return arm_again(s);
}

static int on_watch(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct rf_live_session *s = userdata;
	int populated = rf_cgroup_populated(&s->cgroup);

	(void)source;
	(void)fd;
	(void)revents;
	if (populated < 0) {
		say(s->all, LOG_ERR, "%s: cannot watch its cgroup: %s", s->state.name,
		    strerror(-populated));
		sd_event_source_set_enabled(s->watch, SD_EVENT_OFF);
		return 0;
	}
	if (!populated && (s->ending || !s->owner))
		try_finish(s); /* if a task came meanwhile, the next event comes too */
	return 0;
}

int rf_session_end(struct rf_live_session *s, bool keep, struct rf_session_totals *ret_totals)
{
	struct rf_sessions *all = s->all;
	uint64_t now;
	int err;

	s->ending = !keep;
	if (keep) {
		struct rf_counters counters;

		if (!try_finish(s))
			return 0;
		drain(all);
		tell_repeats(s, false);
		counters = counters_of(s);
		tell_lost(s, &counters);
		*ret_totals = totals_of(s, &counters);
		s->owner = NULL;
		return 1;
	}
	s->killed = rf_cgroup_count(&s->cgroup);
	if (!s->killed && !try_finish(s))
		return 0;
	err = rf_cgroup_kill(&s->cgroup);
	if (err)
		say(all, LOG_ERR, "%s: cannot kill its tasks: %s", s->state.name, strerror(-err));
	sd_event_now(all->config.event, CLOCK_MONOTONIC, &now);
	s->deadline = now + all->config.end_usec;
	err = arm_again(s);
	if (err < 0)
		give_up(s, err);
	return 0;
}

/* ---- taking over ------------------------------------------------------- */

/* The number of the last event in a log, 0 if it has none. */
static uint64_t last_seq(int log)
{
	_cleanup_free_ char *text = malloc(LOG_TAIL + 1);
	_cleanup_json_ json_t *event = NULL;
	off_t size = lseek(log, 0, SEEK_END), from = size > LOG_TAIL ? size - LOG_TAIL : 0;
	char *line;
	ssize_t n;

	n = text && size > 0 ? pread(log, text, LOG_TAIL, from) : 0;
	if (n <= 0)
		return 0;
	text[n] = 0;
	if (text[n - 1] == '\n')
		text[n - 1] = 0;
	line = strrchr(text, '\n');
	event = json_loads(line ? line + 1 : text, 0, NULL);
	return (uint64_t)json_integer_value(json_object_get(event, "seq"));
}

static void take_over_broken(struct rf_sessions *all, const char *file, int error)
{
	char *copy = strdup(file);

	say(all, LOG_ERR,
	    "%s/sessions/%s cannot be read (%s): its session stays confined, but its events are not "
	    "shown and it is not ended",
	    all->config.run_dir, file, strerror(-error));
	if (!copy ||
	    rf_grow(&all->broken, &all->broken_capacity, all->n_broken + 1, sizeof(*all->broken))) {
		free(copy);
		return;
	}
	all->broken[all->n_broken++] = (struct broken){strtoull(file, NULL, 10), copy};
}

/* The programs that confined it are gone: nothing may go on as if they were not. */
static void end_unwalled(struct rf_live_session *s)
{
	say(s->all, LOG_ERR, "%s: the kernel side was unloaded under it; its tasks are killed",
	    s->state.name);
	if (!rf_cgroup_open(s->state.cgroup, s->state.kernel.cgroup, &s->cgroup)) {
		rf_cgroup_kill(&s->cgroup);
		rf_cgroup_remove(&s->cgroup); /* fails where they are still dying: left empty */
	}
	rf_session_state_remove(s->all->dir, s->state.kernel.id);
}

/* The image of an instance, as it is in the kernel, held. */
static int hold_image(struct rf_live_session *s, struct rf_image_ref ref, void **ret_image)
{
	struct rf_kernel *kernel = s->all->config.kernel;
	size_t size;
	int err = rf_kernel_hold_image(kernel, ref);

	if (err) {
		say(s->all, LOG_ERR, "%s: cannot read its policy back: %s", s->state.name,
		    strerror(-err));
		return err;
	}
	err = rf_kernel_get_image(kernel, ref, ret_image, &size);
	if (err)
		say(s->all, LOG_ERR, "%s: cannot read its policy back: %s", s->state.name,
		    strerror(-err));
	return 0;
}

/*
 * The daemon ended within a policy swap: the kernel knows which of the two is in force,
 * the other one is taken out of it.
 */
static void take_over_swap(struct rf_live_session *s, struct rf_session_state *next)
{
	struct rf_sessions *all = s->all;
	struct instance *i = calloc(1, sizeof(*i));
	uint64_t word = s->state.kernel.word;

	if (!i)
		return;
	if (next->kernel.word == s->state.kernel.word) {
		/* Only the last step was missing. */
		rf_session_state_remove_next(all->dir, s->state.kernel.id);
		free(i);
		return;
	}
	i->in_kernel = true;
	SWAP(i->state, *next);
	rf_kernel_session_word(all->config.kernel, &s->state.kernel, &word);
	if (word == i->state.kernel.word)
		exchange(s, i);
	i->next = s->earlier;
	s->earlier = i;
	save(s);
	rf_session_state_remove_next(all->dir, s->state.kernel.id);
	say(all, LOG_INFO, "%s: a policy swap was under way; policy %s is in force", s->state.name,
	    s->state.policy);
}

/*
 * Before anything is removed from the kernel: every image that is in use is known to
 * be, also one that a session shares with another that has ended.
 */
static void hold_images(struct rf_live_session *s)
{
	struct rf_session_state next = {0};
	int err;

	s->in_kernel = s->has_anchors = s->has_state = true;
	err = rf_session_state_load_next(s->all->dir, s->state.kernel.id, &next);
	if (!err)
		take_over_swap(s, &next);
	else if (err != -ENOENT)
		say(s->all, LOG_ERR, "%s: what a policy swap left cannot be read: %s",
		    s->state.name, strerror(-err));
	rf_session_state_done(&next);
	s->has_image = !hold_image(s, s->state.image, &s->image);
	for (struct instance *i = s->earlier; i; i = i->next)
		if (hold_image(s, i->state.image, &i->image)) {
			drop_anchors(s, i->state.kernel.word);
			i->in_kernel = false;
		}
}

/* 0: it goes on; 1: it has ended. */
static int take_over(struct rf_live_session *s)
{
	struct rf_sessions *all = s->all;
	struct rf_kernel *kernel = all->config.kernel;
	struct rf_diags diags = {0};
	uint64_t seq;
	int err;

	if (!rf_kernel_adopted(kernel)) {
		end_unwalled(s);
		return 1;
	}
	check_mounts(s);
	s->log = open(s->state.log, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->log < 0)
		say(all, LOG_ERR, "%s: cannot open %s: %s", s->state.name, s->state.log,
		    strerror(errno));
	seq = s->log < 0 ? 0 : last_seq(s->log);
	if (seq > s->state.seq)
		s->state.seq = seq;
	err = rf_cgroup_open(s->state.cgroup, s->state.kernel.cgroup, &s->cgroup);
	if (err == -ENOENT || err == -ESTALE) {
		/* Its cgroup is gone, and all tasks with it. */
		struct rf_counters counters;

		tell_rest(s, &counters);
		undo(s);
		say(all, LOG_INFO, "%s: ended while no daemon was running", s->state.name);
		return 1;
	}
	/* A swap that was under way may have left the other policy's limits. */
	if (!err && s->earlier &&
	    rf_cgroup_limit(all->config.cgroup_root, &s->cgroup, &s->state.limits, &diags))
		say(all, LOG_ERR, "%s: %s", s->state.name,
		    diags.n ? diags.items[0].message : "cannot set its limits");
	rf_diags_done(&diags);
	if (!err)
		err = watch(s);
	if (err < 0)
		say(all, LOG_ERR, "%s: cannot watch its cgroup: %s", s->state.name, strerror(-err));
	return 0;
}

int rf_sessions_take_over(struct rf_sessions *all)
{
	_cleanup_dir_ DIR *dir = NULL;
	struct dirent *entry;
	int fd = openat(all->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		rf_closep(&fd);
		return -errno;
	}
	while ((entry = readdir(dir))) {
		const char *dot = strrchr(entry->d_name, '.');
		struct rf_live_session *s;
		int err;

		if (dot && !strcmp(dot, ".new")) /* a draft that was not finished */
			unlinkat(fd, entry->d_name, 0);
		if (!dot || strcmp(dot, ".json") != 0)
			continue;
		s = session_new(all);
		if (!s)
			return -ENOMEM;
		err = rf_session_state_load(fd, entry->d_name, &s->state);
		if (err == -ENOMEM) {
			session_free(s);
			return err;
		}
		if (err) {
			session_free(s);
			take_over_broken(all, entry->d_name, err);
			continue;
		}
		/* Before its events can be read it must be in the table. */
		err = insert(s);
		if (err) {
			session_free(s);
			return err;
		}
		if (rf_kernel_adopted(all->config.kernel))
			hold_images(s);
	}
	for (size_t i = all->n; i-- > 0;) {
		struct rf_live_session *s = all->items[i];

		if (take_over(s) == 1) {
			drop(s);
			session_free(s);
			continue;
		}
		say(all, LOG_INFO, "%s: taken over", s->state.name);
	}
	/* Of what the earlier daemon told, equal acts cannot be told as such any more. */
	drain(all);
	for (size_t i = 0; i < all->n; i++)
		tell_repeats(all->items[i], true);
	/* Nobody owns them: those that are empty have ended. */
	for (size_t i = all->n; i-- > 0;)
		if (all->items[i]->cgroup.fd >= 0)
			try_finish(all->items[i]);
	rf_cgroup_sweep(all->config.cgroup_root);
	return 0;
}

/* ---- all --------------------------------------------------------------- */

static int open_dir(const char *path, int *ret_fd)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int rf_sessions_new(const struct rf_sessions_config *config, struct rf_sessions **ret_sessions)
{
	struct rf_sessions *all = calloc(1, sizeof(*all));
	_cleanup_free_ char *states = NULL;
	int err;

	if (!all)
		return -ENOMEM;
	all->config = *config;
	all->dir = all->log_dir = -1;
	if (asprintf(&states, "%s/sessions", config->run_dir) < 0) {
		states = NULL;
		err = -ENOMEM;
		goto fail;
	}
	err = mkdir(states, 0700) && errno != EEXIST ? -errno : 0;
	if (!err)
		err = open_dir(states, &all->dir);
	if (!err)
		err = open_dir(config->log_dir, &all->log_dir);
	if (!err)
		err = sd_event_add_time_relative(config->event, &all->tick, CLOCK_MONOTONIC, SECOND,
						 SECOND / 4, on_tick, all);
	if (err < 0)
		goto fail;
	set_tick(all);
	err = sd_event_add_io(config->event, &all->ring, rf_kernel_events_fd(config->kernel),
			      EPOLLIN, on_ring, all);
	if (err < 0)
		goto fail;
	*ret_sessions = all;
	return 0;
fail:
	rf_sessions_free(all);
	return err;
}

void rf_sessions_free(struct rf_sessions *all)
{
	if (!all)
		return;
	if (all->n)
		drain(all);
	for (size_t i = 0; i < all->n; i++) {
		tell_repeats(all->items[i], true); /* of them the next daemon would not know */
		save(all->items[i]);
		session_free(all->items[i]);
	}
	for (size_t i = 0; i < all->n_broken; i++)
		free(all->broken[i].file);
	free(all->items);
	free(all->broken);
	sd_event_source_disable_unref(all->ring);
	sd_event_source_disable_unref(all->tick);
	rf_closep(&all->dir);
	rf_closep(&all->log_dir);
	free(all);
}

static json_t *counters_json(const struct rf_counters *counters)
{
	json_t *by = json_object(), *losses = json_object();
	json_int_t denied = 0, would_deny = 0, lost = 0;

	for (unsigned int i = 0; i < RF_REASONS; i++) {
		json_int_t n = (json_int_t)(counters->denied[i] + counters->would_deny[i]);

		denied += (json_int_t)counters->denied[i];
		would_deny += (json_int_t)counters->would_deny[i];
		if (n)
			json_object_set_new(by, rf_reason_name(i), json_integer(n));
	}
	for (unsigned int i = 0; i < RF_LOSSES; i++) {
		json_int_t n = (json_int_t)counters->lost[i];

		lost += n;
		if (n)
			json_object_set_new(losses, rf_loss_name(i), json_integer(n));
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "seen",
			 (json_int_t)counters->seen, "written", (json_int_t)counters->written,
			 "coalesced", (json_int_t)counters->coalesced, "lost", lost, "denied",
			 denied, "would_deny", would_deny, "reasons", by, "losses", losses);
}

static json_t *session_json(struct rf_live_session *s)
{
	const struct rf_session_state *state = &s->state;
	struct rf_counters counters = counters_of(s);

	return json_pack(
		"{s:s, s:I, s:s, s:s*, s:s, s:s*, s:I, s:I, s:O, s:s*, s:s*, s:s*, s:s, s:s, s:s, s:o,"
		" s:I, s:b, s:o}",
		"session", state->name, "id", (json_int_t)state->kernel.id, "policy", state->policy,
		"policy_file", state->policy_file, "mode", mode_of(state), "user", state->user,
		"uid", (json_int_t)state->uid, "pid", (json_int_t)state->pid, "command",
		state->command, "cwd", state->cwd, "workspace", state->workspace, "home",
		state->home, "cgroup", state->cgroup, "log", state->log, "started", state->started,
		"limits", rf_limits_json(&state->limits, false), "tasks",
		(json_int_t)(s->cgroup.fd < 0 ? 0 : rf_cgroup_count(&s->cgroup)), "owned",
		s->owner != NULL, "counters", counters_json(&counters));
}

json_t *rf_sessions_list(struct rf_sessions *all)
{
	json_t *array = json_array();

	for (size_t i = 0; i < all->n; i++)
		json_array_append_new(array, session_json(all->items[i]));
	for (size_t i = 0; i < all->n_broken; i++)
		json_array_append_new(array, json_pack("{s:s, s:I, s:s}", "session", "?", "id",
						       (json_int_t)all->broken[i].id, "unreadable",
						       all->broken[i].file));
	return array;
}

const struct rf_session_state *rf_session_state(const struct rf_live_session *s)
{
	return &s->state;
}

void rf_session_disown(struct rf_live_session *s)
{
	s->owner = NULL;
}

void *rf_session_owner(const struct rf_live_session *s)
{
	return s->owner;
}

int rf_session_procs(const struct rf_live_session *s)
{
	return rf_cgroup_procs(&s->cgroup);
}
