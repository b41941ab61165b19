/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An iterator over the descriptors of one process (the daemon), which says what
 * identity the kernel itself sees behind each: stat(2) shows other device numbers
 * on btrfs and overlayfs, and no generation.
 */
#include "bpf/maps.bpf.h"

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
	identity.dev = sb->s_dev;
	identity.ino = inode->i_ino;
	identity.generation = inode->i_generation;
	identity.mode = inode->i_mode;
	identity.magic = sb->s_magic;
	identity.flags = sb->s_flags;
	bpf_seq_write(seq, &identity, sizeof(identity));
	return 0;
}
