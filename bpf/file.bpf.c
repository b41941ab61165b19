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
 *                started the session; no other ioctl is judged
 */
#include "bpf/event.bpf.h"
#include "bpf/label.bpf.h"
#include "bpf/terminal.bpf.h"
#include "bpf/walk.bpf.h"

/* The rights that an open needs. Access mode 3 (ioctl only) asks for both, as the kernel does. */
static __always_inline __u8 open_rights(unsigned int flags, unsigned int mode)
{
	__u8 want = 0;

	if (flags & FMODE_EXEC_FLAG)
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
 * path has been judged for the overlay's own file.
 */
static __always_inline bool is_layer_of_overlay(const struct file *file)
{
	const struct inode *inode = file->f_path.dentry->d_inode;

	return file->f_inode != inode && inode->i_sb->s_magic == OVERLAYFS_SUPER_MAGIC;
}

SEC("lsm/file_open")
int BPF_PROG(rf_file_open, struct file *file, int ret)
{
	struct rf_label *label;
	__u64 word;
	__u8 want, op;

	if (ret)
		return ret;
	want = open_rights(file->f_flags, file->f_mode);
	label = hook_label(RF_OP_OPEN, want, -EACCES, &ret);
	if (!label || is_layer_of_overlay(file))
		return ret;
	op = want & RF_EXEC ? RF_OP_EXEC : RF_OP_OPEN;
	word = label_word(label);
	judge_object(label, &file->f_path, file->f_inode, want, word);
	judge_terminal(label, file, word);
	return answer(label, word, op);
}

/* Never out of the session: what is typed into its terminal, the caller's shell executes. */
static __always_inline int terminal_ioctl(struct file *file, unsigned int cmd)
{
	struct rf_label *label;
	struct dentry *dentry;
	int ret = 0;
	__u64 word;

	if (cmd != TIOCSTI && cmd != TIOCLINUX)
		return 0;
	label = hook_label(RF_OP_IOCTL, RF_MODIFY, -EACCES, &ret);
	if (!label)
		return ret;
	dentry = file->f_path.dentry;
	word = label_word(label);
	/* No policy is asked, so there is no walk either: the terminal's own name will do. */
	label->walk.object = (__u64)dentry;
	label->walk.place = RF_NOWHERE;
	label->walk.name[0] = (__u64)dentry->d_name.name;
	label->walk.len[0] = dentry->d_name.len;
	label->walk.n = 1;
	rf_verdict_begin(&label->walk.verdict, RF_MODIFY);
	rf_verdict_fail(&label->walk.verdict, RF_REASON_TERMINAL);
	return answer(label, word & ~(__u64)RF_WORD_AUDIT, RF_OP_IOCTL);
}

SEC("lsm/file_ioctl")
int BPF_PROG(rf_file_ioctl, struct file *file, unsigned int cmd, unsigned long arg, int ret)
{
	if (ret)
		return ret;
	return terminal_ioctl(file, cmd);
}

/* Kernels without this hook (before 6.8, and stable releases of that time) use file_ioctl for both. */
SEC("lsm/file_ioctl_compat")
int BPF_PROG(rf_file_ioctl_compat, struct file *file, unsigned int cmd, unsigned long arg, int ret)
{
	if (ret)
		return ret;
	return terminal_ioctl(file, cmd);
}
