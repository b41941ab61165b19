/* SPDX-License-Identifier: BSD-2-Clause */
/* ringfence status: is the wall there, and what does it not hold yet? */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "tools/command.h"
#include "user/client.h"
#include "user/unenforced.h"

static const struct command_option options[] = {
	OPTION_JSON,
	OPTION_END,
};

static json_t *unenforced(void)
{
	json_t *list = json_array();

	for (const struct rf_unenforced *u = rf_unenforced; list && u->area; u++)
		json_array_append_new(list,
				      json_pack("{s:s, s:s}", "area", u->area, "text", u->text));
	return list;
}

/* Which limits of a policy can be enforced here. */
static void print_limits(const json_t *limits)
{
	static const char *const names[] = {"memory", "tasks", "cpu"};

	fputs("limits   ", stdout);
	for (size_t i = 0; i < RF_COUNT(names); i++)
		printf(" %s%s%s", names[i],
		       json_is_true(json_object_get(limits, names[i])) ? "" : " (no controller)",
		       i + 1 < RF_COUNT(names) ? "," : "\n");
}

static void print_daemon(const json_t *status)
{
	const char *adopted = json_is_true(json_object_get(status, "adopted"))
				      ? ", took over what was in the kernel"
				      : "",
		   *on_demand = json_is_true(json_object_get(status, "on_demand"))
					? ", leaves with the last session"
					: "";
	const json_t *programs = json_object_get(status, "programs"), *program;
	size_t i;

	printf("daemon    running, version %s, pid %lld%s%s\n", json_text(status, "version"),
	       json_number(status, "pid"), on_demand, adopted);
	printf("sessions  %lld\n", json_number(status, "sessions"));
	print_limits(json_object_get(status, "limits"));
	printf("programs  %zu in the kernel:", json_array_size(programs));
	json_array_foreach (programs, i, program)
		printf("%s %s", i ? "," : "", json_text(program, "name"));
	putchar('\n');
}

static void print_unenforced(void)
{
	_cleanup_table_ struct table table = {.columns = 2};

	puts("\nNot enforced yet in this version:");
	for (const struct rf_unenforced *u = rf_unenforced; u->area; u++)
		table_row(&table, (const char *const[]){u->area, u->text});
	table_print(&table, stdout, "  ");
}

static int run_status(const struct command *command, int argc, char **argv)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_json_ json_t *reply = NULL;
	struct rf_client *client = NULL;
	struct utsname kernel = {0};
	bool json = false, known;
	int key, r;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		if (key != 'j')
			return command_getopt_end(command, key);
		json = true;
	}
	if (optind < argc)
		return command_misused(command, "takes no argument");

	uname(&kernel);
	r = daemon_connect(&diags, &client);
	if (r == 0 && client)
		r = rf_client_call(client, json_pack("{s:s}", "op", "status"), NULL, 0, &diags,
				   &reply, NULL, NULL);
	rf_client_close(client);
	known = r != -EACCES && r != -EPERM;
	if (!reply)
		reply = json_pack("{s:s, s:i}", "version", RF_VERSION, "abi", RF_ABI_VERSION);
	json_object_del(reply, "ok");
	json_object_set_new(reply, "running", known ? json_boolean(r == 0 && client) : json_null());
	json_object_set_new(reply, "kernel", json_string(kernel.release));
	json_object_set_new(reply, "unenforced", unenforced());
	print_diags(&diags, RF_NOTE);
	if (json) {
		int code = print_json(json_incref(reply), true);

		return r < 0 ? EXIT_FAILED : code;
	}

	printf("ringfence %s on Linux %s\n", RF_VERSION, kernel.release);
	if (r == 0 && client)
		print_daemon(reply);
	else if (!known)
		puts("daemon    not known: only root can ask");
	else if (r == 0)
		puts("daemon    not running; nothing is confined. `ringfence run` starts it");
	print_unenforced();
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

const struct command command_status = {
	.name = "status",
	.arguments = "",
	.summary = "show the daemon, its programs, and what is not enforced yet",
	.options = options,
	.run = run_status,
};
