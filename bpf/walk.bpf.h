/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From an object to its verdict: up from the object to the nearest anchor by
 * d_parent, collecting names, then the automaton down over these names.
 *
 * Mountpoints are not crossed: the root of every mount that the session saw at its
 * start is an anchor, so a walk that gets past a mount's root is in a mount that
 * was made later, and there the object's place in its own file system decides
 * (binding a directory elsewhere gains nothing). What has no anchor is denied.
 */
#ifndef RF_BPF_WALK_H
#define RF_BPF_WALK_H

#include "bpf/image.bpf.h"

/* Keeps the compiler from turning an index into a moving pointer, which 6.1 cannot bound. */
#define opaque(var) asm volatile("" : "+r"(var))

/* The automaton over "/name", for name number i of the walk. 0 = could not be read. */
#define RF_WALK_NAME(suffix)                                                                                   \
	__noinline __u32 walk_name_##suffix(struct rf_image_##suffix *image, struct rf_walk *walk,             \
					    __u32 i, __u32 state)                                              \
	{                                                                                                      \
		const __u32 mask = sizeof(*image) / 8 - 1;                                                     \
		__u32 j, len;                                                                                  \
                                                                                                               \
		if (!image || !walk)                                                                           \
			return 0;                                                                              \
		i &= RF_MAX_COMPONENTS - 1;                                                                    \
		len = walk->len[i];                                                                            \
		if (bpf_probe_read_kernel(walk->text, len, (const void *)walk->name[i]))                       \
			return 0;                                                                              \
		state = rf_step(image->word, mask, state, '/');                                                \
		for (j = 0; j < RF_NAME_MAX; j++) {                                                            \
			opaque(j);                                                                             \
			if (j >= len)                                                                          \
				break;                                                                         \
			state = rf_step(image->word, mask, state,                                              \
					(__u8)walk->text[j & RF_NAME_MAX]);                                    \
		}                                                                                              \
		return state;                                                                                  \
	}                                                                                                      \
                                                                                                               \
	/* All names of the walk, from the anchor's state on. */                                               \
	__noinline __u32 walk_down_##suffix(struct rf_image_##suffix *image, struct rf_walk *walk,             \
					    __u32 state)                                                       \
	{                                                                                                      \
		const __u32 mask = sizeof(*image) / 8 - 1;                                                     \
		__u32 i, n;                                                                                    \
                                                                                                               \
		if (!image || !walk)                                                                           \
			return 0;                                                                              \
		n = walk->n;                                                                                   \
		for (i = 1; i <= RF_MAX_COMPONENTS; i++) {                                                     \
			if (i > n || rf_state_flat(image->word, mask, state))                                  \
				break;                                                                         \
			state = walk_name_##suffix(image, walk, n - i, state);                                 \
			if (!state)                                                                            \
				break;                                                                         \
		}                                                                                              \
		return state;                                                                                  \
	}                                                                                                      \
                                                                                                               \
	/* Add what one name says, its automaton's state being in `word`. A failure is left in the verdict. */ \
	static __always_inline bool judge_name_##suffix(struct rf_image_##suffix *image,                       \
							struct rf_walk *walk, __u64 word,                      \
							__u32 name, bool down)                                 \
	{                                                                                                      \
		const __u32 mask = sizeof(*image) / 8 - 1;                                                     \
		__u32 state = RF_NAME_STATE(word);                                                             \
                                                                                                               \
		/* Reused while it was read: the policy is gone. */                                            \
		if (RF_NAME_POLICY(word) != walk->key.policy) {                                                \
			rf_verdict_fail(&walk->verdict, RF_REASON_RACED);                                      \
			return false;                                                                          \
		}                                                                                              \
		if (down)                                                                                      \
			state = walk_down_##suffix(image, walk, state);                                        \
		if (!state) {                                                                                  \
			rf_verdict_fail(&walk->verdict, RF_REASON_UNREADABLE);                                 \
			return false;                                                                          \
		}                                                                                              \
		rf_verdict_add(&walk->verdict, image->word, mask, state, word &RF_NAME_DENY_ONLY,              \
			       name);                                                                          \
		return true;                                                                                   \
	}                                                                                                      \
                                                                                                               \
	/* The verdict over all names of the object. */                                                        \
	__noinline int judge_##suffix(struct rf_image_##suffix *image, struct rf_walk *walk)                   \
	{                                                                                                      \
		__u32 i;                                                                                       \
                                                                                                               \
		if (!image || !walk)                                                                           \
			return 0;                                                                              \
		if (walk->place != RF_ANCHORED) {                                                              \
			rf_verdict_detached(&walk->verdict, image->word);                                      \
			return 0;                                                                              \
		}                                                                                              \
		_Pragma("clang loop unroll(full)") for (i = 0; i < RF_ANCHOR_NAMES; i++)                       \
		{                                                                                              \
			if (i && !walk->anchor[i])                                                             \
				break;                                                                         \
			if (!judge_name_##suffix(image, walk, walk->anchor[i], i, true))                       \
				return 0;                                                                      \
		}                                                                                              \
		_Pragma("clang loop unroll(full)") for (i = 0; i < RF_ANCHOR_NAMES; i++)                       \
		{                                                                                              \
			if (!walk->own[i])                                                                     \
				break;                                                                         \
			if (!judge_name_##suffix(image, walk, walk->own[i], RF_ANCHOR_NAMES + i,               \
						 false))                                                       \
				return 0;                                                                      \
		}                                                                                              \
		rf_verdict_end(&walk->verdict);                                                                \
		return 0;                                                                                      \
	}

