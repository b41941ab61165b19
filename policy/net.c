/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Network tables, see net.h. Going down the tree, a rule is pending until its
 * prefix ends, and holds from there on. Where nothing is pending a leaf is made
 * of the rules that hold; equal leaves are stored once.
 */
#include "policy/net.h"

#include <errno.h>
#include <string.h>

struct builder {
	const struct rf_policy *policy;
	struct rf_net net;
	uint64_t work;
	struct rf_port *list; /* scratch: the ports of a leaf */
	size_t nlist, list_capacity;
	uint32_t *edges; /* scratch: the last ports of ranges */
	size_t nedges, edges_capacity;
	uint32_t *slots; /* hash of leaves, index + 1 */
	size_t nslots;
};

/* Rules by index into policy->net, ascending. */
struct set {
	uint32_t *items;
	size_t n;
};

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The one of `set` that wins for a port, in a plane (see winners.h). */
static const struct rf_net_rule *winner(const struct builder *b, const struct set *set,
					uint8_t protocol, uint32_t port, bool audited)
{
	const struct rf_net_rule *best = NULL;

	for (size_t i = 0; i < set->n; i++) {
		const struct rf_net_rule *r = &b->policy->net[set->items[i]];

		if (!(r->target.protocols & protocol) || port < r->target.first ||
		    port > r->target.last || (r->head.sense.audited && !audited))
			continue;
		if (!best || best->head.sense.action != RF_RULE_FORBID ||
		    r->head.sense.action == RF_RULE_FORBID)
			best = r;
	}
	return best;
}

static struct rf_port entry_of(const struct builder *b, const struct set *set, uint8_t protocol,
			       uint32_t last)
{
	static const uint8_t verdicts[] = {
		[RF_RULE_ALLOW] = RF_NET_ALLOW,
		[RF_RULE_DENY] = RF_NET_DENY,
		[RF_RULE_FORBID] = RF_NET_FORBID,
	};
	const struct rf_net_rule *real = winner(b, set, protocol, last, false);
	const struct rf_net_rule *audited = winner(b, set, protocol, last, true);
	size_t before = b->policy->nrules + 1;
	struct rf_port entry = {.last = last};

	if (real) {
		entry.verdict = verdicts[real->head.sense.action];
		entry.rule = before + (real - b->policy->net);
	}
	if (audited) {
		entry.audited = verdicts[audited->head.sense.action];
		entry.audited_rule = before + (audited - b->policy->net);
	}
	return entry;
}

/* Append the ranges of one protocol to the list; their number in *ret_n. */
static int add_ranges(struct builder *b, const struct set *set, uint8_t protocol, uint16_t *ret_n)
{
	size_t before = b->nlist, n = 0;

	if (rf_grow(&b->edges, &b->edges_capacity, 2 * set->n + 1, sizeof(*b->edges)))
		return -ENOMEM;
	for (size_t i = 0; i < set->n; i++) {
		const struct rf_target *t = &b->policy->net[set->items[i]].target;

		if (!(t->protocols & protocol))
			continue;
		if (t->first)
			b->edges[n++] = t->first - 1;
		b->edges[n++] = t->last;
	}
	b->edges[n++] = UINT16_MAX;
	qsort(b->edges, n, sizeof(*b->edges), by_value);
	b->work += (uint64_t)n * (set->n + 1);
	if (b->work > RF_NET_WORK_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		struct rf_port entry, *last;

		if (i && b->edges[i] == b->edges[i - 1])
			continue;
		entry = entry_of(b, set, protocol, b->edges[i]);
		last = b->nlist > before ? &b->list[b->nlist - 1] : NULL;
		if (last && last->rule == entry.rule && last->audited_rule == entry.audited_rule) {
			last->last = entry.last;
			continue;
		}
		if (rf_grow(&b->list, &b->list_capacity, b->nlist + 1, sizeof(*b->list)))
			return -ENOMEM;
		b->list[b->nlist++] = entry;
	}
	*ret_n = b->nlist - before;
	return 0;
}

static int rehash(struct builder *b)
{
	size_t nslots = b->nslots ? 2 * b->nslots : 64;
	uint32_t *slots = calloc(nslots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < b->net.nleaves; i++) {
		const struct rf_leaf *l = &b->net.leaves[i];
		size_t at = rf_hash(b->net.ports + l->first,
				    (l->ntcp + l->nudp) * sizeof(struct rf_port)) &
			    (nslots - 1);

		while (slots[at])
			at = (at + 1) & (nslots - 1);
		slots[at] = i + 1;
	}
	free(b->slots);
	b->slots = slots;
	b->nslots = nslots;
	return 0;
}

