/* SPDX-License-Identifier: BSD-2-Clause */
/* One act for the BPF program of verdicts.bpf.c, and what it answers. */
#ifndef RF_SELFTESTS_BPF_VERDICTS_H
#define RF_SELFTESTS_BPF_VERDICTS_H

#include "bpf/verdict.h"

#define ACT_PATH 1024 /* a power of two */
#define ACT_NAMES 4

struct act {
	__u32 is_net;
	__u32 is_udp;
	__u8 address[16];
	__u16 port;
	__u8 want;
	__u8 pad;
	__u32 names;
	__u32 size[ACT_NAMES]; /* bytes of each path; 0: the root */
	__u8 path[ACT_NAMES][ACT_PATH];
	/* The answer. */
	struct rf_verdict verdict;
};

#endif
