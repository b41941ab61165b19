/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Minimisation by partition refinement. States begin in one block for each
 * outcome; a block splits where its states lead to different blocks, until none
 * does. A state is looked at again only if one that it leads to has moved, and
 * of the parts of a block the largest never moves, so the work is
 * O(edges * log states).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* qsort_r */
#endif
#include "policy/dfa.h"

#include <errno.h>
#include <string.h>

/* What a state looks like from the blocks' side, as words in `words`. */
struct signature {
	uint64_t hash;
	uint32_t at, n;
	uint32_t state;
};

struct refiner {
	const struct rf_dfa *dfa;
	/* Partition: the states of block k are elements[first[k]..end[k]), dirty ones before mid[k]. */
	uint32_t *elements, *place, *block;
	uint32_t *first, *mid, *end;
	uint32_t nblocks;
	uint32_t *work; /* blocks with dirty states */
	size_t nwork;
	uint32_t *befores, *before_at; /* who leads to a state */
	uint32_t *weight; /* scratch, by block */
	struct signature *signatures;
	uint32_t *words;
	size_t nwords, words_capacity;
};

static int allocate(struct refiner *r)
{
	size_t n = r->dfa->nstates;

	r->elements = malloc(n * sizeof(uint32_t));
	r->place = malloc(n * sizeof(uint32_t));
	r->block = malloc(n * sizeof(uint32_t));
	r->first = malloc(n * sizeof(uint32_t));
	r->mid = malloc(n * sizeof(uint32_t));
	r->end = malloc(n * sizeof(uint32_t));
	r->work = malloc(n * sizeof(uint32_t));
	r->befores = malloc((n + r->dfa->nedges) * sizeof(uint32_t));
	r->before_at = calloc(n + 2, sizeof(uint32_t));
	r->weight = calloc(n, sizeof(uint32_t));
	r->signatures = malloc(n * sizeof(*r->signatures));
	return r->elements && r->place && r->block && r->first && r->mid && r->end && r->work &&
			       r->befores && r->before_at && r->weight && r->signatures
		       ? 0
		       : -ENOMEM;
}

static void release(struct refiner *r)
{
	free(r->elements);
	free(r->place);
	free(r->block);
	free(r->first);
	free(r->mid);
	free(r->end);
	free(r->work);
	free(r->befores);
	free(r->before_at);
	free(r->weight);
	free(r->signatures);
	free(r->words);
}

/* Counting sort of all moves by target. A default that no class uses is none. */
static void find_befores(struct refiner *r)
{
	const struct rf_dfa *dfa = r->dfa;
	uint32_t *at = r->before_at;

	for (int fill = 0; fill < 2; fill++) {
		for (size_t i = 0; i < dfa->nstates; i++) {
			const struct rf_dfa_state *s = &dfa->states[i];

			for (uint32_t e = 0; e < s->nedges; e++) {
				uint32_t target = dfa->edges[s->edges + e].target;

				if (fill)
					r->befores[at[target + 1]++] = i;
				else
					at[target + 2]++;
			}
			if (s->nedges == dfa->nclasses)
				continue;
			if (fill)
				r->befores[at[s->target + 1]++] = i;
			else
				at[s->target + 2]++;
		}
		for (size_t i = 2; !fill && i < dfa->nstates + 2; i++)
			at[i] += at[i - 1];
	}
}

static int word(struct refiner *r, uint32_t w)
{
	if (rf_grow(&r->words, &r->words_capacity, r->nwords + 1, sizeof(*r->words)))
		return -ENOMEM;
	r->words[r->nwords++] = w;
	return 0;
}

/* The block that more than half of the classes lead to, RF_NONE if there is none. */
static uint32_t majority(struct refiner *r, const struct rf_dfa_state *s)
{
	const struct rf_edge *edges = r->dfa->edges + s->edges;
	uint32_t best = r->block[s->target];

	r->weight[best] = r->dfa->nclasses - s->nedges;
	for (uint32_t e = 0; e < s->nedges; e++) {
		uint32_t block = r->block[edges[e].target];

		if (++r->weight[block] > r->weight[best])
			best = block;
	}
	if (2 * r->weight[best] <= r->dfa->nclasses)
		best = RF_NONE;
	r->weight[r->block[s->target]] = 0;
	for (uint32_t e = 0; e < s->nedges; e++)
		r->weight[r->block[edges[e].target]] = 0;
	return best;
}

