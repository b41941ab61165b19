/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pseudo terminals that a session allocates.
 *
 *   inode_alloc_security
 *             -> nothing is stopped: the node that devpts makes for a pty is marked as
 *                the session's whose task opens /dev/ptmx
 *
 * The mark is made in the only moment that tells who allocates: devpts makes the inode
 * of the slave within the open of the master. A master that was received or inherited
 * from outside of the session makes nothing its own, whatever is asked of it. The mark
 * lies in the inode's own storage, so it ends with the inode, and no other terminal that
 * gets the same number or the same memory can have it.
 */
#include "bpf/event.bpf.h"
#include "bpf/label.bpf.h"

SEC("lsm/inode_alloc_security")
int BPF_PROG(rf_inode_alloc_security, struct inode *inode, int ret)
{
	struct rf_label *label;
	__u64 *owner;

	if (ret)
		return ret;
	/* Every inode of every file system comes along here. */
	if (inode->i_sb->s_magic != DEVPTS_SUPER_MAGIC)
		return 0;
	label = hook_label(RF_OP_OPEN, RF_READ | RF_MODIFY, -ENOMEM, &ret);
	if (!label)
		return ret;
	owner = bpf_inode_storage_get(&ptys, inode, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!owner) {
		report(label->slot, label->session, RF_OP_OPEN, RF_READ | RF_MODIFY,
		       RF_REASON_NO_STORAGE);
		return -ENOMEM; /* what the caller makes of each errno */
	}
	*owner = label->session;
	return 0;
}
