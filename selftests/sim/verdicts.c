/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verdict tables on the host: every selftests/sim/ *.verdicts, through the code
 * that decides in the kernel. A table is policies and acts:
 *
 *	| ringfence: 1                          the policy's lines, behind "| "
 *	read  /usr/bin/ls  allow 5              op, object, verdict, line of the rule
 *	write /usr/bin/ls  deny default         or "default"; or "partly" of its rights
 *
 * A "|" after an act begins another policy; # begins a comment. In an object \xNN is
 * a byte. HOME is /home/u, WORKSPACE is /home/u/w, ${env:NAME} has no values.
 *
 * The shipped policies, policy/{profiles,examples}/ *.yaml, run their own `tests`, and
 * get no warning. A table can extend them.
 *
 * With "-": policies and acts by other tests, on standard input.
 *	P SIZE NEWLINE policy                   answered by "ok" or "error" and why
 *	Q OP OBJECT NEWLINE                     answered as in a table, after "= "
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/explain.h"
#include "policy/image.h"
#include "policy/policy.h"

static const char *variable(void *userdata, const char *name, bool env)
{
	(void)userdata;
	if (!env && !strcmp(name, "HOME"))
		return "/home/u";
	return !env && !strcmp(name, "WORKSPACE") ? "/home/u/w" : NULL;
}

static char *read_file(const char *path, size_t *ret_size)
{
	FILE *file = fopen(path, "re");
	size_t n = 0, capacity = 1 << 17;
	char *text = malloc(capacity);

	if (!text)
		abort();
	if (file) {
		n = fread(text, 1, capacity, file);
		fclose(file);
	}
	*ret_size = n;
	return text;
}

static int profile(void *userdata, const char *name, const char *from, char **ret_file,
		   char **ret_text, size_t *ret_size)
{
	char path[200];

	(void)userdata;
	(void)from;
	snprintf(path, sizeof(path), "policy/profiles/%s.yaml", name);
	*ret_file = strdup(path);
	*ret_text = read_file(path, ret_size);
	return 0;
}

static const struct rf_policy_env env = {
	.variable = variable,
	.parent = profile,
	.features = RF_ALL_FEATURES,
};

struct subject {
	void *image; /* NULL: not yet, or the policy has errors */
	char why[512];
};

static void clear(struct subject *s)
{
	free(s->image);
	s->image = NULL;
}

/* From text to an image that passed the verifier. */
static void compile(struct subject *s, const char *file, const char *text, size_t n)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	size_t size;
	int r;

	clear(s);
	*s->why = 0;
	r = rf_policy_parse(file, text, n, &env, &diags, &policy);
	if (!r)
		r = rf_policy_compile(policy, &diags, &s->image, &size);
	if (!r)
		r = rf_image_verify(s->image, size, &diags);
	for (size_t i = 0; r && i < diags.n; i++) {
		char *line = rf_diag_text(&diags.items[i]);

		if (line && diags.items[i].severity == RF_ERROR && !*s->why)
			snprintf(s->why, sizeof(s->why), "%s", line);
		free(line);
	}
	if (r)
		clear(s);
	rf_policy_free(policy);
	rf_diags_done(&diags);
}