/*
 * Equal for two states exactly if they have the same outcome and lead to the same
 * blocks: the majority's block, and each class that leads elsewhere.
 */
static int sign(struct refiner *r, uint32_t state, struct signature *ret_signature)
{
	const struct rf_dfa_state *s = &r->dfa->states[state];
	const struct rf_edge *edges = r->dfa->edges + s->edges;
	uint32_t most = majority(r, s), rest = r->block[s->target];
	struct signature sig = {.at = r->nwords, .state = state};
	int err;

	err = word(r, s->accept);
	if (!err)
		err = word(r, most);
	for (uint32_t cls = 0, e = 0; !err && cls < r->dfa->nclasses; cls++) {
		uint32_t block = rest;

		if (rest == most && (e == s->nedges || edges[e].cls > cls)) {
			if (e == s->nedges)
				break;
			cls = edges[e].cls;
		}
		if (e < s->nedges && edges[e].cls == cls)
			block = r->block[edges[e++].target];
		if (block == most)
			continue;
		err = word(r, cls);
		if (!err)
			err = word(r, block);
	}
	if (err)
		return err;
	sig.n = r->nwords - sig.at;
	sig.hash = rf_hash(r->words + sig.at, sig.n * sizeof(*r->words));
	*ret_signature = sig;
	return 0;
}

static int compare(const struct signature *a, const struct signature *b, const uint32_t *words)
{
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return memcmp(words + a->at, words + b->at, a->n * sizeof(*words));
}

static int by_signature(const void *a, const void *b, void *words)
{
	return compare(a, b, words);
}

static void mark_dirty(struct refiner *r, uint32_t state)
{
	uint32_t block = r->block[state], at = r->place[state], other;

	if (at < r->mid[block])
		return;
	if (r->mid[block] == r->first[block])
		r->work[r->nwork++] = block;
	other = r->elements[r->mid[block]];
	r->elements[at] = other;
	r->place[other] = at;
	r->elements[r->mid[block]] = state;
	r->place[state] = r->mid[block]++;
}

/* Make elements [first, end) of a block one of its own. */
static void split_off(struct refiner *r, uint32_t first, uint32_t end)
{
	uint32_t block = r->nblocks++;

	r->first[block] = r->mid[block] = first;
	r->end[block] = end;
	for (uint32_t i = first; i < end; i++)
		r->block[r->elements[i]] = block;
}

static int refine(struct refiner *r, uint32_t block)
{
	uint32_t first = r->first[block], mid = r->mid[block], end = r->end[block];
	uint32_t keep_first = mid, keep_end = end, before = r->nblocks;
	uint32_t ndirty = mid - first, start;
	int err = 0;

	r->nwords = 0;
	for (uint32_t i = 0; !err && i < ndirty; i++)
		err = sign(r, r->elements[first + i], &r->signatures[i]);
	if (err)
		return err;
	qsort_r(r->signatures, ndirty, sizeof(*r->signatures), by_signature, r->words);
	for (uint32_t i = 0; i < ndirty; i++) {
		r->elements[first + i] = r->signatures[i].state;
		r->place[r->signatures[i].state] = first + i;
	}
	/* The largest of the parts, the clean one among them, stays the block. */
	for (int move = 0; move < 2; move++) {
		start = 0;
		for (uint32_t i = 1; i <= ndirty; i++) {
			if (i < ndirty &&
			    !compare(&r->signatures[start], &r->signatures[i], r->words))
				continue;
			if (!move && i - start > keep_end - keep_first) {
				keep_first = first + start;
				keep_end = first + i;
			} else if (move && keep_first != first + start) {
				split_off(r, first + start, first + i);
			}
			start = i;
		}
	}
	if (keep_first != mid && mid < end)
		split_off(r, mid, end);
	r->first[block] = r->mid[block] = keep_first;
	r->end[block] = keep_end;
	for (uint32_t moved = before; moved < r->nblocks; moved++)
		for (uint32_t i = r->first[moved]; i < r->end[moved]; i++)
			r->signatures[i - first].state = r->elements[i];
	/* Marking reorders elements, so it goes by the list made above. */
	for (uint32_t i = first; i < end; i++) {
		uint32_t state;

		if (i >= keep_first && i < keep_end)
			continue;
		state = r->signatures[i - first].state;
		for (uint32_t k = r->before_at[state]; k < r->before_at[state + 1]; k++)
			mark_dirty(r, r->befores[k]);
	}
	return 0;
}

