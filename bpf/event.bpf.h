/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a verdict to the hook's answer: counters, the event, the errno. Every hook
 * ends in one of these calls.
 */
#ifndef RF_BPF_EVENT_H
#define RF_BPF_EVENT_H

#include "bpf/label.bpf.h"
#include "bpf/maps.bpf.h"

/* The names of the walk as "/a/b", from the anchor down; cut where the room ends. */
__noinline int event_path(struct rf_walk *walk, struct rf_event *event)
{
	__u32 i, n, len, at = 0;

	if (!walk || !event)
		return 0;
	n = walk->n;
	for (i = 1; i <= RF_MAX_COMPONENTS; i++) {
		if (i > n)
			break;
		if (at > RF_EVENT_PATH - 1 - RF_NAME_MAX) {
			event->flags |= RF_EVENT_TRUNCATED;
			break;
		}
		at &= RF_EVENT_PATH - 1;
		len = walk->len[(n - i) & (RF_MAX_COMPONENTS - 1)];
		event->path[at] = '/';
		if (at > RF_EVENT_PATH - 1 - RF_NAME_MAX)
			break;
		if (bpf_probe_read_kernel(
			    event->path + at + 1, len,
			    (const void *)walk->name[(n - i) & (RF_MAX_COMPONENTS - 1)]))
			event->flags |= RF_EVENT_TRUNCATED;
		at += 1 + len;
	}
	event->path_len = at;
	return 0;
}

#define EXE_NAMES 32

/*
 * The path of the current process's program, mountpoints crossed, written from
 * its end to its beginning. For people only: nothing is decided by it, so plain
 * reads of whatever is there do.
 */
__noinline int event_exe(struct rf_event *event)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 i, len, at = RF_EVENT_EXE;
	struct dentry *dentry, *parent, *root;
	struct vfsmount *vfsmount;
	struct mount *mount, *up;
	struct file *file;

	if (!event)
		return 0;
	event->exe_len = 0;
	file = BPF_CORE_READ(task, mm, exe_file);
	if (!file)
		return 0;
	dentry = BPF_CORE_READ(file, f_path.dentry);
	vfsmount = BPF_CORE_READ(file, f_path.mnt);
	mount = (struct mount *)((char *)vfsmount - bpf_core_field_offset(struct mount, mnt));
	for (i = 0; i < EXE_NAMES; i++) {
		root = BPF_CORE_READ(mount, mnt.mnt_root);
		parent = BPF_CORE_READ(dentry, d_parent);
		if (dentry == root || dentry == parent) {
			up = BPF_CORE_READ(mount, mnt_parent);
			if (dentry != root || up == mount)
				goto whole;
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = up;
			continue;
		}
		len = BPF_CORE_READ(dentry, d_name.len);
		if (len >= at)
			break;
		at -= len + 1;
		at &= RF_EVENT_EXE - 1;
		len &= RF_NAME_MAX;
		if (at + 1 + len > RF_EVENT_EXE)
			break;
		event->exe[at] = '/';
		if (len && at < RF_EVENT_EXE - 1 &&
		    bpf_probe_read_kernel(event->exe + at + 1, len,
					  BPF_CORE_READ(dentry, d_name.name)))
			break;
		event->exe_len = RF_EVENT_EXE - at;
		dentry = parent;
	}
	event->flags |= RF_EVENT_EXE_CUT;
whole:
	return 0;
}

static __always_inline void count(__u32 slot, __u64 session, const struct rf_verdict *verdict,
				  bool audit, bool written)
{
	struct rf_counters *c = bpf_map_lookup_elem(&counters, &slot);
	__u32 reason = verdict->reason;

	if (!c || c->session != session)
		return;
	/* Another task on this CPU may preempt us here, hence atomic. */
	__sync_fetch_and_add(&c->seen, 1);
	if (written)
		__sync_fetch_and_add(&c->written, 1);
	else
		__sync_fetch_and_add(&c->lost, 1);
	if (!rf_verdict_denies(verdict) || reason >= RF_REASONS)
		return;
	if (audit)
		__sync_fetch_and_add(&c->would_deny[reason], 1);
	else
		__sync_fetch_and_add(&c->denied[reason], 1);
}

static __always_inline void event_head(struct rf_event *event, __u64 session, __u8 op,
				       const struct rf_verdict *verdict, bool audit)
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
	event->decision = !rf_verdict_denies(verdict) ? RF_ALLOW : audit ? RF_WOULD_DENY : RF_DENY;
	event->op = op;
	event->reason = verdict->reason;
	event->flags = 0;
	event->want = verdict->want;
	event->missing = verdict->missing;
	event->rule = verdict->rule;
	event->anchor_name = verdict->name;
	event->path_len = 0;
	event->magic = 0;
}

/*
 * The end of a file or exec hook: report what the walk of `label` found, and
 * answer. `object` is what was judged.
 */
static __always_inline int answer(struct rf_label *label, __u64 word, __u8 op,
				  const struct dentry *object)
{
	struct rf_walk *walk = &label->walk;
	struct rf_event *event = &label->event;
	bool audit = word & RF_WORD_AUDIT;
	bool denied = rf_verdict_denies(&walk->verdict);
	__u32 size;
	long err;

	if (!denied && !(word & RF_WORD_LOG_ALL))
		return 0;
	event_head(event, label->session, op, &walk->verdict, audit);
	event->policy = RF_WORD_POLICY(word);
	event->magic = object->d_inode->i_sb->s_magic;
	if (walk->place == RF_ANCHORED && walk->verdict.name >= RF_ANCHOR_NAMES) {
		event->anchor = walk->own_key;
		event->anchor_name -= RF_ANCHOR_NAMES;
		walk->n = 0;
	} else if (walk->place == RF_ANCHORED) {
		event->anchor = walk->key;
	} else {
		__builtin_memset(&event->anchor, 0, sizeof(event->anchor));
		event->flags |= walk->place == RF_DETACHED ? RF_EVENT_DETACHED : RF_EVENT_NO_ANCHOR;
	}
	event_exe(event);
	event_path(walk, event);
	size = event->path_len;
	if (size > RF_EVENT_PATH)
		size = RF_EVENT_PATH;
	size += __builtin_offsetof(struct rf_event, path);
	if (denied)
		err = bpf_ringbuf_output(&denials, event, size, 0);
	else
		err = bpf_ringbuf_output(&others, event, size, 0);
	count(label->slot, label->session, &walk->verdict, audit, !err);
	if (denied && !audit)
		return -EACCES;
	return 0;
}

/*
 * Report what no policy was asked about, as a task of a session that cannot be
 * labelled: denied in every mode. The errno is the caller's, who returns it as it is.
 */
static __always_inline void report(__u32 slot, __u8 op, __u8 want, __u8 reason)
{
	struct rf_session *session = bpf_map_lookup_elem(&sessions, &slot);
	struct rf_verdict verdict = {};
	struct rf_event *event;
	__u64 id;

	if (!session)
		return;
	id = READ_ONCE(session->id);
	rf_verdict_begin(&verdict, want);
	rf_verdict_fail(&verdict, reason);
	event = bpf_ringbuf_reserve(&denials, __builtin_offsetof(struct rf_event, path), 0);
	if (event) {
		event_head(event, id, op, &verdict, false);
		event->policy = 0;
		__builtin_memset(&event->anchor, 0, sizeof(event->anchor));
		event->flags = RF_EVENT_NO_ANCHOR;
		event->family = 0;
		event->exe_len = 0;
		bpf_ringbuf_submit(event, 0);
	}
	count(slot, id, &verdict, false, event);
}

#endif
