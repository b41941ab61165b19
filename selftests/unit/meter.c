/* SPDX-License-Identifier: BSD-2-Clause */
/* bpf/meter.h on the host: what is let through, what is counted, also from several threads at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/meter.h"

#define SECOND 1000000000ull
#define THREADS 4
#define USUAL (offsetof(struct rf_event, path) + 40)

static struct rf_meter_stream stream;

static int setup(void **state)
{
	(void)state;
	memset(&stream, 0, sizeof(stream));
	return 0;
}

static unsigned int charged(uint64_t now, uint32_t bytes)
{
	unsigned int n = 0;

	while (rf_meter_charge(&stream, now, bytes))
		n++;
	return n;
}

static void budget(void **state)
{
	uint64_t now = 1000 * SECOND;

	(void)state;
	/* The figures of abi.h and of the README. */
	assert_int_equal(charged(now, USUAL), 574);
	assert_int_equal(charged(now, USUAL), 0);
	now += SECOND;
	assert_in_range(charged(now, USUAL), 267, 268);
	/* Unused for long, it is full, and no more than that. */
	now += 1000 * SECOND;
	assert_int_equal(charged(now, sizeof(struct rf_event)), 106);
	assert_int_equal(charged(now, USUAL), 2); /* what is left of it */
	/* The clock of another CPU may be a little behind. */
	assert_int_equal(charged(now - 1000, USUAL), 0);
	now += RF_BUDGET_SPAN;
	assert_true(rf_meter_charge(&stream, now, USUAL));
	assert_int_equal(charged(now - 1000, USUAL), 573);
}

static void counting(void **state)
{
	const uint64_t tag = 0xabcdef0123450007;
	uint64_t *cell = (uint64_t *)&stream.repeats[7 * RF_REPEAT_WAYS];

	(void)state;
	assert_false(rf_meter_repeated(&stream, tag));
	rf_meter_expect(&stream, tag);
	assert_int_equal(cell[0], RF_REPEAT_TAG(tag));
	assert_true(rf_meter_repeated(&stream, tag));
	assert_true(rf_meter_repeated(&stream, tag));
	assert_int_equal(cell[0], RF_REPEAT_TAG(tag) | 2);
	/* Another tag, the same tag in another set. */
	assert_false(rf_meter_repeated(&stream, tag + RF_REPEAT_COUNT + 1));
	assert_false(rf_meter_repeated(&stream, tag + 1));
	stream.repeats[8 * RF_REPEAT_WAYS] = RF_REPEAT_TAG(tag); /* of the next set */
	stream.repeats[6 * RF_REPEAT_WAYS] = RF_REPEAT_TAG(tag);
	cell[0] = 0;
	assert_false(rf_meter_repeated(&stream, tag));
	cell[0] = RF_REPEAT_TAG(tag) | 2;
	/* A full count is told as another event. */
	cell[0] |= RF_REPEAT_COUNT;
	assert_false(rf_meter_repeated(&stream, tag));
	assert_int_equal(cell[0], RF_REPEAT_TAG(tag) | RF_REPEAT_COUNT);
}

/* A count is never dropped: a tag finds an empty cell, or one at 0, or none. */
static void cells(void **state)
{
	const uint64_t one = RF_REPEAT_COUNT + 1;
	uint64_t *set = (uint64_t *)stream.repeats;

	(void)state;
	for (uint64_t i = 1; i <= RF_REPEAT_WAYS; i++)
		rf_meter_expect(&stream, i * one);
	for (uint64_t i = 1; i <= RF_REPEAT_WAYS; i++) {
		assert_int_equal(set[i - 1], i * one);
		if (i != 3)
			assert_true(rf_meter_repeated(&stream, i * one));
	}
	rf_meter_expect(&stream, 9 * one);
	assert_int_equal(set[2], 9 * one);
	assert_true(rf_meter_repeated(&stream, 9 * one));
	rf_meter_expect(&stream, 10 * one);
	assert_false(rf_meter_repeated(&stream, 10 * one));
	for (unsigned int i = 0; i < RF_REPEAT_WAYS; i++)
		assert_int_equal(set[i] & RF_REPEAT_COUNT, 1);
	/* An empty one is better than one at 0. */
	set[0] = one;
	set[3] = 0;
	rf_meter_expect(&stream, 11 * one);
	assert_int_equal(set[0], one);
	assert_int_equal(set[3], 11 * one);
	for (unsigned int i = RF_REPEAT_WAYS; i < RF_REPEATS; i++)
		assert_int_equal(set[i], 0);
}