static void unescape(char *text)
{
	char *to = text;
	unsigned int byte;

	for (const char *from = text; *from;) {
		if (from[0] == '\\' && from[1] == 'x' && sscanf(from + 2, "%2x", &byte) == 1) {
			*to++ = byte;
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
}

/* "allow 5", "deny default", or what is wrong with the question. */
static void answer(const struct subject *s, const char *op, char *object, char *out, size_t size)
{
	struct rf_arena arena = {0};
	struct rf_pattern_error error;
	struct rf_object parsed;
	struct rf_explanation e;

	unescape(object);
	if (!s->image)
		snprintf(out, size, "no policy");
	else if (rf_object_parse(op, object, &arena, &parsed, &error))
		snprintf(out, size, "error %s", error.message);
	else if (rf_explain_object(s->image, &parsed, &e))
		snprintf(out, size, "error no path");
	else {
		int n = snprintf(out, size, "%s ",
				 !e.verdict.missing		       ? "allow"
				 : e.verdict.missing == e.verdict.want ? "deny"
								       : "partly");

		if (e.has_rule)
			snprintf(out + n, size - n, "%u", e.rule.line);
		else
			snprintf(out + n, size - n, "default");
	}
	rf_arena_done(&arena);
}

struct table {
	struct subject subject;
	char *text; /* of the policy, as far as it was read */
	size_t n, capacity;
	unsigned int failures, acts, policies;
};

/* "op object verdict rule": the object may hold blanks. */
static bool split(char *line, char **op, char **object, char **expected)
{
	char *end, *verdict;

	*op = line;
	*object = line + strcspn(line, " \t");
	if (!**object)
		return false;
	*(*object)++ = 0;
	*object += strspn(*object, " \t");
	end = strrchr(*object, ' ');
	if (!end)
		return false;
	while (end > *object && end[-1] == ' ')
		memmove(end - 1, end, strlen(end) + 1), end--;
	*end = 0;
	verdict = strrchr(*object, ' ');
	*end = ' ';
	if (!verdict)
		return false;
	*expected = verdict + 1;
	while (verdict > *object && verdict[-1] == ' ')
		verdict--;
	*verdict = 0;
	return true;
}

static void run_line(struct table *t, const char *path, unsigned int number, char *line)
{
	char *op, *object, *expected, got[200];

	line[strcspn(line, "\n")] = 0;
	if (!*line || *line == '#')
		return;
	if (*line == '|') {
		const char *text = line + 1 + (line[1] == ' ');
		size_t length = strlen(text);

		if (t->subject.image || *t->subject.why)
			t->n = 0;
		clear(&t->subject);
		*t->subject.why = 0;
		if (rf_grow(&t->text, &t->capacity, t->n + length + 2, 1))
			abort();
		memcpy(t->text + t->n, text, length);
		t->n += length;
		t->text[t->n++] = '\n';
		return;
	}
	if (!t->subject.image && !*t->subject.why) {
		compile(&t->subject, path, t->text, t->n);
		t->policies++;
		if (!t->subject.image)
			printf("# %s:%u: %s\n", path, number, t->subject.why);
	}
	t->acts++;
	if (!split(line, &op, &object, &expected)) {
		printf("# %s:%u: not an act: %s\n", path, number, line);
		t->failures++;
		return;
	}
	answer(&t->subject, op, object, got, sizeof(got));
	if (!strcmp(got, expected))
		return;
	printf("# %s:%u: %s %s is \"%s\", not \"%s\"\n", path, number, op, object, got, expected);
	t->failures++;
}

static bool run_table(const char *path)
{
	struct table t = {0};
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t capacity = 0;
	unsigned int number = 0;

	if (!file) {
		printf("# %s: %s\n", path, strerror(errno));
		return false;
	}
	while (getline(&line, &capacity, file) >= 0)
		run_line(&t, path, ++number, line);
	if (!t.acts) {
		printf("# %s: no acts\n", path);
		t.failures++;
	}
	printf("# %s: %u policies, %u acts\n", path, t.policies, t.acts);
	free(line);
	free(t.text);
	clear(&t.subject);
	fclose(file);
	return !t.failures;
}

/* A policy as it is shipped: no warning, and its own tests pass. */
static bool run_shipped(const char *path)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	void *image = NULL;
	size_t size, n = 0;
	char *text = read_file(path, &size);
	int r;

	r = rf_policy_parse(path, text, size, &env, &diags, &policy);
	if (!r)
		r = rf_policy_compile(policy, &diags, &image, &size);
	if (!r)
		r = rf_image_verify(image, size, &diags);
	if (!r)
		r = rf_policy_test(policy, image, &diags, &n);
	for (size_t i = 0; i < diags.n; i++) {
		char *line = rf_diag_text(&diags.items[i]);

		printf("# %s\n", line ? line : "");
		free(line);
	}
	printf("# %s: %zu tests\n", path, n);
	if (diags.n)
		r = -1;
	free(image);
	free(text);
	rf_policy_free(policy);
	rf_diags_done(&diags);
	return !r;
}

static int run_all(void)
{
	static const struct {
		const char *pattern;
		bool (*run)(const char *path);
	} kinds[] = {
		{"selftests/sim/*.verdicts", run_table},
		{"policy/profiles/*.yaml", run_shipped},
		{"policy/examples/*.yaml", run_shipped},
	};
	size_t n = 0;
	int failed = 0;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		glob_t found;

		if (glob(kinds[k].pattern, 0, NULL, &found)) {
			printf("Bail out! nothing in %s\n", kinds[k].pattern);
			return 1;
		}
		for (size_t i = 0; i < found.gl_pathc; i++) {
			bool good = kinds[k].run(found.gl_pathv[i]);

			printf("%s %zu - %s\n", good ? "ok" : "not ok", ++n, found.gl_pathv[i]);
			failed += !good;
		}
		globfree(&found);
	}
	printf("1..%zu\n", n);
	return failed != 0;
}

static int serve(void)
{
	struct subject subject = {0};
	char *line = NULL, *text = NULL;
	size_t capacity = 0, size;

	while (getline(&line, &capacity, stdin) >= 0) {
		char *op = line + 2, *object, out[600];

		line[strcspn(line, "\n")] = 0;
		if (*line == 'P' && sscanf(line, "P %zu", &size) == 1 && size < 16u << 20) {
			free(text);
			text = malloc(size + 1);
			if (!text || fread(text, 1, size, stdin) != size)
				return 1;
			compile(&subject, "policy", text, size);
			if (subject.image)
				puts("ok");
			else
				printf("error %s\n", subject.why);
		} else if (*line == 'Q' && (object = strchr(op, ' '))) {
			*object++ = 0;
			answer(&subject, op, object, out, sizeof(out));
			printf("= %s\n", out);
		} else {
			return 2;
		}
		fflush(stdout);
	}
	free(line);
	free(text);
	clear(&subject);
	return 0;
}

int main(int argc, char **argv)
{
	return argc > 1 && !strcmp(argv[1], "-") ? serve() : run_all();
}
