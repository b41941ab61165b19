/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Network tables, see net.h. Going down the tree, a rule is pending until its
 * prefix ends, and holds from there on. Where nothing is pending a leaf is made
 * of the rules that hold; equal leaves are stored once.
 *
 * As a destination 0.0.0.0 and :: are whatever address of this host the kernel takes. So
 * their leaves are made last, from all others: they allow what every address allows.
 */
#include "policy/net.h"

#include <errno.h>
#include <string.h>

struct builder {
	const struct rf_policy *policy;
	struct rf_net_lint *lint; /* may be NULL */
	struct rf_net net;
	uint64_t work;
	struct rf_port *list; /* scratch: the ports of a leaf */
	size_t nlist, list_capacity;
	struct rf_port *both; /* scratch: two lists as one */
	size_t both_capacity;
	bool *taken; /* leaves */
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

static bool is_for(const struct rf_net_rule *r, uint8_t protocol, uint32_t port, bool audited)
{
	return r->target.protocols & protocol && port >= r->target.first &&
	       port <= r->target.last && (!r->head.sense.audited || audited);
}

/* Where `best` wins over another: does it take back a deny without saying so? */
static void note(const struct builder *b, const struct rf_net_rule *best,
		 const struct rf_net_rule *other)
{
	b->lint[other - b->policy->net].beaten_by = best;
	if (best->head.sense.action == RF_RULE_ALLOW && !best->head.sense.reopens &&
	    other->head.sense.action == RF_RULE_DENY)
		b->lint[best - b->policy->net].reopened = other;
}

/* The one of `set` that wins for a port, in a plane (see winners.h). */
static const struct rf_net_rule *winner(const struct builder *b, const struct set *set,
					uint8_t protocol, uint32_t port, bool audited)
{
	const struct rf_net_rule *best = NULL;

	for (size_t i = 0; i < set->n; i++) {
		const struct rf_net_rule *r = &b->policy->net[set->items[i]];

		if (is_for(r, protocol, port, audited) &&
		    (!best || best->head.sense.action != RF_RULE_FORBID ||
		     r->head.sense.action == RF_RULE_FORBID))
			best = r;
	}
	for (size_t i = 0; b->lint && i < set->n; i++) {
		const struct rf_net_rule *r = &b->policy->net[set->items[i]];

		if (r != best && is_for(r, protocol, port, audited))
			note(b, best, r);
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

/* Append a range to a list of ranges, or make the last one longer. */
static void append(struct rf_port *list, size_t *n, const struct rf_port *entry)
{
	struct rf_port *last = *n ? &list[*n - 1] : NULL;

	if (last && last->rule == entry->rule && last->audited_rule == entry->audited_rule)
		last->last = entry->last;
	else
		list[(*n)++] = *entry;
}

/* Append the ranges of one protocol to the list; their number in *ret_n. */
static int add_ranges(struct builder *b, const struct set *set, uint8_t protocol, uint16_t *ret_n)
{
	size_t edges = 0, n = 0;
	struct rf_port *list;

	if (rf_grow(&b->edges, &b->edges_capacity, 2 * set->n + 1, sizeof(*b->edges)))
		return -ENOMEM;
	for (size_t i = 0; i < set->n; i++) {
		const struct rf_target *t = &b->policy->net[set->items[i]].target;

		if (!(t->protocols & protocol))
			continue;
		if (t->first)
			b->edges[edges++] = t->first - 1;
		b->edges[edges++] = t->last;
	}
	b->edges[edges++] = UINT16_MAX;
	qsort(b->edges, edges, sizeof(*b->edges), by_value);
	b->work += (uint64_t)edges * (set->n + 1);
	if (b->work > RF_NET_WORK_MAX)
		return -E2BIG;
	if (rf_grow(&b->list, &b->list_capacity, b->nlist + edges, sizeof(*b->list)))
		return -ENOMEM;
	list = b->list + b->nlist;
	for (size_t i = 0; i < edges; i++) {
		const struct rf_port entry = entry_of(b, set, protocol, b->edges[i]);

		append(list, &n, &entry);
	}
	b->nlist += n;
	*ret_n = n;
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

/* A leaf of the ports in the list. */
static int store_leaf(struct builder *b, uint16_t ntcp, uint16_t nudp, uint32_t *ret_child)
{
	struct rf_net *net = &b->net;
	const struct rf_leaf leaf = {.first = net->nports, .ntcp = ntcp, .nudp = nudp};
	size_t at;

	if (b->nslots <= 2 * net->nleaves && rehash(b))
		return -ENOMEM;
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

static int make_leaf(struct builder *b, const struct set *set, uint32_t *ret_child)
{
	uint16_t ntcp, nudp;
	int r;

	b->nlist = 0;
	r = add_ranges(b, set, RF_TCP, &ntcp);
	if (!r)
		r = add_ranges(b, set, RF_UDP, &nudp);
	return r ? r : store_leaf(b, ntcp, nudp, ret_child);
}

static unsigned int half_of(const uint8_t address[16], unsigned int depth)
{
	return depth % 2 ? address[depth / 2] & 15 : address[depth / 2] >> 4;
}

/* Does the rule's prefix agree with `half` as half byte number `depth`? */
static bool agrees(const struct rf_target *t, unsigned int depth, unsigned int half)
{
	unsigned int own = half_of(t->address, depth);
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

/* ---- any address ------------------------------------------------------------ */

static bool covers(const struct rf_target *t, const uint8_t address[16])
{
	for (unsigned int depth = 0; 4 * depth < t->prefix; depth++)
		if (!agrees(t, depth, half_of(address, depth)))
			return false;
	return true;
}

/* Is it the first of two verdicts that is told where both have to allow? */
static bool outweighs(uint8_t a, uint16_t a_rule, uint8_t b, uint16_t b_rule)
{
	static const uint8_t weights[RF_NET_VERDICTS] = {
		[RF_NET_ALLOW] = 0,
		[RF_NET_DEFAULT] = 1,
		[RF_NET_DENY] = 2,
		[RF_NET_FORBID] = 3,
	};

	if (weights[a] != weights[b])
		return weights[a] > weights[b];
	return a != RF_NET_ALLOW && a_rule > b_rule;
}

/* The list from `from` on, the ports of one protocol, becomes what it and `more` allow. */
static int combine(struct builder *b, size_t from, const struct rf_port *more, size_t nmore)
{
	size_t i = from, k = 0, n = 0, most = b->nlist - from + nmore;

	b->work += most;
	if (b->work > RF_NET_WORK_MAX)
		return -E2BIG;
	if (rf_grow(&b->both, &b->both_capacity, most, sizeof(*b->both)) ||
	    rf_grow(&b->list, &b->list_capacity, from + most, sizeof(*b->list)))
		return -ENOMEM;
	while (i < b->nlist && k < nmore) {
		const struct rf_port *x = &b->list[i], *y = &more[k];
		struct rf_port entry = *x;

		entry.last = x->last < y->last ? x->last : y->last;
		if (outweighs(y->verdict, y->rule, x->verdict, x->rule)) {
			entry.verdict = y->verdict;
			entry.rule = y->rule;
		}
		if (outweighs(y->audited, y->audited_rule, x->audited, x->audited_rule)) {
			entry.audited = y->audited;
			entry.audited_rule = y->audited_rule;
		}
		append(b->both, &n, &entry);
		i += x->last == entry.last;
		k += y->last == entry.last;
	}
	memcpy(b->list + from, b->both, n * sizeof(*b->both));
	b->nlist = from + n;
	return 0;
}

/* Combine the list from `from` on with each leaf from `child` on. */
static int combine_all(struct builder *b, size_t from, uint8_t protocol, uint32_t child)
{
	int r = 0;

	if (child & RF_NODE_LEAF) {
		const struct rf_leaf *leaf = &b->net.leaves[child & ~RF_NODE_LEAF];
		bool udp = protocol == RF_UDP;

		if (b->taken[child & ~RF_NODE_LEAF])
			return 0;
		b->taken[child & ~RF_NODE_LEAF] = true;
		return combine(b, from, b->net.ports + leaf->first + (udp ? leaf->ntcp : 0),
			       udp ? leaf->nudp : leaf->ntcp);
	}
	for (unsigned int half = 0; !r && half < 16; half++)
		r = combine_all(b, from, protocol, b->net.nodes[child][half]);
	return r;
}

/* What holds for `address`, and allows no more than each address below its first `bits`. */
static int make_any(struct builder *b, const struct set *all, const uint8_t address[16],
		    unsigned int bits, uint32_t *ret_child)
{
	_cleanup_free_ uint32_t *items = malloc((all->n + 1) * sizeof(*items));
	struct set own = {items, 0};
	uint32_t below = b->net.root;
	uint16_t n[2];
	int r = items ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < all->n; i++)
		if (covers(&b->policy->net[all->items[i]].target, address))
			own.items[own.n++] = all->items[i];
	for (unsigned int depth = 0; depth < bits / 4 && !(below & RF_NODE_LEAF); depth++)
		below = b->net.nodes[below][half_of(address, depth)];
	b->nlist = 0;
	for (unsigned int i = 0; !r && i < 2; i++) {
		size_t from = b->nlist;

		free(b->taken);
		b->taken = calloc(b->net.nleaves, sizeof(*b->taken));
		r = b->taken ? add_ranges(b, &own, i ? RF_UDP : RF_TCP, &n[i]) : -ENOMEM;
		if (!r)
			r = combine_all(b, from, i ? RF_UDP : RF_TCP, below);
		n[i] = b->nlist - from;
	}
	return r ? r : store_leaf(b, n[0], n[1], ret_child);
}

/* Let the one address lead to a leaf. */
static int graft(struct rf_net *net, const uint8_t address[16], uint32_t leaf)
{
	uint32_t parent = 0, child = net->root;

	for (unsigned int depth = 0; child != leaf && depth < RF_NODE_STEPS; depth++) {
		if (child & RF_NODE_LEAF) {
			if (rf_grow(&net->nodes, &net->nodes_capacity, net->nnodes + 1,
				    sizeof(*net->nodes)))
				return -ENOMEM;
			for (unsigned int half = 0; half < 16; half++)
				net->nodes[net->nnodes][half] = child;
			child = net->nnodes++;
			if (depth)
				net->nodes[parent][half_of(address, depth - 1)] = child;
			else
				net->root = child;
		}
		parent = child;
		child = net->nodes[parent][half_of(address, depth)];
	}
	if (child != leaf)
		net->nodes[parent][half_of(address, RF_NODE_STEPS - 1)] = leaf;
	return 0;
}

/*
 * An inet6 socket gets from :: to the loopback of IPv6, or of IPv4 if it is bound to that,
 * as the kernels of today have it. To ask for every address is to depend on neither.
 */
static int add_any(struct builder *b, const struct set *all)
{
	static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff}, v6[16];
	uint32_t v4_leaf = 0, v6_leaf = 0;
	int r;

	r = make_any(b, all, v4, 96, &v4_leaf);
	if (!r)
		r = make_any(b, all, v6, 0, &v6_leaf);
	if (!r)
		r = graft(&b->net, v4, v4_leaf);
	return r ? r : graft(&b->net, v6, v6_leaf);
}

int rf_net_build(const struct rf_policy *policy, size_t without, struct rf_net_lint *lint,
		 struct rf_net *ret_net)
{
	_cleanup_free_ uint32_t *items = malloc((3 * policy->nnet + 1) * sizeof(*items));
	struct set holds = {items, 0}, pending = {0}, all = {0};
	struct builder b = {.policy = policy, .lint = lint};
	int r = 0;

	if (!items)
		return -ENOMEM;
	pending.items = items + policy->nnet;
	all.items = pending.items + policy->nnet;
	for (size_t i = 0; i < policy->nnet; i++) {
		const struct rf_target *t = &policy->net[i].target;
		struct set *set = t->prefix ? &pending : &holds;

		if (policy->nrules + 1 + i == without)
			continue;
		all.items[all.n++] = i;
		if (!rf_target_is_any(t))
			set->items[set->n++] = i;
	}
	if (policy->nnet)
		r = make_child(&b, &holds, &pending, 0, &b.net.root);
	if (policy->nnet && !r)
		r = add_any(&b, &all);
	free(b.list);
	free(b.edges);
	free(b.slots);
	free(b.both);
	free(b.taken);
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
