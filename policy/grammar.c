/* SPDX-License-Identifier: BSD-2-Clause */
/* Building blocks of the grammar, see parse.h: maps, lists, words, rights. */
#include <string.h>
#include <strings.h>

#include "policy/parse.h"

const char *const rf_action_names[3] = {"allow", "deny", "forbid"};

const char *const rf_right_names[RF_RIGHT_NAMES] = {"read", "modify", "create", "delete",
						    "attr", "exec",   "write",	"all"};

uint8_t rf_right(const char *name)
{
	static const uint8_t masks[RF_RIGHT_NAMES] = {RF_READ, RF_MODIFY, RF_CREATE, RF_DELETE,
						      RF_ATTR, RF_EXEC,	  RF_WRITE,  RF_ALL_RIGHTS};

	for (size_t i = 0; i < RF_RIGHT_NAMES; i++)
		if (!strcmp(name, rf_right_names[i]))
			return masks[i];
	return 0;
}

const char *rf_right_hint(const char *word)
{
	static const struct {
		const char *word, *hint;
	} known[] = {
		{"append", "say `modify`"},
		{"chmod", "say `attr`"},
		{"chown", "say `attr`"},
		{"execute", "say `exec`"},
		{"link", "say `create`"},
		{"list", "say `read`"},
		{"mkdir", "say `create`"},
		{"move", "a rename is `delete` of the old name and `create` of the new"},
		{"r", "say `read`"},
		{"remove", "say `delete`"},
		{"rename", "a rename is `delete` of the old name and `create` of the new"},
		{"rw", "say `[read, write]`"},
		{"rwx", "say `[read, write, exec]`"},
		{"rx", "say `[read, exec]`"},
		{"truncate", "say `modify`"},
		{"unlink", "say `delete`"},
		{"w", "say `write`"},
		{"x", "say `exec`"},
	};

	for (size_t i = 0; i < RF_COUNT(known); i++)
		if (!strcasecmp(word, known[i].word))
			return known[i].hint;
	return NULL;
}

/* "did you mean `x`?" in `buffer`, or `otherwise`. */
static const char *did_you_mean(char *buffer, size_t size, const char *word,
				const char *const *names, size_t n, const char *otherwise)
{
	const char *nearest = rf_nearest(word, names, n);

	if (!nearest)
		return otherwise;
	snprintf(buffer, size, "did you mean `%s`?", nearest);
	return buffer;
}

/* "a, b or c" in `buffer`. */
static const char *one_of(char *buffer, size_t size, const char *const *names, size_t n)
{
	size_t at = snprintf(buffer, size, n == 1 ? "only " : "one of ");

	for (size_t i = 0; i < n && at < size; i++)
		at += snprintf(buffer + at, size - at, "%s%s", i ? ", " : "", names[i]);
	return buffer;
}

static void unknown_key(struct rf_parser *p, const struct rf_yaml *key, const struct rf_key *keys,
			size_t n)
{
	const char *names[32];
	char hint[80], all[300];
	size_t known = 0;

	if (!strcmp(key->text, "program") || !strcmp(key->text, "programs")) {
		RF_ERROR_AT(
			p, key,
			"subjects are sessions: run the program in a session of its own; a nested "
			"`ringfence run` is for a later version",
			"there are no rules by program");
		return;
	}
	/* Those of later versions would be the next error. */
	for (size_t i = 0; i < n; i++)
		if (keys[i].parse)
			names[known++] = keys[i].name;
	RF_ERROR_AT(p, key,
		    did_you_mean(hint, sizeof(hint), key->text, names, known,
				 one_of(all, sizeof(all), names, known)),
		    "unknown key `%.80s`", key->text);
}

bool rf_expect(struct rf_parser *p, const struct rf_yaml *node, enum rf_kind kind, const char *what,
	       const char *hint)
{
	static const char *const kinds[] = {
		[RF_SCALAR] = "a single value",
		[RF_LIST] = "a list",
		[RF_MAP] = "a map of keys and values",
	};

	if (node->kind == kind)
		return true;
	RF_ERROR_AT(p, node, hint, "%s must be %s", what, kinds[kind]);
	return false;
}

void rf_parse_map(struct rf_parser *p, const struct rf_yaml *map, const struct rf_key *keys,
		  size_t n, void *userdata)
{
	for (const struct rf_yaml *key = map->first; key; key = rf_yaml_next_key(key)) {
		size_t i;

		if (key->kind != RF_SCALAR)
			continue; /* already an error */
		for (i = 0; i < n && strcmp(keys[i].name, key->text); i++)
			;
		if (i == n)
			unknown_key(p, key, keys, n);
		else if (!keys[i].parse)
			RF_ERROR_AT(p, key,
				    "this version of ringfence cannot enforce it; remove it",
				    "`%s` is not supported yet", key->text);
		else
			keys[i].parse(p, key, key->next, userdata);
	}
}

