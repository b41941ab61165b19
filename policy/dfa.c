/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subset construction. A state of the deterministic automaton is the outcome
 * that was reached at a directory above (it stays) and the set of positions in
 * patterns where the bytes so far have led. A position that cannot give more
 * than what stays already is dropped, which keeps the sets small, and makes all
 * below a decided directory one state.
 */
#include "policy/dfa.h"

#include <errno.h>
#include <string.h>

/* A state under construction: `n` positions from `at` in the pool, sorted. */
struct subset {
	uint32_t stays; /* outcome */
	uint32_t at, n;
};

struct pair {
	uint32_t cls;
	uint32_t node;
};

struct builder {
	struct rf_nfa *nfa;
	const struct rf_sets *sets;
	struct rf_lint *lint;
	struct rf_dfa dfa;
	unsigned char byte_of[256]; /* some byte of each class */
	struct subset *subsets;
	size_t subsets_capacity;
	uint32_t *pool;
	size_t npool, pool_capacity;
	uint32_t *slots; /* hash of subsets, state + 1 */
	size_t nslots;
	size_t work; /* positions entered */
	/* Scratch for one state. */
	uint32_t *base, *next; /* positions */
	size_t nbase, base_capacity, nnext, next_capacity;
	struct pair *pairs;
	size_t npairs, pairs_capacity;
};

/* Split classes along one set of bytes; the result is numbered densely again. */
static uint32_t split_classes(uint32_t cls[256], const struct rf_set *set)
{
	uint32_t number[512], n = 0;

	memset(number, 0xff, sizeof(number));
	for (unsigned int byte = 0; byte < 256; byte++) {
		uint32_t *at = &number[2 * cls[byte] + rf_set_has(set, byte)];

		if (*at == RF_NONE)
			*at = n++;
		cls[byte] = *at;
	}
	return n;
}

/* Bytes that no pattern tells apart form a class. */
static void find_classes(struct builder *b)
{
	bool alone[256] = {['/'] = true};
	uint32_t cls[256] = {0};

	for (size_t i = 1; i < b->nfa->n; i++)
		if (b->nfa->nodes[i].atom < 0x100)
			alone[b->nfa->nodes[i].atom] = true;
	for (size_t i = 0; i < b->sets->n; i++)
		split_classes(cls, &b->sets->items[i]);
	for (unsigned int byte = 0; byte < 256; byte++) {
		struct rf_set set = {0};

		if (!alone[byte])
			continue;
		set.bits[byte / 64] |= UINT64_C(1) << byte % 64;
		split_classes(cls, &set);
	}
	for (unsigned int byte = 256; byte--;) {
		b->dfa.cls[byte] = cls[byte];
		b->byte_of[cls[byte]] = byte;
		if (cls[byte] >= b->dfa.nclasses)
			b->dfa.nclasses = cls[byte] + 1;
	}
}

static int push(uint32_t **list, size_t *n, size_t *capacity, uint32_t node)
{
	if (rf_grow(list, capacity, *n + 1, sizeof(**list)))
		return -ENOMEM;
	(*list)[(*n)++] = node;
	return 0;
}

