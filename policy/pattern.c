/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path patterns, see pattern.h. Three steps: text to tokens (quoting and
 * variables end here, so that a value is never taken for a glob), tokens to one
 * token string for each choice among {alternatives}, and each string, component
 * by component, to atoms.
 */
#include "policy/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "bpf/abi.h"

/* Tokens beside bytes and sets. */
#define T_STAR RF_ATOM_STAR
#define T_GLOB RF_ATOM_GLOB
#define T_OPEN 0x102
#define T_COMMA 0x103
#define T_CLOSE 0x104

#define LEXED_MAX (4 * RF_PATTERN_MAX) /* tokens, {alternatives} not yet replaced */

struct tokens {
	uint16_t *items;
	size_t n, capacity;
};

struct lexer {
	const char *text;
	size_t at;
	const struct rf_pattern_env *env;
	struct rf_sets *sets;
	struct rf_pattern_error *error;
	struct tokens tokens;
	bool literal; /* a value: only variables are special */
};

__attribute__((format(printf, 4, 5))) static int fail(struct rf_pattern_error *error, size_t at,
						      const char *hint, const char *format, ...)
{
	va_list args;

	error->at = at;
	va_start(args, format);
	vsnprintf(error->message, sizeof(error->message), format, args);
	va_end(args);
	snprintf(error->hint, sizeof(error->hint), "%s", hint ? hint : "");
	return -EINVAL;
}

int rf_sets_add(struct rf_sets *sets, const struct rf_set *set, uint16_t *ret_atom)
{
	static const struct rf_set any = {
		{~(UINT64_C(1) << '/'), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)}};

	if (rf_grow(&sets->items, &sets->capacity, sets->n + 2, sizeof(*sets->items)))
		return -ENOMEM;
	if (!sets->n)
		sets->items[sets->n++] = any;
	if (!set)
		set = &any;
	for (size_t i = 0; i < sets->n; i++) {
		if (memcmp(&sets->items[i], set, sizeof(*set)))
			continue;
		*ret_atom = RF_ATOM_SET + i;
		return 0;
	}
	if (sets->n == RF_SETS_MAX)
		return -ENOSPC;
	*ret_atom = RF_ATOM_SET + sets->n;
	sets->items[sets->n++] = *set;
	return 0;
}

void rf_sets_done(struct rf_sets *sets)
{
	free(sets->items);
	memset(sets, 0, sizeof(*sets));
}

static int push(struct lexer *l, uint16_t token)
{
	struct tokens *t = &l->tokens;

	if (rf_grow(&t->items, &t->capacity, t->n + 1, sizeof(*t->items)))
		return -ENOMEM;
	t->items[t->n++] = token;
	return 0;
}

static int push_byte(struct lexer *l)
{
	return push(l, (unsigned char)l->text[l->at++]);
}

static int push_value(struct lexer *l, const char *name, bool env, size_t at)
{
	const char *value;
	int r;

	r = l->env->variable(l->env->userdata, name, env, &value, l->error);
	if (r) {
		l->error->at = at;
		return r == -ENOENT ? -EINVAL : r;
	}
	if (!at && !l->literal && *value != '/')
		return fail(l->error, at, "a path must begin with /",
			    "the value of %s%s is no absolute path: \"%.60s\"", env ? "env:" : "",
			    name, value);
	for (; *value; value++) {
		r = push(l, (unsigned char)*value);
		if (r)
			return r;
	}
	return 0;
}

static bool is_name(const char *name)
{
	if (!isalpha((unsigned char)*name) && *name != '_')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return false;
	return true;
}

static int lex_variable(struct lexer *l)
{
	static const char hint[] = "write ${NAME} or ${env:NAME}; a dollar sign itself is \\$";
	size_t start = l->at, length;
	const char *name = l->text + start + 2, *end;
	char buffer[64];
	bool env;

	if (l->text[start + 1] != '{')
		return fail(l->error, start, hint, "`$` without braces");
	end = strchr(name, '}');
	if (!end)
		return fail(l->error, start, hint, "`${` without `}`");
	env = !strncmp(name, "env:", 4);
	if (env)
		name += 4;
	length = end - name;
	if (length >= sizeof(buffer))
		return fail(l->error, start, NULL, "the name of a variable is too long");
	memcpy(buffer, name, length);
	buffer[length] = 0;
	if (!is_name(buffer))
		return fail(l->error, start, hint, "\"%s\" is no name of a variable", buffer);
	l->at = end + 1 - l->text;
	return push_value(l, buffer, env, start);
}

static int lex_home(struct lexer *l)
{
	if (l->text[1] && l->text[1] != '/')
		return fail(l->error, 0,
			    "only ~ itself is known: write it out, as /home/NAME; \\~ is a tilde",
			    "another user's home");
	l->at++;
	return push_value(l, "HOME", false, 0);
}

