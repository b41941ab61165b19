/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The decision, as pure functions over an image: compiled into the BPF programs
 * and into user space, so that enforce, audit, explain, simulate and the tests
 * cannot differ. No kernel, no library, no state.
 *
 * An image is passed as its 8-byte words with a mask for word indices: in the
 * kernel one less than the number of words of its class (a power of two), which
 * bounds every access for the verifier; in user space, on an image that passed
 * rf_image_verify(), RF_NO_MASK.
 */
#ifndef RF_BPF_VERDICT_H
#define RF_BPF_VERDICT_H

#include "bpf/abi.h"

#define RF_NO_MASK 0xffffffffu

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static __always_inline const struct rf_image *rf_image_header(const __u64 *image)
{
	return (const struct rf_image *)image;
}

/* The state after `byte`; 0 for an image that is broken. */
static __always_inline __u32 rf_step(const __u64 *image, __u32 mask, __u32 state, __u8 byte)
{
	const struct rf_image *head = rf_image_header(image);
	__u32 cls = head->cls[byte];
	__u64 s = image[(head->states + state) & mask];
	__u32 at = RF_STATE_BASE(s) + cls;
	__u32 cell = image[(head->cells + at / 2) & mask] >> (at % 2 * 32);
	__u32 otherwise = RF_STATE_DEFAULT(s);
	/*
	 * All ones if the cell is this state's, else 0. Computed with, since the verifier
	 * follows both ways of each branch, for each byte; the compiler would make it one.
	 */
	__u32 own = -(((RF_CELL_CHECK(cell) ^ (cls + 1)) - 1) >> 31);

	__asm__ volatile("" : "+r"(own));
	return otherwise ^ ((otherwise ^ RF_CELL_TARGET(cell)) & own);
}

/* Does every object below this one get the same accept as this one? */
static __always_inline int rf_state_flat(const __u64 *image, __u32 mask, __u32 state)
{
	return !!RF_STATE_FLAT(image[(rf_image_header(image)->states + state) & mask]);
}

/* Is some right of `want` allowed in this state? */
static __always_inline int rf_state_allows(const __u64 *image, __u32 mask, __u32 state, __u8 want)
{
	const struct rf_image *head = rf_image_header(image);
	__u32 accept = RF_STATE_ACCEPT(image[(head->states + state) & mask]);

	return !!(image[(head->accepts + accept * RF_ACCEPT_WORDS) & mask] & want);
}

/*
 * The outcome for one act; `missing` == 0 is the only way to be allowed. It is that of
 * the policy without its audited rules; the audited_ fields are the same with these in
 * force. They count from rf_verdict_end() on, and only where rf_verdict_audited() says
 * that they differ.
 */
struct rf_verdict {
	__u8 want; /* rights the act needs */
	__u8 granted; /* of these, allowed by some name */
	__u8 refused; /* of these, explicitly denied by some name */
	__u8 missing; /* set by rf_verdict_end() */
	__u8 reason; /* enum rf_reason */
	__u8 name; /* which of the object's names decided */
	__u16 rule; /* the deciding rule, 0 = default */
	__u8 audited; /* audited rules take part; if not, the next five mean nothing */
	__u8 audited_granted;
	__u8 audited_refused;
	__u8 audited_missing;
	__u16 audited_rule;
	__u8 audited_name;
	__u8 pad;
} __attribute__((aligned(8))); /* so that it is cleared by words */

static __always_inline void rf_verdict_begin(struct rf_verdict *v, __u8 want)
{
	__builtin_memset(v, 0, sizeof(*v));
	v->want = want;
	v->missing = want;
	v->reason = RF_REASON_DEFAULT;
}

/* A verdict that no policy gave: everything is missing, and why. */
static __always_inline void rf_verdict_fail(struct rf_verdict *v, __u8 reason)
{
	v->missing = v->want;
	v->granted = v->refused = 0;
	v->reason = reason;
	v->rule = 0;
	v->name = 0;
	v->audited = 0;
}

/*
 * The verdict on what a session may do whatever its policy says, or has been allowed before
 * with nothing to be told.
 */
static __always_inline void rf_verdict_allow(struct rf_verdict *v)
{
	rf_verdict_begin(v, v->want);
	v->granted = v->want;
	v->missing = 0;
}

/* Is the act denied? One that needs no right of the policy may have failed all the same. */
static __always_inline int rf_verdict_denies(const struct rf_verdict *v)
{
	return v->missing || v->reason > RF_REASON_DEFAULT;
}

