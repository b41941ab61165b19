/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's types, as far as the programs read them: names only, the offsets
 * come from the running kernel's BTF when the programs are loaded. So the build
 * needs no special kernel. Constants are the kernel's own, with their source.
 */
#ifndef RF_BPF_KERNEL_H
#define RF_BPF_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define barrier() asm volatile("" ::: "memory")

/*
 * Marks the condition of an early return. selftests/mutants-live makes the first the second, of
 * each in turn: a live test must notice.
 */
#define RF_GUARD(condition) (condition)
#define RF_GUARD_OFF(condition) (0 && (condition))

#define EPERM 1
#define ENOMEM 12
#define EACCES 13

/* fcntl.h (x86-64): f_flags */
#define O_ACCMODE 00000003
#define O_WRONLY 00000001
#define O_RDWR 00000002
#define O_TRUNC 00001000
#define O_TMPFILE_BIT 020000000 /* __O_TMPFILE */
/* fs.h: __FMODE_EXEC, in f_flags of the opens that execve makes; see open_rights() */
#define FMODE_EXEC_FLAG 0x20
/* fs.h: FMODE_CREATED, in f_mode: this open made the file */
#define FMODE_CREATED (1u << 20)

/* ioctls.h: input or commands put into a terminal */
#define TIOCSTI 0x5412
#define TIOCLINUX 0x541c
/* fs.h and ext4.h: another i_generation for an inode */
#define FS_IOC_SETVERSION 0x40087602
#define FS_IOC32_SETVERSION 0x40047602
#define EXT4_IOC_SETVERSION 0x40086604
#define EXT4_IOC32_SETVERSION 0x40046604
#define EXT4_IOC_SWAP_BOOT 0x6611
/* btrfs.h, bcachefs_ioctl.h: snapshots, and all of a subvolume as a stream */
#define BTRFS_IOC_SNAP_CREATE 0x50009401
#define BTRFS_IOC_SNAP_CREATE_V2 0x50009417
#define BTRFS_IOC_SEND 0x40489426
#define BTRFS_IOC_SEND_32 0x40449426
#define BCH_IOCTL_SUBVOLUME_CREATE 0x4020bc10

/* xfs_fs.h: an open by a handle, with flags that its caller chooses */
#define XFS_IOC_OPEN_BY_HANDLE 0xc038586b
#define XFS_IOC_OPEN_BY_HANDLE_32 0xc01c586b

/* stat.h: i_mode */
#define S_IFMT 00170000
#define S_IFDIR 0040000
#define S_IFREG 0100000
#define S_IFCHR 0020000
#define S_IFBLK 0060000

/* kdev_t.h, major.h */
#define MINORBITS 20
#define UNIX98_PTY_SLAVE_MAJOR 136
/* dcache.h: in d_flags: the file system says which names are the same */
#define DCACHE_OP_HASH (1u << 0)
#define DCACHE_OP_COMPARE (1u << 1)
/* whether the name still holds is asked of the file system each time */
#define DCACHE_OP_REVALIDATE (1u << 2)
/* fs.h: S_CASEFOLD, in i_flags of a directory whose names are folded */
#define S_CASEFOLD (1u << 15)

/* fs.h: SB_NOUSER, a file system that no one can mount */
#define SB_NOUSER (1ul << 31)
/* fs.h: SB_KERNMOUNT, one that the kernel made for itself */
#define SB_KERNMOUNT (1ul << 22)
/* magic.h */
#define PIPEFS_MAGIC 0x50495045
#define PID_FS_MAGIC 0x50494446
#define NSFS_MAGIC 0x6e736673
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6
#define DEVPTS_SUPER_MAGIC 0x1cd1
#define MQUEUE_MAGIC 0x19800202
/* magic.h, and the file systems' own sources: see folds() */
#define ADFS_SUPER_MAGIC 0xadf5
#define AFFS_SUPER_MAGIC 0xadff
#define HPFS_SUPER_MAGIC 0xf995e849
#define ISOFS_SUPER_MAGIC 0x9660
#define JFS_SUPER_MAGIC 0x3153464a
#define NTFS_SB_MAGIC 0x5346544e
#define VBOXSF_SUPER_MAGIC 0x786f4256
#define FUSE_SUPER_MAGIC 0x65735546
#define MSDOS_SUPER_MAGIC 0x4d44
#define EXFAT_SUPER_MAGIC 0x2011bab0
#define NTFS3_SUPER_MAGIC 0x7366746e
#define HFS_SUPER_MAGIC 0x4244
#define HFSPLUS_SUPER_MAGIC 0x482b
#define CIFS_SUPER_MAGIC 0xff534d42
#define SMB2_SUPER_MAGIC 0xfe534d42
#define V9FS_MAGIC 0x01021997

/* linux/socket.h */
#define AF_UNSPEC 0
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define AF_NETLINK 16
/* linux/net.h: enum sock_type */
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
/* in.h */
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_MPTCP 262
/* netlink.h, rtnetlink.h */
#define NETLINK_ROUTE 0
#define NLMSG_HDRLEN 16
#define NLMSG_MIN_TYPE 0x10
#define NLMSG_ALIGN(len) (((len) + 3) & ~3u)
#define RTNL_KIND(type) ((type)&3)
#define RTNL_KIND_GET 2

/*
 * Programs made by BPF_PROG name all arguments of their hook, used or not.
 */
#pragma clang diagnostic ignored "-Wunused-parameter"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
	union {
		struct {
			__u32 hash;
			__u32 len;
		};
		__u64 hash_len;
	};
	const unsigned char *name;
};

struct dentry;

struct file_system_type {
	const char *name;
};

struct super_block {
	struct file_system_type *s_type;
	struct dentry *s_root;
	unsigned long s_flags;
	unsigned long s_magic;
	void *s_fs_info;
	int s_stack_depth;
};

struct inode {
	__u16 i_mode;
	unsigned int i_flags;
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_rdev;
	__u32 i_generation;
	void *i_private;
};

struct dentry {
	unsigned int d_flags;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct proc_ns_operations {
	const char *name;
};

struct ns_common {
	unsigned int inum;
	const struct proc_ns_operations *ops;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct mount {
	struct mount *mnt_parent;
	struct mnt_namespace *mnt_ns;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	unsigned int f_flags;
	struct path f_path;
	struct inode *f_inode;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct mm_struct {
	struct file *exe_file;
};

struct tty_driver {
	int major;
	int minor_start;
};

struct tty_struct {
	struct tty_driver *driver;
	int index;
	struct tty_struct *link;
	void *driver_data;
};

struct signal_struct {
	struct tty_struct *tty;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct bpf_local_storage;

struct task_struct {
	struct task_struct *group_leader;
	struct bpf_local_storage *bpf_storage;
	struct pid *thread_pid;
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct css_set *cgroups;
};

struct sock_common {
	unsigned short skc_family;
	__be32 skc_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u8 sk_kern_sock : 1;
	__u16 sk_protocol;
};

struct socket {
	struct sock *sk;
};

struct sockaddr;

struct msghdr {
	void *msg_name;
	int msg_namelen;
};

struct sk_buff {
	unsigned int len;
	unsigned char *data;
};

struct seqcount {
	unsigned int sequence;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

/*
 * Reads through what this returns need no helper: kernels since 6.2, which can be told from
 * older ones by another thing that is new there.
 */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

enum bpf_func_id___6_2 { BPF_FUNC_cgrp_storage_get___6_2 = 210 };
#define has_rdonly_cast()                                                                          \
	bpf_core_enum_value_exists(enum bpf_func_id___6_2, BPF_FUNC_cgrp_storage_get___6_2)

#endif
