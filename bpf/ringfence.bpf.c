/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one translation unit of the kernel side: the hook families, which share
 * maps and the walk.
 */
#include "bpf/file.bpf.c"
#include "bpf/identify.bpf.c"
#include "bpf/mount.bpf.c"
#include "bpf/net.bpf.c"
#include "bpf/task.bpf.c"
#include "bpf/terminal.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
