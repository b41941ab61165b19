/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and text for the policy library: an arena, growing arrays, cleanup, edit distance. */
#ifndef RF_POLICY_UTIL_H
#define RF_POLICY_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RF_COUNT(array) (sizeof(array) / sizeof(*(array)))

static inline void rf_freep(void *p)
{
	free(*(void **)p);
}
#define _cleanup_free_ __attribute__((cleanup(rf_freep)))

/* Memory that is released all at once. Zero-initialise. */
struct rf_arena {
	struct rf_chunk *chunks;
};
void *rf_arena_alloc(struct rf_arena *arena, size_t size); /* zeroed; NULL on no memory */
char *rf_arena_copy(struct rf_arena *arena, const char *text, size_t size); /* NUL is added */
void rf_arena_done(struct rf_arena *arena);

/*
 * Make room for `need` items of `size` bytes in the malloc'ed array at
 * *items (a pointer to a pointer), doubling. 0 or -ENOMEM.
 */
int rf_grow(void *items, size_t *capacity, size_t need, size_t size);

/* Text that grows. `failed` is set when memory ran out; `text` is NULL until something is added. */
struct rf_text {
	char *text;
	size_t n, capacity;
	bool failed;
};
void rf_text_add(struct rf_text *t, const char *bytes, size_t n);
void rf_text_byte(struct rf_text *t, char byte);
static inline void rf_text_done(struct rf_text *t)
{
	free(t->text);
}
#define _cleanup_text_ __attribute__((cleanup(rf_text_done)))

/* A 64-bit hash of n bytes. */
uint64_t rf_hash(const void *bytes, size_t n);

/*
 * The one of `n` names that `word` was probably meant to be, or NULL if none is
 * near enough.
 */
const char *rf_nearest(const char *word, const char *const *names, size_t n);

#endif
