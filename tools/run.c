/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringfence run: one command in a new session, from the policy's text to the
 * command's exit status. The daemon makes the session and owns it; what it needs
 * is prepared here with the caller's own rights.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy/explain.h"
#include "tools/command.h"
#include "user/client.h"
#include "user/event.h"
#include "user/find.h"
#include "user/run.h"
#include "user/suggest.h"
#include "user/text.h"
#include "user/unenforced.h"

#define SUMMARY_LINES 20 /* of different denials that are shown */
#define SUMMARY_MAX 1000 /* that are told apart; a session may have any number */

enum {
	KEY_POLICY = 'p',
	KEY_AUDIT = 'a',
	KEY_USER = 'u',
	KEY_VAR = 'v',
	KEY_EVENTS = 'e',
	KEY_KEEP = 'k',
	KEY_FAIL = 'f',
	KEY_QUIET = 'q',
	KEY_VERBOSE = 'V'
};

static const struct command_option options[] = {
	{KEY_POLICY, "policy", "POLICY", "a policy's name or path (default: " DEFAULT_POLICY ")"},
	{KEY_AUDIT, "audit", NULL, "only report what the policy would deny"},
	{KEY_USER, "user", "USER", "run as this user (default: yours, also under sudo)"},
	{KEY_VAR, "var", "NAME=VALUE", "set a variable of the policy; may be repeated"},
	{KEY_EVENTS, "events", "FILE", "append the session's events to FILE, as JSON lines"},
	{KEY_KEEP, "keep", NULL, "leave processes running, confined, when the command ends"},
	{KEY_FAIL, "fail-on-deny", NULL, "exit with 1 if anything was denied"},
	{KEY_QUIET, "quiet", NULL, "no summary and no notes"},
	{KEY_VERBOSE, "verbose", NULL, "say more: the session's name, what is not enforced"},
	{'j', "json", NULL, "print the summary as JSON, on stderr"},
	OPTION_END,
};

struct run {
	struct load load;
	const char *user;
	const char *events_file;
	bool keep, fail_on_deny, quiet, verbose, json;

	struct rf_run_identity identity;
	struct rf_diags diags;
	struct rf_client *client;
	int events; /* descriptor of events_file, or -1 */
	bool events_failed, daemon_gone;
	int cgroup_procs;
	json_t *session; /* the daemon's reply to start */
	json_t *denials; /* one object for each kind of denial, in order */
	long long not_shown; /* denials beyond SUMMARY_MAX */
	long long missed; /* events that the daemon could not send to us in time */
	json_t *end; /* the daemon's reply to end; NULL: unknown */
};

static void run_done(struct run *run)
{
	json_decref(run->end);
	json_decref(run->denials);
	json_decref(run->session);
	rf_client_close(run->client);
	if (run->cgroup_procs >= 0)
		close(run->cgroup_procs);
	if (run->events >= 0)
		close(run->events);
	rf_diags_done(&run->diags);
	rf_run_identity_done(&run->identity);
	load_done(&run->load);
}
#define _cleanup_run_ __attribute__((cleanup(run_done)))

/* Print what has gathered. Notes are for those who want more, warnings not for those who want less. */
static void flush_diags(struct run *run)
{
	print_diags(&run->diags, run->verbose ? RF_NOTE : run->quiet ? RF_ERROR : RF_WARNING);
	rf_diags_done(&run->diags);
	run->diags = (struct rf_diags){0};
}

/* ---- before -------------------------------------------------------------- */

/* /dev/stderr and its like, whose links are the system's. */
static bool is_open_already(const char *file)
{
	static const char *const folders[] = {"/dev/", "/dev/fd/", "/proc/self/fd/"};
	const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;

	for (size_t i = 0; i < RF_COUNT(folders); i++)
		if (strlen(folders[i]) == (size_t)(name - file) &&
		    !strncmp(file, folders[i], strlen(folders[i])))
			return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
	return false;
}

