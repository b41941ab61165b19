/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a verdict to the hook's answer: the event, the counters, the errno. Every hook
 * ends in one of these calls. Events are told once, within the session's budget
 * (struct rf_meter): all that is done to it is atomic, since any task may preempt us.
 */
#ifndef RF_BPF_EVENT_H
#define RF_BPF_EVENT_H

#include "bpf/label.bpf.h"
#include "bpf/maps.bpf.h"
#include "bpf/meter.h"

/*
 * The bodies of loops are functions of their own, not static, so that the verifier goes
 * through each once. Nothing here is needed for a verdict.
 */

/* Name number `i` of the walk, as "/a", into the path. 0: there is no more room. */
__noinline int path_name(struct rf_walk *walk, struct rf_event *event, __u32 i)
{
	__u32 at, len;

	if (!walk || !event)
		return 0;
	at = event->path_len;
	if (at > RF_EVENT_PATH - 1 - RF_NAME_MAX) {
		event->flags |= RF_EVENT_TRUNCATED;
		return 0;
	}
	at &= RF_EVENT_PATH - 1;
	len = walk->len[i & (RF_MAX_COMPONENTS - 1)];
	event->path[at] = '/';
	if (at > RF_EVENT_PATH - 1 - RF_NAME_MAX)
		return 0;
	if (bpf_probe_read_kernel(event->path + at + 1, len,
				  (const void *)walk->name[i & (RF_MAX_COMPONENTS - 1)]))
		event->flags |= RF_EVENT_TRUNCATED;
	event->path_len = at + 1 + len;
	return 1;
}

/* The names of the walk as "/a/b", from the anchor down; cut where the room ends. */
__noinline int event_path(struct rf_walk *walk, struct rf_event *event)
{
	__u32 i, n;

	if (!walk || !event)
		return 0;
	event->path_len = 0;
	n = walk->n;
	for (i = 1; i <= RF_MAX_COMPONENTS; i++) {
		if (i > n || !path_name(walk, event, n - i))
			break;
	}
	return 0;
}

#define EXE_NAMES 32

/* Where the search for a program's names is: addresses. */
struct exe_place {
	__u64 dentry, mount;
};

/* One name of the program, before those that are there; or over a mountpoint. 0: it has ended. */
__noinline int exe_name(struct rf_event *event, struct exe_place *place)
{
	struct dentry *dentry, *parent, *root;
	struct mount *mount, *up;
	__u32 len, at;

	if (!event || !place)
		return 0;
	dentry = (struct dentry *)place->dentry;
	mount = (struct mount *)place->mount;
	root = BPF_CORE_READ(mount, mnt.mnt_root);
	parent = BPF_CORE_READ(dentry, d_parent);
	if (dentry == root || dentry == parent) {
		up = BPF_CORE_READ(mount, mnt_parent);
		if (dentry != root || up == mount) {
			event->flags &= ~RF_EVENT_EXE_CUT;
			return 0;
		}
		place->dentry = (__u64)BPF_CORE_READ(mount, mnt_mountpoint);
		place->mount = (__u64)up;
		return 1;
	}
	at = RF_EVENT_EXE - event->exe_len;
	len = BPF_CORE_READ(dentry, d_name.len);
	if (len >= at)
		return 0;
	at -= len + 1;
	at &= RF_EVENT_EXE - 1;
	len &= RF_NAME_MAX;
	if (at + 1 + len > RF_EVENT_EXE)
		return 0;
	event->exe[at] = '/';
	if (len && at < RF_EVENT_EXE - 1 &&
	    bpf_probe_read_kernel(event->exe + at + 1, len, BPF_CORE_READ(dentry, d_name.name)))
		return 0;
	event->exe_len = RF_EVENT_EXE - at;
	place->dentry = (__u64)parent;
	return 1;
}

/*
 * The path of the current process's program, mountpoints crossed, written from
 * its end to its beginning. For people only: nothing is decided by it, so plain
 * reads of whatever is there do.
 */