static void *charge_often(void *argument)
{
	uintptr_t n = 0;

	(void)argument;
	for (int i = 0; i < 20000; i++)
		n += rf_meter_charge(&stream, SECOND, USUAL);
	return (void *)n;
}

static volatile bool done;

static void *take_often(void *argument)
{
	uintptr_t n = 0;

	(void)argument;
	do
		n += __atomic_fetch_and(&stream.repeats[0], ~RF_REPEAT_COUNT, __ATOMIC_SEQ_CST) &
		     RF_REPEAT_COUNT;
	while (!done);
	return (void *)n;
}

static void *repeat_often(void *argument)
{
	uintptr_t n = 0;

	(void)argument;
	for (int i = 0; i < 200000; i++)
		n += rf_meter_repeated(&stream, RF_REPEAT_COUNT + 1);
	return (void *)n;
}

static uintptr_t threads(void *(*run)(void *))
{
	pthread_t all[THREADS];
	uintptr_t sum = 0;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&all[i], NULL, run, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		void *n;

		assert_int_equal(pthread_join(all[i], &n), 0);
		sum += (uintptr_t)n;
	}
	return sum;
}

static void together(void **state)
{
	pthread_t taker;
	uintptr_t counted;
	void *taken;

	(void)state;
	assert_int_equal(threads(charge_often), 574);
	rf_meter_expect(&stream, RF_REPEAT_COUNT + 1);
	assert_int_equal(pthread_create(&taker, NULL, take_often, NULL), 0);
	counted = threads(repeat_often);
	done = true;
	assert_int_equal(pthread_join(taker, &taken), 0);
	assert_true(counted > 0);
	assert_int_equal((uintptr_t)taken + (stream.repeats[0] & RF_REPEAT_COUNT), counted);
}

static uint64_t made;

static void share(void **state)
{
	const uint64_t id = 0x123456789;
	unsigned int n = 0;

	(void)state;
	made = RF_MADE_WORD(id, 0);
	assert_false(rf_meter_made((__u64 *)&made, id, -1));
	while (rf_meter_made((__u64 *)&made, id, 1))
		n++;
	assert_int_equal(n, RF_MAX_MADE_EACH);
	assert_true(made == RF_MADE_WORD(id, RF_MAX_MADE_EACH));
	assert_true(rf_meter_made((__u64 *)&made, id, -1));
	assert_true(rf_meter_made((__u64 *)&made, id, 1));
	/* The slot is another session's by now: its count is not touched. */
	assert_false(rf_meter_made((__u64 *)&made, id + 1, -1));
	made = RF_MADE_WORD(id + 1, 7);
	assert_false(rf_meter_made((__u64 *)&made, id, 1));
	assert_false(rf_meter_made((__u64 *)&made, id, -1));
	assert_true(made == RF_MADE_WORD(id + 1, 7));
}

static void *make_often(void *argument)
{
	uintptr_t n = 0;

	(void)argument;
	for (int i = 0; i < 200000; i++)
		if (rf_meter_made((__u64 *)&made, 5, 1))
			n += !rf_meter_made((__u64 *)&made, 5, -1);
	return (void *)n;
}

static void share_together(void **state)
{
	uintptr_t left;

	(void)state;
	made = RF_MADE_WORD(5, 0);
	left = threads(make_often);
	assert_true(made == RF_MADE_WORD(5, left));
}

static uint64_t hash(const uint64_t key[2], const uint64_t *words, size_t n)
{
	const __u64 k[2] = {key[0], key[1]};
	struct rf_sip s;

	rf_sip_begin(&s, k);
	for (size_t i = 0; i < n; i++)
		rf_sip_add(&s, words[i]);
	return rf_sip_end(&s);
}

static void tags(void **state)
{
	const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908}, other[2] = {1, 2};
	const uint64_t a[] = {1, 2, 3}, b[] = {2, 1, 3}, c[] = {1, 2, 3, 0}, empty[] = {0};

	(void)state;
	/* SipHash-1-3 of the empty text under its authors' test key. */
	assert_true(hash(key, empty, 1) == 0xabac0158050fc4dc);
	assert_true(hash(key, a, 3) != hash(key, b, 3));
	assert_true(hash(key, a, 3) != hash(key, c, 4));
	assert_true(hash(key, a, 3) != hash(other, a, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(budget, setup), cmocka_unit_test_setup(counting, setup),
		cmocka_unit_test_setup(cells, setup),  cmocka_unit_test_setup(together, setup),
		cmocka_unit_test_setup(tags, setup),   cmocka_unit_test(share),
		cmocka_unit_test(share_together),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
