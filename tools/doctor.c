/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ringfence doctor: can this machine enforce, and does it? First each requirement is
 * looked at, then a session of its own is started in which each kind of act is tried.
 */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/command.h"
#include "user/client.h"
#include "user/event.h"
#include "user/kernel.h"
#include "user/probe.h"
#include "user/trial.h"

enum { KEY_NO_PROBES = 'n' };

static const struct command_option options[] = {
	{KEY_NO_PROBES, "no-probes", NULL, "only look: start no session and no daemon"},
	OPTION_JSON,
	OPTION_END,
};

struct doctor {
	bool probe, json;
	struct rf_findings requirements, probes;
	struct rf_trial *trial;
	char *log; /* of the session; NULL: none was started */
	json_t *seen; /* verdict, operation and object of each event: true */
};

static void doctor_done(struct doctor *doctor)
{
	rf_findings_done(&doctor->requirements);
	rf_findings_done(&doctor->probes);
	rf_trial_free(doctor->trial);
	json_decref(doctor->seen);
	free(doctor->log);
}
#define _cleanup_doctor_ __attribute__((cleanup(doctor_done)))

/* What went wrong, as a finding; what was only noted is of no use here. */
static void add_errors(struct rf_findings *findings, const char *name, bool kernel,
		       const struct rf_diags *diags)
{
	for (size_t i = 0; i < diags->n; i++) {
		const struct rf_diag *d = &diags->items[i];

		if (d->severity == RF_ERROR)
			rf_finding_add(findings, name, RF_FINDING_FAILURE, kernel,
				       d->hint ? strdup(d->hint) : NULL, "%s", d->message);
	}
}

/* ---- the daemon ------------------------------------------------------------- */

static void look_daemon(struct doctor *doctor)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_json_ json_t *status = NULL;
	struct rf_findings *findings = &doctor->requirements;
	struct rf_client *client = NULL;
	int r;

	/* Only root may ask it. */
	if (geteuid() != 0) {
		rf_finding_add(findings, "daemon", RF_FINDING_WARNING, false,
			       strdup("run as root: sudo ringfence doctor"),
			       "whether ringfenced runs is not known");
		return;
	}
	r = daemon_connect(&diags, &client);
	if (r == 0 && client)
		r = rf_client_call(client, json_pack("{s:s}", "op", "status"), NULL, 0, &diags,
				   &status, NULL, NULL);
	if (r < 0)
		add_errors(findings, "daemon", false, &diags);
	else if (!client)
		rf_finding_add(findings, "daemon", RF_FINDING_OK, false, NULL,
			       "ringfenced is not running; `ringfence run` starts it");
	else if (strcmp(json_text(status, "version"), RF_VERSION) != 0 ||
		 json_number(status, "abi") != RF_ABI_VERSION)
		rf_finding_add(findings, "daemon", RF_FINDING_FAILURE, false,
			       strdup("end its sessions and start ringfenced again"),
			       "ringfenced is version %s (ABI %lld), this is %s (ABI %d)",
			       json_text(status, "version"), json_number(status, "abi"), RF_VERSION,
			       RF_ABI_VERSION);
	else
		rf_finding_add(findings, "daemon", RF_FINDING_OK, false, NULL,
			       "ringfenced %s runs, pid %lld, with %lld sessions and %zu programs",
			       RF_VERSION, json_number(status, "pid"),
			       json_number(status, "sessions"),
			       json_array_size(json_object_get(status, "programs")));
	rf_client_close(client);
}

/* ---- the session ------------------------------------------------------------ */

static const char *variable(void *userdata, const char *name, bool env)
{
	return env ? NULL : rf_trial_variable(userdata, name);
}

static int compile(struct doctor *doctor, struct load *load, struct rf_diags *diags)
{
	const struct rf_policy_env env = {
		.variable = variable, .userdata = doctor->trial, .features = FEATURES_ENFORCED};
	_cleanup_free_ char *text = rf_trial_policy(doctor->trial);
	int r;

	load->file = strdup("doctor");
	if (!text || !load->file)
		return -ENOMEM;
	r = rf_policy_parse(load->file, text, strlen(text), &env, diags, &load->policy);
	if (r == 0)
		r = rf_policy_compile(load->policy, diags, &load->image, &load->size);
	if (r == 0)
		r = load_names(load, diags);
	return r;
}

static char *event_key(const char *op, const char *object)
{
	char *key;

	return asprintf(&key, "%s %s", op, object) < 0 ? NULL : key;
}

static void on_event(void *userdata, json_t *event)
{
	struct doctor *doctor = userdata;
	_cleanup_free_ char *object = rf_event_object(event), *key = NULL, *any = NULL;

	if (strcmp(json_text(event, "verdict"), "deny") != 0 || !object)
		return;
	key = event_key(json_text(event, "op"), object);
	any = event_key(json_text(event, "op"), "");
	if (key && any) {
		json_object_set_new(doctor->seen, key, json_true());
		json_object_set_new(doctor->seen, any, json_true());
	}
}

