/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Terminals that a session may open though its policy does not let it: those that it
 * allocated itself, and, where it may open /dev/tty, its controlling terminal by the
 * name of its node.
 */
#ifndef RF_BPF_TERMINAL_H
#define RF_BPF_TERMINAL_H

#include "bpf/label.bpf.h"
#include "bpf/walk.bpf.h"

/*
 * The controlling terminal is what /dev/tty opens, so its node may be judged as that
 * name, and programs that open ttyname(0), /dev/stderr or /proc/self/fd/1 again go on.
 * No session comes to others by this: TIOCSCTTY and the open that makes a terminal the
 * controlling one both need a descriptor of it.
 *
 * A terminal is told by its device number and, since each devpts counts for itself, by
 * its instance. Both stay its own as long as it is a controlling one. It may cease to be,
 * and its memory become another's, while it is read here: then task->signal->tty, which
 * is read again, is no longer the same.
 */
static __always_inline bool is_controlling(const struct inode *inode, const struct super_block *sb)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct tty_struct *tty = BPF_CORE_READ(task, signal, tty);
	void *instance;
	__u32 dev;

	if (!tty)
		return false;
	dev = (BPF_CORE_READ(tty, driver, major) << MINORBITS) +
	      BPF_CORE_READ(tty, driver, minor_start) + BPF_CORE_READ(tty, index);
	instance = BPF_CORE_READ(tty, link, driver_data); /* ptmx_open(): the master's */
	return dev == inode->i_rdev &&
	       (sb->s_magic != DEVPTS_SUPER_MAGIC || instance == sb->s_fs_info) &&
	       BPF_CORE_READ(task, signal, tty) == tty;
}

/*
 * Better the verdict on `file`, which judge_object() gave, if it is such a terminal. The
 * policy goes first, so that events name the rule that allows where there is one.
 */
static __always_inline void judge_terminal(struct rf_label *label, const struct file *file,
					   __u64 word)
{
	struct rf_walk *walk = &label->walk;
	struct rf_verdict *v = &walk->verdict, first;
	struct inode *inode = file->f_inode;
	struct super_block *sb = inode->i_sb;
	__u32 place = walk->place;
	__u64 *owner;

	if (!(v->missing | v->audited) || !word || (inode->i_mode & S_IFMT) != S_IFCHR ||
	    v->want & ~(RF_READ | RF_MODIFY) || !is_system_node(sb))
		return;
	/* Not the ptmx of a devpts that the session mounted: it is one more name of /dev/ptmx. */
	if (inode->i_rdev >> MINORBITS == UNIX98_PTY_SLAVE_MAJOR) {
		owner = bpf_inode_storage_get(&ptys, inode, NULL, 0);
		if (RF_GUARD(owner && *owner == label->session)) {
			rf_verdict_allow(v);
			return;
		}
	}
	if (RF_GUARD(!is_controlling(inode, sb)))
		return;
	first = *v;
	walk->place = RF_TTY;
	judge_walk(walk);
	walk->place = place;
	/* One of the two names is enough, and where they differ only by audited rules, the better. */
	if (!first.missing && (v->missing || rf_verdict_audited(v)))
		*v = first;
}

#endif
