/* SPDX-License-Identifier: BSD-2-Clause */
/* ringfence ps: the sessions there are. */
#include <string.h>
#include <time.h>

#include "tools/command.h"
#include "user/client.h"

static const struct command_option options[] = {
	OPTION_JSON,
	OPTION_END,
};

/* How long ago an RFC 3339 time in UTC was, in the largest unit that fits. */
static char *age(const char *started)
{
	struct tm tm = {0};
	const char *rest = strptime(started, "%Y-%m-%dT%H:%M:%S", &tm);
	long long seconds = rest ? (long long)(time(NULL) - timegm(&tm)) : 0;
	char *text;
	int n;

	if (!rest)
		n = asprintf(&text, "?");
	else if (seconds < 120)
		n = asprintf(&text, "%llds", seconds);
	else if (seconds < 120 * 60)
		n = asprintf(&text, "%lldm", seconds / 60);
	else if (seconds < 48 * 3600)
		n = asprintf(&text, "%lldh", seconds / 3600);
	else
		n = asprintf(&text, "%lldd", seconds / 86400);
	return n < 0 ? NULL : text;
}

static char *joined(const json_t *words)
{
	_cleanup_text_ struct rf_text text = {0};
	const json_t *word;
	size_t i;

	json_array_foreach (words, i, word) {
		const char *w = json_string_value(word);

		if (i)
			rf_text_byte(&text, ' ');
		if (w)
			rf_text_add(&text, w, strlen(w));
	}
	rf_text_byte(&text, 0);
	return text.failed ? NULL : rf_steal(&text.text);
}

/* Of a session whose state could not be read, not much is known. */
static char *command_text(const json_t *session)
{
	const char *file = json_string_value(json_object_get(session, "unreadable"));
	char *text;

	if (!file)
		return joined(json_object_get(session, "command"));
	return asprintf(&text, "(its state %s cannot be read)", file) < 0 ? NULL : text;
}

static char *number(const json_t *object, const char *name)
{
	char *text;

	return asprintf(&text, "%lld", json_number(object, name)) < 0 ? NULL : text;
}

/* Under both modes: a session may have had a policy of the other one. */
static char *denials(const json_t *counters)
{
	char *text;

	return asprintf(&text, "%lld",
			json_number(counters, "denied") + json_number(counters, "would_deny")) < 0
		       ? NULL
		       : text;
}

static int print_sessions(const json_t *sessions)
{
	_cleanup_table_ struct table table = {.columns = 9};
	const json_t *session;
	size_t i;

	table_row(&table, (const char *const[]){"SESSION", "POLICY", "MODE", "USER", "PID", "TASKS",
						"DENIED", "AGE", "COMMAND"});
	json_array_foreach (sessions, i, session) {
		const json_t *counters = json_object_get(session, "counters");
		const char *mode = json_text(session, "mode"), *user = json_text(session, "user");
		_cleanup_free_ char *pid = number(session, "pid"),
				    *tasks = number(session, "tasks"),
				    *uid = number(session, "uid"), *denied = denials(counters),
				    *since = age(json_text(session, "started")),
				    *command = command_text(session);

		if (!pid || !tasks || !uid || !denied || !since || !command) {
			table.failed = true;
			break;
		}
		table_row(&table, (const char *const[]){json_text(session, "session"),
							json_text(session, "policy"), mode,
							*user ? user : uid, pid, tasks, denied,
							since, command});
	}
	return table_print(&table, stdout, "");
}

static int run_ps(const struct command *command, int argc, char **argv)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_json_ json_t *reply = NULL;
	struct rf_client *client = NULL;
	json_t *sessions;
	bool json = false;
	int key, r;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		if (key != 'j')
			return command_getopt_end(command, key);
		json = true;
	}
	if (optind < argc)
		return command_misused(command, "takes no argument");

	r = daemon_connect(&diags, &client);
	if (r == 0 && client)
		r = rf_client_call(client, json_pack("{s:s}", "op", "list"), NULL, 0, &diags,
				   &reply, NULL, NULL);
	rf_client_close(client);
	print_diags(&diags, RF_NOTE);
	if (r < 0)
		return EXIT_FAILED;
	sessions = json_object_get(reply, "sessions");
	if (json)
		return print_json(sessions ? json_incref(sessions) : json_array(), true);
	return print_sessions(sessions);
}

const struct command command_ps = {
	.name = "ps",
	.arguments = "",
	.summary = "list the sessions",
	.about = "DENIED counts what was denied, and what would have been in audit mode.\n",
	.options = options,
	.run = run_ps,
};