__noinline int event_exe(struct rf_event *event)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exe_place place;
	struct vfsmount *mnt;
	struct file *file;
	__u32 i;

	if (!event)
		return 0;
	event->exe_len = 0;
	file = BPF_CORE_READ(task, mm, exe_file);
	if (!file)
		return 0;
	mnt = BPF_CORE_READ(file, f_path.mnt);
	place.dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
	place.mount = (__u64)mnt - bpf_core_field_offset(struct mount, mnt);
	event->flags |= RF_EVENT_EXE_CUT; /* until its beginning has been found */
	for (i = 0; i < EXE_NAMES; i++) {
		if (!exe_name(event, &place))
			break;
	}
	return 0;
}

typedef __u64 __attribute__((may_alias)) event_word;
#define EVENT_WORD(field) (__builtin_offsetof(struct rf_event, field) / 8)

#define TAG_PART 64 /* bytes of the path */

/* A part of the event's path; a function of its own, since it is verified but once. */
__noinline int tag_part(struct rf_sip *s, struct rf_event *event, __u32 at)
{
	__u32 i, len;

	if (!s || !event)
		return 0;
	len = event->path_len;
	at &= RF_EVENT_PATH - TAG_PART;
	for (i = 0; i < TAG_PART; i += 8) {
		if (at + i >= len)
			break;
		rf_sip_add(s, ((const event_word *)event)[EVENT_WORD(path) + (at + i) / 8]);
	}
	return 0;
}

/*
 * The event's tag: of all its words but the time, the thread and the text of the
 * program, which its memory stands for: an execve changes it.
 */
__noinline int event_tag(struct rf_event *event)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const event_word *word = (const event_word *)event;
	__u64 next;
	struct rf_sip s;
	__u32 i, len, at;

	if (!event)
		return 0;
	event->tag = 0;
	event->exe_len = 0;
	len = event->path_len;
	rf_sip_begin(&s, global.key);
	rf_sip_add(&s, (__u64)BPF_CORE_READ(task, mm));
	for (i = EVENT_WORD(session); i < EVENT_WORD(exe); i++)
		rf_sip_add(&s, i == EVENT_WORD(pid) ? event->tgid : word[i]);
	/* What an earlier event left behind the path, in its last word. */
	for (i = 0; i < 7; i++) {
		at = len + i;
		if (at >= RF_EVENT_PATH)
			break;
		rf_meter_opaque(at);
		event->path[at & (RF_EVENT_PATH - 1)] = 0;
	}
	for (i = 0; i < RF_EVENT_PATH; i += TAG_PART) {
		if (i >= len)
			break;
		tag_part(&s, event, i);
	}
	next = rf_sip_end(&s);
	event->tag = RF_REPEAT_TAG(next) ? next : RF_REPEAT_COUNT + 1;
	return 0;
}

static __always_inline struct rf_meter *meter_of(__u32 slot, __u64 session)
{
	struct rf_meter *meter = bpf_map_lookup_elem(&meters, &slot);
	__u32 ended = RF_METER_ENDED;

	if (meter && READ_ONCE(meter->session) == session)
		return meter;
	return bpf_map_lookup_elem(&meters, &ended);
}

enum outcome {
	WRITTEN,
	COALESCED,
	LOST_RATE,
	LOST_RING,
};

static __always_inline void count(__u32 slot, __u64 session, __u8 decision, __u32 reason,
				  enum outcome outcome)
{
	struct rf_counters *c = bpf_map_lookup_elem(&counters, &slot);

	if (!c || c->session != session)
		return;
	/* Another task on this CPU may preempt us here, hence atomic. */
	__sync_fetch_and_add(&c->seen, 1);
	if (outcome == WRITTEN)
		__sync_fetch_and_add(&c->written, 1);
	else if (outcome == COALESCED)
		__sync_fetch_and_add(&c->coalesced, 1);
	else if (outcome == LOST_RATE)
		__sync_fetch_and_add(&c->lost[RF_LOSS_RATE], 1);
	else
		__sync_fetch_and_add(&c->lost[RF_LOSS_RING], 1);
	rf_meter_opaque(reason);
	if (decision == RF_ALLOW || decision == RF_WOULD_ALLOW || reason >= RF_REASONS)
		return;
	rf_meter_opaque(reason); /* the very register that was compared is the index */
	if (decision == RF_WOULD_DENY)
		__sync_fetch_and_add(&c->would_deny[reason], 1);
	else
		__sync_fetch_and_add(&c->denied[reason], 1);
}

