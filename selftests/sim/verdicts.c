/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verdict tables on the host: every *.verdicts here, through the code that decides in
 * the kernel; and the shipped policies of policy/profiles and policy/examples, which
 * run their own `tests` and get no warning.
 *
 * With "-": policies and acts by other tests, on standard input.
 *	P SIZE NEWLINE policy                   answered by "ok" or "error" and why
 *	W SIZE NEWLINE policy                   the same, behind "ok" the first warning
 *	Q OP OBJECT NEWLINE                     answered as in a table, after "= "
 */
#include "selftests/sim/table.h"

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
		if (strchr("PW", *line) && sscanf(line + 1, " %zu", &size) == 1 &&
		    size < 16u << 20) {
			bool warnings = *line == 'W';

			free(text);
			text = malloc(size + 1);
			if (!text || fread(text, 1, size, stdin) != size)
				return 1;
			compile(&subject, "policy", text, size);
			if (subject.image)
				printf("ok%s%s\n", warnings ? " " : "",
				       warnings ? subject.warning : "");
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
	t_judge = judge_on_host;
	return argc > 1 && !strcmp(argv[1], "-") ? serve() : run_all();
}
