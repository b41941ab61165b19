/* SPDX-License-Identifier: BSD-2-Clause */
/* YAML text as a tree of positioned nodes, see tree.h. */
#include "policy/tree.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

struct builder {
	const char *file, *text, *end;
	struct rf_arena *arena;
	struct rf_diags *diags;
	struct rf_yaml *stack[RF_DEPTH_MAX];
	size_t depth;
	size_t nodes;
	struct rf_yaml *root;
	size_t documents;
};

static int fail(struct builder *b, const yaml_mark_t *mark, const char *hint, const char *message)
{
	rf_diag(b->diags, RF_ERROR, b->file, mark->line + 1, mark->column + 1, hint, "%s", message);
	return -EINVAL;
}

static int add(struct builder *b, enum rf_kind kind, const yaml_mark_t *mark,
	       struct rf_yaml **ret_node)
{
	struct rf_yaml *node;

	if (++b->nodes > RF_NODES_MAX)
		return fail(b, mark, "split the policy with `extends`", "too many YAML nodes");
	node = rf_arena_alloc(b->arena, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->kind = kind;
	node->line = mark->line + 1;
	node->column = mark->column + 1;
	if (b->depth) {
		struct rf_yaml *parent = b->stack[b->depth - 1];

		if (parent->last)
			parent->last->next = node;
		else
			parent->first = node;
		parent->last = node;
	} else {
		b->root = node;
	}
	*ret_node = node;
	return 0;
}

static int open_node(struct builder *b, enum rf_kind kind, const yaml_mark_t *mark,
		     const yaml_char_t *anchor)
{
	struct rf_yaml *node;
	int r;

	if (anchor)
		return fail(b, mark, "write the value out", "YAML anchors are not allowed");
	if (b->depth == RF_DEPTH_MAX)
		return fail(b, mark, NULL, "nested too deep");
	r = add(b, kind, mark, &node);
	if (r)
		return r;
	b->stack[b->depth++] = node;
	return 0;
}

static int open_list(struct builder *b, const yaml_event_t *event)
{
	int r = open_node(b, RF_LIST, &event->start_mark, event->data.sequence_start.anchor);

	if (!r)
		b->stack[b->depth - 1]->plain =
			event->data.sequence_start.style == YAML_BLOCK_SEQUENCE_STYLE;
	return r;
}

static int add_scalar(struct builder *b, const yaml_event_t *event)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;
	const yaml_mark_t *mark = &event->start_mark;
	size_t quotes;
	struct rf_yaml *node;
	int r;

	if (event->data.scalar.anchor)
		return fail(b, mark, "write the value out", "YAML anchors are not allowed");
	if (event->data.scalar.tag)
		return fail(b, mark, "quote a value that begins with !",
			    "YAML tags are not allowed");
	if (memchr(text, 0, length))
		return fail(b, mark, NULL, "NUL byte in a value");
	r = add(b, RF_SCALAR, mark, &node);
	if (r)
		return r;
	node->text = rf_arena_copy(b->arena, text, length);
	if (!node->text)
		return -ENOMEM;
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	quotes = node->plain ? 0 : 2;
	node->exact = event->end_mark.line == mark->line &&
		      event->end_mark.index - mark->index == length + quotes;
	return 0;
}

/* Keys are scalars, each once. */
static int by_text(const void *a, const void *b)
{
	const struct rf_yaml *const *x = a, *const *y = b;
	int c = strcmp((*x)->text, (*y)->text);

	if (c)
		return c;
	return (*x)->line != (*y)->line	     ? ((*x)->line < (*y)->line ? -1 : 1)
	       : (*x)->column < (*y)->column ? -1
					     : 1;
}

static int close_map(struct builder *b, struct rf_yaml *map)
{
	_cleanup_free_ const struct rf_yaml **keys = NULL;
	size_t n = 0, capacity = 0;

	for (const struct rf_yaml *key = map->first; key; key = rf_yaml_next_key(key)) {
		if (key->kind != RF_SCALAR) {
			rf_diag(b->diags, RF_ERROR, b->file, key->line, key->column,
				"quote ${...} and {a,b} where YAML may take the braces for a map",
				"a key must be a word");
			continue;
		}
		if (rf_grow(&keys, &capacity, n + 1, sizeof(*keys)))
			return -ENOMEM;
		keys[n++] = key;
	}
	if (n)
		qsort(keys, n, sizeof(*keys), by_text);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(keys[i - 1]->text, keys[i]->text))
			rf_diag(b->diags, RF_ERROR, b->file, keys[i]->line, keys[i]->column,
				"put both into one", "key `%s` is already given in line %u",
				keys[i]->text, keys[i - 1]->line);
	return 0;
}

static int handle(struct builder *b, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (b->documents++)
			return fail(b, &event->start_mark, "one policy per file",
				    "a second YAML document");
		return 0;
	case YAML_ALIAS_EVENT:
		return fail(b, &event->start_mark, "quote a pattern that begins with *",
			    "YAML aliases are not allowed");
	case YAML_SCALAR_EVENT:
		return add_scalar(b, event);
	case YAML_SEQUENCE_START_EVENT:
		return open_list(b, event);
	case YAML_MAPPING_START_EVENT:
		return open_node(b, RF_MAP, &event->start_mark, event->data.mapping_start.anchor);
	case YAML_MAPPING_END_EVENT:
		return close_map(b, b->stack[--b->depth]);
	case YAML_SEQUENCE_END_EVENT:
		b->depth--;
		return 0;
	default:
		return 0;
	}
}

