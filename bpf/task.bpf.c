/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tasks.
 *
 *   task_alloc -> a child, thread or kernel worker of a session's task that would
 *                 run without the label: it gets one before it exists, or the
 *                 fork fails
 */
#include "bpf/event.bpf.h"
#include "bpf/label.bpf.h"

SEC("lsm/task_alloc")
int BPF_PROG(rf_task_alloc, struct task_struct *task, unsigned long clone_flags, int ret)
{
	struct rf_label *label, *child;

	if (ret)
		return ret;
	label = hook_label(RF_OP_FORK, 0, -EPERM, &ret);
	if (!label)
		return ret;
	child = bpf_task_storage_get(&labels, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!child) {
		report(label->slot, label->session, RF_OP_FORK, 0, RF_REASON_NO_STORAGE);
		return -EPERM;
	}
	child->slot = label->slot;
	child->cgroup = label->cgroup;
	child->session = label->session;
	return 0;
}
