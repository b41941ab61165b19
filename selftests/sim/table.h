/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verdict tables, *.verdicts: policies and acts.
 *
 *	| ringfence: 1                          the policy's lines, behind "| "
 *	read  /usr/bin/ls  allow 5              op, object, verdict, line of the rule
 *	write /usr/bin/ls  deny default         or "default"; or "partly" of its rights
 *	read  /etc = /x    allow 5 would-deny 9 names of one object; what audited rules
 *	                                        would change, and the line of theirs
 *
 * A "|" after an act begins another policy; # begins a comment. In an object \xNN is
 * a byte. Each policy is compiled in groups of its paths as well (policy/rules.h): the
 * verdicts must be the same. HOME is /home/u, WORKSPACE is /home/u/w, ${env:NAME} has no values. A policy
 * can extend the shipped profiles.
 */
#ifndef RF_SELFTESTS_TABLE_H
#define RF_SELFTESTS_TABLE_H

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/explain.h"
#include "policy/image.h"
#include "policy/policy.h"
#include "policy/rules.h"

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
	size_t size;
	void *grouped; /* the same, path rules in groups */
	char why[512];
	char warning[512]; /* the first: "LINE: message" */
};

/* What an act is done to: an address, or a file by one or several names. */
#define NAMES 4
struct names {
	struct rf_object object; /* its path is the first name */
	const char *paths[NAMES];
	size_t n;
};

/* How an act is judged: by the host's code, or by the same code in the kernel. */
typedef int judge_function(const struct subject *s, const struct names *names,
			   struct rf_explanation *ret_explanation);
static judge_function *t_judge;

static int judge_on_host(const struct subject *s, const struct names *names,
			 struct rf_explanation *ret_explanation)
{
	if (!names->object.rights)
		return rf_explain_net(s->image, &names->object.target, ret_explanation);
	return rf_explain(s->image, names->object.rights, names->paths, names->n, ret_explanation);
}

static void clear(struct subject *s)
{
	free(s->image);
	free(s->grouped);
	s->image = s->grouped = NULL;
}

/* From text to an image that passed the verifier. */
static void compile(struct subject *s, const char *file, const char *text, size_t n)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	size_t size;
	int r;

	clear(s);
	*s->why = *s->warning = 0;
	r = rf_policy_parse(file, text, n, &env, &diags, &policy);
	if (!r)
		r = rf_policy_compile(policy, &diags, &s->image, &s->size);
	if (!r)
		r = rf_image_verify(s->image, s->size, &diags);
	for (size_t i = 0; i < diags.n && !*s->warning; i++)
		if (diags.items[i].severity == RF_WARNING)
			snprintf(s->warning, sizeof(s->warning), "%u: %s", diags.items[i].line,
				 diags.items[i].message);
	if (!r)
		r = rf_policy_compile_without(policy, 0, true, &diags, &s->grouped, &size);
	if (!r)
		r = rf_image_verify(s->grouped, size, &diags);
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

/* "NAME" or "NAME = NAME". */
static int parse_names(const char *op, char *text, struct rf_arena *arena, struct names *ret_names,
		       struct rf_pattern_error *error)
{
	struct names names = {0};
	int r;

	for (char *next = text; next; text = next) {
		struct rf_object object;

		next = strstr(text, " = ");
		if (next) {
			*next = 0;
			next += strlen(" = ");
		}
		unescape(text);
		if (names.n == NAMES)
			return -E2BIG;
		r = rf_object_parse(op, text, arena, &object, error);
		if (r)
			return r;
		if (!names.n)
			names.object = object;
		names.paths[names.n++] = object.path;
	}
	*ret_names = names;
	return 0;
}

/* Is it the same as in groups? */
static bool same_grouped(const struct subject *s, const struct names *names,
			 const struct rf_verdict *v)
{
	const struct subject grouped = {.image = s->grouped};
	struct rf_explanation e;

	return !judge_on_host(&grouped, names, &e) && e.verdict.missing == v->missing &&
	       e.verdict.reason == v->reason && e.verdict.name == v->name &&
	       rf_verdict_audited(&e.verdict) == rf_verdict_audited(v);
}

/* " would-deny 9", or nothing. */
static void add_audited(const struct subject *s, const struct rf_verdict *v, char *out, size_t size)
{
	__u8 audited = rf_verdict_audited(v);
	struct rf_image_rule rule;

	if (audited && rf_image_rule(s->image, v->audited_rule, &rule))
		snprintf(out, size, " %s %u",
			 audited == RF_WOULD_DENY ? "would-deny" : "would-allow", rule.line);
}

/* "allow 5", "deny default", or what is wrong with the question. */
static void answer(const struct subject *s, const char *op, char *object, char *out, size_t size)
{
	struct rf_arena arena = {0};
	struct rf_pattern_error error = {0};
	struct rf_explanation e;
	struct names names;

	if (!s->image)
		snprintf(out, size, "no policy");
	else if (parse_names(op, object, &arena, &names, &error))
		snprintf(out, size, "error %s", error.message);
	else if (t_judge(s, &names, &e))
		snprintf(out, size, "error no path");
	else if (!same_grouped(s, &names, &e.verdict))
		snprintf(out, size, "error other in groups");
	else {
		int n = snprintf(out, size, "%s ",
				 !e.verdict.missing		       ? "allow"
				 : e.verdict.missing == e.verdict.want ? "deny"
								       : "partly");

		if (e.has_rule)
			n += snprintf(out + n, size - n, "%u", e.rule.line);
		else
			n += snprintf(out + n, size - n, "default");
		add_audited(s, &e.verdict, out + n, size - n);
	}
	rf_arena_done(&arena);
}

struct table {
	struct subject subject;
	char *text; /* of the policy, as far as it was read */
	size_t n, capacity;
	unsigned int failures, acts, policies;
};

/* Where the last word of `text` begins that ends before `end`; NULL if it is the first. */
static char *word_before(char *text, char *end)
{
	while (end > text && end[-1] == ' ')
		end--;
	while (end > text && end[-1] != ' ')
		end--;
	return end > text ? end : NULL;
}

/* "op object verdict rule [would-... rule]": the object may hold blanks. */
static bool split(char *line, char **op, char **object, char **expected)
{
	char *verdict = NULL, *end;

	*op = line;
	*object = line + strcspn(line, " \t");
	if (!**object)
		return false;
	*(*object)++ = 0;
	*object += strspn(*object, " \t");
	end = *object + strlen(*object);
	do {
		char *rule = word_before(*object, end);

		verdict = rule ? word_before(*object, rule) : NULL;
		end = verdict;
	} while (verdict && !strncmp(verdict, "would-", strlen("would-")));
	if (!verdict)
		return false;
	*expected = verdict;
	for (end = verdict; end[-1] == ' ';)
		*--end = 0;
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

#endif
