/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is known of a file system. */
#ifndef RF_BPF_SUPER_H
#define RF_BPF_SUPER_H

#include "bpf/maps.bpf.h"

/* The number of the superblock, 0 if it has none: then no object there has an anchor. */
static __always_inline __u32 super_number(const struct super_block *sb)
{
	__u64 address = (__u64)sb;
	__u32 *number = bpf_map_lookup_elem(&supers, &address);

	return number ? *number : 0;
}

/*
 * May different names be one file there, as "A" and "a"? All file systems of Linux 6.1 to 7.2
 * whose d_hash or d_compare fold names, or which call d_add_ci(), and those where a server
 * decides. Not here: ext4, f2fs, tmpfs, bcachefs and overlayfs, whose directories say it
 * (S_CASEFOLD); efivarfs, which keeps every name as it was made, and looks up no other; XFS,
 * which can only be made so with an option that is being removed, and does not tell.
 */
static __always_inline bool folds(unsigned long magic, unsigned int dentry_flags)
{
	switch (magic) {
	case ADFS_SUPER_MAGIC:
	case AFFS_SUPER_MAGIC:
	case CIFS_SUPER_MAGIC:
	case EXFAT_SUPER_MAGIC:
	case FUSE_SUPER_MAGIC:
	case HFS_SUPER_MAGIC:
	case HFSPLUS_SUPER_MAGIC:
	case HPFS_SUPER_MAGIC:
	case MSDOS_SUPER_MAGIC:
	case NTFS3_SUPER_MAGIC:
	case NTFS_SB_MAGIC:
	case SMB2_SUPER_MAGIC:
	case V9FS_MAGIC:
	case VBOXSF_SUPER_MAGIC:
		return true;
	/* Only some: Joliet, or check=relaxed; made for OS/2. */
	case ISOFS_SUPER_MAGIC:
	case JFS_SUPER_MAGIC:
		return dentry_flags & (DCACHE_OP_HASH | DCACHE_OP_COMPARE);
	}
	return false;
}

#endif
