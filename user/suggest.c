/* SPDX-License-Identifier: BSD-2-Clause */
/* The line of a policy that would allow what was denied, see suggest.h. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/suggest.h"
#include "user/text.h"

static const char *const rights[] = {"read", "write", "modify", "create", "delete", "attr", "exec"};

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* Has the path of an event a character that no policy can have? U+FFFE and U+FFFF are no YAML. */
static bool has_odd_byte(const char *path)
{
	for (; *path; path++) {
		if (!strncmp(path, "\xef\xbf\xbe", 3) || !strncmp(path, "\xef\xbf\xbf", 3))
			return true;
		if (*path == '\\' && *++path != '\\')
			return true;
	}
	return false;
}

/* A path of an event as a pattern that matches it and nothing else. */
static void add_pattern(struct rf_text *text, const char *path)
{
	for (; *path; path++) {
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

/* Is it a file that could not be made in a folder for temporary ones? */
static bool is_temporary(const json_t *event, const char *path)
{
	static const char *const folders[] = {"/tmp/", "/var/tmp/", "/dev/shm/"};
	const char *name = strrchr(path, '/') + 1;
	const json_t *right;
	bool create = false;
	size_t i;

	json_array_foreach (json_object_get(event, "rights"), i, right)
		create |= !strcmp(json_string_value(right) ?: "", "create");
	for (i = 0; create && *name && i < RF_COUNT(folders); i++)
		if (strlen(folders[i]) == (size_t)(name - path) &&
		    !strncmp(path, folders[i], strlen(folders[i])))
			return true;
	return false;
}

/* What of the path is below the place, as "/name"; NULL if it is not. */
static const char *below(const char *path, const char *place)
{
	_cleanup_free_ char *escaped = place ? rf_escape(place, strlen(place)) : NULL;
	size_t length = escaped ? strlen(escaped) : 0;

	if (length < 2 || strncmp(path, escaped, length) != 0 || path[length] != '/')
		return NULL;
	return path + length;
}

/* The pattern for a path; NULL on no memory. */
static char *pattern_of(const char *path, const struct rf_suggest_places *places)
{
	_cleanup_text_ struct rf_text pattern = {0};
	const char *rest;

	if ((rest = below(path, places->workspace)))
		add(&pattern, "${WORKSPACE}");
	else if ((rest = below(path, places->home)))
		add(&pattern, "~");
	add_pattern(&pattern, rest ? rest : path);
	rf_text_byte(&pattern, 0);
	return pattern.failed ? NULL : rf_steal(&pattern.text);
}

/* The pattern for all that is in the path's folder; NULL on no memory. */
static char *folder_of(const char *path)
{
	char *pattern;

	return asprintf(&pattern, "%.*s/*", (int)(strrchr(path, '/') - path), path) < 0 ? NULL
											: pattern;
}

/*
 * What is to be allowed, by the object: {rights: {NAME: true}, reopens, comment} of a pattern,
 * or {line} of an address.
 */
static int wish_path(json_t *wishes, const json_t *event, const char *path,
		     const struct rf_suggest_places *places)
{
	bool rule = json_object_get(event, "rule"), temporary;
	_cleanup_free_ char *pattern = NULL;
	const json_t *right;
	json_t *wish;
	size_t i;

	/* What has no name, or none that is known, no pattern matches; or it matches others, too. */
	if (*path != '/' || has_odd_byte(path) || json_object_get(event, "partial") ||
	    json_object_get(event, "truncated") ||
	    !json_array_size(json_object_get(event, "rights")))
		return 0;
	temporary = is_temporary(event, path);
	/* But what a rule denies is taken back for the one file alone. */
	if (temporary && !rule)
		pattern = folder_of(path);
	else
		pattern = pattern_of(path, places);
	if (!pattern)
		return -1;
	wish = json_object_get(wishes, pattern);
	if (!wish) {
		wish = json_pack("{s:{}}", "rights");
		if (json_object_set_new(wishes, pattern, wish))
			return -1;
	}
	json_array_foreach (json_object_get(event, "rights"), i, right)
		json_object_set_new(json_object_get(wish, "rights"), json_string_value(right) ?: "",
				    json_true());
	/* Who makes such a file reads it, changes it and removes it, too. */
	if (temporary && !rule) {
		json_object_set_new(json_object_get(wish, "rights"), "read", json_true());
		json_object_set_new(json_object_get(wish, "rights"), "write", json_true());
	}
	if (rule)
		json_object_set_new(wish, "reopens", json_true());
	if (temporary)
		json_object_set_new(wish, "comment",
				    json_string(rule ? "the name may be another one each time"
						     : "temporary files: other names each time"));
	return 0;
}

static int wish_address(json_t *wishes, const json_t *event, const char *address)
{
	const char *protocol = text_of(event, "proto");
	_cleanup_text_ struct rf_text line = {0};
	char port[32];

	/* Only an allow of every address is one of these. */
	if (!strcmp(address, "0.0.0.0") || !strcmp(address, "::"))
		return 0;
	snprintf(port, sizeof(port), ":%lld",
		 (long long)json_integer_value(json_object_get(event, "port")));
	add(&line, "- {allow: connect, to: [\"");
	add(&line, strchr(address, ':') ? "[" : "");
	add(&line, address);
	add(&line, strchr(address, ':') ? "]" : "");
	add(&line, port);
	add(&line, *protocol ? "/" : "");
	add(&line, protocol);
	add(&line, "\"]}");
	rf_text_byte(&line, 0);
	if (line.failed)
		return -1;
	return json_object_set_new(wishes, line.text, json_pack("{s:s}", "line", line.text));
}

static const char *key_of(const json_t *event)
{
	return *text_of(event, "addr") ? "network" : "files";
}

static int add_wish(json_t *wishes, const json_t *event, const struct rf_suggest_places *places)
{
	const char *reason = text_of(event, "reason"),
		   *rule = text_of(json_object_get(event, "rule"), "text");

	/* Else no rule was asked; and a forbid is not taken back by any. */
	if ((strcmp(reason, "rule") != 0 && strcmp(reason, "default") != 0) ||
	    !strncmp(rule, "forbid ", strlen("forbid ")))
		return 0;
	return strcmp(key_of(event), "files")
		       ? wish_address(wishes, event, text_of(event, "addr"))
		       : wish_path(wishes, event, text_of(event, "path"), places);
}

/* As people write them: `write` is four of them. */
static void add_rights(struct rf_text *line, json_t *wanted)
{
	static const char *const write[] = {"modify", "create", "delete", "attr"};
	bool all = true, first = true;

	for (size_t i = 0; i < RF_COUNT(write); i++)
		all &= json_object_get(wanted, write[i]) != NULL;
	if (all || json_object_get(wanted, "write")) {
		json_object_set_new(wanted, "write", json_true());
		for (size_t i = 0; i < RF_COUNT(write); i++)
			json_object_del(wanted, write[i]);
	}
	for (size_t i = 0; i < RF_COUNT(rights); i++) {
		if (!json_object_get(wanted, rights[i]))
			continue;
		add(line, first ? "" : ", ");
		add(line, rights[i]);
		first = false;
	}
}

static json_t *line_of(const char *pattern, json_t *wish)
{
	_cleanup_text_ struct rf_text line = {0};
	const char *comment = text_of(wish, "comment");

	if (*text_of(wish, "line"))
		return json_string(text_of(wish, "line"));
	add(&line, "- {allow: [");
	add_rights(&line, json_object_get(wish, "rights"));
	add(&line, "], paths: [");
	add_quoted(&line, pattern);
	/* A deny that is taken back is warned about, unless one says that it is meant. */
	add(&line, json_object_get(wish, "reopens") ? "], reopens: true}" : "]}");
	add(&line, *comment ? " # " : "");
	add(&line, comment);
	rf_text_byte(&line, 0);
	return line.failed ? NULL : json_string(line.text);
}

static json_t *lines_of(json_t *wishes)
{
	json_t *lines = json_array(), *wish;
	const char *pattern;

	json_object_foreach (wishes, pattern, wish) {
		if (json_array_append_new(lines, line_of(pattern, wish))) {
			json_decref(lines);
			return NULL;
		}
	}
	return lines;
}

json_t *rf_suggest(const json_t *event, const struct rf_suggest_places *places)
{
	_cleanup_json_ json_t *wishes = json_object(), *lines = NULL;

	if (!wishes || add_wish(wishes, event, places))
		return NULL;
	lines = lines_of(wishes);
	if (!json_array_size(lines))
		return NULL;
	return json_pack("{s:s, s:O}", "key", key_of(event), "line", json_array_get(lines, 0));
}

json_t *rf_suggest_lines(const json_t *denials, const char *key,
			 const struct rf_suggest_places *places)
{
	_cleanup_json_ json_t *wishes = json_object();
	const char *name;
	json_t *event;

	if (!wishes)
		return NULL;
	json_object_foreach ((json_t *)denials, name, event) {
		if (!strcmp(key_of(event), key) && add_wish(wishes, event, places))
			return NULL;
	}
	return lines_of(wishes);
}
