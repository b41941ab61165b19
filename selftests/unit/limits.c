/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits as JSON: there and back, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/limits.h"

static void round_trip(void **state)
{
	const struct rf_limits all[] = {
		{0},
		{.memory = UINT64_C(1) << 62, .tasks = 4194304, .cpu = 4096000},
		{.memory = 1 << 20, .memory_at = {"/a b.yaml", 3, 9}},
		{.cpu = 10, .cpu_at = {"p", 1, 2}, .tasks = 1, .tasks_at = {"q", 4, 5}},
		{.cpu = 1001},
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		const struct rf_limits *a = &all[i];
		_cleanup_json_ json_t *json = rf_limits_json(a, true);
		struct rf_limits b, values;

		assert_int_equal(rf_limits_take(json, &b), 0);
		assert_true(a->memory == b.memory && a->tasks == b.tasks && a->cpu == b.cpu);
		assert_int_equal(a->memory_at.file != NULL, b.memory_at.file != NULL);
		assert_int_equal(a->memory_at.line, b.memory_at.line);
		assert_int_equal(a->tasks_at.column, b.tasks_at.column);
		if (a->cpu_at.file)
			assert_string_equal(a->cpu_at.file, b.cpu_at.file);
		values = rf_limits_values(&b);
		assert_true(values.cpu == a->cpu && !values.cpu_at.file && !values.memory_at.file);
	}
}

static void refuses(void **state)
{
	static const char *const bad[] = {
		"[]",
		"{\"memory\": 5}",
		"{\"memory\": -1048576}",
		"{\"memory\": \"4G\"}",
		"{\"tasks\": -1}",
		"{\"tasks\": 4194305}",
		"{\"tasks\": 1.5}",
		"{\"cpu\": 0.001}",
		"{\"cpu\": -1}",
		"{\"cpu\": 4096.1}",
		"{\"cpu\": 1e300}",
		"{\"swap\": 1}",
		"{\"at\": 1}",
		"{\"tasks\": 1, \"at\": {\"tasks\": 1}}",
		"{\"tasks\": 1, \"at\": {\"tasks\": [\"a\", -1, 1]}}",
		"{\"tasks\": 1, \"at\": {\"tasks\": [\"a\", 1, 99999999999]}}",
		"{\"tasks\": 1, \"at\": {\"tasks\": [\"a\", 1]}}",
	};
	struct rf_limits limits;

	(void)state;
	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		_cleanup_json_ json_t *json = json_loads(bad[i], 0, NULL);

		assert_non_null(json);
		assert_int_equal(rf_limits_take(json, &limits), -EPROTO);
	}
	assert_int_equal(rf_limits_take(NULL, &limits), 0);
	assert_true(!limits.memory && !limits.tasks && !limits.cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(refuses),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
