/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a session may tell and make (struct rf_meter): the count of equal acts, the budget of
 * a ring, and the count of its file systems. Tasks of the session do this at the same time on
 * all CPUs, and any of them may be preempted in the middle, so each change is one
 * compare-and-swap. Compiled for BPF and for the tests on the host.
 */
#ifndef RF_BPF_METER_H
#define RF_BPF_METER_H

#include "bpf/abi.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#define RF_SWAP_TRIES 8 /* each that fails means that another task's succeeded */

/* ---- tags -------------------------------------------------------------- */

/* SipHash-1-3: a session that could choose paths of one tag would hide the one behind the other. */
struct rf_sip {
	__u64 a, b, c, d;
};

#define RF_ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))

static __always_inline void rf_sip_round(struct rf_sip *s)
{
	s->a += s->b;
	s->b = RF_ROTATE(s->b, 13) ^ s->a;
	s->a = RF_ROTATE(s->a, 32);
	s->c += s->d;
	s->d = RF_ROTATE(s->d, 16) ^ s->c;
	s->a += s->d;
	s->d = RF_ROTATE(s->d, 21) ^ s->a;
	s->c += s->b;
	s->b = RF_ROTATE(s->b, 17) ^ s->c;
	s->c = RF_ROTATE(s->c, 32);
}

static __always_inline void rf_sip_begin(struct rf_sip *s, const __u64 key[2])
{
	s->a = key[0] ^ 0x736f6d6570736575ull;
	s->b = key[1] ^ 0x646f72616e646f6dull;
	s->c = key[0] ^ 0x6c7967656e657261ull;
	s->d = key[1] ^ 0x7465646279746573ull;
}

static __always_inline void rf_sip_add(struct rf_sip *s, __u64 word)
{
	s->d ^= word;
	rf_sip_round(s);
	s->a ^= word;
}

/* The last word that was added has to tell where the text ends: none is added here. */
static __always_inline __u64 rf_sip_end(struct rf_sip *s)
{
	s->c ^= 0xff;
	rf_sip_round(s);
	rf_sip_round(s);
	rf_sip_round(s);
	return s->a ^ s->b ^ s->c ^ s->d;
}

/* ---- equal acts -------------------------------------------------------- */

/* Keeps the compiler from mixing this with other arithmetic: 6.1's verifier loses its bounds. */
#define rf_meter_opaque(var) asm volatile("" : "+r"(var))

#define rf_meter_read(word) (*(const volatile __u64 *)(word))

static __always_inline __u64 *rf_meter_cell(struct rf_meter_stream *stream, __u64 tag, __u32 way)
{
	__u64 first = tag * RF_REPEAT_WAYS;

	rf_meter_opaque(first);
	first &= RF_REPEATS - RF_REPEAT_WAYS;
	return &stream->repeats[first + way];
}

/* Has an equal act been told? Then this one is counted there. */
static __always_inline int rf_meter_repeated(struct rf_meter_stream *stream, __u64 tag)
{
	__u32 way, try;

	for (way = 0; way < RF_REPEAT_WAYS; way++) {
		__u64 *cell = rf_meter_cell(stream, tag, way);

		for (try = 0; try < RF_SWAP_TRIES; try++) {
			__u64 word = rf_meter_read(cell);

			if (RF_REPEAT_TAG(word) != RF_REPEAT_TAG(tag) ||
			    (word & RF_REPEAT_COUNT) == RF_REPEAT_COUNT)
				break;
			if (__sync_val_compare_and_swap(cell, word, word + 1) == word)
				return 1;
		}
	}
	return 0;
}

/* It has been told: give it a cell, an empty one if there is one, else one at 0, else none. */
static __always_inline void rf_meter_expect(struct rf_meter_stream *stream, __u64 tag)
{
	__u64 *best = 0, old = 0;
	__u32 way;

	for (way = 0; way < RF_REPEAT_WAYS; way++) {
		__u64 *cell = rf_meter_cell(stream, tag, way), word = rf_meter_read(cell);

		if (word & RF_REPEAT_COUNT || (best && (word || !old)))
			continue;
		best = cell;
		old = word;
	}
	if (best)
		__sync_val_compare_and_swap(best, old, RF_REPEAT_TAG(tag));
}

/* ---- what it made ------------------------------------------------------ */

/* One more or one less; 0: it has its share, or this is another's meter by now. */
static __always_inline int rf_meter_made(__u64 *made, __u64 session, int more)
{
	__u32 try;

	for (try = 0; try < RF_SWAP_TRIES; try++) {
		__u64 word = rf_meter_read(made);

		if (RF_MADE_WORD(session, RF_MADE_COUNT(word)) != word ||
		    RF_MADE_COUNT(word) == (more > 0 ? RF_MAX_MADE_EACH : 0))
			return 0;
		if (__sync_val_compare_and_swap(made, word, word + more) == word)
			return 1;
	}
	return 0;
}

/* ---- the budget -------------------------------------------------------- */

/* May a record of so many bytes be written at this time? Then it has been charged for. */
static __always_inline int rf_meter_charge(struct rf_meter_stream *stream, __u64 now, __u32 bytes)
{
	__u64 cost = (__u64)(bytes + RF_RECORD_HEAD) * RF_BUDGET_NS, due, next;
	__u32 try;

	for (try = 0; try < RF_SWAP_TRIES; try++) {
		due = rf_meter_read(&stream->due);
		next = (due > now ? due : now) + cost;
		if (next - now > RF_BUDGET_SPAN)
			return 0;
		if (__sync_val_compare_and_swap(&stream->due, due, next) == due)
			return 1;
	}
	return 0;
}

#endif