static int make_leaf(struct builder *b, const struct set *set, uint32_t *ret_child)
{
	struct rf_net *net = &b->net;
	struct rf_leaf leaf = {.first = net->nports};
	size_t at;
	int r;

	b->nlist = 0;
	r = add_ranges(b, set, RF_TCP, &leaf.ntcp);
	if (!r)
		r = add_ranges(b, set, RF_UDP, &leaf.nudp);
	if (!r && b->nslots <= 2 * net->nleaves)
		r = rehash(b);
	if (r)
		return r;
	at = rf_hash(b->list, b->nlist * sizeof(*b->list)) & (b->nslots - 1);
	for (; b->slots[at]; at = (at + 1) & (b->nslots - 1)) {
		const struct rf_leaf *l = &net->leaves[b->slots[at] - 1];

		if (l->ntcp == leaf.ntcp && l->nudp == leaf.nudp &&
		    !memcmp(net->ports + l->first, b->list, b->nlist * sizeof(*b->list))) {
			*ret_child = RF_NODE_LEAF | (b->slots[at] - 1);
			return 0;
		}
	}
	if (rf_grow(&net->leaves, &net->leaves_capacity, net->nleaves + 1, sizeof(leaf)) ||
	    rf_grow(&net->ports, &net->ports_capacity, net->nports + b->nlist, sizeof(*net->ports)))
		return -ENOMEM;
	memcpy(net->ports + net->nports, b->list, b->nlist * sizeof(*b->list));
	net->nports += b->nlist;
	net->leaves[net->nleaves] = leaf;
	b->slots[at] = net->nleaves + 1;
	*ret_child = RF_NODE_LEAF | net->nleaves++;
	return 0;
}

/* Does the rule's prefix agree with `half` as half byte number `depth`? */
static bool agrees(const struct rf_target *t, unsigned int depth, unsigned int half)
{
	unsigned int own = depth % 2 ? t->address[depth / 2] & 15 : t->address[depth / 2] >> 4;
	unsigned int bits = t->prefix - 4 * depth;

	return bits >= 4 ? own == half : own >> (4 - bits) == half >> (4 - bits);
}

static int make_child(struct builder *b, const struct set *holds, const struct set *pending,
		      unsigned int depth, uint32_t *ret_child);

/* The sets for one half byte, and the child that they make. */
static int descend(struct builder *b, const struct set *holds, const struct set *pending,
		   unsigned int depth, unsigned int half, uint32_t *ret_child)
{
	_cleanup_free_ uint32_t *items = malloc((holds->n + 2 * pending->n + 1) * sizeof(*items));
	struct set more = {items, 0}, rest = {0};
	size_t h = 0;

	if (!items)
		return -ENOMEM;
	rest.items = items + holds->n + pending->n;
	for (size_t i = 0; i < pending->n; i++) {
		const struct rf_target *t = &b->policy->net[pending->items[i]].target;

		if (!agrees(t, depth, half))
			continue;
		if (t->prefix > 4 * (depth + 1)) {
			rest.items[rest.n++] = pending->items[i];
			continue;
		}
		while (h < holds->n && holds->items[h] < pending->items[i])
			more.items[more.n++] = holds->items[h++];
		more.items[more.n++] = pending->items[i];
	}
	while (h < holds->n)
		more.items[more.n++] = holds->items[h++];
	b->work += pending->n;
	return make_child(b, &more, &rest, depth + 1, ret_child);
}

static int make_child(struct builder *b, const struct set *holds, const struct set *pending,
		      unsigned int depth, uint32_t *ret_child)
{
	uint32_t node, child;
	int r;

	if (!pending->n)
		return make_leaf(b, holds, ret_child);
	if (rf_grow(&b->net.nodes, &b->net.nodes_capacity, b->net.nnodes + 1,
		    sizeof(*b->net.nodes)))
		return -ENOMEM;
	node = b->net.nnodes++;
	for (unsigned int half = 0; half < 16; half++) {
		r = descend(b, holds, pending, depth, half, &child);
		if (r)
			return r;
		b->net.nodes[node][half] = child;
	}
	*ret_child = node;
	return 0;
}

int rf_net_build(const struct rf_policy *policy, size_t without, struct rf_net *ret_net)
{
	_cleanup_free_ uint32_t *items = malloc((2 * policy->nnet + 1) * sizeof(*items));
	struct set holds = {items, 0}, pending = {0};
	struct builder b = {.policy = policy};
	int r = 0;

	if (!items)
		return -ENOMEM;
	pending.items = items + policy->nnet;
	for (size_t i = 0; i < policy->nnet; i++) {
		struct set *set = policy->net[i].target.prefix ? &pending : &holds;

		if (policy->nrules + 1 + i != without)
			set->items[set->n++] = i;
	}
	if (policy->nnet)
		r = make_child(&b, &holds, &pending, 0, &b.net.root);
	free(b.list);
	free(b.edges);
	free(b.slots);
	if (r) {
		rf_net_done(&b.net);
		return r;
	}
	*ret_net = b.net;
	return 0;
}

void rf_net_done(struct rf_net *net)
{
	free(net->nodes);
	free(net->leaves);
	free(net->ports);
	memset(net, 0, sizeof(*net));
}
