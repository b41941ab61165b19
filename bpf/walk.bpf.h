/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From an object to its verdict: up from the object to the nearest anchor by
 * d_parent, collecting names, then the automaton down over these names.
 *
 * Mountpoints are not crossed as a rule: the root of every mount that the session
 * saw at its start is an anchor, so a walk that gets past a mount's root is in a mount
 * that was made later, and there the object's place in its own file system decides
 * (binding a directory elsewhere gains nothing). A file system without an anchor is
 * one of the kernel's, which have one name each; or made by the session itself; or
 * mounted where the session was started, and then its mountpoint says what it is.
 * Everything else is denied.
 *
 * The first walk is direct. What it cannot finish, and what a rename may have
 * disturbed, is walked again, slowly and twice, until both times agree.
 */
#ifndef RF_BPF_WALK_H
#define RF_BPF_WALK_H

#include "bpf/cache.bpf.h"
#include "bpf/image.bpf.h"
#include "bpf/super.bpf.h"

/* Keeps the compiler from turning an index into a moving pointer, which 6.1 cannot bound. */
#define opaque(var) asm volatile("" : "+r"(var))

/* The automaton's state after the name /dev/tty. */
static __always_inline __u32 tty_state(const __u64 *image, __u32 mask)
{
	const __u64 name = 0x7974742f7665642f; /* "/dev/tty", which is just 8 bytes */
	__u32 i, state = rf_image_header(image)->start;

	for (i = 0; i < 64; i += 8) {
		__u8 byte = name >> i;

		if (byte == '/' && rf_state_flat(image, mask, state))
			break;
		state = rf_step(image, mask, state, byte);
	}
	return state;
}

