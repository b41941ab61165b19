/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which session does a task belong to? A label in the task's storage says so for
 * good; a task without one is asked by its cgroup, because it may have been moved
 * into a session by someone else since its last check.
 */
#ifndef RF_BPF_LABEL_H
#define RF_BPF_LABEL_H

#include "bpf/maps.bpf.h"

/*
 * The slot + 1 of the session whose root is the current cgroup's ancestor of that level, 0
 * for none, CGROUP_END where there is no such level. Not static: so it is verified once, not on
 * each way to it.
 */
#define CGROUP_END ~0u

__noinline __u32 cgroup_slot1_at(int level)
{
	__u64 id = bpf_get_current_ancestor_cgroup_id(level);
	struct rf_session *session;
	__u32 *root, slot;

	if (!id)
		return CGROUP_END;
	root = bpf_map_lookup_elem(&roots, &id);
	if (!root)
		return 0;
	slot = *root;
	/* The element may be another session's by now: believe the slot. */
	session = bpf_map_lookup_elem(&sessions, &slot);
	if (session && READ_ONCE(session->cgroup) == id && READ_ONCE(session->id))
		return slot + 1;
	return 0;
}

/* The slot + 1 of the session whose root is at or above the current cgroup, 0 for none. */
__noinline __u32 cgroup_search(void)
{
	__u32 slot1;
	int level;

	for (level = 0; level < RF_MAX_CGROUP_DEPTH; level++) {
		slot1 = cgroup_slot1_at(level);
		if (slot1)
			return slot1 == CGROUP_END ? 0 : slot1;
	}
	return 0;
}

/* The same through the words kept, by the id of the current cgroup. */
static __always_inline __u32 cgroup_slot1(__u64 id)
{
	__u64 *kept = &global.cgroups[id & (RF_CGROUPS - 1)], word, want;
	__u32 slot1;

	if (!RF_CGROUP_KEPT(id))
		return cgroup_search();
	want = RF_CGROUP_WORD(READ_ONCE(global.generation), 0, id);
	word = READ_ONCE(*kept);
	if (RF_CGROUP_BUT_SLOT(word) == want)
		return RF_CGROUP_SLOT1(word);
	/* Found out after the generation was read: if a session starts now, the word is stale. */
	slot1 = cgroup_search();
	*(volatile __u64 *)kept = want | (__u64)slot1 << 22;
	return slot1;
}

/* What label_current() found. */
enum rf_found {
	RF_OUTSIDE, /* in no session */
	RF_LABELLED,
	RF_UNLABELLABLE, /* in a session, but there is no memory for the label: deny */
};

static __always_inline enum rf_found label_current(struct rf_label **ret_label, __u32 *ret_slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rf_session *session;
	struct rf_label *label = NULL;
	__u32 slot1, slot;
	__u64 cgroup;

	/* Most tasks have no storage at all, which is found out sooner than by a call. */
	if (task->bpf_storage)
		label = bpf_task_storage_get(&labels, task, 0, 0);
	if (label && label->session) {
		*ret_label = label;
		*ret_slot = label->slot;
		return RF_LABELLED;
	}
	/* NULL does not mean "none": 6.1 returns it also while the storage is busy. */
	cgroup = task->cgroups->dfl_cgrp->kn->id;
	slot1 = cgroup_slot1(cgroup);
	if (!slot1)
		return RF_OUTSIDE;
	slot = slot1 - 1;
	*ret_slot = slot;
	session = bpf_map_lookup_elem(&sessions, &slot);
	if (!session)
		return RF_UNLABELLABLE;
	label = bpf_task_storage_get(&labels, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!label)
		return RF_UNLABELLABLE;
	if (!label->session) {
		label->slot = slot;
		label->cgroup = cgroup;
		/* An id of 0 is a session that ended meanwhile: no label can match it. */
		label->session = READ_ONCE(session->id) ?: ~0ull;
	}
	*ret_label = label;
	return RF_LABELLED;
}

/* The word of the label's session, 0 if it has ended. */
static __always_inline __u64 label_word(const struct rf_label *label)
{
	struct rf_session *session;
	__u32 slot = label->slot;
	__u64 word;

	session = bpf_map_lookup_elem(&sessions, &slot);
	if (!session)
		return 0;
	/* Word before id: see struct rf_session. */
	word = READ_ONCE(session->word);
	barrier();
	return READ_ONCE(session->id) == label->session ? word : 0;
}

#endif