/* cgroup.procs of the hierarchy's root, where ROOT/ringfence/SESSION is the session's cgroup. */
static char *outside_of(const char *cgroup)
{
	const char *session = strrchr(cgroup, '/');
	char *path;
	int length;

	if (!session)
		return NULL;
	length = (int)(session - cgroup) - (int)strlen("/ringfence");
	if (length < 0 || asprintf(&path, "%.*s/cgroup.procs", length, cgroup) < 0)
		return NULL;
	return path;
}

/* Start a session, try everything in it, end it. *ret_exit: why it was not started. */
static int try_session(struct doctor *doctor, struct rf_trial_result *results,
		       struct rf_diags *diags, int *ret_exit)
{
	_cleanup_load_ struct load load = {0};
	_cleanup_json_ json_t *session = NULL, *end = NULL;
	_cleanup_free_ char *outside = NULL;
	_cleanup_fd_ int procs = -1;
	struct rf_client *client = NULL;
	int r;

	*ret_exit = EXIT_FAILED;
	r = compile(doctor, &load, diags);
	if (r == 0)
		r = rf_client_connect(true, diags, &client);
	if (r == 0)
		r = load_send(&load, client,
			      json_pack("{s:s, s:[s, s], s:s, s:i, s:s, s:i, s:b}", "op", "start",
					"command", "ringfence", "doctor", "user", "root", "uid", 0,
					"cwd", "/", "pid", (int)getpid(), "events", 1),
			      diags, &session, &procs, ret_exit);
	if (r == 0) {
		doctor->log = strdup(json_text(session, "log"));
		rf_client_on_event(client, on_event, doctor);
		outside = outside_of(json_text(session, "cgroup"));
		r = rf_trial_run(doctor->trial, procs, outside, results);
		if (r < 0)
			rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL,
				"the process that tries the session failed: %s", strerror(-r));
		/* All events come before the reply. */
		rf_client_call(client, json_pack("{s:s}", "op", "end"), NULL, 0, diags, &end, NULL,
			       NULL);
	}
	rf_client_close(client);
	if (r < 0 && !diags->errors)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "no session can be started: %s",
			strerror(-r));
	return r;
}

/* ---- what came of it -------------------------------------------------------- */

static void judge(struct doctor *doctor, size_t i, const struct rf_trial_result *free_result,
		  const struct rf_trial_result *result)
{
	const struct rf_trial_pair *pair = &rf_trial_pairs[i];
	_cleanup_free_ char *key = event_key(pair->op, rf_trial_object(doctor->trial, i));
	int untried = free_result->denied ? free_result->denied : free_result->allowed;
	struct rf_findings *findings = &doctor->probes;

	if (untried)
		rf_finding_add(findings, pair->name, RF_FINDING_WARNING, false, NULL,
			       "not tried: outside of sessions %s fails, too: %s",
			       free_result->denied ? pair->denied : pair->allowed,
			       untried < 0 ? "not done" : strerror(untried));
	else if (result->denied < 0 || result->allowed < 0)
		rf_finding_add(findings, pair->name, RF_FINDING_WARNING, false, NULL,
			       "not tried: the process could not be moved to another cgroup");
	else if (!result->denied)
		rf_finding_add(findings, pair->name, RF_FINDING_FAILURE, true, NULL,
			       "NOT stopped: %s, which the policy denies", pair->denied);
	else if (result->denied != EACCES)
		rf_finding_add(findings, pair->name, RF_FINDING_FAILURE, false, NULL,
			       "%s failed, but not by the policy: %s", pair->denied,
			       strerror(result->denied));
	else if (result->allowed)
		rf_finding_add(findings, pair->name, RF_FINDING_FAILURE, false, NULL,
			       "%s, which the policy allows, failed: %s", pair->allowed,
			       strerror(result->allowed));
	else if (!key || !json_object_get(doctor->seen, key))
		rf_finding_add(findings, pair->name, RF_FINDING_FAILURE, false, NULL,
			       "%s was denied, but no event told it", pair->denied);
	else
		rf_finding_add(findings, pair->name, RF_FINDING_OK, false, NULL,
			       "denied: %s; allowed: %s", pair->denied, pair->allowed);
}

static void probe(struct doctor *doctor)
{
	struct rf_trial_result outside[RF_TRIAL_PAIRS_MAX] = {0}, inside[RF_TRIAL_PAIRS_MAX] = {0};
	_cleanup_diags_ struct rf_diags diags = {0};
	int r, code = EXIT_FAILED;

	r = rf_trial_new(&diags, &doctor->trial);
	if (r == 0) {
		r = rf_trial_run(doctor->trial, -1, NULL, outside);
		if (r < 0)
			rf_diag(&diags, RF_ERROR, NULL, 0, 0, NULL,
				"the probes fail outside of sessions, too: %s", strerror(-r));
	}
	if (r == 0)
		r = try_session(doctor, inside, &diags, &code);
	if (r < 0) {
		add_errors(&doctor->probes, "session", code == EXIT_KERNEL || r == -EOPNOTSUPP,
			   &diags);
		return;
	}
	for (size_t i = 0; rf_trial_pairs[i].name; i++)
		judge(doctor, i, &outside[i], &inside[i]);
}

