/* SPDX-License-Identifier: BSD-2-Clause */
/* ringfence: the table of commands, and what they share. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "user/run.h"
#include "user/unenforced.h"

const struct command *const commands[] = {
	&command_run,	&command_ps,	  &command_events, &command_reload, &command_status,
	&command_check, &command_explain, &command_doctor, &command_help,   &command_version,
	NULL,
};

/* ---- options and help -------------------------------------------------- */

#define OPTIONS_MAX 16

static size_t count_options(const struct command *command)
{
	size_t n = 0;

	while (command->options[n].name)
		n++;
	return n;
}

static int bad_option(const struct command *command, const char *word)
{
	const char *names[OPTIONS_MAX + 1], *nearest = NULL;
	size_t n = count_options(command);

	if (!strncmp(word, "--", 2)) {
		for (size_t i = 0; i < n; i++)
			names[i] = command->options[i].name;
		names[n++] = "help";
		nearest = rf_nearest(word + 2, names, n);
	}
	if (nearest)
		command_misused(command, "there is no option %s; did you mean --%s?", word,
				nearest);
	else
		command_misused(command, "there is no option %s", word);
	return OPTIONS_BAD;
}

/* Is it the long option of this key with a value behind it, perhaps abbreviated? */
static bool is_with_value(const struct option *options, int key, const char *word)
{
	size_t length = strcspn(word, "=");

	if (strncmp(word, "--", 2) != 0 || !word[length])
		return false;
	for (; options->name; options++)
		if (options->val == key && !strncmp(options->name, word + 2, length - 2))
			return true;
	return false;
}

int command_getopt(const struct command *command, int argc, char **argv)
{
	struct option options[OPTIONS_MAX + 2] = {{NULL, 0, NULL, 0}};
	size_t n = count_options(command);
	char letters[32];
	int key;

	if (n > OPTIONS_MAX)
		n = OPTIONS_MAX;
	for (size_t i = 0; i < n; i++)
		options[i] = (struct option){command->options[i].name,
					     command->options[i].argument ? required_argument
									  : no_argument,
					     NULL, command->options[i].key};
	options[n] = (struct option){"help", no_argument, NULL, 'h'};

	/* "+": options end at the first argument. */
	opterr = 0;
	snprintf(letters, sizeof(letters), "%s:h%s", command->runs ? "+" : "",
		 command->letters ? command->letters : "");
	key = getopt_long(argc, argv, letters, options, NULL);
	switch (key) {
	case -1:
		return OPTIONS_DONE;
	case 'h':
		return OPTIONS_HELP;
	case ':':
		command_misused(command, "%s needs a value", argv[optind - 1]);
		return OPTIONS_BAD;
	case '?':
		if (!optopt)
			return bad_option(command, argv[optind - 1]);
		if (!is_with_value(options, optopt, argv[optind - 1]))
			return bad_option(command, (const char[]){'-', (char)optopt, '\0'});
		command_misused(command, "%.*s takes no value", (int)strcspn(argv[optind - 1], "="),
				argv[optind - 1]);
		return OPTIONS_BAD;
	default:
		return key;
	}
}

int command_getopt_end(const struct command *command, int key)
{
	if (key != OPTIONS_HELP)
		return command->usage_exit ? command->usage_exit : EXIT_USAGE;
	command_usage(command, stdout);
	return EXIT_OK;
}

static void print_option(FILE *to, const char *name, char letter, const char *argument,
			 const char *help)
{
	int width = fprintf(to, "  --%s%s%s", name, argument ? " " : "", argument ? argument : "");

	if (letter)
		width += fprintf(to, ", -%c", letter);

	if (width > 22)
		width = fprintf(to, "\n") - 1;
	fprintf(to, "%*s%s\n", 24 - width, "", help);
}

static char letter_of(const struct command *command, const struct command_option *option)
{
	return command->letters && strchr(command->letters, option->key) ? (char)option->key : 0;
}

