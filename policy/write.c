/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Image writer, see write.h. The states' edges, their rows, go into one array of
 * cells ("comb"): a row's edges lie at its base plus class, and rows are shifted so
 * that they fill each other's gaps. No two rows have the same base, so a cell that
 * says its class says whose it is. Equal rows are stored once.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* qsort_r */
#endif
#include "policy/write.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "policy/image.h"
#include "policy/util.h"

#define TRIES 64 /* gaps tried for a row before they are given up for its size */

/* States of the automaton count from 1 in the image; 0 is the error. */
#define IMAGE_STATE(s) ((s) + 1)

struct writer {
	const struct rf_write *in;
	uint32_t *cells;
	uint32_t *free; /* the first free cell from here on, as far as it is known */
	bool *taken; /* bases in use */
	size_t ncells, cells_capacity, free_capacity, taken_capacity;
	uint32_t from; /* where to look for a gap */
	uint32_t *bases; /* by state of the automaton; 0 for one without edges */
	uint32_t *records; /* accept record of each outcome, RF_NONE if no state has it */
	uint32_t *outcomes; /* outcome of each record */
	uint32_t nrecords;
	uint32_t *files, *texts; /* string offsets of each rule */
	struct rf_text strings;
};

static int make_room(struct writer *w, size_t need)
{
	size_t before = w->cells_capacity;

	if (rf_grow(&w->cells, &w->cells_capacity, need, sizeof(*w->cells)) ||
	    rf_grow(&w->free, &w->free_capacity, need, sizeof(*w->free)) ||
	    rf_grow(&w->taken, &w->taken_capacity, need, sizeof(*w->taken)))
		return -ENOMEM;
	for (size_t i = before; i < w->cells_capacity; i++) {
		w->cells[i] = 0;
		w->free[i] = i;
		w->taken[i] = false;
	}
	return 0;
}

static uint32_t next_free(struct writer *w, uint32_t at)
{
	while (at < w->cells_capacity && w->free[at] != at) {
		uint32_t next = w->free[at];

		if (next < w->cells_capacity)
			w->free[at] = w->free[next];
		at = next;
	}
	return at;
}

static bool fits(const struct writer *w, const struct rf_dfa_state *s, uint32_t base)
{
	const struct rf_edge *edges = w->in->dfa->edges + s->edges;

	if (!base || (base < w->taken_capacity && w->taken[base]))
		return false; /* base 0 is for states without edges */
	for (uint32_t e = 0; e < s->nedges; e++)
		if (base + edges[e].cls < w->ncells && w->cells[base + edges[e].cls])
			return false;
	return true;
}

static int place(struct writer *w, uint32_t state)
{
	const struct rf_dfa_state *s = &w->in->dfa->states[state];
	const struct rf_edge *edges = w->in->dfa->edges + s->edges;
	uint32_t at = w->from > edges[0].cls ? w->from : edges[0].cls, base, last;
	unsigned int tries = 0;
	int r;

	for (at = next_free(w, at); !fits(w, s, at - edges[0].cls); at = next_free(w, at + 1))
		if (++tries % TRIES == 0)
			w->from = at;
	base = at - edges[0].cls;
	last = base + edges[s->nedges - 1].cls;
	r = make_room(w, last + 1);
	if (r)
		return r;
	for (uint32_t e = 0; e < s->nedges; e++) {
		w->cells[base + edges[e].cls] = RF_CELL(edges[e].cls, IMAGE_STATE(edges[e].target));
		w->free[base + edges[e].cls] = base + edges[e].cls + 1;
	}
	w->taken[base] = true;
	if (last >= w->ncells)
		w->ncells = last + 1;
	w->bases[state] = base;
	return 0;
}

/* Rows with many edges first: those with few fill what is left between. Equal ones together. */
static int compare_rows(const struct rf_dfa *dfa, uint32_t x, uint32_t y)
{
	const struct rf_dfa_state *a = &dfa->states[x], *b = &dfa->states[y];

	if (a->nedges != b->nedges)
		return a->nedges > b->nedges ? -1 : 1;
	return memcmp(dfa->edges + a->edges, dfa->edges + b->edges,
		      a->nedges * sizeof(*dfa->edges));
}

static int by_row(const void *a, const void *b, void *userdata)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int c = compare_rows(userdata, x, y);

	return c ? c : x < y ? -1 : x > y;
}