/* ---- the report --------------------------------------------------------------- */

/* The worst of them as an exit code. */
static int code_of(const struct rf_findings *findings)
{
	int code = findings->failed ? EXIT_FAILED : EXIT_OK;

	for (size_t i = 0; i < findings->n; i++) {
		const struct rf_finding *finding = &findings->items[i];

		if (finding->status != RF_FINDING_FAILURE)
			continue;
		if (finding->kernel)
			return EXIT_KERNEL;
		code = EXIT_FAILED;
	}
	return code;
}

static json_t *json_findings(const struct rf_findings *findings)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < findings->n; i++) {
		const struct rf_finding *finding = &findings->items[i];
		json_t *one = json_pack("{s:s, s:s, s:o}", "name", finding->name, "status",
					rf_finding_status_name(finding->status), "text",
					json_escaped(finding->text));

		if (one && finding->fix)
			json_object_set_new(one, "fix", json_escaped(finding->fix));
		json_array_append_new(list, one);
	}
	return list;
}

static void print_findings(const char *title, const struct rf_findings *findings)
{
	static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
	bool colour = use_colour(stdout);

	if (findings->n)
		printf("%s\n", title);
	for (size_t i = 0; i < findings->n; i++) {
		const struct rf_finding *finding = &findings->items[i];

		printf("  %s%-7s%s  %-12s  ", colour ? colours[finding->status] : "",
		       rf_finding_status_name(finding->status), colour ? "\033[0m" : "",
		       finding->name);
		print_clean(finding->text, stdout);
		if (finding->fix) {
			fputs("\n           fix: ", stdout);
			print_clean(finding->fix, stdout);
		}
		putchar('\n');
	}
}

static int report(const struct doctor *doctor, int code, bool probed)
{
	static const char *const results[] = {
		[EXIT_OK] = "ok", [EXIT_FAILED] = "failed", [EXIT_KERNEL] = "cannot-enforce"};
	struct utsname kernel = {0};
	int r;

	uname(&kernel);
	if (doctor->json) {
		r = print_json(json_pack("{s:s, s:s, s:s, s:b, s:o, s:o}", "version", RF_VERSION,
					 "kernel", kernel.release, "result", results[code],
					 "probed", probed, "requirements",
					 json_findings(&doctor->requirements), "probes",
					 json_findings(&doctor->probes)),
			       true);
		return code == EXIT_OK ? r : code;
	}
	printf("ringfence %s on Linux %s\n", RF_VERSION, kernel.release);
	print_findings("\nrequirements:", &doctor->requirements);
	print_findings("\nprobes, each of one act that is denied and one that is allowed:",
		       &doctor->probes);
	putchar('\n');
	if (code == EXIT_KERNEL)
		puts("This kernel cannot enforce: see the failures above.");
	else if (code == EXIT_FAILED)
		puts("Not all is well: see the failures above.");
	else if (probed)
		puts("All is well: sessions are confined.");
	else
		puts("The requirements are met; whether sessions are confined was not tried.");
	return code;
}

static int run_doctor(const struct command *command, int argc, char **argv)
{
	_cleanup_doctor_ struct doctor doctor = {.probe = true};
	int key, code, probes;
	bool probed;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		if (key == KEY_NO_PROBES)
			doctor.probe = false;
		else if (key == 'j')
			doctor.json = true;
		else
			return command_getopt_end(command, key);
	}
	if (optind < argc)
		return command_misused(command, "takes no argument");

	doctor.seen = json_object();
	rf_probe_look("", &doctor.requirements);
	look_daemon(&doctor);
	code = code_of(&doctor.requirements);
	/* Where something is missing no session would start. */
	probed = doctor.probe && code == EXIT_OK;
	if (probed)
		probe(&doctor);
	probes = code_of(&doctor.probes);
	/* What is denied on purpose is no news, unless one has to look why not all of it was. */
	if (probes == EXIT_OK && doctor.log)
		unlink(doctor.log);
	if (doctor.requirements.failed || doctor.probes.failed)
		say("no memory");
	return report(&doctor, code == EXIT_OK ? probes : code, probed);
}

const struct command command_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "check this machine, and that sessions are confined on it",
	.about =
		"Each thing that is missing is told with what to do about it. Then a session of its\n"
		"own is started, and for each kind of act one is tried that the policy denies and one\n"
		"that it allows.\n"
		"Exit status: 0 all is well, 4 this kernel cannot enforce, 1 something else is wrong.\n",
	.options = options,
	.run = run_doctor,
};
