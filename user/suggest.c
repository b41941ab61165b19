/* SPDX-License-Identifier: BSD-2-Clause */
/* The line of a policy that would allow what was denied, see suggest.h. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "policy/util.h"
#include "user/suggest.h"

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/*
 * A path of an event as a pattern that matches it and nothing else, but that a byte which
 * cannot be written is any byte.
 */
static void add_pattern(struct rf_text *text, const char *path)
{
	for (; *path; path++) {
		if (path[0] == '\\' && path[1] == 'x') {
			rf_text_byte(text, '?');
			path += 3;
			continue;
		}
		if (path[0] == '\\') /* written twice, as in a pattern */
			rf_text_byte(text, *path++);
		else if (strchr("*?[]{}$", *path))
			rf_text_byte(text, '\\');
		rf_text_byte(text, *path);
	}
}

/* A pattern as YAML; single quotes leave everything as it is. */
static void add_quoted(struct rf_text *text, const char *pattern)
{
	bool plain = true;

	for (const char *c = pattern; plain && *c; c++)
		plain = isalnum((unsigned char)*c) || strchr("/._+-", *c);
	if (!plain)
		rf_text_byte(text, '\'');
	for (; *pattern; pattern++) {
		if (*pattern == '\'')
			rf_text_byte(text, '\'');
		rf_text_byte(text, *pattern);
	}
	if (!plain)
		rf_text_byte(text, '\'');
}

static void add(struct rf_text *text, const char *words)
{
	rf_text_add(text, words, strlen(words));
}

/* The rights that were missing, as a list. */
static void add_rights(struct rf_text *text, const json_t *event)
{
	const json_t *right;
	size_t i;

	add(text, "[");
	json_array_foreach (json_object_get(event, "rights"), i, right) {
		const char *name = json_string_value(right);

		add(text, i ? ", " : "");
		add(text, name ? name : "");
	}
	add(text, "]");
}

static bool line_for_path(struct rf_text *line, const json_t *event, const char *path)
{
	_cleanup_text_ struct rf_text pattern = {0};

	/* What has no name, or none that is known, no pattern matches. */
	if (*path != '/' || json_object_get(event, "partial") ||
	    json_object_get(event, "truncated") ||
	    !json_array_size(json_object_get(event, "rights")))
		return false;
	add_pattern(&pattern, path);
	rf_text_byte(&pattern, 0);
	add(line, "- {allow: ");
	add_rights(line, event);
	add(line, ", paths: [");
	if (pattern.failed)
		line->failed = true;
	else
		add_quoted(line, pattern.text);
	/* A deny that is taken back is warned about, unless one says that it is meant. */
	add(line, json_object_get(event, "rule") ? "], reopens: true}" : "]}");
	return true;
}

static bool line_for_address(struct rf_text *line, const json_t *event, const char *address)
{
	const char *protocol = text_of(event, "proto");
	char port[32];

	/* Only an allow of every address is one of these. */
	if (!strcmp(address, "0.0.0.0") || !strcmp(address, "::"))
		return false;
	snprintf(port, sizeof(port), ":%lld",
		 (long long)json_integer_value(json_object_get(event, "port")));
	add(line, "- {allow: connect, to: [\"");
	add(line, strchr(address, ':') ? "[" : "");
	add(line, address);
	add(line, strchr(address, ':') ? "]" : "");
	add(line, port);
	add(line, *protocol ? "/" : "");
	add(line, protocol);
	add(line, "\"]}");
	return true;
}

json_t *rf_suggest(const json_t *event)
{
	_cleanup_text_ struct rf_text line = {0};
	const char *path = text_of(event, "path"), *address = text_of(event, "addr"),
		   *reason = text_of(event, "reason"),
		   *rule = text_of(json_object_get(event, "rule"), "text");
	bool there;

	/* Else no rule was asked; and a forbid is not taken back by any. */
	if ((strcmp(reason, "rule") != 0 && strcmp(reason, "default") != 0) ||
	    !strncmp(rule, "forbid ", strlen("forbid ")))
		return NULL;
	there = *address ? line_for_address(&line, event, address)
			 : line_for_path(&line, event, path);
	rf_text_byte(&line, 0);
	if (!there || line.failed)
		return NULL;
	return json_pack("{s:s, s:s}", "key", *address ? "network" : "files", "line", line.text);
}
