/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bpf/verdict.h as the kernel runs it: one act on one image, by bpf_prog_test_run. No
 * hook, no session; what differs from the host here differs in the walk, too.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf/verdict.h"
#include "selftests/bpf/verdicts.h"

struct image {
	__u64 word[RF_CLASS_BYTES(RF_CLASS_1M) / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__uint(value_size, sizeof(struct image));
} image SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__uint(value_size, sizeof(struct act));
} act SEC(".maps");

#define opaque(var) asm volatile("" : "+r"(var))

/* The automaton over one name. Global, and so verified once, as in bpf/walk.bpf.h. */
__noinline __u32 walk_name(struct image *words, struct act *a, __u32 name)
{
	const __u32 mask = sizeof(*words) / 8 - 1;
	__u32 state, i;

	if (!words || !a)
		return 0;
	name &= ACT_NAMES - 1;
	state = rf_image_header(words->word)->start;
	for (i = 0; i < ACT_PATH; i++) {
		opaque(i);
		if (i >= a->size[name])
			break;
		state = rf_step(words->word, mask, state, a->path[name][i & (ACT_PATH - 1)]);
	}
	return state;
}

SEC("syscall")
int judge(void *ctx __attribute__((unused)))
{
	const __u32 mask = sizeof(struct image) / 8 - 1;
	__u32 zero = 0, name;
	struct image *words = bpf_map_lookup_elem(&image, &zero);
	struct act *a = bpf_map_lookup_elem(&act, &zero);

	if (!words || !a)
		return 1;
	rf_verdict_begin(&a->verdict, a->want);
	if (a->is_net) {
		rf_verdict_net(&a->verdict,
			       rf_net_find(words->word, mask, a->address, a->is_udp, a->port));
		return 0;
	}
	_Pragma("clang loop unroll(full)") for (name = 0; name < ACT_NAMES; name++)
	{
		if (name >= a->names)
			break;
		rf_verdict_add(&a->verdict, words->word, mask, walk_name(words, a, name), 0, name);
	}
	rf_verdict_end(&a->verdict);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
