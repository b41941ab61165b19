/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringfence events: what sessions did. The daemon tells; where none runs, the
 * logs that it left are read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/command.h"
#include "user/client.h"
#include "user/control.h"
#include "user/event.h"

enum { KEY_FOLLOW = 'f', KEY_SESSION = 's', KEY_VERDICT = 'v', KEY_OP = 'o', KEY_PATH = 'p' };

static const struct command_option options[] = {
	{KEY_FOLLOW, "follow", NULL, "go on with new events"},
	{KEY_SESSION, "session", "SESSION", "only this session, as the argument is"},
	{KEY_VERDICT, "verdict", "VERDICT", "only deny, would-deny, allow, ...; may be repeated"},
	{KEY_OP, "op", "OP", "only this operation: open, exec, ...; may be repeated"},
	{KEY_PATH, "path", "PATH",
	 "only this path and what is below; with * ? [ a glob,\n"
	 "                        whose * also matches /; may be repeated"},
	OPTION_JSON,
	OPTION_END,
};

#define VALUES_MAX 16

/* The values of an option that may be repeated; none: any. */
struct values {
	const char *value[VALUES_MAX];
	size_t n;
};

struct events {
	const char *session; /* NULL: any */
	struct values verdicts, ops, paths;
	bool follow, json, colour;
};

static bool is_any(const struct values *values, const char *text)
{
	bool is = !values->n;

	for (size_t i = 0; !is && i < values->n; i++)
		is = !strcmp(values->value[i], text);
	return is;
}

/* A path with everything below it, as in a policy; or a glob. */
static bool covers(const char *wanted, const char *path)
{
	size_t length = strlen(wanted);

	if (strpbrk(wanted, "*?["))
		return !fnmatch(wanted, path, FNM_NOESCAPE);
	while (length > 1 && wanted[length - 1] == '/')
		length--;
	return length && !strncmp(wanted, path, length) &&
	       (wanted[length - 1] == '/' || !path[length] || path[length] == '/');
}

static bool is_covered(const struct values *paths, const char *path)
{
	bool is = !paths->n;

	for (size_t i = 0; !is && i < paths->n; i++)
		is = covers(paths->value[i], path);
	return is;
}

static bool wanted(const struct events *events, const json_t *event)
{
	const char *op = json_text(event, "op");

	/* A loss hides events that might have been wanted: it is always shown. */
	if (!strcmp(op, "lost"))
		return true;
	return is_any(&events->verdicts, json_text(event, "verdict")) && is_any(&events->ops, op) &&
	       is_covered(&events->paths, json_text(event, "path"));
}

static void on_event(void *userdata, json_t *event)
{
	const struct events *events = userdata;
	_cleanup_free_ char *text = NULL;

	if (!wanted(events, event))
		return;
	text = events->json ? json_dumps(event, JSON_COMPACT)
			    : rf_event_text(event, events->colour);
	if (!text) {
		say("no memory for an event");
		return;
	}
	puts(text);
	if (events->follow)
		fflush(stdout);
}

/* ---- from the daemon -------------------------------------------------------- */

static int from_daemon(struct events *events, struct rf_client *client, struct rf_diags *diags)
{
	_cleanup_json_ json_t *reply = NULL;
	json_t *request =
		json_pack("{s:s, s:b, s:b}", "op", "events", "follow", events->follow, "past", 1);
	int r;

	if (events->session)
		json_object_set_new(request, "session", json_string(events->session));
	rf_client_on_event(client, on_event, events);
	r = rf_client_call(client, request, NULL, 0, diags, &reply, NULL, NULL);
	while (r >= 0 && !ferror(stdout)) {
		r = rf_client_dispatch(client);
		if (r == 0)
			return 0;
		if (r < 0)
			rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "ringfenced has gone");
	}
	return r;
}

/* ---- from the logs ---------------------------------------------------------- */

struct log {
	char *path;
	struct timespec written;
};

static int by_time(const void *a, const void *b)
{
	const struct timespec *x = &((const struct log *)a)->written,
			      *y = &((const struct log *)b)->written;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static int read_log(struct events *events, const char *path, struct rf_diags *diags)
{
	FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	unsigned int number = 0;
	size_t size = 0;
	ssize_t n;

	if (!file)
		return -errno;
	while ((n = getline(&line, &size, file)) > 0) {
		_cleanup_json_ json_t *event = json_loadb(line, (size_t)n, 0, NULL);

		number++;
		if (event)
			on_event(events, event);
		else
			rf_diag(diags, RF_WARNING, path, number, 0, NULL, "not an event");
	}
	fclose(file);
	return 0;
}

static int all_logs(struct log **ret_logs, size_t *ret_n)
{
	_cleanup_dir_ DIR *dir = opendir(RF_LOG_DIR);
	struct log *logs = NULL;
	size_t n = 0, capacity = 0;
	const struct dirent *entry;
	struct stat st;
	int r = 0;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (r == 0 && (entry = readdir(dir))) {
		if (fnmatch("*.jsonl", entry->d_name, 0) ||
		    fstatat(dirfd(dir), entry->d_name, &st, 0) < 0)
			continue;
		r = rf_grow(&logs, &capacity, n + 1, sizeof(*logs));
		if (r == 0 && asprintf(&logs[n].path, RF_LOG_DIR "/%s", entry->d_name) < 0)
			r = -ENOMEM;
		if (r == 0)
			logs[n++].written = st.st_mtim;
	}
	*ret_logs = logs;
	*ret_n = n;
	return r;
}

/* Session after session, the one last heard of at the end. */
static int from_logs(struct events *events, struct rf_diags *diags)
{
	struct log *logs = NULL;
	size_t n = 0;
	int r;

	if (events->session) {
		_cleanup_free_ char *path = NULL;

		if (strchr(events->session, '/'))
			return -ENOENT;
		if (asprintf(&path, RF_LOG_DIR "/%s.jsonl", events->session) < 0)
			return -ENOMEM;
		return read_log(events, path, diags);
	}
	r = all_logs(&logs, &n);
	if (r == 0 && n)
		qsort(logs, n, sizeof(*logs), by_time);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = read_log(events, logs[i].path, diags);
		free(logs[i].path);
	}
	free(logs);
	return r;
}

