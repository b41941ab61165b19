/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files.
 *
 *   file_open -> every open but O_PATH: reading, writing, truncating, creating by
 *                open, and the opens that execve makes of a program, its
 *                interpreters and its loader (judged as exec)
 */
#include "bpf/event.bpf.h"
#include "bpf/label.bpf.h"
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

SEC("lsm/file_open")
int BPF_PROG(rf_file_open, struct file *file, int ret)
{
	struct rf_label *label = NULL;
	struct dentry *dentry;
	__u32 slot = 0;
	__u64 word;
	__u8 want, op;

	if (ret)
		return ret;
	switch (label_current(&label, &slot)) {
	case RF_OUTSIDE:
		return 0;
	case RF_UNLABELLABLE:
		report_unlabelled(slot, RF_OP_OPEN, open_rights(file->f_flags, file->f_mode));
		return -EACCES;
	case RF_LABELLED:
		break;
	}
	want = open_rights(file->f_flags, file->f_mode);
	op = want & RF_EXEC ? RF_OP_EXEC : RF_OP_OPEN;
	dentry = file->f_path.dentry;
	word = label_word(label);
	judge_object(&label->walk, dentry, want, word);
	return answer(label, word, op, dentry);
}