static int place_all(struct writer *w)
{
	const struct rf_dfa *dfa = w->in->dfa;
	_cleanup_free_ uint32_t *order = malloc(dfa->nstates * sizeof(*order));
	uint32_t highest = 0;
	size_t n = 0;
	int r = 0;

	w->bases = calloc(dfa->nstates, sizeof(*w->bases));
	if (!order || !w->bases)
		return -ENOMEM;
	for (size_t i = 0; i < dfa->nstates; i++)
		if (dfa->states[i].nedges)
			order[n++] = i;
	qsort_r(order, n, sizeof(*order), by_row, (void *)dfa);
	for (size_t i = 0; !r && i < n; i++) {
		if (i && !compare_rows(dfa, order[i - 1], order[i])) {
			w->bases[order[i]] = w->bases[order[i - 1]];
			continue;
		}
		if (i && dfa->states[order[i]].nedges != dfa->states[order[i - 1]].nedges)
			w->from = 0;
		r = place(w, order[i]);
		if (!r && w->bases[order[i]] > highest)
			highest = w->bases[order[i]];
	}
	if (!r)
		r = make_room(w, highest + dfa->nclasses);
	if (w->ncells < highest + dfa->nclasses)
		w->ncells = highest + dfa->nclasses;
	return r;
}

/* The outcome's plane 1 as an outcome that is the same in both planes. */
static int audited_outcome(struct writer *w, uint32_t outcome, uint32_t *ret_audited)
{
	struct rf_winners both = w->in->winners->items[outcome];

	memcpy(both.at[0], both.at[1], sizeof(both.at[0]));
	return rf_winners_intern(w->in->winners, &both, ret_audited);
}

static bool differs(const struct rf_winners *winners)
{
	return memcmp(winners->at[0], winners->at[1], sizeof(winners->at[0]));
}

static void number_record(struct writer *w, uint32_t outcome)
{
	if (w->records[outcome] != RF_NONE)
		return;
	w->outcomes[w->nrecords] = outcome;
	w->records[outcome] = w->nrecords++;
}

/* Records for the outcomes that states have, and for what these are with audited rules. */
static int number_records(struct writer *w)
{
	const struct rf_dfa *dfa = w->in->dfa;
	const struct rf_winners_table *table = w->in->winners;
	uint32_t audited;
	int r;

	for (size_t i = 0; i < dfa->nstates; i++) {
		if (!differs(&table->items[dfa->states[i].accept]))
			continue;
		r = audited_outcome(w, dfa->states[i].accept, &audited);
		if (r)
			return r;
	}
	w->records = malloc(table->n * sizeof(*w->records));
	w->outcomes = malloc(table->n * sizeof(*w->outcomes));
	if (!w->records || !w->outcomes)
		return -ENOMEM;
	memset(w->records, 0xff, table->n * sizeof(*w->records));
	number_record(w, 0);
	for (size_t i = 0; i < dfa->nstates; i++) {
		number_record(w, dfa->states[i].accept);
		if (!differs(&table->items[dfa->states[i].accept]))
			continue;
		r = audited_outcome(w, dfa->states[i].accept, &audited);
		if (r)
			return r;
		number_record(w, audited);
	}
	return 0;
}

static int fill_record(struct writer *w, uint32_t outcome, struct rf_accept *accept)
{
	const struct rf_winners *winners = &w->in->winners->items[outcome];
	bool audited = differs(winners);
	uint32_t other;
	int r;

	for (unsigned int i = 0; i < RF_RIGHTS; i++) {
		uint16_t rule = rf_priority_rule(winners->at[0][i]);

		accept->rule[i] = rule;
		if (!rule)
			continue;
		switch (w->in->senses[rule - 1].action) {
		case RF_RULE_ALLOW:
			accept->allow |= 1 << i;
			break;
		case RF_RULE_DENY:
			accept->deny |= 1 << i;
			break;
		default:
			accept->forbid |= 1 << i;
		}
	}
	if (!audited)
		return 0;
	r = audited_outcome(w, outcome, &other);
	if (!r)
		accept->audited = w->records[other];
	return r;
}

/* Strings: files once each as long as rules of one file stand together, texts of a group once. */
static int add_strings(struct writer *w)
{
	const struct rf_write *in = w->in;

	w->files = calloc(in->nrules + 1, sizeof(*w->files));
	w->texts = calloc(in->nrules + 1, sizeof(*w->texts));
	if (!w->files || !w->texts)
		return -ENOMEM;
	rf_text_byte(&w->strings, 0);
	for (size_t i = 0; i < in->nrules; i++) {
		if (i && !strcmp(in->rules[i].file, in->rules[i - 1].file)) {
			w->files[i] = w->files[i - 1];
		} else {
			w->files[i] = w->strings.n;
			rf_text_add(&w->strings, in->rules[i].file, strlen(in->rules[i].file) + 1);
		}
		if (i && in->rules[i].text == in->rules[i - 1].text) {
			w->texts[i] = w->texts[i - 1];
			continue;
		}
		w->texts[i] = w->strings.n;
		rf_text_add(&w->strings, in->rules[i].text, strlen(in->rules[i].text) + 1);
	}
	return w->strings.failed ? -ENOMEM : 0;
}

/* A state from which '/' leads to one with the same outcome that no byte leaves. */
static bool is_flat(const struct rf_dfa *dfa, uint32_t state)
{
	uint32_t below = rf_dfa_step(dfa, state, '/');
	const struct rf_dfa_state *s = &dfa->states[below];

	return s->accept == dfa->states[state].accept && s->target == below && !s->nedges;
}