void command_usage(const struct command *command, FILE *to)
{
	const struct command_option *option = command->options;

	fprintf(to, "usage: ringfence %s [OPTION]...%s%s\n\n%c%s.\n\n", command->name,
		*command->arguments ? " " : "", command->arguments,
		toupper((unsigned char)command->summary[0]), command->summary + 1);
	for (; option->name; option++)
		print_option(to, option->name, letter_of(command, option), option->argument,
			     option->help);
	print_option(to, "help", 0, NULL, "show this");
	if (command->about)
		fprintf(to, "\n%s", command->about);
}

static void usage(FILE *to)
{
	fputs("usage: ringfence COMMAND [OPTION]... [ARGUMENT]...\n\n"
	      "Confine AI-agent sessions from inside the kernel.\n\n",
	      to);
	for (size_t i = 0; commands[i]; i++)
		fprintf(to, "  %-10s%s\n", commands[i]->name, commands[i]->summary);
	fputs("\nringfence COMMAND --help says more, as do the man pages: man ringfence,\n"
	      "man ringfence-COMMAND.\n",
	      to);
}

const struct command *command_find(const char *name)
{
	const char *names[RF_COUNT(commands)], *nearest;
	size_t n = 0;

	for (; commands[n]; n++) {
		if (!strcmp(commands[n]->name, name))
			return commands[n];
		names[n] = commands[n]->name;
	}
	nearest = rf_nearest(name, names, n);
	if (nearest)
		say("there is no command \"%s\"; did you mean \"%s\"?", name, nearest);
	else
		say("there is no command \"%s\"; see ringfence --help", name);
	return NULL;
}

/* ---- help, version ------------------------------------------------------ */

static int run_help(const struct command *command, int argc, char **argv)
{
	const struct command *topic;
	int key = command_getopt(command, argc, argv);

	if (key != OPTIONS_DONE)
		return command_getopt_end(command, key);
	if (argc - optind > 1)
		return command_misused(command, "only one command can be asked for");
	if (argc == optind) {
		usage(stdout);
		return EXIT_OK;
	}
	topic = command_find(argv[optind]);
	if (!topic)
		return EXIT_USAGE;
	command_usage(topic, stdout);
	return EXIT_OK;
}

const struct command command_help = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "explain a command",
	.options = (const struct command_option[]){OPTION_END},
	.run = run_help,
};

static int run_version(const struct command *command, int argc, char **argv)
{
	bool json = false;
	int key;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		if (key != 'j')
			return command_getopt_end(command, key);
		json = true;
	}
	if (optind < argc)
		return command_misused(command, "takes no argument");
	if (json)
		return print_json(
			json_pack("{s:s, s:i}", "version", RF_VERSION, "abi", RF_ABI_VERSION),
			true);
	puts("ringfence " RF_VERSION);
	return EXIT_OK;
}

const struct command command_version = {
	.name = "version",
	.arguments = "",
	.summary = "print the version",
	.options = (const struct command_option[]){OPTION_JSON, OPTION_END},
	.run = run_version,
};

/* ---- main --------------------------------------------------------------- */

/* The README's copy of the list, in Markdown; not for users, hence in no help. */
static int print_unenforced(void)
{
	for (const struct rf_unenforced *u = rf_unenforced; u->area; u++)
		printf("- **%s**: %s.\n", u->area, u->text);
	return EXIT_OK;
}

static int dispatch(int argc, char **argv)
{
	const char *first = argc > 1 ? argv[1] : NULL;
	const struct command *command;

	if (!first) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(first, "--help") || !strcmp(first, "-h")) {
		usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(first, "--version") || !strcmp(first, "-V"))
		return run_version(&command_version, 1, argv);
	if (!strcmp(first, "--unenforced"))
		return print_unenforced();
	if (*first == '-') {
		say("there is no option %s before the command; see ringfence --help", first);
		return EXIT_USAGE;
	}
	command = command_find(first);
	if (!command)
		return EXIT_USAGE;
	return command->run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int r = rf_run_stdio();

	if (r < 0)
		return EXIT_FAILED;
	r = dispatch(argc, argv);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		say("cannot write the output: %s", strerror(errno));
		return r == EXIT_OK ? EXIT_FAILED : r;
	}
	return r;
}
