/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Image verifier and readers, see image.h. The verifier believes nothing: it
 * accepts only what the writer could have written, section by section, so that
 * the stepping functions need no bounds check of their own.
 */
#include "policy/image.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "bpf/verdict.h"
#include "policy/util.h"

struct verifier {
	const __u64 *words;
	const struct rf_image *head;
	struct rf_diags *diags;
	unsigned int nclasses;
	unsigned char *depth; /* by node of the network's tree */
	unsigned char *ends; /* by state: is it one that no byte leaves? enum below */
};

enum { UNKNOWN, ENDS, MOVES };

__attribute__((format(printf, 2, 3))) static int broken(struct verifier *v, const char *format, ...)
{
	char message[160];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	rf_diag(v->diags, RF_ERROR, NULL, 0, 0, "compile the policy again", "broken image: %s",
		message);
	return -EINVAL;
}

static int check_header(struct verifier *v, size_t size)
{
	static const unsigned char zero[4];
	const struct rf_image *h = v->head;
	const size_t at = offsetof(struct rf_image, checksum);
	const unsigned char *bytes = (const unsigned char *)v->words;
	uLong crc;

	if (size < sizeof(*h) || size > RF_IMAGE_MAX || size % 8)
		return broken(v, "a size of %zu bytes", size);
	if (h->magic != RF_IMAGE_MAGIC)
		return broken(v, "not an image of ringfence");
	if (h->version != RF_IMAGE_VERSION)
		return broken(v, "version %u, this is version %u", h->version, RF_IMAGE_VERSION);
	if (h->size != size)
		return broken(v, "%u bytes in the header, %zu in truth", h->size, size);
	crc = crc32(0, bytes, at);
	crc = crc32(crc, zero, sizeof(zero));
	crc = crc32(crc, bytes + at + sizeof(zero), size - at - sizeof(zero));
	if (crc != h->checksum)
		return broken(v, "the checksum does not match");
	return 0;
}

/* Sections follow each other without a gap. All sums are in 64 bits. */
static int check_sections(struct verifier *v)
{
	const struct rf_image *h = v->head;
	uint64_t at = sizeof(*h) / 8;

	if (h->states != at)
		return broken(v, "states begin at word %u", h->states);
	at += h->nstates;
	if (h->cells != at)
		return broken(v, "cells begin at word %u", h->cells);
	at += RF_CELL_WORDS(h->ncells);
	if (h->accepts != at)
		return broken(v, "accepts begin at word %u", h->accepts);
	at += (uint64_t)h->naccepts * RF_ACCEPT_WORDS;
	if (h->rules != at)
		return broken(v, "rules begin at word %u", h->rules);
	at += (uint64_t)h->nrules * RF_RULE_WORDS;
	if (h->nleaves) {
		if (h->nodes != at)
			return broken(v, "nodes begin at word %u", h->nodes);
		at += (uint64_t)h->nnodes * RF_NODE_WORDS;
		if (h->leaves != at)
			return broken(v, "leaves begin at word %u", h->leaves);
		at += h->nleaves;
		if (h->ports != at)
			return broken(v, "ports begin at word %u", h->ports);
		at += h->nports;
	} else if (h->root || h->nnodes || h->nports || h->nodes || h->leaves || h->ports) {
		return broken(v, "a network without leaves");
	}
	if (h->strings != at)
		return broken(v, "strings begin at word %u", h->strings);
	at += ((uint64_t)h->nstrings + 7) / 8;
	if (at * 8 != h->size)
		return broken(v, "the sections do not fill the image");
	if (h->nstates < 2 || h->nstates > RF_MAX_STATES || !h->naccepts ||
	    h->naccepts > RF_MAX_ACCEPTS || h->nrules > RF_MAX_RULES || !h->nstrings)
		return broken(v, "a count is out of range");
	if (!h->start || h->start >= h->nstates)
		return broken(v, "start state %u", h->start);
	if (h->pad || h->detached & ~RF_ALL_RIGHTS)
		return broken(v, "unknown rights");
	return 0;
}

static uint32_t cell_at(const struct verifier *v, uint32_t i)
{
	return v->words[v->head->cells + i / 2] >> (i % 2 * 32);
}

static int check_cells(struct verifier *v)
{
	const struct rf_image *h = v->head;

	for (unsigned int i = 0; i < 256; i++)
		if (h->cls[i] >= v->nclasses)
			v->nclasses = h->cls[i] + 1;
	if (v->nclasses > 255 || h->ncells < v->nclasses)
		return broken(v, "classes of bytes");
	for (uint32_t i = 0; i < h->ncells; i++) {
		uint32_t cell = cell_at(v, i);

		if (!cell)
			continue;
		if (!RF_CELL_CHECK(cell) || RF_CELL_CHECK(cell) > v->nclasses ||
		    !RF_CELL_TARGET(cell) || RF_CELL_TARGET(cell) >= h->nstates)
			return broken(v, "cell %u", i);
	}
	if (h->ncells % 2 && cell_at(v, h->ncells))
		return broken(v, "bytes behind the cells");
	return 0;
}

