/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verdict cache: in the storage of an inode, the last few names by which a policy
 * allowed it. It only ever says yes: what it does not know is walked, and whatever is to be
 * told has been walked.
 *
 * What it says is as true as a walk would be, now: the sequence of rename_lock is the same, so
 * no name on this host has moved since; and the object has the same dentry, under the same
 * parent, by the same name, whoever has had these addresses meanwhile.
 */
#ifndef RF_BPF_CACHE_H
#define RF_BPF_CACHE_H

#include "bpf/maps.bpf.h"

/* What is read without the lock is read in order: cache_allows(). */
#ifndef __TARGET_ARCH_x86
#error "cache_allows() needs loads and stores in their order, or the lock"
#endif

/*
 * A sequence of 32 bits comes round again after 2^31 moves. Nobody can make so many in the
 * 2^14 jiffies (16 to 164 s) that a key lasts.
 */
#define RF_CACHE_EPOCH(jiffies) ((__u32)((jiffies) >> 14))

/*
 * The key of the walk's object, in walk->cached: in the label, not on the stack, and read from
 * there, so that the verifier sees one state after all of this. A word of 0: nothing is to be kept.
 * Devices are judged by more than their names; a server may move names unheard.
 */
static __always_inline void cache_begin(struct rf_walk *walk, const struct dentry *dentry,
					const struct inode *inode, const struct inode *keeper)
{
	const struct dentry *parent = dentry->d_parent;
	const struct inode *parent_inode = parent->d_inode;
	__u32 type = READ_ONCE(inode->i_mode) & S_IFMT;
	struct rf_cached *key = &walk->cached;

	key->word = 0;
	if (READ_ONCE(walk->before) & 1 || READ_ONCE(walk->word) & RF_WORD_LOG_ALL ||
	    (type != S_IFREG && type != S_IFDIR) || dentry->d_flags & DCACHE_OP_REVALIDATE ||
	    keeper != inode)
		return;
	key->dentry = (__u64)dentry;
	key->parent = (__u64)parent;
	key->parent_ino = parent_inode->i_ino;
	key->hash = dentry->d_name.hash;
	key->len = dentry->d_name.len;
	key->parent_generation = parent_inode->i_generation;
	key->sequence = walk->before;
	key->epoch = RF_CACHE_EPOCH(bpf_jiffies64());
	key->allowed = 0;
	key->word = walk->word;
}

static __always_inline bool is_same_way(const struct rf_cached *a, const struct rf_cached *b)
{
	return a->word == b->word && a->dentry == b->dentry && a->parent == b->parent &&
	       a->parent_ino == b->parent_ino && a->hash == b->hash && a->len == b->len &&
	       a->parent_generation == b->parent_generation && a->sequence == b->sequence &&
	       a->epoch == b->epoch;
}

/* Does this way tell of the object by its name of now? One of an old word, mostly the first, ends it. */
static __always_inline bool is_way_to(const struct rf_cached *way, const struct dentry *dentry,
				      __u64 word, __u32 sequence)
{
	const struct dentry *parent;
	const struct inode *inode;

	if (way->word != word || way->dentry != (__u64)dentry || way->sequence != sequence ||
	    way->epoch != RF_CACHE_EPOCH(bpf_jiffies64()) || way->hash != dentry->d_name.hash ||
	    way->len != dentry->d_name.len)
		return false;
	parent = dentry->d_parent;
	if (way->parent != (__u64)parent)
		return false;
	inode = parent->d_inode;
	return way->parent_ino == inode->i_ino && way->parent_generation == inode->i_generation;
}

/*
 * Is `want` known to be allowed to the session of `word` on the object of `dentry`, `sequence` being
 * that of rename_lock? Read without the lock, as under a seqlock: what a writer has been at meanwhile
 * is not known. Loads stay in their order on x86, and so do the writer's stores.
 *
 * What is in a way has passed the conditions of cache_begin(); those on the dentry are asked again,
 * which may be another one at its address.
 */
static __always_inline bool cache_allows(const struct dentry *dentry, struct inode *keeper,
					 __u64 word, __u32 sequence, __u8 want)
{
	struct rf_cache *cache = bpf_inode_storage_get(&caches, keeper, 0, 0);
	__u32 changes, allowed;

	if (!cache)
		return false;
	changes = READ_ONCE(cache->changes);
	barrier();
	if (is_way_to(&cache->way[0], dentry, word, sequence))
		allowed = cache->way[0].allowed;
	else if (is_way_to(&cache->way[1], dentry, word, sequence))
		allowed = cache->way[1].allowed;
	else if (is_way_to(&cache->way[2], dentry, word, sequence))
		allowed = cache->way[2].allowed;
	else
		return false;
	barrier();
	if (RF_GUARD(READ_ONCE(cache->changes) != changes || changes & 1))
		return false;
	if (keeper != dentry->d_inode || dentry->d_flags & DCACHE_OP_REVALIDATE)
		return false;
	/* Nothing known is no yes, for an act that needs no right of the policy either. */
	return allowed && !(want & ~allowed);
}

/* The walk has found its verdict, and no name has moved meanwhile. */
static __always_inline void cache_end(struct rf_walk *walk, struct inode *keeper)
{
	const struct rf_cached *key = &walk->cached;
	struct rf_cache *cache;
	struct rf_cached *way;

	if (!READ_ONCE(key->word) || rf_verdict_audited(&walk->verdict))
		return;
	if (RF_GUARD(rf_verdict_denies(&walk->verdict)))
		return;
	cache = bpf_inode_storage_get(&caches, keeper, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!cache)
		return;
	bpf_spin_lock(&cache->lock);
	WRITE_ONCE(cache->changes, cache->changes + 1);
	barrier();
	if (is_same_way(&cache->way[0], key)) {
		way = &cache->way[0];
	} else if (is_same_way(&cache->way[1], key)) {
		way = &cache->way[1];
	} else if (is_same_way(&cache->way[2], key)) {
		way = &cache->way[2];
	} else {
		cache->way[2] = cache->way[1];
		cache->way[1] = cache->way[0];
		way = &cache->way[0];
		*way = *key;
	}
	way->allowed |= walk->verdict.want;
	barrier();
	WRITE_ONCE(cache->changes, cache->changes + 1);
	bpf_spin_unlock(&cache->lock);
}

#endif