/* Add a position to `next`, and those that it enters without a byte. */
static int enter(struct builder *b, uint32_t node)
{
	const struct rf_nfa_node *p;

	while (node != RF_NONE) {
		p = &b->nfa->nodes[node];
		if (push(&b->next, &b->nnext, &b->next_capacity, node))
			return -ENOMEM;
		if (p->star != RF_NONE && p->glob != RF_NONE && enter(b, p->star))
			return -ENOMEM;
		node = p->glob != RF_NONE ? p->glob : p->star;
	}
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void sort(uint32_t *list, size_t n)
{
	if (n > 32) {
		qsort(list, n, sizeof(*list), by_value);
		return;
	}
	for (size_t i = 1; i < n; i++) {
		uint32_t value = list[i];
		size_t j = i;

		for (; j && list[j - 1] > value; j--)
			list[j] = list[j - 1];
		list[j] = value;
	}
}

/* A position that stays until the name ends, and a pattern ends with it: it will count. */
static bool is_certain(const struct rf_nfa_node *p)
{
	return p->loop == RF_LOOP_NAME && p->end;
}

/* Does a position that is certain decide something, all others and itself being `sum`? */
static bool decides(const struct rf_winners *end, const struct rf_winners *sum)
{
	for (unsigned int plane = 0; plane < RF_PLANES; plane++)
		for (unsigned int i = 0; i < RF_RIGHTS; i++)
			if (end->at[plane][i] && end->at[plane][i] == sum->at[plane][i])
				return true;
	return false;
}

/*
 * Sort `next`, drop doubles and what cannot win any more: against what stays, and
 * against what is certain. A deny that is dropped because of an allow is what the
 * lint looks for.
 */
static void tidy(struct builder *b, uint32_t stays)
{
	const struct rf_winners *items = b->nfa->winners.items;
	struct rf_winners sum = items[stays];
	size_t n = 0;

	sort(b->next, b->nnext);
	for (size_t i = 0; i < b->nnext; i++) {
		const struct rf_nfa_node *p = &b->nfa->nodes[b->next[i]];

		if (n && b->next[n - 1] == b->next[i])
			continue;
		if (is_certain(p))
			rf_winners_merge(&sum, &items[p->end], b->lint);
		b->next[n++] = b->next[i];
	}
	b->nnext = n;
	n = 0;
	for (size_t i = 0; i < b->nnext; i++) {
		const struct rf_nfa_node *p = &b->nfa->nodes[b->next[i]];

		if (rf_winners_beat(&items[p->reach], &sum) ||
		    (is_certain(p) && decides(&items[p->end], &sum) &&
		     rf_winners_beat(&items[p->end], &items[stays]))) {
			b->next[n++] = b->next[i];
		} else {
			struct rf_winners kept = sum;

			rf_winners_merge(&kept, &items[p->reach_deny], b->lint);
		}
	}
	b->nnext = n;
}

static uint64_t hash_of(uint32_t stays, const uint32_t *nodes, size_t n)
{
	return rf_hash(nodes, n * sizeof(*nodes)) ^ stays * UINT64_C(0x9e3779b97f4a7c15);
}

static int rehash(struct builder *b)
{
	size_t nslots = b->nslots ? b->nslots * 2 : 1024;
	uint32_t *slots = calloc(nslots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < b->dfa.nstates; i++) {
		const struct subset *s = &b->subsets[i];
		size_t at = hash_of(s->stays, b->pool + s->at, s->n) & (nslots - 1);

		while (slots[at])
			at = (at + 1) & (nslots - 1);
		slots[at] = i + 1;
	}
	free(b->slots);
	b->slots = slots;
	b->nslots = nslots;
	return 0;
}

/* The state of `stays` and `next`, made if it is new. */
static int find_state(struct builder *b, uint32_t stays, uint32_t *ret_state)
{
	struct rf_dfa *dfa = &b->dfa;
	struct subset *s;
	size_t at;

	b->work += b->nnext + 1;
	tidy(b, stays);
	if (b->nslots <= 2 * dfa->nstates && rehash(b))
		return -ENOMEM;
	at = hash_of(stays, b->next, b->nnext) & (b->nslots - 1);
	for (; b->slots[at]; at = (at + 1) & (b->nslots - 1)) {
		s = &b->subsets[b->slots[at] - 1];
		if (s->stays != stays || s->n != b->nnext ||
		    (s->n && memcmp(b->pool + s->at, b->next, s->n * sizeof(*b->next))))
			continue;
		*ret_state = b->slots[at] - 1;
		return 0;
	}
	if (dfa->nstates == RF_DFA_STATES_MAX || b->work > RF_DFA_WORK_MAX)
		return -E2BIG;
	if (rf_grow(&b->subsets, &b->subsets_capacity, dfa->nstates + 1, sizeof(*b->subsets)) ||
	    rf_grow(&dfa->states, &dfa->states_capacity, dfa->nstates + 1, sizeof(*dfa->states)) ||
	    rf_grow(&b->pool, &b->pool_capacity, b->npool + b->nnext, sizeof(*b->pool)))
		return -ENOMEM;
	s = &b->subsets[dfa->nstates];
	s->stays = stays;
	s->at = b->npool;
	s->n = b->nnext;
	if (s->n)
		memcpy(b->pool + s->at, b->next, s->n * sizeof(*b->next));
	b->npool += s->n;
	b->slots[at] = dfa->nstates + 1;
	*ret_state = dfa->nstates++;
	return 0;
}

static int add_pair(struct builder *b, uint32_t cls, uint32_t node)
{
	if (rf_grow(&b->pairs, &b->pairs_capacity, b->npairs + 1, sizeof(*b->pairs)))
		return -ENOMEM;
	b->pairs[b->npairs++] = (struct pair){cls, node};
	return 0;
}

/* Where one position leads: to `base` on all bytes but '/', else to pairs. */
static int moves_of(struct builder *b, uint32_t node)
{
	const struct rf_nfa_node *nodes = b->nfa->nodes, *p = &nodes[node];
	uint32_t slash = b->dfa.cls['/'];
	int r = 0;

	if (p->loop != RF_LOOP_NONE)
		r = push(&b->base, &b->nbase, &b->base_capacity, node);
	if (!r && p->loop == RF_LOOP_ALL)
		r = add_pair(b, slash, node);
	if (!r && p->run != RF_NONE)
		r = add_pair(b, slash, p->run);
	for (uint32_t c = p->child; !r && c != RF_NONE; c = nodes[c].sibling) {
		const struct rf_set *set;

		if (nodes[c].atom < 0x100) {
			r = add_pair(b, b->dfa.cls[nodes[c].atom], c);
			continue;
		}
		if (nodes[c].atom == RF_ATOM_ANY) {
			r = push(&b->base, &b->nbase, &b->base_capacity, c);
			continue;
		}
		set = &b->sets->items[nodes[c].atom - RF_ATOM_SET];
		for (uint32_t cls = 0; !r && cls < b->dfa.nclasses; cls++)
			if (rf_set_has(set, b->byte_of[cls]))
				r = add_pair(b, cls, c);
	}
	return r;
}

static int by_class(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return x->cls < y->cls ? -1 : x->cls > y->cls;
}

static void sort_pairs(struct builder *b)
{
	if (b->npairs > 24) {
		qsort(b->pairs, b->npairs, sizeof(*b->pairs), by_class);
		return;
	}
	for (size_t i = 1; i < b->npairs; i++) {
		struct pair pair = b->pairs[i];
		size_t j = i;

		for (; j && b->pairs[j - 1].cls > pair.cls; j--)
			b->pairs[j] = b->pairs[j - 1];
		b->pairs[j] = pair;
	}
}

/* The outcome at a state itself: what stays, and the patterns that end here. */
static int outcome_of(struct builder *b, const struct subset *s, uint32_t *ret_accept)
{
	const struct rf_winners *items = b->nfa->winners.items;
	struct rf_winners sum = items[s->stays];
	bool ends = false;

	for (uint32_t i = 0; i < s->n; i++) {
		const struct rf_nfa_node *p = &b->nfa->nodes[b->pool[s->at + i]];

		if (p->end) {
			rf_winners_merge(&sum, &items[p->end], b->lint);
			ends = true;
		}
	}
	if (ends)
		return rf_winners_intern(&b->nfa->winners, &sum, ret_accept);
	*ret_accept = s->stays;
	return 0;
}

static int add_edge(struct rf_dfa *dfa, uint32_t cls, uint32_t target)
{
	if (rf_grow(&dfa->edges, &dfa->edges_capacity, dfa->nedges + 1, sizeof(*dfa->edges)))
		return -ENOMEM;
	dfa->edges[dfa->nedges++] = (struct rf_edge){cls, target};
	return 0;
}

static int expand(struct builder *b, uint32_t state)
{
	struct subset s = b->subsets[state];
	struct rf_dfa *dfa = &b->dfa;
	uint32_t slash = dfa->cls['/'];
	uint32_t accept, dflt, target;
	size_t first = dfa->nedges;
	int r;

	r = outcome_of(b, &s, &accept);
	b->nbase = b->npairs = 0;
	for (uint32_t i = 0; !r && i < s.n; i++)
		r = moves_of(b, b->pool[s.at + i]);
	/* '/' always is a case of its own: nothing of `base` takes part, and the outcome stays. */
	if (!r)
		r = add_pair(b, slash, RF_NONE);
	if (r)
		return r;
	b->nnext = 0;
	for (size_t i = 0; !r && i < b->nbase; i++)
		r = enter(b, b->base[i]);
	if (!r)
		r = find_state(b, s.stays, &dflt);
	sort_pairs(b);
	for (size_t i = 0; !r && i < b->npairs;) {
		uint32_t cls = b->pairs[i].cls;

		b->nnext = 0;
		for (; !r && i < b->npairs && b->pairs[i].cls == cls; i++)
			r = enter(b, b->pairs[i].node);
		for (size_t j = 0; !r && cls != slash && j < b->nbase; j++)
			r = enter(b, b->base[j]);
		if (!r)
			r = find_state(b, cls == slash ? accept : s.stays, &target);
		if (!r && target != dflt)
			r = add_edge(dfa, cls, target);
	}
	if (r)
		return r;
	dfa->states[state] = (struct rf_dfa_state){accept, dflt, first, dfa->nedges - first};
	return 0;
}

/* Some rule whose pattern leads through this node. */
static uint16_t rule_of(const struct rf_nfa *nfa, uint32_t node)
{
	const struct rf_winners *w = &nfa->winners.items[nfa->nodes[node].reach];

	for (unsigned int i = 0; i < RF_RIGHTS; i++)
		if (w->at[1][i])
			return rf_priority_rule(w->at[1][i]);
	return 0;
}

/* The rules whose looping positions are in the most states. */
static int find_culprits(const struct builder *b, uint16_t culprits[RF_CULPRITS])
{
	_cleanup_free_ uint32_t *count = calloc(RF_MAX_RULES + 1, sizeof(*count));

	if (!count)
		return -ENOMEM;
	for (size_t i = 0; i < b->npool; i++) {
		const struct rf_nfa_node *p = &b->nfa->nodes[b->pool[i]];

		if (p->loop == RF_LOOP_NONE)
			count[rule_of(b->nfa, b->pool[i])]++;
	}
	for (size_t k = 0; k < RF_CULPRITS; k++) {
		uint16_t most = 0;

		for (uint32_t rule = 1; rule <= RF_MAX_RULES; rule++)
			if (count[rule] > count[most] || (!most && count[rule]))
				most = rule;
		culprits[k] = most;
		count[most] = 0;
	}
	return 0;
}

int rf_dfa_build(struct rf_nfa *nfa, const struct rf_sets *sets, struct rf_lint *lint,
		 struct rf_dfa *ret_dfa, uint16_t culprits[RF_CULPRITS])
{
	struct builder b = {.nfa = nfa, .sets = sets, .lint = lint};
	int r;

	find_classes(&b);
	/* Room for one of each, so that no pointer to an empty list is NULL. */
	r = rf_grow(&b.pool, &b.pool_capacity, 1, sizeof(*b.pool));
	if (!r)
		r = rf_grow(&b.dfa.edges, &b.dfa.edges_capacity, 1, sizeof(*b.dfa.edges));
	if (!r)
		r = enter(&b, 0);
	if (!r)
		r = find_state(&b, 0, &b.dfa.start);
	for (size_t state = 0; !r && state < b.dfa.nstates; state++)
		r = expand(&b, state);
	if (r == -E2BIG && find_culprits(&b, culprits))
		r = -ENOMEM;
	free(b.subsets);
	free(b.pool);
	free(b.slots);
	free(b.base);
	free(b.next);
	free(b.pairs);
	if (r) {
		rf_dfa_done(&b.dfa);
		return r;
	}
	*ret_dfa = b.dfa;
	return 0;
}

uint32_t rf_dfa_step(const struct rf_dfa *dfa, uint32_t state, uint8_t byte)
{
	const struct rf_dfa_state *s = &dfa->states[state];
	uint32_t cls = dfa->cls[byte];

	for (uint32_t i = 0; i < s->nedges; i++)
		if (dfa->edges[s->edges + i].cls == cls)
			return dfa->edges[s->edges + i].target;
	return s->target;
}

void rf_dfa_done(struct rf_dfa *dfa)
{
	free(dfa->states);
	free(dfa->edges);
	memset(dfa, 0, sizeof(*dfa));
}