/*
 * Root follows no link for another user: an earlier session may have put it there, and what
 * an event tells of a session would go to the end of a file of root's. Nor does it wait for
 * who does not read a pipe.
 */
static int open_events(struct run *run)
{
	const char *file = run->events_file;
	struct open_how how = {
		.flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY,
		.mode = 0600,
	};
	const char *what = NULL;
	struct stat st;
	int r = -EINVAL;

	if (!file)
		return 0;
	if (run->identity.change && !is_open_already(file)) {
		how.flags |= O_NONBLOCK;
		how.resolve = RESOLVE_NO_SYMLINKS;
	}
	run->events = (int)syscall(SYS_openat2, AT_FDCWD, file, &how, sizeof(how));
	if (run->events < 0 || fstat(run->events, &st) < 0)
		r = -errno;
	else if (!how.resolve)
		return 0;
	else if (!S_ISREG(st.st_mode) && st.st_uid == run->identity.uid)
		what = "it is a pipe or a device of the user's";
	else if (fcntl(run->events, F_SETFL, O_APPEND) < 0)
		r = -errno;
	else
		return 0;
	rf_diag(&run->diags, RF_ERROR, NULL, 0, 0,
		r == -ELOOP && how.resolve ? "it is a link, or leads through one: name the place "
					     "itself"
					   : NULL,
		"cannot write events to %s: %s", file, what ?: strerror(-r));
	return r;
}

/* May the user change the file, or put another in its place? */
static bool is_users(const struct run *run, const char *path)
{
	_cleanup_free_ char *folder = strndup(path, (size_t)(strrchr(path, '/') - path));
	struct stat file, parent;

	return !run->identity.uid ||
	       (fstat(run->events, &file) == 0 &&
		(file.st_uid == run->identity.uid || file.st_mode & S_IWOTH)) ||
	       (folder && stat(*folder ? folder : "/", &parent) == 0 &&
		(parent.st_uid == run->identity.uid ||
		 (parent.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH));
}

/* What is confined would write its own record. */
static void check_events(struct run *run)
{
	_cleanup_free_ char *path = run->events < 0 ? NULL : realpath(run->events_file, NULL);
	const struct rf_object object = {.rights = RF_MODIFY, .path = path};
	struct rf_explanation explanation;
	struct stat st;

	if (!path || fstat(run->events, &st) < 0 || !S_ISREG(st.st_mode) || !is_users(run, path) ||
	    rf_explain_object(run->load.image, &object, &explanation) < 0 ||
	    (explanation.verdict.missing && !load_audit(&run->load)))
		return;
	rf_diag(&run->diags, RF_WARNING, NULL, 0, 0,
		load_audit(&run->load) ? "put the file where the user may not write"
				       : "put the file where the policy allows no write",
		"the session can change its events in %s", path);
}

static json_t *start_request(const struct run *run, char **argv)
{
	_cleanup_free_ char *cwd = getcwd(NULL, 0);
	json_t *command = json_array();

	for (; command && *argv; argv++) {
		if (json_array_append_new(command, json_escaped(*argv)) < 0) {
			json_decref(command);
			command = NULL;
			break;
		}
	}
	/* A missing value makes json_pack release the others and return NULL. */
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:i, s:o, s:i, s:b}", "op", "start",
			 "workspace", json_escaped(run->load.workspace), "home",
			 json_escaped(run->load.home ? run->load.home : ""), "command", command,
			 "user", json_escaped(run->identity.name ? run->identity.name : ""), "uid",
			 (int)run->identity.uid, "cwd", json_escaped(cwd ? cwd : ""), "pid",
			 (int)getpid(), "events", 1);
}