static int emit(struct writer *w, const char *file, struct rf_diags *diags, void **ret_image,
		size_t *ret_size)
{
	const struct rf_dfa *dfa = w->in->dfa;
	const struct rf_net *net = w->in->net;
	struct rf_image head = {
		.magic = RF_IMAGE_MAGIC,
		.version = RF_IMAGE_VERSION,
		.start = IMAGE_STATE(dfa->start),
		.detached = w->in->detached,
		.nstates = IMAGE_STATE(dfa->nstates),
		.ncells = w->ncells,
		.naccepts = w->nrecords,
		.nrules = w->in->nrules,
		.nstrings = w->strings.n,
	};
	uint64_t size, *image;
	struct rf_rule *rules;
	int r = 0;

	head.states = sizeof(head) / 8;
	head.cells = head.states + head.nstates;
	head.accepts = head.cells + RF_CELL_WORDS(head.ncells);
	head.rules = head.accepts + head.naccepts * RF_ACCEPT_WORDS;
	head.strings = head.rules + head.nrules * RF_RULE_WORDS;
	if (net->nleaves) {
		head.root = net->root;
		head.nnodes = net->nnodes;
		head.nleaves = net->nleaves;
		head.nports = net->nports;
		head.nodes = head.strings;
		head.leaves = head.nodes + head.nnodes * RF_NODE_WORDS;
		head.ports = head.leaves + head.nleaves;
		head.strings = head.ports + head.nports;
	}
	size = 8 * (uint64_t)head.strings + ((w->strings.n + 7) & ~(size_t)7);
	if (size > RF_IMAGE_MAX || head.nstates > RF_MAX_STATES) {
		rf_diag(diags, RF_ERROR, file, 0, 0, "fewer or shorter patterns",
			"the compiled policy has %u states and %llu bytes, the limit is %u bytes",
			head.nstates, (unsigned long long)size, RF_IMAGE_MAX);
		return -E2BIG;
	}
	head.size = size;
	memcpy(head.cls, dfa->cls, sizeof(head.cls));
	image = calloc(1, size);
	if (!image)
		return -ENOMEM;
	for (size_t i = 0; i < dfa->nstates; i++) {
		const struct rf_dfa_state *s = &dfa->states[i];

		image[head.states + IMAGE_STATE(i)] =
			RF_STATE(w->bases[i], IMAGE_STATE(s->target), is_flat(dfa, i),
				 w->records[s->accept]);
	}
	if (head.ncells)
		memcpy(image + head.cells, w->cells, head.ncells * sizeof(*w->cells));
	for (uint32_t i = 0; !r && i < w->nrecords; i++)
		r = fill_record(w, w->outcomes[i],
				(struct rf_accept *)(image + head.accepts + i * RF_ACCEPT_WORDS));
	rules = (struct rf_rule *)(image + head.rules);
	for (size_t i = 0; i < w->in->nrules; i++) {
		const struct rf_write_rule *rule = &w->in->rules[i];

		rules[i].file = w->files[i];
		rules[i].line = rule->line;
		rules[i].text = w->texts[i];
		rules[i].column = rule->column > UINT16_MAX ? UINT16_MAX : rule->column;
		rules[i].flags = rule->group ? RF_RULE_GROUP : 0;
	}
	if (net->nnodes)
		memcpy(image + head.nodes, net->nodes, net->nnodes * sizeof(*net->nodes));
	if (net->nleaves) {
		memcpy(image + head.leaves, net->leaves, net->nleaves * sizeof(*net->leaves));
		memcpy(image + head.ports, net->ports, net->nports * sizeof(*net->ports));
	}
	memcpy(image + head.strings, w->strings.text, w->strings.n);
	memcpy(image, &head, sizeof(head));
	head.checksum = crc32(0, (const unsigned char *)image, size);
	memcpy(image, &head, sizeof(head));
	if (r) {
		free(image);
		return r;
	}
	*ret_image = image;
	*ret_size = size;
	return 0;
}

int rf_image_write(const struct rf_write *write, const char *file, struct rf_diags *diags,
		   void **ret_image, size_t *ret_size)
{
	struct writer w = {.in = write};
	int r;

	r = place_all(&w);
	if (!r)
		r = number_records(&w);
	if (!r && w.nrecords > RF_MAX_ACCEPTS) {
		rf_diag(diags, RF_ERROR, file, 0, 0, "fewer patterns that overlap",
			"the rules combine in %u ways, the limit is %u", w.nrecords,
			RF_MAX_ACCEPTS);
		r = -E2BIG;
	}
	if (!r)
		r = add_strings(&w);
	if (!r)
		r = emit(&w, file, diags, ret_image, ret_size);
	free(w.cells);
	free(w.free);
	free(w.taken);
	free(w.bases);
	free(w.records);
	free(w.outcomes);
	free(w.files);
	free(w.texts);
	rf_text_done(&w.strings);
	return r;
}