/* The lowest right of a mask, as an index into rf_accept.rule. */
static __always_inline __u32 rf_first_right(__u8 mask)
{
	return mask & 0x01   ? 0
	       : mask & 0x02 ? 1
	       : mask & 0x04 ? 2
	       : mask & 0x08 ? 3
	       : mask & 0x10 ? 4
			     : 5;
}

/* The rule that decided the first right of `rights`, in the accept record at word `at`. */
static __always_inline __u16 rf_accept_rule(const __u64 *image, __u32 mask, __u32 at, __u8 rights)
{
	__u32 slot = 3 + rf_first_right(rights); /* as a __u16 in the record */

	return image[(at + slot / 4) & mask] >> (slot % 4 * 16);
}

/*
 * The same as rf_verdict_add(), before it, for the side on which audited rules are in
 * force: `at` is the name's accept record, `audited` the number of the other one, 0 where
 * these rules change nothing. The rule to be told is one that takes away, else one that
 * gives what the other side does not.
 */
static __always_inline void rf_verdict_add_audited(struct rf_verdict *v, const __u64 *image,
						   __u32 mask, __u32 at, __u32 audited, __u8 gives,
						   __u32 name)
{
	__u64 plain = image[at & mask], masks;
	__u8 refused = plain >> 8 | plain >> 16, refuse, decides;

	if (audited)
		at = rf_image_header(image)->accepts + audited * RF_ACCEPT_WORDS;
	masks = image[at & mask];
	refuse = (masks >> 8 | masks >> 16) & v->want;
	/* The first name with audited rules: up to here the sides are the same. */
	if (!v->audited) {
		v->audited = 1;
		v->audited_granted = v->granted;
		v->audited_refused = v->refused;
	}
	decides = refuse & ~refused;
	if (!decides && !v->audited_rule)
		decides = masks & ~plain & v->want & (refused | ~v->granted);
	if (decides && !v->audited_refused) {
		v->audited_rule = rf_accept_rule(image, mask, at, decides);
		v->audited_name = name;
	}
	v->audited_granted |= masks & gives;
	v->audited_refused |= refuse;
}

/*
 * Add what the object's name number `name` gives, `state` being the automaton's
 * state after it and `flags` RF_NAME_DENY_ONLY or 0. Each name is judged by
 * itself; an explicit deny by any of them wins, else the latest allow.
 */
static __always_inline void rf_verdict_add(struct rf_verdict *v, const __u64 *image, __u32 mask,
					   __u32 state, __u32 flags, __u32 name)
{
	const struct rf_image *head = rf_image_header(image);
	__u32 accept = RF_STATE_ACCEPT(image[(head->states + state) & mask]);
	__u32 at = head->accepts + accept * RF_ACCEPT_WORDS;
	/* allow, deny, forbid, pad, audited, rule[0] | rule[1..4] | rule[5] */
	__u64 masks = image[at & mask];
	__u8 gives = flags & RF_NAME_DENY_ONLY ? 0 : v->want;
	__u8 allow = masks & gives;
	__u8 refuse = (masks >> 8 | masks >> 16) & v->want;
	__u32 audited = masks >> 32 & 0xffff;
	__u8 decides = 0;

	if (audited | v->audited)
		rf_verdict_add_audited(v, image, mask, at, audited, gives, name);
	if (refuse && !v->refused)
		decides = refuse;
	else if (!v->refused && (allow & ~v->granted))
		decides = allow;
	v->granted |= allow;
	v->refused |= refuse;
	if (!decides)
		return;
	v->rule = rf_accept_rule(image, mask, at, decides);
	v->name = name;
}

/* The verdict on an object that has no name: the policy's `detached` rights. */
static __always_inline void rf_verdict_detached(struct rf_verdict *v, const __u64 *image)
{
	v->granted = v->want & rf_image_header(image)->detached;
	v->missing = v->want & ~v->granted;
	v->reason = RF_REASON_DEFAULT;
	v->rule = 0;
	v->audited = 0;
}

static __always_inline void rf_verdict_end(struct rf_verdict *v)
{
	v->missing = v->refused | (v->want & ~v->granted);
	v->audited_missing = v->audited_refused | (v->want & ~v->audited_granted);
	if (v->refused)
		v->reason = RF_REASON_RULE;
	else if (v->missing) {
		v->reason = RF_REASON_DEFAULT;
		v->rule = 0;
	} else
		v->reason = RF_REASON_RULE;
}