/*
 * Tell the label's event, which is complete but for its tag and program: count it with
 * an equal one, or write it if the session's budget and the ring have room.
 */
__noinline int emit(struct rf_label *label)
{
	struct rf_meter_stream *stream;
	struct rf_event *event;
	struct rf_meter *meter;
	enum outcome outcome;
	bool allowed;
	__u32 size;

	if (!label)
		return 0;
	event = &label->event;
	meter = meter_of(label->slot, label->session);
	if (!meter)
		return 0;
	allowed = event->decision == RF_ALLOW;
	stream = allowed ? &meter->stream[RF_STREAM_OTHERS] : &meter->stream[RF_STREAM_DENIALS];
	rf_meter_opaque(stream);
	event_tag(event);
	size = event->path_len;
	if (size > RF_EVENT_PATH)
		size = RF_EVENT_PATH;
	size += __builtin_offsetof(struct rf_event, path);
	if (rf_meter_repeated(stream, event->tag)) {
		outcome = COALESCED;
	} else if (!rf_meter_charge(stream, event->time, size)) {
		outcome = LOST_RATE;
	} else {
		long err;

		event_exe(event);
		if (allowed)
			err = bpf_ringbuf_output(&others, event, size, 0);
		else
			err = bpf_ringbuf_output(&denials, event, size, 0);
		outcome = err ? LOST_RING : WRITTEN;
		if (!err)
			rf_meter_expect(stream, event->tag);
	}
	count(label->slot, label->session, event->decision, event->reason, outcome);
	return 0;
}