/* Does every byte lead from t to t? Asked often of few states. */
static bool ends(struct verifier *v, uint32_t t)
{
	uint64_t s = v->words[v->head->states + t];

	if (v->ends[t] == UNKNOWN) {
		v->ends[t] = RF_STATE_DEFAULT(s) == t ? ENDS : MOVES;
		for (unsigned int cls = 0; v->ends[t] == ENDS && cls < v->nclasses; cls++) {
			uint32_t cell = cell_at(v, RF_STATE_BASE(s) + cls);

			if (RF_CELL_CHECK(cell) == cls + 1 && RF_CELL_TARGET(cell) != t)
				v->ends[t] = MOVES;
		}
	}
	return v->ends[t] == ENDS;
}

static int check_states(struct verifier *v)
{
	const struct rf_image *h = v->head;

	v->ends = calloc(h->nstates, 1);
	if (!v->ends)
		return -ENOMEM;
	if (v->words[h->states])
		return broken(v, "state 0");
	for (uint32_t i = 1; i < h->nstates; i++) {
		uint64_t s = v->words[h->states + i];

		if (RF_STATE_BASE(s) > h->ncells - v->nclasses || !RF_STATE_DEFAULT(s) ||
		    RF_STATE_DEFAULT(s) >= h->nstates || RF_STATE_ACCEPT(s) >= h->naccepts)
			return broken(v, "state %u", i);
	}
	/* Steps are safe now. Is flat what says so? */
	for (uint32_t i = 1; i < h->nstates; i++) {
		uint64_t s = v->words[h->states + i];
		uint32_t t;

		if (!RF_STATE_FLAT(s))
			continue;
		t = rf_step(v->words, RF_NO_MASK, i, '/');
		if (RF_STATE_ACCEPT(v->words[h->states + t]) != RF_STATE_ACCEPT(s) || !ends(v, t))
			return broken(v, "state %u is not flat", i);
	}
	return 0;
}

static int check_accepts(struct verifier *v)
{
	const struct rf_image *h = v->head;

	for (uint32_t i = 0; i < h->naccepts; i++) {
		const struct rf_accept *a =
			(const struct rf_accept *)(v->words + h->accepts + i * RF_ACCEPT_WORDS);
		unsigned int all = a->allow | a->deny | a->forbid;
		bool pads = a->pad || a->pad2[0] || a->pad2[1] || a->pad2[2];

		if ((a->allow & a->deny) || (a->allow & a->forbid) || (a->deny & a->forbid) ||
		    (all & ~RF_ALL_RIGHTS) || pads || a->audited >= h->naccepts || (!i && all))
			return broken(v, "accept %u", i);
		for (unsigned int k = 0; k < RF_RIGHTS; k++)
			if (a->rule[k] > h->nrules || !!a->rule[k] != (all >> k & 1))
				return broken(v, "accept %u", i);
	}
	return 0;
}

/*
 * The tree: a child is a leaf or a node behind its parent, so that there are no
 * loops; it is deep enough for no more than an address.
 */
static int check_nodes(struct verifier *v)
{
	const struct rf_image *h = v->head;
	unsigned char *depth = calloc(h->nnodes + (size_t)1, 1);

	if (!depth)
		return -ENOMEM;
	v->depth = depth;
	if (h->nleaves && (h->root & RF_NODE_LEAF ? (h->root & ~RF_NODE_LEAF) >= h->nleaves
						  : h->root || !h->nnodes))
		return broken(v, "root of the network");
	for (uint32_t i = 0; i < h->nnodes; i++) {
		const uint32_t *children =
			(const uint32_t *)(v->words + h->nodes + (size_t)i * RF_NODE_WORDS);

		for (unsigned int k = 0; k < 2 * RF_NODE_WORDS; k++) {
			uint32_t child = children[k];

			if (child & RF_NODE_LEAF) {
				if ((child & ~RF_NODE_LEAF) >= h->nleaves)
					return broken(v, "node %u", i);
				continue;
			}
			if (child <= i || child >= h->nnodes || depth[i] + 1 == RF_NODE_STEPS)
				return broken(v, "node %u", i);
			if (depth[child] < depth[i] + 1)
				depth[child] = depth[i] + 1;
		}
	}
	return 0;
}

static int check_ports(struct verifier *v, uint32_t leaf, uint64_t first, uint32_t n)
{
	const struct rf_image *h = v->head;
	const struct rf_port *ports = (const struct rf_port *)(v->words + h->ports);

	if (!n || first + n > h->nports || ports[first + n - 1].last != UINT16_MAX)
		return broken(v, "leaf %u", leaf);
	for (uint64_t i = first; i < first + n; i++) {
		const struct rf_port *p = &ports[i];

		if ((i > first && p->last <= ports[i - 1].last) || p->verdict >= RF_NET_VERDICTS ||
		    p->audited >= RF_NET_VERDICTS || p->rule > h->nrules ||
		    p->audited_rule > h->nrules || !p->rule != (p->verdict == RF_NET_DEFAULT) ||
		    !p->audited_rule != (p->audited == RF_NET_DEFAULT))
			return broken(v, "leaf %u", leaf);
	}
	return 0;
}