/*
 * After rf_verdict_end(), for names of an object that another name has been judged of before:
 * what they do not explicitly deny is that one's to give.
 */
static __always_inline void rf_verdict_keep_refused(struct rf_verdict *v)
{
	if (v->reason > RF_REASON_DEFAULT)
		return;
	v->missing = v->refused;
	v->audited_missing = v->audited_refused;
}

/*
 * What the audited rules would change: RF_WOULD_DENY an act that is allowed, RF_WOULD_ALLOW
 * one that is denied, 0 for nothing. What to report of it is audited_missing, audited_rule
 * and audited_name; the reason always is a rule.
 */
static __always_inline __u8 rf_verdict_audited(const struct rf_verdict *v)
{
	if (!v->audited || !v->missing == !v->audited_missing)
		return 0;
	return v->missing ? RF_WOULD_ALLOW : RF_WOULD_DENY;
}

/* What the audited rules say becomes the verdict that is told. */
static __always_inline void rf_verdict_take_audited(struct rf_verdict *v)
{
	v->missing = v->audited_missing;
	v->rule = v->audited_rule;
	v->name = v->audited_name;
	v->reason = RF_REASON_RULE;
}

/*
 * The entry (struct rf_port, as a word) for one address, protocol and port. 0, the
 * default, where there are no rules for the network or the image is broken.
 */
static __always_inline __u64 rf_net_find(const __u64 *image, __u32 mask, const __u8 address[16],
					 __u32 is_udp, __u16 port)
{
	const struct rf_image *head = rf_image_header(image);
	__u32 at = head->root, i, low, high;
	__u64 leaf, entry;

	if (!head->nleaves)
		return 0;
	for (i = 0; i < RF_NODE_STEPS; i++) {
		__u32 half = i % 2 ? address[i / 2 & 15] & 15 : address[i / 2 & 15] >> 4;

		if (at & RF_NODE_LEAF)
			break;
		at = image[(head->nodes + at * RF_NODE_WORDS + half / 2) & mask] >> (half % 2 * 32);
	}
	if (!(at & RF_NODE_LEAF))
		return 0;
	leaf = image[(head->leaves + (at & ~RF_NODE_LEAF)) & mask];
	low = (__u32)leaf + (is_udp ? leaf >> 32 & 0xffff : 0);
	high = low + (is_udp ? leaf >> 48 : leaf >> 32 & 0xffff) - 1;
	for (i = 0; i < RF_PORT_STEPS; i++) {
		__u32 middle = (low + high) / 2;
		/*
		 * 1 if that range ends before the port, else 0. Computed with, since the
		 * verifier follows both ways of each branch; the compiler would make it one.
		 */
		__u32 before = ((__u32)(__u16)image[(head->ports + middle) & mask] - port) >> 31;

		if (low >= high)
			break;
		__asm__ volatile("" : "+r"(before));
		low += before * (middle + 1 - low);
		high -= (1 - before) * (high - middle);
	}
	entry = image[(head->ports + low) & mask];
	return (__u16)entry < port ? 0 : entry;
}

#define RF_PORT_VERDICT(entry) ((__u8)((entry) >> 16))
#define RF_PORT_AUDITED(entry) ((__u8)((entry) >> 24))
#define RF_PORT_RULE(entry) ((__u16)((entry) >> 32))
#define RF_PORT_AUDITED_RULE(entry) ((__u16)((entry) >> 48))

/* The verdict of such an entry; begun with the one right of the act. */
static __always_inline void rf_verdict_net(struct rf_verdict *v, __u64 entry)
{
	__u8 verdict = RF_PORT_VERDICT(entry), audited = RF_PORT_AUDITED(entry);

	v->granted = verdict == RF_NET_ALLOW ? v->want : 0;
	v->refused = verdict > RF_NET_ALLOW ? v->want : 0;
	v->missing = v->want & ~v->granted;
	v->rule = RF_PORT_RULE(entry);
	v->reason = v->rule ? RF_REASON_RULE : RF_REASON_DEFAULT;
	v->audited = verdict != audited || v->rule != RF_PORT_AUDITED_RULE(entry);
	v->audited_granted = audited == RF_NET_ALLOW ? v->want : 0;
	v->audited_refused = audited > RF_NET_ALLOW ? v->want : 0;
	v->audited_missing = v->want & ~v->audited_granted;
	v->audited_rule = RF_PORT_AUDITED_RULE(entry);
}

#endif
