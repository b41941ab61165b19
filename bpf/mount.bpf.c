/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * File systems that come and go.
 *
 *   sb_kern_mount -> remembers a tmpfs that a session mounts in a namespace of its
 *                    own: what lies there is the session's own memory. At most
 *                    RF_MAX_MADE_EACH of one session, which leaves room for others
 *   sb_free_security
 *                 -> forgets it, and the number of one with anchors, before another
 *                    file system can have its address
 */
#include "bpf/event.bpf.h"
#include "bpf/label.bpf.h"
#include "bpf/meter.h"
#include "bpf/walk.bpf.h"

/* Each mount of a tmpfs is a new one, which nobody else can have filled. */
static __always_inline bool is_fresh_memory(const struct super_block *sb)
{
	return sb->s_magic == TMPFS_MAGIC && !(sb->s_flags & SB_NOUSER) && has_type(sb, TYPE_TMPFS);
}

/* False: there is no room. */
static __always_inline bool remember(const struct super_block *sb, const struct rf_label *label)
{
	struct rf_made mine = {.session = label->session, .slot = label->slot};
	struct rf_meter *meter = bpf_map_lookup_elem(&meters, &mine.slot);
	__u64 address = (__u64)sb;

	if (!meter)
		return false;
	if (RF_GUARD(!rf_meter_made(&meter->made, mine.session, 1)))
		return false;
	if (!bpf_map_update_elem(&made, &address, &mine, BPF_NOEXIST))
		return true;
	rf_meter_made(&meter->made, mine.session, -1);
	return false;
}

static __always_inline void forget(const struct super_block *sb)
{
	__u64 address = (__u64)sb;
	struct rf_made *found = bpf_map_lookup_elem(&made, &address), was;
	struct rf_meter *meter;

	if (!found)
		return;
	was = *found;
	if (bpf_map_delete_elem(&made, &address))
		return;
	meter = bpf_map_lookup_elem(&meters, &was.slot);
	if (meter)
		rf_meter_made(&meter->made, was.session, -1);
}

SEC("lsm/sb_kern_mount")
int BPF_PROG(rf_sb_kern_mount, const struct super_block *sb, int ret)
{
	struct rf_label *label;

	if (ret)
		return ret;
	label = hook_label(RF_OP_MOUNT, 0, -EPERM, &ret);
	if (!label)
		return ret;
	/* A session that has ended opens nothing, there neither. */
	if (RF_GUARD(!is_fresh_memory(sb)))
		return 0;
	if (!label_word(label) || remember(sb, label))
		return 0;
	report(label->slot, label->session, RF_OP_MOUNT, 0, RF_REASON_MAP_FULL);
	return -EPERM;
}

SEC("lsm/sb_free_security")
int BPF_PROG(rf_sb_free_security, struct super_block *sb)
{
	__u64 address = (__u64)sb;

	bpf_map_delete_elem(&supers, &address);
	forget(sb);
	return 0;
}