static int start(struct run *run, char **argv)
{
	struct rlimit files;
	int r;

	/* The command gets the limit that there was. */
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	r = load_names(&run->load, &run->diags);
	flush_diags(run);
	if (r == 0)
		r = rf_client_connect(true, &run->diags, &run->client);
	if (r == 0)
		r = load_send(&run->load, run->client, start_request(run, argv), &run->diags,
			      &run->session, &run->cgroup_procs, NULL);
	setrlimit(RLIMIT_NOFILE, &files);
	if (r == 0 && run->cgroup_procs < 0) {
		rf_diag(&run->diags, RF_ERROR, NULL, 0, 0, NULL,
			"ringfenced started a session without its cgroup");
		r = -EPROTO;
	}
	return r;
}

/* ---- while it runs ------------------------------------------------------- */

static void write_event(struct run *run, const json_t *event)
{
	_cleanup_free_ char *line = json_dumps(event, JSON_COMPACT);
	size_t len = line ? strlen(line) : 0, done = 0;

	if (!line)
		goto failed;
	line[len++] = '\n'; /* over the NUL */
	while (done < len) {
		ssize_t n = write(run->events, line + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			goto failed;
		done += (size_t)n;
	}
	return;

failed:
	if (!run->events_failed)
		say("an event could not be written to %s: %s", run->events_file, strerror(errno));
	run->events_failed = true;
}

/* "read+modify"; malloc'ed, NULL on no memory. */
static char *rights_text(const json_t *event)
{
	_cleanup_text_ struct rf_text text = {0};
	const json_t *right;
	size_t i;

	rf_text_add(&text, "", 0);
	json_array_foreach (json_object_get(event, "rights"), i, right) {
		const char *name = json_string_value(right);

		if (i)
			rf_text_byte(&text, '+');
		if (name)
			rf_text_add(&text, name, strlen(name));
	}
	return text.failed ? NULL : rf_steal(&text.text);
}

/* Why, in short: the rule's place, or what stands for it; malloc'ed, NULL on no memory. */
static char *why_text(const json_t *event)
{
	const json_t *rule = json_object_get(event, "rule");
	char *text;

	if (json_is_true(json_object_get(event, "default")))
		return strdup("no rule allows it");
	if (!rule)
		return strdup(json_text(event, "reason"));
	if (asprintf(&text, "%s:%lld", json_text(rule, "file"), json_number(rule, "line")) < 0)
		return NULL;
	return text;
}

/* A policy without ${WORKSPACE} has its workspace where one may be none: in a home, say. */
static struct rf_suggest_places places_of(const struct run *run)
{
	return (struct rf_suggest_places){
		.workspace = run->load.workspace_used ? run->load.workspace : NULL,
		.home = run->load.home,
	};
}

/* Equal denials are one line of the summary. */
static void count_denial(struct run *run, const json_t *event)
{
	_cleanup_free_ char *key = NULL, *rights = rights_text(event),
			    *object = rf_event_object(event), *why = why_text(event);
	long long count = json_number(event, "count");
	const struct rf_suggest_places places = places_of(run);
	json_t *known, *one, *line;

	if (count < 1)
		count = 1;
	if (!rights || !object || !why ||
	    asprintf(&key, "%s\n%s\n%s\n%s\n%s", json_text(event, "verdict"),
		     json_text(event, "op"), rights, object, why) < 0)
		key = NULL;
	known = key ? json_object_get(run->denials, key) : NULL;
	if (known) {
		json_object_set_new(known, "count",
				    json_integer(json_number(known, "count") + count));
		return;
	}
	one = json_object();
	if (!key || json_object_size(run->denials) >= SUMMARY_MAX || !one) {
		json_decref(one);
		run->not_shown += count;
		return;
	}
	for (const char *const *name =
		     (const char *const[]){"verdict", "op", "rights", "path", "partial",
					   "truncated", "addr", "port", "proto", "family", "rule",
					   "default", "reason", NULL};
	     *name; name++) {
		json_t *value = json_object_get(event, *name);

		if (value)
			json_object_set(one, *name, value);
	}
	json_object_set_new(one, "count", json_integer(count));
	if ((line = rf_suggest(event, &places)))
		json_object_set_new(one, "allow", line);
	if (json_object_set_new(run->denials, key, one) < 0)
		run->not_shown += count;
}

static void on_event(void *userdata, json_t *event)
{
	struct run *run = userdata;
	const char *verdict = json_text(event, "verdict");

	if (run->events >= 0)
		write_event(run, event);
	/* What the kernel lost is in the reply to end. */
	if (!strcmp(json_text(event, "op"), "lost") &&
	    !strcmp(json_text(event, "reason"), "slow-reader"))
		run->missed += json_number(event, "count");
	if (!strcmp(verdict, "deny") || !strcmp(verdict, "would-deny"))
		count_denial(run, event);
}

static bool readable(void *userdata)
{
	struct run *run = userdata;

	if (rf_client_dispatch(run->client) > 0)
		return true;
	run->daemon_gone = true;
	say("ringfenced has gone. The session stays confined, but its events are not seen here "
	    "any longer");
	return false;
}

/* ---- after ---------------------------------------------------------------- */

static void end(struct run *run)
{
	json_t *request;

	if (run->daemon_gone)
		return;
	request = json_pack("{s:s, s:b}", "op", "end", "keep", run->keep);
	if (request)
		rf_client_call(run->client, request, NULL, 0, &run->diags, &run->end, NULL, NULL);
	flush_diags(run);
}

static void print_denials(const struct run *run)
{
	_cleanup_table_ struct table table = {.columns = 6};
	size_t shown = 0, kinds = json_object_size(run->denials);
	const char *key;
	json_t *one;

	json_object_foreach (run->denials, key, one) {
		_cleanup_free_ char *rights = rights_text(one), *object = rf_event_object(one),
				    *why = why_text(one), *times = NULL;

		if (shown++ == SUMMARY_LINES)
			break;
		if (asprintf(&times, "%lldx", json_number(one, "count")) < 0)
			times = NULL;
		table_row(&table,
			  (const char *const[]){json_text(one, "verdict"), json_text(one, "op"),
						rights ? rights : "", times ? times : "",
						object ? object : "", why ? why : ""});
	}
	table_print(&table, stderr, "  ");
	if (kinds > SUMMARY_LINES || run->not_shown)
		say("and others: ringfence events %s", json_text(run->session, "session"));
}

/* Where lines for a list of the policy are to be written. */
static void print_heading(const struct run *run, const char *list, unsigned int dashes)
{
	const char *file = strchr(run->load.name, '/') ? run->load.name : run->load.file;

	if (rf_find_shipped(run->load.file))
		say("to allow this, add at the end of `%s:` in a policy of your own with "
		    "`extends: [%s]`:",
		    list, rf_policy_name(run->load.policy));
	else if (dashes)
		say("to allow this, add at the end of `%s:` of %s:", list, file);
	else
		say("to allow this, add at the end of `%s:` of %s (a list with dashes; begin it "
		    "where there is none):",
		    list, file);
}

/* The lines for one list of the policy. */
static void print_lines(const struct run *run, const char *list)
{
	const struct rf_suggest_places places = places_of(run);
	_cleanup_json_ json_t *lines = rf_suggest_lines(run->denials, list, &places);
	unsigned int dashes = rf_policy_dashes(run->load.policy, !strcmp(list, "network"));
	const json_t *line;
	size_t i;

	if (json_array_size(lines))
		print_heading(run, list, dashes);
	json_array_foreach (lines, i, line) {
		if (i == SUMMARY_LINES)
			break;
		fprintf(stderr, "%*s",
			dashes && !rf_find_shipped(run->load.file) ? (int)dashes - 1 : 2, "");
		print_clean(json_string_value(line), stderr);
		putc('\n', stderr);
	}
}

/* An amount as it would be written in a policy; malloc'ed, NULL on no memory. */
static char *amount(unsigned long long bytes)
{
	static const char units[] = "\0KMGT";
	size_t unit = 0;
	char *text;

	while (units[unit + 1] && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	return asprintf(&text, "%llu%.1s", bytes, units + unit) < 0 ? NULL : text;
}

/* What ended or failed for no denial, but for a limit. */
static void print_limits(const struct run *run)
{
	const json_t *reached = json_object_get(run->end, "limits_reached"),
		     *memory = json_object_get(reached, "memory"),
		     *tasks = json_object_get(reached, "tasks");
	_cleanup_free_ char *limit = amount((unsigned long long)json_number(memory, "limit"));
	long long killed = json_number(memory, "killed"), refused = json_number(tasks, "refused");

	if (memory)
		say("the limit memory: %s was reached: %lld process%s killed", limit ? limit : "?",
		    killed, killed == 1 ? " was" : "es were");
	if (tasks)
		say("the limit tasks: %lld was reached: no process or thread could be "
		    "started, %lld time%s",
		    json_number(tasks, "limit"), refused, refused == 1 ? "" : "s");
}

static void print_summary(const struct run *run)
{
	const char *name = json_text(run->session, "session");
	long long denied = json_number(run->end, "denied"),
		  would = json_number(run->end, "would_deny"), lost = json_number(run->end, "lost"),
		  killed = json_number(run->end, "killed");

	if (!run->end)
		say("session %s: what was denied is not known to the end, since ringfenced has gone",
		    name);
	/* A policy of the other mode may have been put in force meanwhile. */
	if (run->end && (would || (run->verbose && load_audit(&run->load))))
		say("session %s: %lld would have been denied", name, would);
	if (run->end && (denied || (run->verbose && !load_audit(&run->load))))
		say("session %s: %lld denied", name, denied);
	print_denials(run);
	print_lines(run, "files");
	print_lines(run, "network");
	print_limits(run);
	if (lost)
		say("session %s: %lld events were lost; there may have been more", name, lost);
	if (run->missed)
		say("session %s: %lld events came too fast and are not told one by one here; see "
		    "ringfence events %s",
		    name, run->missed, name);
	if (killed)
		say("%lld process%s that the command left behind %s killed", killed,
		    killed == 1 ? "" : "es", killed == 1 ? "was" : "were");
	if (run->keep && run->end)
		say("session %s goes on; see ringfence ps", name);
}

static void print_json_summary(const struct run *run, int status)
{
	_cleanup_json_ json_t *list = json_array(), *summary = NULL;
	_cleanup_free_ char *text = NULL;
	const char *key;
	json_t *one;

	json_object_foreach (run->denials, key, one)
		json_array_append(list, one);
	summary = json_pack(
		"{s:s, s:s, s:s, s:i, s:O}", "session", json_text(run->session, "session"),
		"policy", rf_policy_name(run->load.policy), "mode",
		load_audit(&run->load) ? "audit" : "enforce", "status", status, "denials", list);
	for (const char *const *name = (const char *const[]){"denied", "would_deny", "lost",
							     "killed", "limits_reached", NULL};
	     *name; name++)
		json_object_set(summary, *name, json_object_get(run->end, *name));
	/* Of `denied`, but not in `denials` nor in the file of --events; the log has them. */
	json_object_set_new(summary, "missed", json_integer(run->missed));
	text = summary ? json_dumps(summary, JSON_COMPACT) : NULL;
	if (text)
		fprintf(stderr, "%s\n", text);
	else
		say("no memory");
}

static void print_note(const struct run *run)
{
	fputs("ringfence: not enforced yet in this version:", stderr);
	for (const struct rf_unenforced *u = rf_unenforced; u->area; u++)
		fprintf(stderr, "%s %s", u == rf_unenforced ? "" : ",", u->area);
	fputs(" (ringfence status says more)\n", stderr);
	say("session %s, events in %s", json_text(run->session, "session"),
	    json_text(run->session, "log"));
}

/* ---- the command ------------------------------------------------------------ */

static int parse_options(const struct command *command, int argc, char **argv, struct run *run)
{
	int key;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		switch (key) {
		case KEY_POLICY:
			run->load.name = optarg;
			break;
		case KEY_AUDIT:
			run->load.audit = true;
			break;
		case KEY_USER:
			run->user = optarg;
			break;
		case KEY_VAR:
			if (!load_var(command, &run->load, optarg))
				return OPTIONS_BAD;
			break;
		case KEY_EVENTS:
			run->events_file = optarg;
			break;
		case KEY_KEEP:
			run->keep = true;
			break;
		case KEY_FAIL:
			run->fail_on_deny = true;
			break;
		case KEY_QUIET:
			run->quiet = true;
			break;
		case KEY_VERBOSE:
			run->verbose = true;
			break;
		case 'j':
			run->json = true;
			break;
		default:
			return key;
		}
	}
	return OPTIONS_DONE;
}

static int prepare(struct run *run)
{
	int r = rf_run_identity(run->user, &run->diags, &run->identity);

	if (r < 0)
		return r;
	run->load.home = run->identity.home;
	run->load.planter.uid = run->identity.uid;
	r = load_policy(&run->load, &run->diags);
	if (r == 0)
		r = load_check_workspace(&run->load, &run->diags);
	if (r == 0)
		r = open_events(run);
	if (r == 0)
		check_events(run);
	return r;
}

static int run_run(const struct command *command, int argc, char **argv)
{
	_cleanup_run_ struct run run = {
		.load.name = DEFAULT_POLICY,
		.load.features = FEATURES_ENFORCED,
		.load.stored = true,
		.events = -1,
		.cgroup_procs = -1,
	};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction sigpipe;
	struct rf_run what = {
		.sigpipe = &sigpipe, .watch_fd = -1, .readable = readable, .userdata = &run};
	int status, r;

	r = parse_options(command, argc, argv, &run);
	if (r != OPTIONS_DONE)
		return command_getopt_end(command, r);
	if (optind == argc)
		return command_misused(command, "which command?");
	argv += optind;
	/* A reader of stderr or of the events that leaves must not end the session. */
	sigaction(SIGPIPE, &ignore, &sigpipe);

	run.denials = json_object();
	r = prepare(&run);
	if (r == 0)
		r = start(&run, argv);
	flush_diags(&run);
	if (r < 0)
		return EXIT_RUN;
	if (!run.quiet && !run.identity.uid && !run.user)
		say("running as root");
	if (!run.quiet && run.verbose)
		print_note(&run);

	rf_client_on_event(run.client, on_event, &run);
	what.argv = argv;
	what.cgroup_procs = run.cgroup_procs;
	what.watch_fd = rf_client_fd(run.client);
	r = rf_run(&what, &run.identity, &run.diags, &status);
	if (r < 0)
		status = EXIT_RUN;
	/* Before the summary, whose end could be long in coming. */
	flush_diags(&run);
	end(&run);

	if (r == 0 && run.fail_on_deny && json_number(run.end, "denied") > 0)
		status = EXIT_FAILED;
	if (run.json)
		print_json_summary(&run, status);
	else if (!run.quiet)
		print_summary(&run);
	return status;
}

const struct command command_run = {
	.name = "run",
	.arguments = "[--] COMMAND [ARGUMENT]...",
	.summary = "run a command in a new confined session",
	.about =
		"The exit status is the command's own; 126 or 127 if it could not be executed or\n"
		"found, 128 + N if signal N killed it, 125 for a failure of ringfence itself (also an\n"
		"invalid policy, wrong options, or a kernel that cannot enforce it).\n",
	.options = options,
	.run = run_run,
	.usage_exit = EXIT_RUN,
	.runs = true,
};
