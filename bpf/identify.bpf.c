/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An iterator over the descriptors of one process (the daemon), which says what
 * identity the kernel itself sees behind each: stat(2) shows other device numbers
 * on btrfs and overlayfs, and no generation. The object's file system gets its number here.
 */
#include "bpf/maps.bpf.h"
#include "bpf/super.bpf.h"

/* The daemon alone runs this, once at a time. A descriptor keeps its superblock meanwhile. */
static __always_inline __u32 numbered(const struct super_block *sb)
{
	__u64 address = (__u64)sb;
	__u32 number = super_number(sb);

	if (number || global.last_super == ~0u)
		return number;
	number = global.last_super + 1;
	if (bpf_map_update_elem(&supers, &address, &number, BPF_NOEXIST))
		return 0;
	global.last_super = number;
	return number;
}

SEC("iter/task_file")
int rf_identify(struct bpf_iter__task_file *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct file *file = ctx->file;
	struct rf_identity identity = {};
	struct super_block *sb;
	struct inode *inode;

	if (!ctx->task || !file)
		return 0;
	inode = file->f_inode;
	sb = inode->i_sb;
	identity.fd = ctx->fd;
	identity.super = numbered(sb);
	identity.ino = inode->i_ino;
	identity.generation = inode->i_generation;
	identity.mode = inode->i_mode;
	identity.magic = sb->s_magic;
	identity.flags = folds(sb->s_magic, file->f_path.dentry->d_flags) ? RF_IDENTITY_FOLDS : 0;
	bpf_seq_write(seq, &identity, sizeof(identity));
	return 0;
}
