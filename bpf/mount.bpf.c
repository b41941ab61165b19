/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * File systems that come and go.
 *
 *   sb_kern_mount -> remembers a tmpfs that a session mounts in a namespace of its
 *                    own: what lies there is the session's own memory
 *   sb_free_security
 *                 -> forgets it, before another file system can have its address
 */
#include "bpf/event.bpf.h"
#include "bpf/label.bpf.h"
#include "bpf/walk.bpf.h"

/* Each mount of a tmpfs is a new one, which nobody else can have filled. */
static __always_inline bool is_fresh_memory(const struct super_block *sb)
{
	return sb->s_magic == TMPFS_MAGIC && !(sb->s_flags & SB_NOUSER) && has_type(sb, TYPE_TMPFS);
}

SEC("lsm/sb_kern_mount")
int BPF_PROG(rf_sb_kern_mount, const struct super_block *sb, int ret)
{
	struct rf_label *label;
	__u64 address = (__u64)sb;

	if (ret)
		return ret;
	label = hook_label(RF_OP_MOUNT, 0, -EPERM, &ret);
	if (!label)
		return ret;
	if (!is_fresh_memory(sb) || !bpf_map_update_elem(&made, &address, &label->session, BPF_ANY))
		return 0;
	report(label->slot, label->session, RF_OP_MOUNT, 0, RF_REASON_MAP_FULL);
	return -EPERM;
}

SEC("lsm/sb_free_security")
int BPF_PROG(rf_sb_free_security, struct super_block *sb)
{
	__u64 address = (__u64)sb;

	bpf_map_delete_elem(&made, &address);
	return 0;
}