/* Is there a tab in the indentation of a line? */
static bool is_tabbed(const struct builder *b, size_t line)
{
	const char *p = b->text;

	for (; p && line; line--) {
		p = memchr(p, '\n', b->end - p);
		p = p ? p + 1 : NULL;
	}
	while (p && p < b->end && *p == ' ')
		p++;
	return p && p < b->end && *p == '\t';
}

/* libyaml's messages are about tokens; say what people usually did. */
static int syntax_error(struct builder *b, const yaml_parser_t *parser)
{
	const char *problem = parser->problem ? parser->problem : "not YAML";
	const char *context = parser->context ? parser->context : "";
	yaml_mark_t mark = parser->problem_mark;
	const char *hint = NULL;

	if (parser->error == YAML_READER_ERROR) {
		rf_diag(b->diags, RF_ERROR, b->file, 0, 0, "a policy is UTF-8 text",
			"not text: %s at byte %zu", problem, parser->problem_offset);
		return -EINVAL;
	}
	if (is_tabbed(b, mark.line)) {
		hint = "indent with spaces, not with tabs";
	} else if (strstr(context, "alias") || strstr(context, "anchor")) {
		hint = "quote a pattern that begins with * or &";
		mark = parser->context_mark;
	} else if (strstr(problem, "found character that cannot start any token")) {
		hint = "indent with spaces, and quote values that begin with @, ` or %";
	} else if (strstr(problem, "unknown escape character")) {
		hint = "use single quotes for patterns with a backslash";
	} else if (strstr(context, "flow")) {
		hint = "quote patterns with { } [ ] or a comma, as in \"${WORKSPACE}\", and IPv6 "
		       "addresses, as in \"[::1]:443\"";
	} else if (strstr(problem, "mapping values are not allowed")) {
		hint = "check that the lines of an item start in the same column, and quote values "
		       "with a colon";
	} else if (strstr(context, "block collection") || strstr(context, "block mapping")) {
		hint = "check that the lines of an item start in the same column, and quote what "
		       "begins with [ or {";
	}
	rf_diag(b->diags, RF_ERROR, b->file, mark.line + 1, mark.column + 1, hint, "%s%s%s",
		problem, *context ? " " : "", context);
	return -EINVAL;
}

static int run(struct builder *b, yaml_parser_t *parser)
{
	bool end = false;
	int r = 0;

	while (!r && !end) {
		yaml_event_t event;

		if (!yaml_parser_parse(parser, &event))
			return parser->error == YAML_MEMORY_ERROR ? -ENOMEM
								  : syntax_error(b, parser);
		end = event.type == YAML_STREAM_END_EVENT;
		r = handle(b, &event);
		yaml_event_delete(&event);
	}
	return r;
}

/* Text that libyaml should not even see: it would guess at UTF-16, or take very long. */
static int check_text(struct builder *b, const char *text, size_t size)
{
	const char *nul;

	if (size > RF_TEXT_MAX) {
		rf_diag(b->diags, RF_ERROR, b->file, 0, 0, "split the policy with `extends`",
			"%zu bytes are too large for a policy, the limit is %u", size, RF_TEXT_MAX);
		return -EINVAL;
	}
	nul = size ? memchr(text, 0, size) : NULL;
	if (nul) {
		unsigned int line = 1, column = 1;

		for (const char *p = text; p < nul; p++) {
			column = *p == '\n' ? 1 : column + 1;
			line += *p == '\n';
		}
		rf_diag(b->diags, RF_ERROR, b->file, line, column, "a policy is UTF-8 text",
			"NUL byte: not a text file");
		return -EINVAL;
	}
	return 0;
}

static const char bom[] = "\xef\xbb\xbf";

int rf_yaml_parse(const char *file, const char *text, size_t size, struct rf_arena *arena,
		  struct rf_diags *diags, struct rf_yaml **ret_root)
{
	struct builder b = {.file = file, .arena = arena, .diags = diags};
	yaml_parser_t parser;
	int r;

	r = check_text(&b, text, size);
	if (r)
		return r;
	/* A byte order mark, as some editors write it: no column counts it. */
	if (size >= strlen(bom) && !memcmp(text, bom, strlen(bom))) {
		text += strlen(bom);
		size -= strlen(bom);
	}
	b.text = text;
	b.end = text + size;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
	r = run(&b, &parser);
	yaml_parser_delete(&parser);
	if (r)
		return r;
	if (!b.root) {
		rf_diag(diags, RF_ERROR, file, 1, 1, "begin with `ringfence: 1`",
			"the policy is empty");
		return -EINVAL;
	}
	*ret_root = b.root;
	return 0;
}

unsigned int rf_yaml_column(const struct rf_yaml *scalar, size_t at)
{
	return scalar->exact && at ? scalar->column + !scalar->plain + at : scalar->column;
}