/* The automaton over "/name", for name number i of the walk. 0 = could not be read. */
#define RF_WALK_NAME(suffix)                                                                             \
	__noinline __u32 walk_name_##suffix(struct rf_image_##suffix *image, struct rf_walk *walk,       \
					    __u32 i, __u32 state)                                        \
	{                                                                                                \
		const __u32 mask = sizeof(*image) / 8 - 1;                                               \
		__u32 j, len;                                                                            \
                                                                                                         \
		if (!image || !walk)                                                                     \
			return 0;                                                                        \
		i &= RF_MAX_COMPONENTS - 1;                                                              \
		if (RF_GUARD(i < walk->folded &&                                                         \
			     rf_state_allows(image->word, mask, state, walk->verdict.want))) {           \
			walk->reason = RF_REASON_FOLDED;                                                 \
			return 0;                                                                        \
		}                                                                                        \
		len = walk->len[i];                                                                      \
		if (bpf_probe_read_kernel(walk->text, len, (const void *)walk->name[i]))                 \
			return 0;                                                                        \
		state = rf_step(image->word, mask, state, '/');                                          \
		for (j = 0; j < RF_NAME_MAX; j++) {                                                      \
			opaque(j);                                                                       \
			if (j >= len)                                                                    \
				break;                                                                   \
			state = rf_step(image->word, mask, state,                                        \
					(__u8)walk->text[j & RF_NAME_MAX]);                              \
		}                                                                                        \
		return state;                                                                            \
	}                                                                                                \
                                                                                                         \
	/* All names of the walk, from the anchor's state on. */                                         \
	__noinline __u32 walk_down_##suffix(struct rf_image_##suffix *image, struct rf_walk *walk,       \
					    __u32 state)                                                 \
	{                                                                                                \
		const __u32 mask = sizeof(*image) / 8 - 1;                                               \
		__u32 i, n;                                                                              \
                                                                                                         \
		if (!image || !walk)                                                                     \
			return 0;                                                                        \
		n = walk->n;                                                                             \
		for (i = 1; i <= RF_MAX_COMPONENTS; i++) {                                               \
			if (i > n || rf_state_flat(image->word, mask, state))                            \
				break;                                                                   \
			state = walk_name_##suffix(image, walk, n - i, state);                           \
			if (!state)                                                                      \
				break;                                                                   \
		}                                                                                        \
		return state;                                                                            \
	}                                                                                                \
                                                                                                         \
	/* Add what a name says: of its anchor, down to the object, or of the object itself. */          \
	/* A function of its own, since it is verified but once. 0: a failure is left in the verdict. */ \
	__noinline int judge_name_##suffix(struct rf_image_##suffix *image, struct rf_walk *walk,        \
					   __u32 name)                                                   \
	{                                                                                                \
		const __u32 mask = sizeof(*image) / 8 - 1;                                               \
		bool own = name >= RF_ANCHOR_NAMES;                                                      \
		__u32 i = name & (RF_ANCHOR_NAMES - 1), state;                                           \
		__u64 word;                                                                              \
                                                                                                         \
		if (!image || !walk)                                                                     \
			return 0;                                                                        \
		word = own ? walk->own[i] : walk->anchor[i];                                             \
		state = RF_NAME_STATE(word);                                                             \
		/* Reused while it was read: the policy is gone. */                                      \
		if (RF_GUARD(RF_NAME_POLICY(word) != walk->key.policy)) {                                \
			rf_verdict_fail(&walk->verdict, RF_REASON_RACED);                                \
			return 0;                                                                        \
		}                                                                                        \
		if (!own)                                                                                \
			state = walk_down_##suffix(image, walk, state);                                  \
		if (!state) {                                                                            \
			rf_verdict_fail(&walk->verdict, walk->reason);                                   \
			return 0;                                                                        \
		}                                                                                        \
		rf_verdict_add(&walk->verdict, image->word, mask, state, word &RF_NAME_DENY_ONLY,        \
			       name);                                                                    \
		return 1;                                                                                \
	}                                                                                                \
                                                                                                         \
	/* The verdict over all names of the object. */                                                  \
	__noinline int judge_##suffix(struct rf_image_##suffix *image, struct rf_walk *walk)             \
	{                                                                                                \
		__u32 i;                                                                                 \
                                                                                                         \
		if (!image || !walk)                                                                     \
			return 0;                                                                        \
		if (walk->place == RF_TTY) {                                                             \
			i = tty_state(image->word, sizeof(*image) / 8 - 1);                              \
			if (i) {                                                                         \
				rf_verdict_add(&walk->verdict, image->word,                              \
					       sizeof(*image) / 8 - 1, i, 0, 0);                         \
				rf_verdict_end(&walk->verdict);                                          \
			}                                                                                \
			return 0;                                                                        \
		}                                                                                        \
		if (walk->place != RF_ANCHORED) {                                                        \
			rf_verdict_detached(&walk->verdict, image->word);                                \
			return 0;                                                                        \
		}                                                                                        \
		for (i = 0; i < RF_ANCHOR_NAMES; i++) {                                                  \
			if (i && !walk->anchor[i])                                                       \
				break;                                                                   \
			if (!judge_name_##suffix(image, walk, i))                                        \
				return 0;                                                                \
		}                                                                                        \
		for (i = 0; i < RF_ANCHOR_NAMES; i++) {                                                  \
			if (!walk->own[i])                                                               \
				break;                                                                   \
			if (!judge_name_##suffix(image, walk, RF_ANCHOR_NAMES + i))                      \
				return 0;                                                                \
		}                                                                                        \
		rf_verdict_end(&walk->verdict);                                                          \
		return 0;                                                                                \
	}

RF_WALK_NAME(16k)
RF_WALK_NAME(128k)
RF_WALK_NAME(1m)
RF_WALK_NAME(4m)

/* What the session's policy says of the walk's end. */
__noinline int judge_walk(struct rf_walk *walk)
{
	__u64 word;

	if (!walk)
		return 0;
	word = walk->word;
	walk->reason = RF_REASON_UNREADABLE;
	/* Anew: where a name moved during the last walk, nothing that it found may stay. */
	rf_verdict_begin(&walk->verdict, walk->verdict.want);
	rf_verdict_fail(&walk->verdict, RF_REASON_NO_IMAGE);
	with_image(word, judge, walk);
	return 0;
}

/* Memory that has no name: a pipe, a memfd. Opened only through /proc/PID/fd. */
static __always_inline bool is_detached(unsigned long flags, unsigned long magic)
{
	return ((flags & SB_NOUSER) && (magic == PIPEFS_MAGIC || magic == TMPFS_MAGIC)) ||
	       ((flags & SB_KERNMOUNT) && magic == HUGETLBFS_MAGIC);
}

static __always_inline void names_of(__u64 *names, const struct rf_anchor *anchor)
{
	names[0] = anchor->name[0];
	names[1] = anchor->name[1];
	names[2] = anchor->name[2];
	names[3] = anchor->name[3];
}

static __always_inline void anchored(struct rf_walk *walk, const struct rf_anchor_key *key,
				     const struct rf_anchor *anchor)
{
	names_of(walk->anchor, anchor);
	walk->key = *key;
	walk->place = RF_ANCHORED;
}

#define NS_NAME_SIZE 32 /* of the kind of a namespace, as "net", with its NUL */

/* The name of a file system's type, as the number that its first 8 bytes are. */
#define TYPE_TMPFS 0x7366706d74ull /* "tmpfs" and NULs */
#define TYPE_DEVTMPFS 0x7366706d74766564ull /* "devtmpfs" */

static __always_inline bool has_type(const struct super_block *sb, __u64 type)
{
	__u64 text[2] = {};

	bpf_probe_read_kernel_str(text, sizeof(*text) + 1, BPF_CORE_READ(sb, s_type, name));
	return text[0] == type && !text[1];
}

/* ---- slowly: any address, any mount, nothing but reads --------------------- */

extern const void rename_lock __ksym __weak;

/* The sequence of rename_lock: it changes, and is odd meanwhile, whenever a name moves. */
static __always_inline __u32 moves(void)
{
	const struct seqcount *count;
	__u32 sequence = 1;

	if (!&rename_lock)
		return sequence;
	if (has_rdonly_cast()) {
		count = bpf_rdonly_cast(&rename_lock, bpf_core_type_id_kernel(struct seqcount));
		barrier(); /* what is read before stays before, what is read after, after */
		sequence = READ_ONCE(count->sequence);
		barrier();
		return sequence;
	}
	bpf_probe_read_kernel(&sequence, sizeof(sequence), &rename_lock);
	return sequence;
}

static __always_inline void mix(struct rf_walk *walk, __u64 value)
{
	walk->sum = (walk->sum ^ value) * 0x9e3779b97f4a7c15ull;
	walk->sum ^= walk->sum >> 29;
}

/* The anchor of the object at `dentry`; the key's policy is set, the rest becomes its. */
static __always_inline struct rf_anchor *read_anchor(struct rf_anchor_key *key,
						     struct dentry *dentry)
{
	struct inode *inode = BPF_CORE_READ(dentry, d_inode);

	key->super = super_number(BPF_CORE_READ(inode, i_sb));
	key->ino = BPF_CORE_READ(inode, i_ino);
	key->generation = BPF_CORE_READ(inode, i_generation);
	return bpf_map_lookup_elem(&anchors, key);
}

/* A namespace has no parent and no name of its own: it has that of the link in /proc/PID/ns. */
static __always_inline bool name_namespace(struct rf_walk *walk, struct inode *inode)
{
	struct ns_common *ns = BPF_CORE_READ(inode, i_private);
	const char *name = BPF_CORE_READ(ns, ops, name);
	long size = bpf_probe_read_kernel_str(walk->text, NS_NAME_SIZE, name);

	walk->reason = RF_REASON_UNREADABLE;
	if (size <= 1 || size > NS_NAME_SIZE)
		return false;
	walk->name[0] = (__u64)name;
	walk->len[0] = size - 1;
	walk->n = 1;
	return true;
}

/*
 * The root of a file system that has no anchor. True if it is known all the same:
 * one of the kernel's, or made by the session.
 */
static __always_inline bool known_root(struct rf_walk *walk, struct dentry *dentry)
{
	struct rf_anchor_key key = {.policy = walk->key.policy, .subvol = RF_SUBVOL_TYPE};
	struct inode *inode = BPF_CORE_READ(dentry, d_inode);
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);
	struct rf_anchor *anchor;
	__u64 address = (__u64)sb;
	struct rf_made *maker;

	key.ino = BPF_CORE_READ(sb, s_magic);
	if (key.ino == NSFS_MAGIC && !name_namespace(walk, inode))
		return false;
	/* An inode that was opened by its handle may have no parent yet, which makes it no root. */
	if (key.ino != NSFS_MAGIC && RF_GUARD(BPF_CORE_READ(sb, s_root) != dentry))
		return false;
	maker = bpf_map_lookup_elem(&made, &address);
	if (RF_GUARD(maker && maker->session == walk->session)) {
		walk->place = RF_DETACHED;
		return true;
	}
	anchor = bpf_map_lookup_elem(&anchors, &key);
	if (!anchor)
		return false;
	anchored(walk, &key, anchor);
	return true;
}

/* One step of a slow walk, from walk->at. 1: it has ended, at a place or with a reason. */
__noinline int walk_step(struct rf_walk *walk)
{
	struct rf_anchor_key key = {};
	struct dentry *dentry, *parent;
	struct rf_anchor *anchor;
	struct mount *mount, *up;
	struct inode *inode;
	__u32 n, len;

	if (!walk)
		return 1;
	n = walk->n;
	key.policy = walk->key.policy;
	dentry = (struct dentry *)walk->at;
	inode = BPF_CORE_READ(dentry, d_inode);
	if (BPF_CORE_READ(inode, i_flags) & S_CASEFOLD)
		walk->folded = n;
	anchor = read_anchor(&key, dentry);
	if (anchor && walk->at == walk->object &&
	    (BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFDIR) {
		names_of(walk->own, anchor);
		walk->own_key = key;
	} else if (anchor) {
		anchored(walk, &key, anchor);
		return 1;
	}
	if (walk->crossing) {
		mount = (struct mount *)walk->mount;
		if (BPF_CORE_READ(mount, mnt.mnt_root) == dentry) {
			walk->reason = RF_REASON_UNREACHABLE;
			up = BPF_CORE_READ(mount, mnt_parent);
			if (up == mount)
				return 1;
			if (folds(BPF_CORE_READ(inode, i_sb, s_magic),
				  BPF_CORE_READ(dentry, d_flags)))
				walk->folded = n;
			walk->at = (__u64)BPF_CORE_READ(mount, mnt_mountpoint);
			walk->mount = (__u64)up;
			mix(walk, walk->at);
			return 0;
		}
	}
	parent = BPF_CORE_READ(dentry, d_parent);
	if (parent == dentry) {
		walk->reason = RF_REASON_UNREACHABLE;
		if (!walk->crossing)
			known_root(walk, dentry);
		return 1;
	}
	len = BPF_CORE_READ(dentry, d_name.len);
	walk->reason = len > RF_NAME_MAX ? RF_REASON_UNREADABLE : RF_REASON_TOO_DEEP;
	if (len > RF_NAME_MAX || n >= RF_MAX_COMPONENTS)
		return 1;
	opaque(n);
	n &= RF_MAX_COMPONENTS - 1;
	walk->name[n] = (__u64)BPF_CORE_READ(dentry, d_name.name);
	walk->len[n] = len;
	walk->n = n + 1;
	walk->at = (__u64)parent;
	mix(walk, walk->at);
	mix(walk, BPF_CORE_READ(dentry, d_name.hash_len));
	return 0;
}

/*
 * One slow walk: up by d_parent, or, with walk->crossing, by the mounts of the
 * namespace that the session was started in. The sum tells two walks apart.
 */
static __always_inline void walk_slowly(struct rf_walk *walk, bool crossing)
{
	__u32 i;

	walk->at = walk->object;
	walk->mount = walk->mnt - bpf_core_field_offset(struct mount, mnt);
	walk->crossing = crossing;
	walk->folded = walk->n = 0;
	walk->place = RF_NOWHERE;
	for (i = 0; i < 2 * RF_MAX_COMPONENTS; i++) {
		opaque(i);
		if (walk_step(walk))
			break;
	}
}

/*
 * Does the object's mount hang where the session was started, where it may not mount itself?
 * The place of a stacked file system (overlayfs, ecryptfs) does not say what it shows: that
 * lies in others, and kernels before 6.7 open it there under the overlay's path.
 */
static __always_inline bool is_given(const struct rf_walk *walk)
{
	struct mount *mount =
		(struct mount *)(walk->mnt - bpf_core_field_offset(struct mount, mnt));
	struct dentry *object = (struct dentry *)walk->object;
	struct rf_session *session;
	__u32 slot = walk->slot;

	if (RF_GUARD(BPF_CORE_READ(object, d_inode, i_sb, s_stack_depth)))
		return false;
	session = bpf_map_lookup_elem(&sessions, &slot);
	if (!session || !session->mnt_ns || !BPF_CORE_READ(mount, mnt_ns))
		return false;
	if (RF_GUARD(BPF_CORE_READ(mount, mnt_ns, ns.inum) != session->mnt_ns))
		return false;
	return true;
}

/* All that can be done to find the object's names. */
__noinline int walk_any_way(struct rf_walk *walk)
{
	if (!walk)
		return 0;
	walk->sum = 0;
	walk->own[0] = walk->own[1] = walk->own[2] = walk->own[3] = 0;
	walk_slowly(walk, false);
	if (walk->place == RF_NOWHERE && walk->reason == RF_REASON_UNREACHABLE && is_given(walk))
		walk_slowly(walk, true);
	walk->named = walk->own[0];
	/* A file mounted from where the session does not see: its own names are all it has. */
	if (walk->place == RF_NOWHERE && walk->reason == RF_REASON_UNREACHABLE && walk->own[0]) {
		walk->anchor[0] = walk->own[0];
		walk->anchor[1] = walk->own[1];
		walk->anchor[2] = walk->own[2];
		walk->anchor[3] = walk->own[3];
		walk->own[0] = walk->own[1] = walk->own[2] = walk->own[3] = 0;
		walk->key = walk->own_key;
		walk->n = 0;
		walk->place = RF_ANCHORED;
	}
	return 0;
}

/* The verdict by two slow walks. 1: something moved meanwhile, so there is none. */
__noinline int judge_slowly(struct rf_walk *walk)
{
	__u64 sum;

	if (!walk)
		return 0;
	walk_any_way(walk);
	sum = walk->sum;
	if (walk->place == RF_NOWHERE)
		rf_verdict_fail(&walk->verdict, walk->reason);
	else
		judge_walk(walk);
	walk_any_way(walk);
	return walk->sum != sum;
}

/* ---- fast ------------------------------------------------------------------ */

static __always_inline struct rf_anchor *anchor_of(struct rf_anchor_key *key,
						   const struct inode *inode)
{
	__u64 bit;

	key->ino = inode->i_ino;
	bit = RF_ANCHORED_BIT(key->ino);
	if (!(READ_ONCE(global.anchored[bit / 64]) >> (bit % 64) & 1))
		return NULL;
	key->generation = inode->i_generation;
	return bpf_map_lookup_elem(&anchors, key);
}

/*
 * Up from `dentry` to the nearest anchor. False: not by this way.
 *
 * The loop ends with its condition: 6.1 refuses one that is closed by falling
 * through to its head.
 */
static __always_inline bool walk_up(struct rf_walk *walk, const struct dentry *dentry)
{
	struct rf_anchor_key key = {.policy = walk->key.policy};
	struct inode *inode = dentry->d_inode;
	struct super_block *sb = inode->i_sb;
	struct rf_anchor *anchor;
	__u32 i = 0, len;

	walk->n = walk->folded = 0;
	walk->named = false;
	walk->own[0] = walk->own[1] = walk->own[2] = walk->own[3] = 0;
	if (RF_GUARD(is_detached(sb->s_flags, sb->s_magic))) {
		walk->place = RF_DETACHED;
		return true;
	}
	key.super = super_number(sb);
	if (!key.super)
		return false;
	anchor = anchor_of(&key, inode);
	if (anchor && (inode->i_mode & S_IFMT) != S_IFDIR) {
		names_of(walk->own, anchor);
		walk->own_key = key;
		walk->named = true;
		anchor = NULL;
	}
	while (!anchor) {
		const struct dentry *parent = dentry->d_parent;

		if (i == RF_MAX_COMPONENTS || parent == dentry)
			return false;
		len = dentry->d_name.len;
		if (len > RF_NAME_MAX)
			return false;
		walk->name[i] = (__u64)dentry->d_name.name;
		walk->len[i] = len;
		walk->n = ++i;
		dentry = parent;
		inode = dentry->d_inode;
		if (inode->i_flags & S_CASEFOLD)
			walk->folded = i;
		anchor = anchor_of(&key, inode);
	}
	anchored(walk, &key, anchor);
	return true;
}

/* A device node of devtmpfs or devpts, which only the system makes. */
static __always_inline bool is_system_node(struct super_block *sb)
{
	return sb->s_magic == DEVPTS_SUPER_MAGIC || has_type(sb, TYPE_DEVTMPFS);
}

/* Is `want` on the object of `path` known to be allowed under the word? Then there is nothing to tell. */
static __always_inline bool is_known_allowed(const struct path *path, struct inode *keeper,
					     __u8 want, __u64 word)
{
	return cache_allows(path->dentry, keeper, word, moves(), want);
}

/*
 * Judge `want` on the object of `path` under the label's session's word, into walk->verdict.
 * `keeper` is the path's inode, as the verifier trusts it: what is found out is kept there.
 */
static __always_inline void judge_object(struct rf_label *label, const struct path *path,
					 struct inode *keeper, __u8 want, __u64 word)
{
	struct rf_walk *walk = &label->walk;
	struct dentry *dentry = path->dentry;
	struct inode *inode = dentry->d_inode;
	__u32 i, type;

	rf_verdict_begin(&walk->verdict, want);
	if (RF_GUARD(!word)) {
		walk->n = 0;
		walk->place = RF_NOWHERE;
		rf_verdict_fail(&walk->verdict, RF_REASON_ENDED);
		return;
	}
	walk->object = (__u64)dentry;
	walk->mnt = (__u64)path->mnt;
	walk->word = word;
	walk->session = label->session;
	walk->slot = label->slot;
	walk->key.policy = RF_WORD_POLICY(word);
	walk->before = moves();
	cache_begin(walk, dentry, inode, keeper);
	if (walk_up(walk, dentry)) {
		judge_walk(walk);
		if (!RF_GUARD(walk->before & 1 || moves() != walk->before)) {
			cache_end(walk, keeper);
			goto judged;
		}
	}
	for (i = 0; i < RF_WALKS; i++) {
		if (!judge_slowly(walk))
			goto judged;
	}
	rf_verdict_fail(&walk->verdict, RF_REASON_RACED);
	return;
judged:
	type = READ_ONCE(inode->i_mode) & S_IFMT;
	if (RF_GUARD((type == S_IFCHR || type == S_IFBLK) && !walk->verdict.missing &&
		     !walk->named && !is_system_node(inode->i_sb)))
		rf_verdict_fail(&walk->verdict, RF_REASON_DEVICE);
}

#endif
