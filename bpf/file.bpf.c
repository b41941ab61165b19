/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files.
 *
 *   file_open -> every open but O_PATH: reading, writing, truncating, creating by
 *                open, and the opens that execve makes of a program, its
 *                interpreters and its loader (judged as exec); of terminals, those
 *                that are not the session's own
 *   file_ioctl, file_ioctl_compat
 *             -> TIOCSTI and TIOCLINUX, which type into the terminal of whoever
 *                started the session; those that change what an object is known by,
 *                copy a tree with all that is denied in it, or open as execve does;
 *                no other ioctl is judged
 */
#include "bpf/event.bpf.h"
#include "bpf/label.bpf.h"
#include "bpf/terminal.bpf.h"
#include "bpf/walk.bpf.h"

/* The rights that an open needs. Access mode 3 (ioctl only) asks for both, as the kernel does. */
static __always_inline __u8 open_rights(const struct file *file)
{
	unsigned int flags = file->f_flags, mode = file->f_mode;
	const struct inode *inode = file->f_inode;
	__u8 want = 0;

	/*
	 * Only execve opens regular files so; mq_open and TIOCGPTPEER let callers set the flag, and
	 * so does an ioctl of XFS, which is refused.
	 */
	if (flags & FMODE_EXEC_FLAG && (flags & O_ACCMODE) == 0 &&
	    (inode->i_mode & S_IFMT) == S_IFREG && inode->i_sb->s_magic != MQUEUE_MAGIC)
		return RF_EXEC;
	if ((flags & O_ACCMODE) != O_WRONLY)
		want |= RF_READ;
	if ((flags & O_ACCMODE) != 0 || flags & O_TRUNC)
		want |= RF_MODIFY;
	if (mode & FMODE_CREATED || flags & O_TMPFILE_BIT)
		want |= RF_CREATE;
	return want;
}

/*
 * An overlay's file in its layer, opened under the overlay's path (kernels before 6.7): that
 * path has been judged for the overlay's own file, and its verdict would be the same.
 */
static __always_inline bool is_layer_of_overlay(const struct file *file)
{
	const struct inode *inode = file->f_path.dentry->d_inode;

	return file->f_inode != inode && inode->i_sb->s_magic == OVERLAYFS_SUPER_MAGIC;
}

/*
 * Such a file may be one that the policy names, opened by another hard link: what these names
 * deny is denied. False: nothing is, nor to be told.
 */
static __always_inline bool judge_layer(struct rf_label *label, const struct file *file, __u8 want,
					__u64 word)
{
	struct rf_anchor_key key = {.policy = RF_WORD_POLICY(word)};
	const struct inode *inode = file->f_inode;
	struct rf_walk *walk = &label->walk;
	struct rf_anchor *anchor;

	key.super = super_number(inode->i_sb);
	anchor = anchor_of(&key, inode);
	if (!anchor)
		return false;
	anchored(walk, &key, anchor);
	walk->own[0] = 0;
	walk->n = walk->folded = 0;
	walk->object = (__u64)file->f_path.dentry;
	walk->word = word;
	rf_verdict_begin(&walk->verdict, want);
	judge_walk(walk);
	rf_verdict_keep_refused(&walk->verdict);
	return rf_verdict_denies(&walk->verdict) || rf_verdict_audited(&walk->verdict);
}

/*
 * A pidfd: since Linux 6.9 the kernel makes it (pidfd_open(2), CLONE_PIDFD) by an open, but
 * nothing is opened that has a name or a content.
 */
static __always_inline bool is_pidfd(const struct file *file)
{
	return file->f_inode->i_sb->s_magic == PID_FS_MAGIC;
}

SEC("lsm/file_open")
int BPF_PROG(rf_file_open, struct file *file, int ret)
{
	struct rf_label *label;
	__u64 word;
	__u8 want, op;

	if (ret)
		return ret;
	label = hook_label(RF_OP_OPEN, open_rights(file), -EACCES, &ret);
	if (!label)
		return ret;
	want = open_rights(file);
	word = label_word(label);
	if (is_known_allowed(&file->f_path, file->f_inode, want, word))
		return 0;
	if (RF_GUARD(is_pidfd(file)))
		return 0;
	op = want & RF_EXEC ? RF_OP_EXEC : RF_OP_OPEN;
	/* The session may have ended since the overlay's own open was judged. */
	if (RF_GUARD(!word) || !is_layer_of_overlay(file)) {
		judge_object(label, &file->f_path, file->f_inode, want, word);
		judge_terminal(label, file, word);
	} else if (!judge_layer(label, file, want, word)) {
		return 0;
	}
	return answer(label, word, op);
}

/* Why an ioctl is denied whatever the policy says, 0 for all others. */
static __always_inline __u8 refused_ioctl(unsigned int cmd)
{
	switch (cmd) {
	/* What is typed into the session's terminal, the caller's shell executes. */
	case TIOCSTI:
	case TIOCLINUX:
		return RF_REASON_TERMINAL;
	/* Rules would no longer know the object, or not know its copy. */
	case FS_IOC_SETVERSION:
	case FS_IOC32_SETVERSION:
	case EXT4_IOC_SETVERSION:
	case EXT4_IOC32_SETVERSION:
	case EXT4_IOC_SWAP_BOOT:
	case BTRFS_IOC_SNAP_CREATE:
	case BTRFS_IOC_SNAP_CREATE_V2:
	case BTRFS_IOC_SEND:
	case BTRFS_IOC_SEND_32:
	case BCH_IOCTL_SUBVOLUME_CREATE:
	/* It would open for reading what may be executed only: see open_rights(). */
	case XFS_IOC_OPEN_BY_HANDLE:
	case XFS_IOC_OPEN_BY_HANDLE_32:
		return RF_REASON_IDENTITY;
	}
	return 0;
}

static __always_inline int judge_ioctl(struct file *file, unsigned int cmd)
{
	__u8 reason = refused_ioctl(cmd);
	struct rf_label *label;
	struct dentry *dentry;
	int ret = 0;
	__u64 word;

	if (!reason)
		return 0;
	label = hook_label(RF_OP_IOCTL, RF_MODIFY, -EACCES, &ret);
	if (!label)
		return ret;
	dentry = file->f_path.dentry;
	word = label_word(label);
	/* Out of the session not even to watch it: the shell outside does not know of audit. */
	if (reason == RF_REASON_TERMINAL)
		word &= ~(__u64)RF_WORD_AUDIT;
	/* No policy is asked, so there is no walk either: the object's own name will do. */
	label->walk.object = (__u64)dentry;
	label->walk.place = RF_NOWHERE;
	label->walk.name[0] = (__u64)dentry->d_name.name;
	label->walk.len[0] = dentry->d_name.len;
	label->walk.n = 1;
	rf_verdict_begin(&label->walk.verdict, RF_MODIFY);
	rf_verdict_fail(&label->walk.verdict, reason);
	return answer(label, word, RF_OP_IOCTL);
}

SEC("lsm/file_ioctl")
int BPF_PROG(rf_file_ioctl, struct file *file, unsigned int cmd, unsigned long arg, int ret)
{
	if (ret)
		return ret;
	return judge_ioctl(file, cmd);
}

/* Kernels without this hook (before 6.8, and stable releases of that time) use file_ioctl for both. */
SEC("lsm/file_ioctl_compat")
int BPF_PROG(rf_file_ioctl_compat, struct file *file, unsigned int cmd, unsigned long arg, int ret)
{
	if (ret)
		return ret;
	return judge_ioctl(file, cmd);
}
