/* SPDX-License-Identifier: BSD-2-Clause */
/* The automaton: minimising changes no answer and leaves no two states that are the same. */
#include "selftests/unit/policy.h"

#include "policy/dfa.h"

static int variable(void *userdata, const char *name, bool env, const char **ret_value,
		    struct rf_pattern_error *error)
{
	(void)userdata;
	(void)name;
	(void)env;
	(void)ret_value;
	(void)error;
	return -ENOENT;
}

#define RULES 6

struct made {
	struct rf_arena arena;
	struct rf_sets sets;
	struct rf_nfa nfa;
	struct rf_rule_sense senses[RULES];
	uint16_t reopened[RULES + 1];
	struct rf_lint lint;
};

static void random_pattern(char *text)
{
	static const char *const parts[] = {"a", "b", "ab", "*", "?", "*a*", "[ab]c", "[!a]", "**"};
	char *at = text;

	for (int n = 1 + rand() % 4; n; n--)
		at += sprintf(at, "/%s", parts[rand() % 9]);
}

/* An automaton of random rules, not yet minimised. */
static void make(struct made *m, struct rf_dfa *ret_dfa)
{
	static const struct rf_pattern_env env = {variable, NULL};
	uint16_t culprits[RF_CULPRITS];

	memset(m, 0, sizeof(*m));
	m->lint = (struct rf_lint){m->senses, RULES, m->reopened};
	for (unsigned int i = 0; i < RULES; i++)
		m->senses[i] = (struct rf_rule_sense){.action = rand() % 3,
						      .rights = 1 + rand() % RF_ALL_RIGHTS,
						      .audited = rand() % 8 == 0};
	for (unsigned int i = 0; i < RULES; i++) {
		struct rf_pattern pattern;
		struct rf_pattern_error error;
		char text[80];

		random_pattern(text);
		assert_int_equal(
			rf_pattern_parse(text, &env, &m->sets, &m->arena, &pattern, &error), 0);
		assert_int_equal(rf_nfa_add(&m->nfa, &pattern.sequences[0], i + 1, &m->lint), 0);
	}
	assert_int_equal(rf_nfa_finish(&m->nfa), 0);
	assert_int_equal(rf_dfa_build(&m->nfa, &m->sets, &m->lint, ret_dfa, culprits), 0);
}

static void made_done(struct made *m)
{
	rf_arena_done(&m->arena);
	rf_sets_done(&m->sets);
	rf_nfa_done(&m->nfa);
}

static struct rf_dfa copy_of(const struct rf_dfa *dfa)
{
	struct rf_dfa copy = *dfa;

	copy.states = malloc(dfa->nstates * sizeof(*dfa->states));
	copy.edges = malloc((dfa->nedges + 1) * sizeof(*dfa->edges));
	assert_true(copy.states && copy.edges);
	memcpy(copy.states, dfa->states, dfa->nstates * sizeof(*dfa->states));
	memcpy(copy.edges, dfa->edges, dfa->nedges * sizeof(*dfa->edges));
	return copy;
}

static const char bytes[] = "/abcz";

/* How many different states there are, by splitting until nothing splits: slow and plain. */
static unsigned int count_classes(const struct rf_dfa *dfa)
{
	unsigned int *block = calloc(dfa->nstates, sizeof(*block));
	unsigned int *next = calloc(dfa->nstates, sizeof(*next));
	unsigned int n = 0, before;

	assert_true(block && next);
	for (size_t i = 0; i < dfa->nstates; i++)
		block[i] = dfa->states[i].accept;
	do {
		before = n;
		n = 0;
		for (size_t i = 0; i < dfa->nstates; i++) {
			size_t k;

			for (k = 0; k < i; k++) {
				bool same = block[i] == block[k];

				for (unsigned int b = 0; same && bytes[b]; b++)
					same = block[rf_dfa_step(dfa, i, bytes[b])] ==
					       block[rf_dfa_step(dfa, k, bytes[b])];
				if (same)
					break;
			}
			next[i] = k < i ? next[k] : n++;
		}
		memcpy(block, next, dfa->nstates * sizeof(*block));
	} while (n != before);
	free(block);
	free(next);
	return n;
}

static void test_minimise(void **state)
{
	size_t saved = 0;

	(void)state;
	srand(3);
	for (unsigned int round = 0; round < 150; round++) {
		struct made m;
		struct rf_dfa before, after;

		make(&m, &before);
		if (before.nstates > 300) {
			rf_dfa_done(&before);
			made_done(&m);
			continue;
		}
		after = copy_of(&before);
		assert_int_equal(rf_dfa_minimise(&after), 0);
		assert_in_range(after.nstates, 1, before.nstates);
		saved += before.nstates - after.nstates;
		assert_int_equal(count_classes(&after), after.nstates);
		for (unsigned int walk = 0; walk < 300; walk++) {
			uint32_t a = before.start, b = after.start;

			for (unsigned int i = 0; i < 20; i++) {
				uint8_t byte = rand() % 10 ? bytes[rand() % 5] : rand() % 256;

				assert_int_equal(before.states[a].accept, after.states[b].accept);
				a = rf_dfa_step(&before, a, byte);
				b = rf_dfa_step(&after, b, byte);
			}
		}
		rf_dfa_done(&before);
		rf_dfa_done(&after);
		made_done(&m);
	}
	assert_in_range(saved, 100, 1000000);
}

/* Edges are sorted and none is the same as the default; classes hold all bytes. */
static void test_shape(void **state)
{
	(void)state;
	srand(4);
	for (unsigned int round = 0; round < 100; round++) {
		struct made m;
		struct rf_dfa dfa;

		make(&m, &dfa);
		assert_int_equal(rf_dfa_minimise(&dfa), 0);
		assert_int_equal(dfa.start, 0);
		for (unsigned int byte = 0; byte < 256; byte++)
			assert_in_range(dfa.cls[byte], 0, dfa.nclasses - 1);
		for (size_t i = 0; i < dfa.nstates; i++) {
			const struct rf_dfa_state *s = &dfa.states[i];

			for (uint32_t e = 0; e < s->nedges; e++) {
				const struct rf_edge *edge = &dfa.edges[s->edges + e];

				assert_true(!e || edge[-1].cls < edge->cls);
				assert_in_range(edge->cls, 0, dfa.nclasses - 1);
				assert_in_range(edge->target, 0, dfa.nstates - 1);
				assert_int_not_equal(edge->target, s->target);
			}
		}
		rf_dfa_done(&dfa);
		made_done(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_minimise),
		cmocka_unit_test(test_shape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
