/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the commands of `ringfence` have in common: their table, options, help,
 * exit codes, and how they print. A new command is one file with one struct
 * command, named in commands[] (tools/main.c), with a man page and its
 * completion.
 */
#ifndef RF_TOOLS_COMMAND_H
#define RF_TOOLS_COMMAND_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "policy/diag.h"
#include "policy/policy.h"
#include "policy/util.h"
#include "user/cleanup.h"
#include "user/names.h"

enum exit_code {
	EXIT_OK,
	EXIT_FAILED, /* what was asked for did not work */
	EXIT_USAGE,
	EXIT_POLICY, /* invalid policy */
	EXIT_KERNEL, /* this kernel cannot enforce it */
	EXIT_RUN = 125, /* any failure of `run` itself; all else is the command's */
};

struct command_option {
	int key; /* what command_getopt() returns */
	const char *name; /* long option */
	const char *argument; /* NULL: takes none */
	const char *help;
};

struct command {
	const char *name;
	const char *arguments; /* behind the options, for the usage line */
	const char *summary;
	const char *about; /* text behind the options in --help; may be NULL */
	const struct command_option *options; /* ends with a NULL name; --help is added */
	int (*run)(const struct command *command, int argc, char **argv);
	int usage_exit; /* 0: EXIT_USAGE */
	const char *letters; /* keys of options without a value that are short options, too */
	bool runs; /* what follows the first argument belongs to the command that is run */
};

extern const struct command command_run, command_check, command_explain, command_ps, command_events,
	command_status, command_reload, command_doctor, command_help, command_version;
extern const struct command *const commands[]; /* ends with NULL */
const struct command *command_find(const char *name); /* NULL, with a message, if there is none */

#define OPTION_JSON                                                                                \
	{                                                                                          \
		'j', "json", NULL, "print JSON"                                                    \
	}
#define OPTION_END                                                                                 \
	{                                                                                          \
		0, NULL, NULL, NULL                                                                \
	}

/* The next option's key, its value in optarg; OPTIONS_DONE, then optind is the first argument. */
enum { OPTIONS_DONE = -1, OPTIONS_HELP = -2, OPTIONS_BAD = -3 };
int command_getopt(const struct command *command, int argc, char **argv);
/* For the other two of them: the exit code, help printed on OPTIONS_HELP. */
int command_getopt_end(const struct command *command, int key);
void command_usage(const struct command *command, FILE *to);

/* "ringfence CMD: message" and where help is found, on stderr; the exit code to return. */
__attribute__((format(printf, 2, 3))) int command_misused(const struct command *command,
							  const char *format, ...);
/* "ringfence: message" on stderr, control characters escaped. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Text that may hold anything, made clean by rf_clean(): a terminal must not obey it. */
void print_clean(const char *text, FILE *to);

/* Diagnostics of at least a severity on stderr; all as a JSON array (NULL on no memory). */
void print_diags(const struct rf_diags *diags, enum rf_severity least);
json_t *json_diags(const struct rf_diags *diags);

/* One JSON value and a newline on stdout; takes the value over. An exit code. */
int print_json(json_t *value, bool indent);

/* Strings of an object, "" or 0 where the member is missing or of another type. */
const char *json_text(const json_t *object, const char *name);
long long json_number(const json_t *object, const char *name);

/* ANSI colours: on a terminal, and not if NO_COLOR is set. */
bool use_colour(FILE *to);

/* Text in aligned columns. A cell is copied clean, what comes too late for a row is ignored. */
#define TABLE_COLUMNS 10
struct table {
	unsigned int columns;
	char **cells;
	size_t n, capacity;
	bool failed; /* no memory: table_print says so */
};
void table_row(struct table *table, const char *const cells[]);
int table_print(const struct table *table, FILE *to, const char *indent); /* an exit code */
void table_done(struct table *table);
#define _cleanup_table_ __attribute__((cleanup(table_done)))