/* One byte of a class, quoted or not. */
static int class_byte(struct lexer *l, unsigned char *ret_byte)
{
	unsigned char byte = l->text[l->at];

	if (byte == '\\')
		byte = l->text[++l->at];
	if (!byte)
		return fail(l->error, l->at, NULL, "`[` without `]`");
	if (byte == '/')
		return fail(l->error, l->at, "a class stands for one byte of one name",
			    "`/` in a class");
	if (byte >= 0x80)
		return fail(l->error, l->at, "use alternatives: {\xc3\xa4,\xc3\xb6}",
			    "a character of several bytes in a class");
	*ret_byte = byte;
	l->at++;
	return 0;
}

static int lex_class(struct lexer *l)
{
	size_t start = l->at++;
	struct rf_set set = {0};
	bool negate = false;
	unsigned char low = 0, high;
	uint16_t atom;
	int r;

	if (l->text[l->at] == '^')
		return fail(l->error, l->at, "write [!...]; a caret itself is \\^",
			    "`^` at the start of a class");
	if (l->text[l->at] == '!') {
		negate = true;
		l->at++;
	}
	if (l->text[l->at] == ']')
		return fail(l->error, start, "a bracket itself is \\]", "an empty class");
	while (l->text[l->at] != ']') {
		if (l->text[l->at] == '[' && strchr(":.=", l->text[l->at + 1]) &&
		    l->text[l->at + 1])
			return fail(l->error, l->at, "write the range, as in [a-z]",
				    "named classes are not part of the language");
		r = class_byte(l, &low);
		if (r)
			return r;
		high = low;
		if (l->text[l->at] == '-' && l->text[l->at + 1] != ']') {
			l->at++;
			r = class_byte(l, &high);
			if (r)
				return r;
			if (high < low)
				return fail(l->error, start, "swap its ends",
					    "a range that holds nothing");
		}
		for (unsigned int b = low; b <= high; b++)
			set.bits[b / 64] |= UINT64_C(1) << b % 64;
	}
	l->at++;
	for (size_t i = 0; negate && i < RF_COUNT(set.bits); i++)
		set.bits[i] = ~set.bits[i];
	set.bits[0] &= ~(UINT64_C(1) << '/');
	r = rf_sets_add(l->sets, &set, &atom);
	if (r == -ENOSPC)
		return fail(l->error, start, NULL, "more than %u different classes", RF_SETS_MAX);
	return r ? r : push(l, atom);
}

static int lex_stars(struct lexer *l)
{
	size_t start = l->at, n = strspn(l->text + start, "*");

	if (n > 2)
		return fail(l->error, start, "* is any name, ** any number of components",
			    "more than two stars");
	l->at += n;
	return push(l, n == 2 ? T_GLOB : T_STAR);
}

static int lex_one(struct lexer *l, unsigned int *braces)
{
	char c = l->text[l->at];
	uint16_t any;
	int r;

	if (c == '$')
		return lex_variable(l);
	if (c == '~' && !l->at)
		return lex_home(l);
	if (l->literal)
		return push_byte(l);
	switch (c) {
	case '\\':
		if (!l->text[++l->at])
			return fail(l->error, l->at - 1, "a backslash itself is \\\\",
				    "a backslash at the end");
		return push_byte(l);
	case '[':
		return lex_class(l);
	case '*':
		return lex_stars(l);
	case '?':
		l->at++;
		r = rf_sets_add(l->sets, NULL, &any);
		return r ? r : push(l, any);
	case '{':
		++*braces;
		l->at++;
		return push(l, T_OPEN);
	case '}':
		if (!*braces)
			return fail(l->error, l->at, "a brace itself is \\}", "`}` without `{`");
		--*braces;
		l->at++;
		return push(l, T_CLOSE);
	case ',':
		if (!*braces)
			return push_byte(l);
		l->at++;
		return push(l, T_COMMA);
	}
	return push_byte(l);
}

static int lex(struct lexer *l)
{
	unsigned int braces = 0;
	int r = 0;

	while (!r && l->text[l->at]) {
		r = lex_one(l, &braces);
		/* Before values of variables in values of variables add up. */
		if (!r && l->tokens.n > LEXED_MAX)
			r = fail(l->error, 0, NULL, "longer than %u bytes", LEXED_MAX);
	}
	if (!r && braces)
		return fail(l->error, strlen(l->text), "a brace itself is \\{", "`{` without `}`");
	return r;
}

/* Index behind the T_CLOSE that belongs to the T_OPEN at `open`. */
static size_t closing(const uint16_t *t, size_t open)
{
	size_t depth = 0, i = open;

	do {
		depth += t[i] == T_OPEN;
		depth -= t[i] == T_CLOSE;
		i++;
	} while (depth);
	return i;
}

