/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and text for the policy library, see util.h. */
#include "policy/util.h"

#include <errno.h>
#include <string.h>

#define CHUNK (64u << 10)

struct rf_chunk {
	struct rf_chunk *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

void *rf_arena_alloc(struct rf_arena *arena, size_t size)
{
	struct rf_chunk *c = arena->chunks;
	void *p;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + 15) & ~(size_t)15;
	if (!c || c->size - c->used < size) {
		size_t room = size > CHUNK ? size : CHUNK;

		c = calloc(1, sizeof(*c) + room);
		if (!c)
			return NULL;
		c->size = room;
		/* A chunk for one big item goes behind: the first still has room. */
		if (arena->chunks && room > CHUNK) {
			c->next = arena->chunks->next;
			arena->chunks->next = c;
		} else {
			c->next = arena->chunks;
			arena->chunks = c;
		}
	}
	p = c->bytes + c->used;
	c->used += size;
	return p;
}

char *rf_arena_copy(struct rf_arena *arena, const char *text, size_t size)
{
	char *p = rf_arena_alloc(arena, size + 1);

	if (p && size)
		memcpy(p, text, size);
	return p;
}

void rf_arena_done(struct rf_arena *arena)
{
	struct rf_chunk *c, *next;

	for (c = arena->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	arena->chunks = NULL;
}

int rf_grow(void *items, size_t *capacity, size_t need, size_t size)
{
	void **at = items;
	size_t room = *capacity ? *capacity : 16;
	void *p;

	if (need <= *capacity)
		return 0;
	while (room < need) {
		if (room > SIZE_MAX / 2 / size)
			return -ENOMEM;
		room *= 2;
	}
	p = realloc(*at, room * size);
	if (!p)
		return -ENOMEM;
	*at = p;
	*capacity = room;
	return 0;
}

void rf_text_add(struct rf_text *t, const char *bytes, size_t n)
{
	if (t->failed || rf_grow(&t->text, &t->capacity, t->n + n + 1, 1)) {
		t->failed = true;
		return;
	}
	if (n)
		memcpy(t->text + t->n, bytes, n);
	t->n += n;
	t->text[t->n] = 0;
}

void rf_text_byte(struct rf_text *t, char byte)
{
	rf_text_add(t, &byte, 1);
}

uint64_t rf_hash(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t h = 0xcbf29ce484222325u ^ n, w;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	for (w = 0; n; n--)
		w = w << 8 | p[n - 1];
	h = (h ^ w) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

/* Insertions, deletions, replacements and swaps of neighbours; more than LONGEST bytes: far. */
#define LONGEST 31
static size_t distance(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b);
	size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];

	if (na > LONGEST || nb > LONGEST)
		return SIZE_MAX;
	for (size_t j = 0; j <= nb; j++) {
		before[j] = j;
		last[j] = j;
	}
	for (size_t i = 1; i <= na; i++) {
		size_t *free_row = before;

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
		}
		before = last;
		last = row;
		row = free_row;
	}
	return last[nb];
}

const char *rf_nearest(const char *word, const char *const *names, size_t n)
{
	const char *nearest = NULL;
	size_t best = strlen(word) / 3 + 2;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(word, names[i]);

		if (d < best && d < strlen(names[i])) {
			best = d;
			nearest = names[i];
		}
	}
	return nearest;
}