char *rf_parse_copy(struct rf_parser *p, const char *text)
{
	char *copied = rf_arena_copy(&p->policy->arena, text, strlen(text));

	if (!copied)
		p->no_memory = true;
	return copied;
}

size_t rf_parse_word(struct rf_parser *p, const struct rf_yaml *node, const char *const *names,
		     size_t n, const char *what)
{
	char hint[80], all[200];

	one_of(all, sizeof(all), names, n);
	if (!rf_expect(p, node, RF_SCALAR, what, all))
		return n;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(node->text, names[i]))
			return i;
	RF_ERROR_AT(p, node, did_you_mean(hint, sizeof(hint), node->text, names, n, all),
		    "%s: unknown value \"%.80s\"", what, node->text);
	return n;
}

void rf_parse_choice(struct rf_parser *p, const struct rf_yaml *node, const char *const names[2],
		     const char *what, bool *ret_second)
{
	size_t i = rf_parse_word(p, node, names, 2, what);

	if (i < 2)
		*ret_second = i == 1;
}

const struct rf_yaml *rf_first_member(struct rf_parser *p, const struct rf_yaml *list,
				      const char *what)
{
	if (list->kind == RF_SCALAR)
		return list;
	if (!rf_expect(p, list, RF_LIST, what, NULL))
		return NULL;
	if (!list->first)
		RF_ERROR_AT(p, list, NULL, "%s is empty", what);
	return list->first;
}

const struct rf_yaml *rf_next_member(const struct rf_yaml *list, const struct rf_yaml *member)
{
	return list->kind == RF_LIST ? member->next : NULL;
}

/* `allow: read, write`, which YAML takes for one word; with brackets in `buffer`, else NULL. */
static const char *in_brackets(char *buffer, size_t size, const char *text)
{
	size_t at = snprintf(buffer, size, "several rights need brackets: [");
	const char *between = "";

	for (const char *word = text; *word; between = ", ") {
		size_t n = strcspn(word, ",+ ");
		char right[8];

		if (!n || n >= sizeof(right))
			return NULL;
		memcpy(right, word, n);
		right[n] = 0;
		if (!rf_right(right) || at >= size)
			return NULL;
		at += snprintf(buffer + at, size - at, "%s%s", between, right);
		word += n + strspn(word + n, ",+ ");
	}
	if (!*between || at >= size || (size_t)snprintf(buffer + at, size - at, "]") >= size - at)
		return NULL;
	return buffer;
}

uint8_t rf_parse_rights(struct rf_parser *p, const struct rf_yaml *node, const char *what,
			const char **ret_written)
{
	_cleanup_text_ struct rf_text written = {0};
	uint8_t rights = 0;

	for (const struct rf_yaml *m = rf_first_member(p, node, what); m;
	     m = rf_next_member(node, m)) {
		char hint[80], all[160], several[120];
		uint8_t right;

		if (!rf_expect(p, m, RF_SCALAR, "a right", "as in `allow: [read, exec]`"))
			continue;
		right = rf_right(m->text);
		if (!right)
			RF_ERROR_AT(p, m,
				    in_brackets(several, sizeof(several), m->text)
					    ?: rf_right_hint(m->text)
					    ?: did_you_mean(hint, sizeof(hint), m->text,
							    rf_right_names, RF_RIGHT_NAMES,
							    one_of(all, sizeof(all), rf_right_names,
								   RF_RIGHT_NAMES)),
				    "unknown right \"%.80s\"", m->text);
		rights |= right;
		if (written.n)
			rf_text_byte(&written, ',');
		rf_text_add(&written, m->text, strlen(m->text));
	}
	p->no_memory |= written.failed;
	*ret_written = written.n ? rf_parse_copy(p, written.text) : "";
	return rights;
}

void rf_pattern_diag(struct rf_parser *p, const struct rf_yaml *node,
		     const struct rf_pattern_error *error)
{
	rf_diag(p->diags, RF_ERROR, p->file, node->line, rf_yaml_column(node, error->at),
		*error->hint ? error->hint : NULL, "%s", error->message);
}

void rf_parse_need(struct rf_parser *p, const struct rf_yaml *key, enum rf_feature feature)
{
	static const char *const names[RF_FEATURES] = {
		[RF_FEATURE_NETWORK] = "network",
		[RF_FEATURE_AUDITED_RULES] = "audit on a rule",
		[RF_FEATURE_LIMITS] = "limits",
	};
	struct rf_policy *policy = p->policy;

	if (!(p->env->features & 1u << feature)) {
		RF_ERROR_AT(p, key, "this version of ringfence cannot enforce it; remove it",
			    "`%s` is not supported yet", names[feature]);
		return;
	}
	if (rf_grow(&policy->needs, &policy->needs_capacity, policy->nneeds + 1,
		    sizeof(*policy->needs))) {
		p->no_memory = true;
		return;
	}
	policy->needs[policy->nneeds++] = (struct rf_need){
		.feature = feature,
		.name = names[feature],
		.file = p->file,
		.line = key->line,
		.column = key->column,
	};
}
