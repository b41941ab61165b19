/* SPDX-License-Identifier: BSD-2-Clause */
/* Which rule wins, for each right, see winners.h. */
#include "policy/winners.h"

#include <errno.h>
#include <string.h>

#include "policy/util.h"

static int rehash(struct rf_winners_table *t)
{
	size_t nslots = t->nslots ? t->nslots * 2 : 256;
	uint32_t *slots = calloc(nslots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		size_t at = rf_hash(&t->items[i], sizeof(*t->items)) & (nslots - 1);

		while (slots[at])
			at = (at + 1) & (nslots - 1);
		slots[at] = i + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->nslots = nslots;
	return 0;
}

int rf_winners_intern(struct rf_winners_table *t, const struct rf_winners *winners,
		      uint32_t *ret_id)
{
	static const struct rf_winners none;
	size_t at;

	if (!t->n) {
		if (rf_grow(&t->items, &t->capacity, 1, sizeof(none)))
			return -ENOMEM;
		t->items[t->n++] = none;
	}
	if (t->nslots <= 2 * t->n && rehash(t))
		return -ENOMEM;
	at = rf_hash(winners, sizeof(*winners)) & (t->nslots - 1);
	for (; t->slots[at]; at = (at + 1) & (t->nslots - 1)) {
		if (memcmp(&t->items[t->slots[at] - 1], winners, sizeof(*winners)))
			continue;
		*ret_id = t->slots[at] - 1;
		return 0;
	}
	if (rf_grow(&t->items, &t->capacity, t->n + 1, sizeof(none)))
		return -ENOMEM;
	t->items[t->n] = *winners;
	t->slots[at] = t->n + 1;
	*ret_id = t->n++;
	return 0;
}

void rf_winners_done(struct rf_winners_table *t)
{
	free(t->items);
	free(t->slots);
	memset(t, 0, sizeof(*t));
}

void rf_winners_of_rule(const struct rf_rule_sense *sense, uint16_t rule,
			struct rf_winners *ret_winners)
{
	uint16_t priority = rule + (sense->action == RF_RULE_FORBID ? RF_PRIORITY_FORBID : 0);

	memset(ret_winners, 0, sizeof(*ret_winners));
	for (unsigned int i = 0; i < RF_RIGHTS; i++) {
		if (!(sense->rights & 1 << i))
			continue;
		ret_winners->at[1][i] = priority;
		if (!sense->audited)
			ret_winners->at[0][i] = priority;
	}
}

/* Does priority `high` take a right from `low`, a deny, without saying so? */
static void note_reopened(struct rf_lint *lint, uint16_t high, uint16_t low)
{
	const struct rf_rule_sense *winner, *loser;

	if (!low || high > RF_PRIORITY_FORBID)
		return;
	winner = &lint->rules[high - 1];
	loser = &lint->rules[low - 1];
	if (winner->action == RF_RULE_ALLOW && !winner->reopens && loser->action == RF_RULE_DENY &&
	    !lint->reopened[high])
		lint->reopened[high] = low;
}

void rf_winners_merge(struct rf_winners *winners, const struct rf_winners *more,
		      struct rf_lint *lint)
{
	for (unsigned int plane = 0; plane < RF_PLANES; plane++) {
		for (unsigned int i = 0; i < RF_RIGHTS; i++) {
			uint16_t a = winners->at[plane][i], b = more->at[plane][i];

			if (b > a)
				winners->at[plane][i] = b;
			if (lint && a != b)
				note_reopened(lint, a > b ? a : b, a > b ? b : a);
		}
	}
}

bool rf_winners_beat(const struct rf_winners *more, const struct rf_winners *winners)
{
	for (unsigned int plane = 0; plane < RF_PLANES; plane++)
		for (unsigned int i = 0; i < RF_RIGHTS; i++)
			if (more->at[plane][i] > winners->at[plane][i])
				return true;
	return false;
}