/* The leaves' ports follow each other, so that each is looked at once. */
static int check_net(struct verifier *v)
{
	const struct rf_image *h = v->head;
	const struct rf_leaf *leaves = (const struct rf_leaf *)(v->words + h->leaves);
	uint64_t at = 0;
	int r;

	r = check_nodes(v);
	for (uint32_t i = 0; !r && i < h->nleaves; i++) {
		if (leaves[i].first != at)
			return broken(v, "leaf %u", i);
		r = check_ports(v, i, at, leaves[i].ntcp);
		at += leaves[i].ntcp;
		if (!r)
			r = check_ports(v, i, at, leaves[i].nudp);
		at += leaves[i].nudp;
	}
	if (!r && at != h->nports)
		return broken(v, "ports without a leaf");
	return r;
}

static int check_rules(struct verifier *v)
{
	const struct rf_image *h = v->head;
	const struct rf_rule *rules = (const struct rf_rule *)(v->words + h->rules);
	const char *strings = (const char *)(v->words + h->strings);
	size_t room = (h->nstrings + (size_t)7) & ~(size_t)7;

	if (strings[h->nstrings - 1])
		return broken(v, "strings do not end");
	for (size_t i = h->nstrings; i < room; i++)
		if (strings[i])
			return broken(v, "bytes behind the strings");
	for (uint32_t i = 0; i < h->nrules; i++)
		if (rules[i].file >= h->nstrings || rules[i].text >= h->nstrings ||
		    rules[i].flags & ~RF_RULE_GROUP)
			return broken(v, "rule %u", i + 1);
	return 0;
}

int rf_image_verify(const void *image, size_t size, struct rf_diags *diags)
{
	struct verifier v = {.words = image, .head = image, .diags = diags};
	int r;

	r = check_header(&v, size);
	if (!r)
		r = check_sections(&v);
	if (!r)
		r = check_cells(&v);
	if (!r)
		r = check_states(&v);
	if (!r)
		r = check_accepts(&v);
	if (!r)
		r = check_net(&v);
	if (!r)
		r = check_rules(&v);
	free(v.ends);
	free(v.depth);
	return r;
}

bool rf_image_rule(const void *image, uint32_t n, struct rf_image_rule *ret_rule)
{
	const struct rf_image *h = image;
	const __u64 *words = image;
	const char *strings = (const char *)(words + h->strings);
	const struct rf_rule *rule;

	if (!n || n > h->nrules)
		return false;
	rule = (const struct rf_rule *)(words + h->rules) + n - 1;
	*ret_rule = (struct rf_image_rule){
		.file = strings + rule->file,
		.line = rule->line,
		.column = rule->column,
		.text = strings + rule->text,
		.group = rule->flags & RF_RULE_GROUP,
	};
	return true;
}

int rf_image_class(size_t size)
{
	for (int class = 0; class < RF_CLASSES; class ++)
		if (size <= RF_CLASS_BYTES(class))
			return class;
	return -E2BIG;
}

/* "/name/name": no empty name, no "." or "..". */
static bool is_path(const char *path, size_t size)
{
	size_t length;

	for (size_t at = 0; at < size; at += length) {
		if (path[at++] != '/')
			return false;
		for (length = 0; at + length < size && path[at + length] != '/'; length++)
			;
		if (!length || (length == 1 && path[at] == '.') ||
		    (length == 2 && path[at] == '.' && path[at + 1] == '.'))
			return false;
	}
	return true;
}

uint32_t rf_image_state(const void *image, const char *path, size_t size)
{
	const struct rf_image *h = image;
	uint32_t state = h->start;

	if (size == 1 && *path == '/')
		return state;
	if (!is_path(path, size))
		return 0;
	for (size_t i = 0; i < size; i++)
		state = rf_step(image, RF_NO_MASK, state, path[i]);
	return state;
}

bool rf_image_same_effect(const void *image, uint32_t a, uint32_t b)
{
	const struct rf_image *head = image;
	const __u64 *words = image;
	const struct rf_accept *first, *second;

	if (!rf_state_flat(words, RF_NO_MASK, a) || !rf_state_flat(words, RF_NO_MASK, b))
		return false;
	first = (const void *)&words[head->accepts +
				     RF_ACCEPT_WORDS * RF_STATE_ACCEPT(words[head->states + a])];
	second = (const void *)&words[head->accepts +
				      RF_ACCEPT_WORDS * RF_STATE_ACCEPT(words[head->states + b])];
	return first->allow == second->allow && first->deny == second->deny &&
	       first->forbid == second->forbid && !first->audited && !second->audited;
}
