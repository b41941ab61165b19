/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The compiler's cost: time, peak memory, image and automaton for 100 and 10,000
 * path rules, random names and names as in projects; and how soon a set of patterns
 * that would explode is refused. Each case in a process of its own, so that the
 * peak is its own. Prints the table of RESULTS.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "policy/image.h"
#include "policy/policy.h"
#include "policy/util.h"

static const char *variable(void *userdata, const char *name, bool env)
{
	(void)userdata;
	(void)name;
	(void)env;
	return "/home/u";
}

/* The same numbers everywhere. */
static unsigned int next(unsigned int below)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (state >> 33) % below;
}

static size_t word(char *to, unsigned int length)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	for (unsigned int i = 0; i < length; i++)
		to[i] = letters[next(sizeof(letters) - 1)];
	to[length] = 0;
	return length;
}

static void add(struct rf_text *text, const char *line)
{
	rf_text_add(text, line, strlen(line));
}

/* Two to five names of four to ten bytes, nothing shared. */
static void random_path(struct rf_text *text)
{
	char name[16];

	for (unsigned int i = 2 + next(4); i; i--) {
		rf_text_byte(text, '/');
		rf_text_add(text, name, word(name, 4 + next(7)));
	}
}

/* Files of projects of a few people: /home/PERSON/projects/P/DIR/SUB/NAME.EXT */
static void real_path(struct rf_text *text)
{
	static char words[300][12];
	static const char *const people[] = {"alice", "bob", "carol"};
	static const char *const dirs[] = {"src", "lib", "tests", "docs"};
	static const char *const ends[] = {"py", "c", "h", "json"};
	char path[120];

	for (unsigned int i = 0; !**words && i < RF_COUNT(words); i++)
		if (i)
			word(words[i], 3 + next(7));
	if (!**words)
		word(words[0], 5);
	snprintf(path, sizeof(path), "/home/%s/projects/%s/%s/%s/%s.%s", people[next(3)],
		 words[next(300)], dirs[next(4)], words[next(300)], words[next(300)],
		 ends[next(4)]);
	add(text, path);
}

static void rules(struct rf_text *text, unsigned int n, void (*path)(struct rf_text *text))
{
	add(text, "ringfence: 1\nname: bench\nfiles:\n  - allow: [read, exec]\n    paths: [/usr]\n"
		  "  - allow: [read, write]\n    paths:\n");
	for (unsigned int i = 0; i < n; i++) {
		add(text, "      - ");
		path(text);
		rf_text_byte(text, '\n');
	}
}

static void globs(struct rf_text *text, unsigned int n)
{
	static const char *const patterns[] = {
		"**/.env",    "**/*.pem", "/home/*/.ssh/id_*", "**/.git/hooks", "**/.git/config",
		"**/.vscode", "**/*.key", "**/.npmrc",	       "**/.netrc",	"/home/*/.*rc",
	};

	add(text, "  - deny: all\n    paths:\n");
	for (unsigned int i = 0; i < n; i++) {
		add(text, "      - \"");
		add(text, patterns[i]);
		add(text, "\"\n");
	}
}

/* Many pieces of names, each with rights of its own: their combinations explode. */
static void explosion(struct rf_text *text)
{
	static const char *const rights[] = {"read", "modify", "create", "delete", "exec"};
	char line[100], name[8];

	add(text, "ringfence: 1\nname: bench\nfiles:\n");
	for (unsigned int i = 0; i < 60; i++) {
		word(name, 3);
		snprintf(line, sizeof(line), "  - { deny: %s, paths: [\"**/*%s*/**/*%s*\"] }\n",
			 rights[i % 5], name, name);
		add(text, line);
	}
}

static double seconds(const struct timeval *t)
{
	return t->tv_sec + t->tv_usec / 1e6;
}

static void run(const char *name, struct rf_text *text)
{
	const struct rf_policy_env env = {.variable = variable};
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	struct rusage usage;
	void *image = NULL;
	size_t size = 0;
	int r;

	r = rf_policy_parse("bench", text->text, text->n, &env, &diags, &policy);
	if (!r)
		r = rf_policy_compile(policy, &diags, &image, &size);
	if (!r)
		r = rf_image_verify(image, size, &diags);
	getrusage(RUSAGE_SELF, &usage);
	printf("| %-40s | %7.3f | %6.1f |", name,
	       seconds(&usage.ru_utime) + seconds(&usage.ru_stime), usage.ru_maxrss / 1024.0);
	if (r)
		printf(" refused |        | |\n");
	else
		printf(" %7.1f | %6u | %u |\n", size / 1024.0, ((struct rf_image *)image)->nstates,
		       ((struct rf_image *)image)->ncells);
	for (size_t i = 0; r && i < diags.n; i++)
		if (diags.items[i].severity == RF_ERROR)
			printf("\n%s: %.120s...\n", name, diags.items[i].message);
}

int main(void)
{
	static const struct {
		const char *name;
		unsigned int paths;
		void (*path)(struct rf_text *text); /* NULL: patterns that explode */
		unsigned int globs;
	} cases[] = {
		{"100 random paths", 100, random_path, 0},
		{"100 paths of projects", 100, real_path, 0},
		{"100 paths of projects, 3 globs after", 100, real_path, 3},
		{"2,000 paths of projects, 3 globs after", 2000, real_path, 3},
		{"4,000 paths of projects, 3 globs after", 4000, real_path, 3},
		{"4,000 paths of projects, 10 globs after", 4000, real_path, 10},
		{"10,000 random paths", 10000, random_path, 0},
		{"10,000 paths of projects", 10000, real_path, 0},
		{"10,000 paths of projects, 3 globs after", 10000, real_path, 3},
		{"10,000 paths of projects, 10 globs after", 10000, real_path, 10},
		{"10,000 random paths, 3 globs after", 10000, random_path, 3},
		{"60 patterns that explode", 0, NULL, 0},
	};
	int failed = 0;

	printf("| rules | CPU, s | peak, MiB | image, KiB | states | cells |\n"
	       "|---|---|---|---|---|---|\n");
	for (unsigned int i = 0; i < RF_COUNT(cases); i++) {
		int status;
		pid_t child;

		fflush(stdout);
		child = fork();
		if (!child) {
			struct rf_text text = {0};

			if (cases[i].path)
				rules(&text, cases[i].paths, cases[i].path);
			else
				explosion(&text);
			if (cases[i].globs)
				globs(&text, cases[i].globs);
			run(cases[i].name, &text);
			fflush(stdout);
			_exit(0);
		}
		failed |= child < 0 || waitpid(child, &status, 0) < 0 || status;
	}
	return failed;
}