/* ---- policies (tools/load.c) ------------------------------------------- */

/* What `run` can enforce, bits 1 << enum rf_feature: it refuses a policy that needs more. */
#define FEATURES_ENFORCED                                                                          \
	(1u << RF_FEATURE_NETWORK | 1u << RF_FEATURE_AUDITED_RULES | 1u << RF_FEATURE_LIMITS)

#define DEFAULT_POLICY "workspace-write"

struct load {
	const char *name; /* of the policy, or a path */
	const char *user; /* --user: whose home it is; NULL: the caller's */
	bool json; /* --json */
	const char *home; /* HOME of whom the policy is for; may be NULL */
	struct load_var {
		const char *text; /* NAME=VALUE, borrowed */
		bool used;
	} * vars;
	size_t n_vars, vars_capacity;
	const char *folder; /* the default of ${WORKSPACE}; NULL: the working directory */
	bool audit; /* whatever the policy says */
	bool stored; /* rules are told later, elsewhere: their files get absolute paths */
	unsigned int features; /* accepted; those that are not enforced become notes */
	struct rf_planter planter; /* for load_names() */
	/* The rest is what load_home() and load_policy() made. */
	char *workspace, *user_home;
	bool workspace_used; /* the policy names ${WORKSPACE} */
	char *file;
	struct rf_policy *policy;
	void *image;
	size_t size;
	struct rf_names names; /* load_names() */
};

/*
 * The options of commands that read a policy and start nothing, to be named among the
 * command's own: load_getopt() is command_getopt() and deals with these itself.
 */
#define OPTIONS_LOAD                                                                               \
	OPTION_JSON, {'u', "user", "USER", "whose home ~ is (default: yours)"},                    \
	{                                                                                          \
		'v', "var", "NAME=VALUE", "set a variable of the policy; may be repeated"          \
	}
int load_getopt(const struct command *command, int argc, char **argv, struct load *load);
/* After the options: set the home. 0, or -errno with diagnostics. */
int load_home(struct load *load, struct rf_diags *diags);

/* Note an argument of --var. False, with a message, if it is not NAME=VALUE or no place. */
bool load_var(const struct command *command, struct load *load, char *argument);
/* Set the workspace, and the home if --var does. 0, or -errno with diagnostics. */
int load_places(struct load *load, struct rf_diags *diags);
/* The value of a variable, NULL for none; after load_places(). `env`: of the environment. */
const char *load_variable(struct load *load, const char *name, bool env);
/* Find, parse and compile. 0, or -errno with diagnostics. */
int load_policy(struct load *load, struct rf_diags *diags);
void load_done(struct load *load);
#define _cleanup_load_ __attribute__((cleanup(load_done)))

/* ---- policies on their way to the daemon (tools/send.c) ------------------ */

struct rf_client;

/*
 * A workspace is writable. The root or a home as a workspace would hand over every key
 * and start file there is: -EPERM, with a diagnostic.
 */
int load_check_workspace(const struct load *load, struct rf_diags *diags);
bool load_audit(const struct load *load); /* will it only report? */
/* Collect the names with the caller's rights; raises the limit of descriptors. */
int load_names(struct load *load, struct rf_diags *diags);
/*
 * Send the names, then `request` (stolen; NULL: no memory) with what it has to say of the
 * policy, and the image. Otherwise as rf_client_call().
 */
int load_send(struct load *load, struct rf_client *client, json_t *request, struct rf_diags *diags,
	      json_t **ret_reply, int *ret_fd, int *ret_exit);
json_t *json_escaped(const char *text); /* NULL on no memory */

/* ---- the daemon (tools/daemon.c) --------------------------------------- */

/*
 * Connect to a daemon that runs. 0 with *ret_client NULL where none does and none is
 * missed; -errno with diagnostics, also where the kernel enforces but no daemon runs.
 */
int daemon_connect(struct rf_diags *diags, struct rf_client **ret_client);

#endif
