/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `ringfence explain` says, to many questions in one process: a thousand starts of a
 * program take minutes in an emulated machine.
 *
 *   judge POLICY, with lines "OP OBJECT" on stdin (\xNN in it is a byte)
 *
 * Each is answered by "VERDICT[ would-...]", then TAB and "LINE FILE<TAB>TEXT" of the rule,
 * as in events, that decides, or "default", then the same of the audited one if there is one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/explain.h"
#include "policy/policy.h"
#include "user/text.h"
#include "selftests/live/unescape.h"

static const char *variable(void *userdata, const char *name, bool env)
{
	(void)userdata;
	(void)name;
	(void)env;
	return NULL;
}

static void print_rule(const void *image, uint32_t n)
{
	struct rf_image_rule rule;
	char *text;

	if (!rf_image_rule(image, n, &rule)) {
		printf("\tdefault");
		return;
	}
	text = rf_escape(rule.text, strlen(rule.text));
	printf("\t%u %s\t%s", rule.line, rule.file, text ?: "");
	free(text);
}

static int answer(const void *image, const char *op, char *object)
{
	struct rf_arena arena = {0};
	struct rf_pattern_error error;
	struct rf_object parsed;
	struct rf_explanation e;
	__u8 audited;
	int r;

	unescape(object);
	r = rf_object_parse(op, object, &arena, &parsed, &error);
	if (!r)
		r = rf_explain_object(image, &parsed, &e);
	rf_arena_done(&arena);
	if (r) {
		fprintf(stderr, "judge: %s %s: %s\n", op, object, strerror(-r));
		return 1;
	}
	audited = rf_verdict_audited(&e.verdict);
	printf("%s%s",
	       !e.verdict.missing		     ? "allow"
	       : e.verdict.missing == e.verdict.want ? "deny"
						     : "partly",
	       audited == RF_WOULD_DENY	   ? " would-deny"
	       : audited == RF_WOULD_ALLOW ? " would-allow"
					   : "");
	print_rule(image, e.has_rule ? e.verdict.rule : 0);
	if (audited)
		print_rule(image, e.verdict.audited_rule);
	putchar('\n');
	return 0;
}

static char *read_all(const char *path, size_t *ret_size)
{
	FILE *file = fopen(path, "re");
	char *text = malloc(1 << 20);

	if (!file || !text) {
		fprintf(stderr, "judge: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	*ret_size = fread(text, 1, 1 << 20, file);
	fclose(file);
	return text;
}

int main(int argc, char **argv)
{
	static const struct rf_policy_env env = {
		.variable = variable,
		.features = RF_ALL_FEATURES,
	};
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	size_t size, room = 0, image_size;
	char *text, *line = NULL;
	void *image = NULL;
	int r;

	if (argc != 2)
		return 2;
	text = read_all(argv[1], &size);
	r = rf_policy_parse(argv[1], text, size, &env, &diags, &policy);
	if (!r)
		r = rf_policy_compile(policy, &diags, &image, &image_size);
	if (r) {
		fprintf(stderr, "judge: %s is no policy\n", argv[1]);
		return 1;
	}
	while (!r && getline(&line, &room, stdin) > 0) {
		char *object = strchr(line, ' ');

		line[strcspn(line, "\n")] = '\0';
		if (!object)
			return 2;
		*object++ = '\0';
		r = answer(image, line, object);
	}
	free(line);
	free(image);
	free(text);
	rf_policy_free(policy);
	rf_diags_done(&diags);
	return r;
}