static bool is_op(const char *name)
{
	if (!strcmp(name, "lost"))
		return true;
	for (unsigned int op = RF_OP_NONE + 1; op < RF_OPS; op++)
		if (!strcmp(name, rf_op_name(op)))
			return true;
	return false;
}

static int misused_op(const struct command *command, const char *name)
{
	_cleanup_text_ struct rf_text all = {0};

	for (unsigned int op = RF_OP_NONE + 1; op < RF_OPS; op++) {
		rf_text_add(&all, rf_op_name(op), strlen(rf_op_name(op)));
		rf_text_add(&all, ", ", 2);
	}
	rf_text_add(&all, "lost", sizeof("lost"));
	return command_misused(command, "there is no operation %s: %s", name,
			       all.failed ? "see the man page" : all.text);
}

static bool is_verdict(const char *name)
{
	if (!strcmp(name, "lost"))
		return true;
	for (unsigned int i = 0; i < RF_DECISIONS; i++)
		if (!strcmp(name, rf_decision_name(i)))
			return true;
	return false;
}

/* Paths are absolute, but for those of objects that have none: "memfd:NAME", "pipe:[1]". */
static bool may_be_path(const char *wanted)
{
	static const char *const kinds[] = {"memfd",	  "pipe",  "socket",
					    "anon_inode", "tmpfs", "detached"};

	if (*wanted && strchr("/*?[", *wanted))
		return true;
	for (size_t i = 0; i < RF_COUNT(kinds); i++)
		if (!strncmp(wanted, kinds[i], strlen(kinds[i])))
			return true;
	return false;
}

/* Note one more value of an option; 0 or the exit code. */
static int add_value(const struct command *command, int key, struct events *events)
{
	struct values *values = key == KEY_VERDICT ? &events->verdicts
				: key == KEY_OP	   ? &events->ops
						   : &events->paths;

	if (key == KEY_VERDICT && !is_verdict(optarg))
		return command_misused(
			command,
			"there is no verdict %s: deny, would-deny, allow, would-allow, lost",
			optarg);
	if (key == KEY_OP && !is_op(optarg))
		return misused_op(command, optarg);
	if (key == KEY_PATH && !may_be_path(optarg))
		return command_misused(
			command, "no path of an event begins as %s does: begin it with / or *",
			optarg);
	if (values->n == VALUES_MAX)
		return command_misused(command, "an option is given more than %d times",
				       VALUES_MAX);
	values->value[values->n++] = optarg;
	return EXIT_OK;
}

static int run_events(const struct command *command, int argc, char **argv)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	struct rf_client *client = NULL;
	struct events events = {.colour = use_colour(stdout)};
	int key, r;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		switch (key) {
		case KEY_FOLLOW:
			events.follow = true;
			break;
		case KEY_SESSION:
			if (events.session && strcmp(events.session, optarg) != 0)
				return command_misused(command, "one session at most");
			events.session = optarg;
			break;
		case KEY_VERDICT:
		case KEY_OP:
		case KEY_PATH:
			r = add_value(command, key, &events);
			if (r)
				return r;
			break;
		case 'j':
			events.json = true;
			break;
		default:
			return command_getopt_end(command, key);
		}
	}
	if (argc - optind + (events.session != NULL) > 1)
		return command_misused(command, "one session at most");
	if (optind < argc)
		events.session = argv[optind];

	r = daemon_connect(&diags, &client);
	if (r == 0 && client) {
		r = from_daemon(&events, client, &diags);
	} else if (events.follow && r == 0) {
		rf_diag(&diags, RF_ERROR, NULL, 0, 0, NULL,
			"ringfenced is not running: there is nothing to follow");
		r = -ENOENT;
	} else if (!events.follow && r != -EACCES && r != -EPERM) {
		/* The logs tell what a daemon that is gone has seen. */
		r = from_logs(&events, &diags);
		if (r == -ENOENT && events.session)
			rf_diag(&diags, RF_ERROR, NULL, 0, 0, NULL, "there is no session \"%s\"",
				events.session);
		else if (r < 0)
			rf_diag(&diags, RF_ERROR, NULL, 0, 0, NULL,
				"cannot read the logs in %s: %s", RF_LOG_DIR, strerror(-r));
	}
	rf_client_close(client);
	print_diags(&diags, RF_NOTE);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

const struct command command_events = {
	.name = "events",
	.arguments = "[SESSION]",
	.summary = "show what sessions did: denials, and more under log: all",
	.about =
		"Without SESSION: the events of all. An option that is given several times asks for\n"
		"any of its values, different options for all of them. Lost events are always shown.\n",
	.options = options,
	.run = run_events,
	.letters = "f",
};
