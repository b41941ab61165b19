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
	unsigned char *moves; /* by state: some cell of its own leads elsewhere */
};

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
	at += h->ncells;
	if (h->accepts != at)
		return broken(v, "accepts begin at word %u", h->accepts);
	at += (uint64_t)h->naccepts * RF_ACCEPT_WORDS;
	if (h->rules != at)
		return broken(v, "rules begin at word %u", h->rules);
	at += (uint64_t)h->nrules * RF_RULE_WORDS;
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
	if (h->detached & ~RF_ALL_RIGHTS)
		return broken(v, "unknown rights");
	return 0;
}

static int check_cells(struct verifier *v)
{
	const struct rf_image *h = v->head;

	v->moves = calloc(h->nstates, 1);
	if (!v->moves)
		return -ENOMEM;
	for (uint32_t i = 0; i < h->ncells; i++) {
		uint64_t cell = v->words[h->cells + i];
		uint64_t owner = cell >> 24;
		uint32_t target = RF_CELL_TARGET(cell);

		if (!cell)
			continue;
		if (!owner || owner >= h->nstates || !target || target >= h->nstates)
			return broken(v, "cell %u", i);
		v->moves[owner] |= target != owner;
	}
	return 0;
}

static int check_states(struct verifier *v)
{
	const struct rf_image *h = v->head;
	uint32_t highest = 0;

	for (unsigned int i = 0; i < 256; i++)
		if (h->cls[i] > highest)
			highest = h->cls[i];
	if (h->ncells <= highest || v->words[h->states])
		return broken(v, "state 0");
	for (uint32_t i = 1; i < h->nstates; i++) {
		uint64_t s = v->words[h->states + i];

		if (RF_STATE_BASE(s) >= h->ncells - highest || !RF_STATE_DEFAULT(s) ||
		    RF_STATE_DEFAULT(s) >= h->nstates || RF_STATE_ACCEPT(s) >= h->naccepts)
			return broken(v, "state %u", i);
	}
	/* Steps are safe now. Is flat what says so? */
	for (uint32_t i = 1; i < h->nstates; i++) {
		uint64_t s = v->words[h->states + i], below;
		uint32_t t;

		if (!RF_STATE_FLAT(s))
			continue;
		t = rf_step(v->words, RF_NO_MASK, i, '/');
		below = v->words[h->states + t];
		if (RF_STATE_ACCEPT(below) != RF_STATE_ACCEPT(s) || RF_STATE_DEFAULT(below) != t ||
		    v->moves[t])
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
		if (rules[i].file >= h->nstrings || rules[i].text >= h->nstrings || rules[i].flags)
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
		r = check_rules(&v);
	free(v.moves);
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