struct expansion {
	struct rf_sets *sets;
	struct rf_arena *arena;
	struct rf_pattern *pattern;
	struct rf_pattern_error *error;
};

/* One component's tokens to atoms, '/' before it. */
static int add_component(struct expansion *e, const uint16_t *t, size_t n, bool last,
			 struct rf_sequence *s)
{
	bool glob = false, stars = true;
	uint16_t any;
	int r;

	if (!n || (n == 1 && t[0] == '.'))
		return 0;
	if (n == 2 && t[0] == '.' && t[1] == '.')
		return fail(e->error, 0, "write the path without ..", "`..` in a path");
	for (size_t i = 0; i < n; i++) {
		glob |= t[i] == T_GLOB;
		stars &= t[i] == T_STAR;
	}
	if (glob && n > 1)
		return fail(e->error, 0, "write /**/ between slashes, or one *",
			    "`**` is not a whole component");
	r = rf_sets_add(e->sets, NULL, &any);
	if (r)
		return r;
	if (glob && !last) {
		if (!s->n || s->atoms[s->n - 1] != RF_ATOM_GLOB)
			s->atoms[s->n++] = RF_ATOM_GLOB;
		return 0;
	}
	s->atoms[s->n++] = '/';
	/* A name is never empty: so * alone is at least one byte, and so is ** at the end. */
	if (glob || stars) {
		s->atoms[s->n++] = any;
		s->atoms[s->n++] = RF_ATOM_STAR;
		return 0;
	}
	for (size_t i = 0, bytes = 0; i < n; i++) {
		bytes += t[i] != T_STAR;
		if (bytes > RF_NAME_MAX)
			return fail(e->error, 0, "a name has at most 255 bytes",
				    "a name that is too long: the pattern can match nothing");
		if (t[i] != T_STAR || s->atoms[s->n - 1] != T_STAR)
			s->atoms[s->n++] = t[i];
	}
	return 0;
}

/* No more alternatives in t: make it a sequence. */
static int add_sequence(struct expansion *e, const uint16_t *t, size_t n)
{
	struct rf_pattern *p = e->pattern;
	struct rf_sequence *s = &p->sequences[p->n];
	size_t end;
	int r;

	if (p->n == RF_ALTERNATIVES_MAX)
		return fail(e->error, 0, "write several patterns",
			    "more than %u alternatives in one pattern", RF_ALTERNATIVES_MAX);
	if (n > RF_PATTERN_MAX - 2)
		return fail(e->error, 0, NULL, "a pattern longer than %u bytes", RF_PATTERN_MAX);
	if (n && t[0] != '/' && t[0] != T_GLOB)
		return fail(e->error, 0, "begin it with /, ~, ${NAME} or **", "a relative path");
	s->atoms = rf_arena_alloc(e->arena, (2 * n + 4) * sizeof(*s->atoms));
	if (!s->atoms)
		return -ENOMEM;
	while (n && (t[n - 1] == '/' || (t[n - 1] == '.' && n > 1 && t[n - 2] == '/')))
		n--;
	for (size_t i = 0; i < n; i = end + 1) {
		for (end = i; end < n && t[end] != '/'; end++)
			;
		r = add_component(e, t + i, end - i, end == n, s);
		if (r)
			return r;
	}
	p->n++;
	return 0;
}

/* Replace the first {a,b} by each of its alternatives in turn. */
static int expand(struct expansion *e, const uint16_t *t, size_t n, unsigned int level)
{
	_cleanup_free_ uint16_t *one = NULL;
	size_t open, close, begin, end, depth = 0;
	int r;

	for (open = 0; open < n && t[open] != T_OPEN; open++)
		;
	if (open == n)
		return add_sequence(e, t, n);
	if (level == 64)
		return fail(e->error, 0, NULL, "too many braces in one pattern");
	close = closing(t, open);
	one = malloc(n * sizeof(*one));
	if (!one)
		return -ENOMEM;
	for (begin = end = open + 1; end < close; end++) {
		if (depth || (t[end] != T_COMMA && end != close - 1)) {
			depth += t[end] == T_OPEN;
			depth -= t[end] == T_CLOSE;
			continue;
		}
		memcpy(one, t, open * sizeof(*t));
		memcpy(one + open, t + begin, (end - begin) * sizeof(*t));
		memcpy(one + open + end - begin, t + close, (n - close) * sizeof(*t));
		r = expand(e, one, open + end - begin + n - close, level + 1);
		if (r)
			return r;
		begin = end + 1;
	}
	return 0;
}

