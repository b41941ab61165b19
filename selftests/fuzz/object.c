/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzzer: "OP OBJECT" of explain and tests. What is accepted is a path or an address. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *path)
{
	size_t n = strlen(path);

	if (*path != '/' || strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../") ||
	    (n > 1 && path[n - 1] == '/'))
		abort();
}

/* A target as text is the same target again. */
static void check_target(const struct rf_target *target)
{
	struct rf_text text = {0};
	struct rf_pattern_error error;
	struct rf_target again;

	rf_target_text(target, &text);
	if (rf_target_parse(text.text, &again, &error) ||
	    memcmp(target, &again, sizeof(again)) != 0)
		abort();
	rf_text_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rf_arena arena = {0};
	struct rf_pattern_error error = {0};
	struct rf_object object;
	struct rf_target target;
	char *text = malloc(size + 1), *space;

	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	text[size] = 0;
	space = strchr(text, ' ');
	if (space) {
		*space = 0;
		if (rf_object_parse(text, space + 1, &arena, &object, &error)) {
			if (!*error.message)
				abort();
		} else if (object.rights) {
			check_path(object.path);
		} else {
			check_target(&object.target);
		}
		if (!rf_target_parse(space + 1, &target, &error))
			check_target(&target);
	}
	free(text);
	rf_arena_done(&arena);
	return 0;
}
