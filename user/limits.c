/* SPDX-License-Identifier: BSD-2-Clause */
/* A policy's limits as JSON, see limits.h. */
#include <errno.h>
#include <string.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/limits.h"
#include "user/text.h"

#define MEMORY_MIN (1 << 20)
#define TASKS_MAX 4194304
#define CPU_MIN 10
#define CPU_MAX 4096000
#define FILE_MAX 4096 /* bytes of the name of a policy's file */

struct rf_limits rf_limits_values(const struct rf_limits *limits)
{
	return (struct rf_limits){
		.memory = limits->memory, .tasks = limits->tasks, .cpu = limits->cpu};
}

static int set_place(json_t *at, const char *name, const struct rf_position *place)
{
	_cleanup_free_ char *file =
		place->file ? rf_escape(place->file, strlen(place->file)) : NULL;

	if (!place->file)
		return 0;
	return file ? json_object_set_new(at, name,
					  json_pack("[s, I, I]", file, (json_int_t)place->line,
						    (json_int_t)place->column))
		    : -1;
}

json_t *rf_limits_json(const struct rf_limits *limits, bool places)
{
	json_t *json = json_object(), *at = NULL;
	int failed = 0;

	if (limits->memory)
		failed |= json_object_set_new(json, "memory",
					      json_integer((json_int_t)limits->memory));
	if (limits->tasks)
		failed |= json_object_set_new(json, "tasks", json_integer(limits->tasks));
	if (limits->cpu)
		failed |= json_object_set_new(json, "cpu", json_real(limits->cpu / 1000.0));
	if (places) {
		at = json_object();
		failed |= json_object_set_new(json, "at", at);
		failed |= set_place(at, "memory", &limits->memory_at);
		failed |= set_place(at, "tasks", &limits->tasks_at);
		failed |= set_place(at, "cpu", &limits->cpu_at);
	}
	if (!failed)
		return json;
	json_decref(json);
	return NULL;
}

/* Its file is escaped text, and stays so: it is only ever shown. */
static int take_place(const json_t *at, const char *name, struct rf_position *ret_place)
{
	json_t *place = json_object_get(at, name);
	json_int_t line, column;
	const char *file;

	if (!place)
		return 0;
	if (json_unpack(place, "[s, I, I!]", &file, &line, &column) || line < 0 ||
	    line > INT32_MAX || column < 0 || column > INT32_MAX || strlen(file) > FILE_MAX)
		return -EPROTO;
	*ret_place = (struct rf_position){file, (unsigned int)line, (unsigned int)column};
	return 0;
}

int rf_limits_take(const json_t *json, struct rf_limits *ret_limits)
{
	struct rf_limits limits = {0};
	json_int_t memory = 0, tasks = 0;
	json_t *at = NULL;
	double cpu = 0;
	int err;

	if (!json || json_is_null(json)) {
		*ret_limits = limits;
		return 0;
	}
	if (json_unpack((json_t *)json, "{s?I, s?I, s?F, s?o!}", "memory", &memory, "tasks", &tasks,
			"cpu", &cpu, "at", &at) ||
	    (at && !json_is_object(at)))
		return -EPROTO;
	if ((memory && memory < MEMORY_MIN) || tasks < 0 || tasks > TASKS_MAX || cpu < 0 ||
	    cpu > CPU_MAX / 1000.0)
		return -EPROTO;
	limits.memory = (uint64_t)memory;
	limits.tasks = (uint32_t)tasks;
	limits.cpu = (uint32_t)(cpu * 1000 + 0.5);
	if (limits.cpu && limits.cpu < CPU_MIN)
		return -EPROTO;
	err = take_place(at, "memory", &limits.memory_at)
	      ?: take_place(at, "tasks", &limits.tasks_at)
	      ?: take_place(at, "cpu", &limits.cpu_at);
	if (err)
		return err;
	*ret_limits = limits;
	return 0;
}
