/* SPDX-License-Identifier: BSD-2-Clause */
/* ringfenced, the program: options, the socket handed over, the log on stderr. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/control.h"
#include "user/daemon.h"
#include "user/kernel.h"
#include "user/run.h"
#include "user/text.h"

static const char help[] =
	"usage: ringfenced [--on-demand]\n"
	"\n"
	"Loads the kernel side of ringfence, owns its sessions and serves `ringfence`.\n"
	"\n"
	"  --on-demand  leave, unloading the kernel side, when the last session has ended\n"
	"               and no client is connected\n"
	"  --help       this text\n"
	"  --version    the version\n"
	"\n"
	"On SIGTERM it leaves the sessions confined for the next ringfenced to take over.\n"
	"Exit status: 0 ok, 1 failure, 2 usage, 4 this kernel cannot enforce.\n";

/* journald reads the priority; a person is spared it. */
static void to_stderr(void *userdata, int priority, const char *text)
{
	_cleanup_free_ char *clean = rf_clean(text);
	bool *prefix = userdata;

	if (*prefix)
		fprintf(stderr, "<%d>", priority);
	fprintf(stderr, "%s%s\n", *prefix ? "" : "ringfenced: ", clean ? clean : "no memory");
}

static void to_systemd(void *userdata, const char *state)
{
	(void)userdata;
	sd_notify(0, state);
}

/* The socket that systemd or a client listens on for us: its number, -1 if there is none. */
static int listening_socket(void)
{
	int n = sd_listen_fds(1);

	if (n == 0)
		return -1;
	if (n != 1 || sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 1) <= 0) {
		fprintf(stderr, "ringfenced: one listening seqpacket socket is expected\n");
		exit(EXIT_FAILURE);
	}
	return SD_LISTEN_FDS_START;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"on-demand", no_argument, NULL, 'd'},
						{"help", no_argument, NULL, 'h'},
						{"version", no_argument, NULL, 'v'},
						{NULL, 0, NULL, 0}};
	bool prefix = getenv("JOURNAL_STREAM") != NULL;
	struct rf_daemon_config config = {
		.run_dir = RF_RUN_DIR,
		.log_dir = RF_LOG_DIR,
		.pin_dir = RF_PIN_DIR,
		.mountinfo = "/proc/self/mountinfo",
		.listen_fd = -1,
		.end_usec = 10000000,
		.idle_usec = 2000000,
		.log = to_stderr,
		.notify = to_systemd,
		.userdata = &prefix,
	};
	sigset_t signals;
	int key;

	if (rf_run_stdio())
		return EXIT_FAILURE;
	while ((key = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (key) {
		case 'd':
			config.on_demand = true;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case 'v':
			puts("ringfenced " RF_VERSION);
			return EXIT_SUCCESS;
		default:
			fprintf(stderr, "Try: ringfenced --help\n");
			return 2;
		}
	if (optind < argc) {
		fprintf(stderr, "ringfenced: no arguments are expected\nTry: ringfenced --help\n");
		return 2;
	}
	if (geteuid() != 0) {
		fprintf(stderr, "ringfenced: only root can load the kernel side\n");
		return EXIT_FAILURE;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_SETMASK, &signals, NULL);
	/* The terminal of whoever started us, and readers that went away, are nothing to us. */
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	umask(0077);
	config.listen_fd = listening_socket();
	return rf_daemon_run(&config);
}