static int check_start(const char *text, struct rf_pattern_error *error)
{
	if (!*text)
		return fail(error, 0, NULL, "an empty path");
	if (*text == '/' || *text == '~' || !strncmp(text, "${", 2) || !strncmp(text, "**", 2))
		return 0;
	if (*text == '$')
		return fail(error, 0, "write ${NAME}, and ~ for $HOME", "`$` without braces");
	return fail(error, 0,
		    *text == '*'   ? "begin it with **/ to match anywhere"
		    : *text == '{' ? "put the braces behind the first /"
				   : "begin it with /, ~, ${WORKSPACE} or **/",
		    "a relative path: \"%.80s\"", text);
}

int rf_pattern_parse(const char *text, const struct rf_pattern_env *env, struct rf_sets *sets,
		     struct rf_arena *arena, struct rf_pattern *ret_pattern,
		     struct rf_pattern_error *error)
{
	struct lexer l = {.text = text, .env = env, .sets = sets, .error = error};
	struct rf_sequence *sequences = NULL;
	struct rf_pattern pattern = {0};
	struct expansion e = {sets, arena, &pattern, error};
	int r;

	r = check_start(text, error);
	if (!r)
		r = lex(&l);
	if (!r) {
		sequences = calloc(RF_ALTERNATIVES_MAX + 1, sizeof(*sequences));
		pattern.sequences = sequences;
		r = sequences ? expand(&e, l.tokens.items, l.tokens.n, 0) : -ENOMEM;
	}
	free(l.tokens.items);
	if (!r) {
		pattern.sequences = rf_arena_alloc(arena, pattern.n * sizeof(*sequences));
		if (pattern.sequences)
			memcpy(pattern.sequences, sequences, pattern.n * sizeof(*sequences));
		else
			r = -ENOMEM;
	}
	free(sequences);
	if (!r)
		*ret_pattern = pattern;
	return r;
}

int rf_value_parse(const char *text, const struct rf_pattern_env *env, struct rf_arena *arena,
		   char **ret_value, struct rf_pattern_error *error)
{
	struct lexer l = {.text = text, .env = env, .error = error, .literal = true};
	char *value;
	int r;

	r = lex(&l);
	if (!r) {
		value = rf_arena_alloc(arena, l.tokens.n + 1);
		for (size_t i = 0; value && i < l.tokens.n; i++)
			value[i] = l.tokens.items[i];
		if (value)
			*ret_value = value;
		else
			r = -ENOMEM;
	}
	free(l.tokens.items);
	return r;
}

char *rf_sequence_literal(const struct rf_sequence *s, struct rf_arena *arena)
{
	size_t n = 0, whole = 0;
	char *path;

	while (n < s->n && s->atoms[n] < 0x100) {
		if (s->atoms[n] == '/')
			whole = n;
		n++;
	}
	if (n == s->n || s->atoms[n] == RF_ATOM_GLOB)
		whole = n;
	path = rf_arena_alloc(arena, whole + 2);
	if (!path)
		return NULL;
	for (size_t i = 0; i < whole; i++)
		path[i] = s->atoms[i];
	if (!whole)
		path[0] = '/';
	return path;
}

static void quote(struct rf_text *text, unsigned char byte, const char *special)
{
	if (byte && strchr(special, byte))
		rf_text_byte(text, '\\');
	rf_text_byte(text, byte);
}

static void set_text(const struct rf_set *set, struct rf_text *text)
{
	bool negate = rf_set_has(set, 0xff);

	rf_text_add(text, negate ? "[!" : "[", negate ? 2 : 1);
	for (unsigned int b = 0, last; b < 256; b = last + 1) {
		last = b;
		if (b == '/' || rf_set_has(set, b) == negate)
			continue;
		while (last < 255 && last + 1 != '/' && rf_set_has(set, last + 1) != negate)
			last++;
		quote(text, b, "\\[]!^-");
		if (last > b + 1)
			rf_text_byte(text, '-');
		if (last > b)
			quote(text, last, "\\[]!^-");
	}
	rf_text_byte(text, ']');
}

void rf_sequence_text(const struct rf_sequence *s, const struct rf_sets *sets, struct rf_text *text)
{
	if (!s->n)
		rf_text_byte(text, '/');
	for (size_t i = 0; i < s->n; i++) {
		uint16_t atom = s->atoms[i];

		if (atom == RF_ATOM_STAR)
			rf_text_byte(text, '*');
		else if (atom == RF_ATOM_GLOB)
			rf_text_add(text, "/**", 3);
		else if (atom == RF_ATOM_ANY && i + 1 < s->n && s->atoms[i + 1] == RF_ATOM_STAR &&
			 s->atoms[i - 1] == '/')
			continue; /* "*" alone, a name's first byte */
		else if (atom == RF_ATOM_ANY)
			rf_text_byte(text, '?');
		else if (atom >= RF_ATOM_SET)
			set_text(&sets->items[atom - RF_ATOM_SET], text);
		else
			quote(text, atom & 0xff, "\\*?[{}$~,");
	}
}