/* One edge list of the new automaton: the commonest target becomes the default. */
static int copy_state(struct refiner *r, uint32_t old, const uint32_t *number, struct rf_dfa *new)
{
	const struct rf_dfa_state *s = &r->dfa->states[old];
	const struct rf_edge *edges = r->dfa->edges + s->edges;
	struct rf_dfa_state *copy = &new->states[number[r->block[old]]];
	uint32_t best = r->block[s->target], rest = best;

	r->weight[best] = r->dfa->nclasses - s->nedges;
	for (uint32_t e = 0; e < s->nedges; e++)
		if (++r->weight[r->block[edges[e].target]] > r->weight[best])
			best = r->block[edges[e].target];
	r->weight[rest] = 0;
	for (uint32_t e = 0; e < s->nedges; e++)
		r->weight[r->block[edges[e].target]] = 0;
	copy->accept = s->accept;
	copy->target = number[best];
	copy->edges = new->nedges;
	for (uint32_t cls = 0, e = 0; cls < r->dfa->nclasses; cls++) {
		uint32_t block = rest;

		if (e < s->nedges && edges[e].cls == cls)
			block = r->block[edges[e++].target];
		if (block == best)
			continue;
		if (rf_grow(&new->edges, &new->edges_capacity, new->nedges + 1,
			    sizeof(*new->edges)))
			return -ENOMEM;
		new->edges[new->nedges++] = (struct rf_edge){cls, number[block]};
	}
	copy->nedges = new->nedges - copy->edges;
	return 0;
}

/* Number the blocks that the start leads to, breadth first; their states in `order`. */
static uint32_t number_blocks(const struct refiner *r, uint32_t *number, uint32_t *order)
{
	const struct rf_dfa *dfa = r->dfa;
	uint32_t n = 0;

	memset(number, 0xff, dfa->nstates * sizeof(*number));
	order[0] = dfa->start;
	number[r->block[dfa->start]] = n++;
	for (uint32_t i = 0; i < n; i++) {
		const struct rf_dfa_state *s = &dfa->states[order[i]];

		for (uint32_t e = 0; e <= s->nedges; e++) {
			uint32_t target =
				e < s->nedges ? dfa->edges[s->edges + e].target : s->target;

			if (number[r->block[target]] != RF_NONE ||
			    (e == s->nedges && s->nedges == dfa->nclasses))
				continue;
			number[r->block[target]] = n;
			order[n++] = target;
		}
	}
	return n;
}

static int rebuild(struct refiner *r, struct rf_dfa *dfa)
{
	_cleanup_free_ uint32_t *number = calloc(dfa->nstates + 1, sizeof(*number));
	_cleanup_free_ uint32_t *order = calloc(dfa->nstates + 1, sizeof(*order));
	struct rf_dfa new = {.nclasses = dfa->nclasses};
	int err = 0;

	if (!number || !order)
		return -ENOMEM;
	new.nstates = number_blocks(r, number, order);
	new.states = calloc(new.nstates, sizeof(*new.states));
	if (!new.states)
		return -ENOMEM;
	memcpy(new.cls, dfa->cls, sizeof(new.cls));
	err = rf_grow(&new.edges, &new.edges_capacity, 1, sizeof(*new.edges));
	for (size_t i = 0; !err && i < new.nstates; i++)
		err = copy_state(r, order[i], number, &new);
	if (err) {
		rf_dfa_done(&new);
		return err;
	}
	rf_dfa_done(dfa);
	*dfa = new; /* the start is number 0 */
	return 0;
}

int rf_dfa_minimise(struct rf_dfa *dfa)
{
	struct refiner r = {.dfa = dfa};
	int err;

	err = allocate(&r);
	if (!err) {
		find_befores(&r);
		for (size_t i = 0; i < dfa->nstates; i++) {
			r.elements[i] = r.place[i] = i;
			r.block[i] = 0;
		}
		r.first[0] = 0;
		r.mid[0] = r.end[0] = dfa->nstates; /* all dirty */
		r.nblocks = 1;
		r.work[r.nwork++] = 0;
	}
	while (!err && r.nwork)
		err = refine(&r, r.work[--r.nwork]);
	if (!err)
		err = rebuild(&r, dfa);
	release(&r);
	return err;
}