/* All of an event but its object. */
static __always_inline void event_head(struct rf_event *event, __u64 session, __u8 op,
				       const struct rf_verdict *verdict, __u8 decision)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 id = bpf_get_current_pid_tgid();
	struct pid *pid;
	__u32 level = 0;

	event->time = bpf_ktime_get_boot_ns();
	event->session = session;
	event->cgroup = bpf_get_current_cgroup_id();
	event->pid = id;
	event->tgid = id >> 32;
	event->uid = bpf_get_current_uid_gid();
	event->ns_pid = 0;
	pid = BPF_CORE_READ(task, group_leader, thread_pid);
	level = BPF_CORE_READ(pid, level);
	bpf_probe_read_kernel(&event->ns_pid, sizeof(event->ns_pid),
			      (const char *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	event->decision = decision;
	event->op = op;
	event->reason = verdict->reason;
	event->flags = 0;
	event->want = verdict->want;
	event->missing = verdict->missing;
	event->rule = verdict->rule;
	event->anchor_name = verdict->name;
	event->path_len = 0;
	event->magic = 0;
	event->tag = 0;
	event->exe_len = 0;
	__builtin_memset(&event->anchor, 0, sizeof(event->anchor));
}

static __always_inline void no_address(struct rf_event *event)
{
	event->port = 0;
	event->proto = 0;
	event->family = 0;
	__builtin_memset(event->address, 0, sizeof(event->address));
}

/* An event of the walk's verdict on its object; `decision` says what became of the act. */
__noinline int tell_object(struct rf_label *label, __u64 word, __u8 op, __u8 decision)
{
	struct dentry *object;
	struct rf_event *event;
	struct rf_walk *walk;

	if (!label)
		return 0;
	walk = &label->walk;
	event = &label->event;
	object = (struct dentry *)walk->object;
	event_head(event, label->session, op, &walk->verdict, decision);
	no_address(event);
	event->policy = RF_WORD_POLICY(word);
	event->magic = BPF_CORE_READ(object, d_inode, i_sb, s_magic);
	if (walk->place == RF_ANCHORED && walk->verdict.name >= RF_ANCHOR_NAMES) {
		event->anchor = walk->own_key;
		event->anchor_name -= RF_ANCHOR_NAMES;
	} else {
		if (walk->place == RF_ANCHORED)
			event->anchor = walk->key;
		else
			event->flags |=
				walk->place == RF_DETACHED ? RF_EVENT_DETACHED : RF_EVENT_NO_ANCHOR;
		event_path(walk, event);
	}
	emit(label);
	return 0;
}

/*
 * The end of each hook whose verdict is in the label's walk: tell what is to be told of it
 * by `tell`, and answer. Where audited rules would change the verdict, that is told besides.
 */
#define answer_with(tell, label, word, op)                                                         \
	({                                                                                         \
		struct rf_verdict *v_ = &(label)->walk.verdict;                                    \
		__u8 audited_ = rf_verdict_audited(v_);                                            \
		bool denied_ = rf_verdict_denies(v_), audit_ = (word)&RF_WORD_AUDIT;               \
                                                                                                   \
		if (denied_)                                                                       \
			tell(label, word, op, audit_ ? RF_WOULD_DENY : RF_DENY);                   \
		else if ((word)&RF_WORD_LOG_ALL)                                                   \
			tell(label, word, op, RF_ALLOW);                                           \
		if (audited_) {                                                                    \
			rf_verdict_take_audited(v_);                                               \
			tell(label, word, op, audited_);                                           \
		}                                                                                  \
		denied_ && !audit_ ? -EACCES : 0;                                                  \
	})

static __always_inline int answer(struct rf_label *label, __u64 word, __u8 op)
{
	return answer_with(tell_object, label, word, op);
}

/*
 * Report what no policy was asked about, as a task of a session that cannot be
 * labelled: denied in every mode. The errno is the caller's, who returns it as it is.
 */
__noinline int report(__u32 slot, __u64 id, __u8 op, __u8 want, __u8 reason)
{
	const __u32 size = __builtin_offsetof(struct rf_event, path);
	struct rf_verdict verdict = {};
	enum outcome outcome = LOST_RATE;
	struct rf_event *event;
	struct rf_meter *meter;

	meter = meter_of(slot, id);
	rf_verdict_begin(&verdict, want);
	rf_verdict_fail(&verdict, reason);
	if (meter &&
	    rf_meter_charge(&meter->stream[RF_STREAM_DENIALS], bpf_ktime_get_boot_ns(), size)) {
		event = bpf_ringbuf_reserve(&denials, size, 0);
		outcome = event ? WRITTEN : LOST_RING;
		if (event) {
			event_head(event, id, op, &verdict, RF_DENY);
			no_address(event);
			event->policy = 0;
			event->flags = RF_EVENT_NO_ANCHOR;
			bpf_ringbuf_submit(event, 0);
		}
	}
	count(slot, id, RF_DENY, reason, outcome);
	return 0;
}

/* The answer of a hook whose task is in a session but has no label: `err`, in every mode. */
static __always_inline int answer_unlabelled(__u32 slot, __u8 op, __u8 want, int err)
{
	struct rf_session *session;

	session = bpf_map_lookup_elem(&sessions, &slot);
	if (session)
		report(slot, READ_ONCE(session->id), op, want, RF_REASON_NO_STORAGE);
	return err;
}

/*
 * How each hook begins: the label of the current task. NULL: that is all, the hook returns
 * what *ret_answer says, 0 outside every session and `err` of a task that is in a session but
 * has no label and cannot get one. `want` is evaluated only then: this is on every way, also outside.
 */
#define hook_label(op, want, err, ret_answer)                                                      \
	({                                                                                         \
		struct rf_label *label_ = NULL;                                                    \
		__u32 slot_ = 0;                                                                   \
		enum rf_found found_ = label_current(&label_, &slot_);                             \
                                                                                                   \
		*(ret_answer) = 0;                                                                 \
		if (found_ != RF_LABELLED) {                                                       \
			if (found_ != RF_OUTSIDE)                                                  \
				*(ret_answer) = answer_unlabelled(slot_, op, want, err);           \
			label_ = NULL;                                                             \
		}                                                                                  \
		label_;                                                                            \
	})

#endif
