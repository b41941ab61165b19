/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path patterns: from text as written to sequences of atoms over bytes. What a
 * pattern means is in LANGUAGE.md; a path is "" (the root) or "/name/name...".
 */
#ifndef RF_POLICY_PATTERN_H
#define RF_POLICY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/util.h"

/*
 * An atom is a 16-bit code: a byte as itself, or one of these.
 * RF_ATOM_GLOB stands for ("/" name)*; what follows it begins with '/'.
 */
#define RF_ATOM_STAR 0x100 /* any bytes but '/' */
#define RF_ATOM_GLOB 0x101
#define RF_ATOM_SET 0x200 /* + index of a set: one byte of it */
#define RF_ATOM_ANY RF_ATOM_SET /* set 0: every byte but '/' */
#define RF_SETS_MAX 4096
#define RF_PATTERN_MAX 4096 /* atoms of one sequence */
#define RF_ALTERNATIVES_MAX 256 /* sequences of one pattern */

/* Sets of bytes, interned. Zero-initialise, release with rf_sets_done(). */
struct rf_set {
	uint64_t bits[4];
};
struct rf_sets {
	struct rf_set *items;
	size_t n, capacity;
};
static inline bool rf_set_has(const struct rf_set *set, unsigned int byte)
{
	return set->bits[byte / 64] >> byte % 64 & 1;
}
/* The atom of a set; -ENOMEM, or -ENOSPC beyond RF_SETS_MAX. */
int rf_sets_add(struct rf_sets *sets, const struct rf_set *set, uint16_t *ret_atom);
void rf_sets_done(struct rf_sets *sets);

struct rf_sequence {
	uint16_t *atoms;
	size_t n;
};

/* A pattern is one sequence for each choice among its {alternatives}. */
struct rf_pattern {
	struct rf_sequence *sequences;
	size_t n;
};

struct rf_pattern_error {
	size_t at; /* byte of the text */
	char message[160];
	char hint[160]; /* "": none */
};

/*
 * What a variable stands for: 0 with *ret_value (borrowed), or -ENOENT with
 * error's message and hint set. "HOME" is asked for "~".
 */
struct rf_pattern_env {
	int (*variable)(void *userdata, const char *name, bool env, const char **ret_value,
			struct rf_pattern_error *error);
	void *userdata;
};

/*
 * 0 with *ret_pattern in `arena`; -EINVAL with *error; -ENOMEM. Sets are added
 * to `sets`.
 */
int rf_pattern_parse(const char *text, const struct rf_pattern_env *env, struct rf_sets *sets,
		     struct rf_arena *arena, struct rf_pattern *ret_pattern,
		     struct rf_pattern_error *error);

/*
 * Replace ~ and ${...} in `text`, which is no pattern: everything else is taken
 * as it is. 0 with *ret_value in `arena`; -EINVAL with *error; -ENOMEM.
 */
int rf_value_parse(const char *text, const struct rf_pattern_env *env, struct rf_arena *arena,
		   char **ret_value, struct rf_pattern_error *error);

/* The directories and the name before the first component with a glob, "/" for none. */
char *rf_sequence_literal(const struct rf_sequence *sequence, struct rf_arena *arena);

/* The sequence as a pattern again, normalised, variables replaced and quoted. */
void rf_sequence_text(const struct rf_sequence *sequence, const struct rf_sets *sets,
		      struct rf_text *text);

#endif