RF_WALK_NAME(16k)
RF_WALK_NAME(128k)
RF_WALK_NAME(1m)
RF_WALK_NAME(4m)

/* Memory that has no name: a pipe, a memfd. Opened only through /proc/PID/fd. */
static __always_inline bool is_detached(const struct super_block *sb)
{
	unsigned long magic = sb->s_magic;

	return (sb->s_flags & SB_NOUSER) &&
	       (magic == PIPEFS_MAGIC || magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC);
}

static __always_inline struct rf_anchor *anchor_of(struct rf_anchor_key *key,
						   const struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;

	key->ino = inode->i_ino;
	key->generation = inode->i_generation;
	return bpf_map_lookup_elem(&anchors, key);
}

static __always_inline void names_of(__u64 *names, const struct rf_anchor *anchor)
{
	names[0] = anchor->name[0];
	names[1] = anchor->name[1];
	names[2] = anchor->name[2];
	names[3] = anchor->name[3];
}

/*
 * Up from `dentry` to the nearest anchor of `policy`. What stands in the way is
 * left in the verdict and returned as false.
 *
 * The loop ends with its condition: 6.1 refuses one that is closed by falling
 * through to its head.
 */
static __always_inline bool walk_up(struct rf_walk *walk, const struct dentry *dentry, __u64 policy)
{
	struct rf_anchor_key key = {.policy = policy};
	struct inode *inode = dentry->d_inode;
	struct super_block *sb = inode->i_sb;
	struct rf_anchor *anchor;
	__u8 reason = RF_REASON_TOO_DEEP;
	__u32 i = 0, len;

	walk->n = 0;
	walk->place = RF_NOWHERE;
	walk->own[0] = walk->own[1] = walk->own[2] = walk->own[3] = 0;
	if (is_detached(sb)) {
		walk->place = RF_DETACHED;
		return true;
	}
	key.dev = sb->s_dev;
	anchor = anchor_of(&key, dentry);
	if (anchor && (inode->i_mode & S_IFMT) != S_IFDIR) {
		names_of(walk->own, anchor);
		walk->own_key = key;
		anchor = NULL;
	}
	while (!anchor) {
		const struct dentry *parent = dentry->d_parent;

		if (i == RF_MAX_COMPONENTS)
			goto failed;
		if (parent == dentry) {
			reason = RF_REASON_UNREACHABLE;
			goto failed;
		}
		len = dentry->d_name.len;
		if (len > RF_NAME_MAX) {
			reason = RF_REASON_UNREADABLE;
			goto failed;
		}
		walk->name[i] = (__u64)dentry->d_name.name;
		walk->len[i] = len;
		walk->n = ++i;
		dentry = parent;
		anchor = anchor_of(&key, dentry);
	}
	names_of(walk->anchor, anchor);
	walk->key = key;
	walk->place = RF_ANCHORED;
	return true;
failed:
	/* A file mounted from where the session does not see: its own names are all it has. */
	if (reason == RF_REASON_UNREACHABLE && walk->own[0]) {
		walk->anchor[0] = walk->own[0];
		walk->anchor[1] = walk->own[1];
		walk->anchor[2] = walk->own[2];
		walk->anchor[3] = walk->own[3];
		walk->own[0] = walk->own[1] = walk->own[2] = walk->own[3] = 0;
		walk->key = walk->own_key;
		walk->n = 0;
		walk->place = RF_ANCHORED;
		return true;
	}
	rf_verdict_fail(&walk->verdict, reason);
	return false;
}

/* Judge `want` on the object at `dentry` under the session's word, into walk->verdict. */
static __always_inline void judge_object(struct rf_walk *walk, const struct dentry *dentry,
					 __u8 want, __u64 word)
{
	rf_verdict_begin(&walk->verdict, want);
	if (!word) {
		walk->n = 0;
		walk->place = RF_NOWHERE;
		rf_verdict_fail(&walk->verdict, RF_REASON_ENDED);
		return;
	}
	if (!walk_up(walk, dentry, RF_WORD_POLICY(word)))
		return;
	rf_verdict_fail(&walk->verdict, RF_REASON_NO_IMAGE);
	with_image(word, judge, walk);
}

#endif
