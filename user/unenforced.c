/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of what is not enforced yet. Order: what matters most to a user first. */
#include <stddef.h>

#include "user/unenforced.h"

const struct rf_unenforced rf_unenforced[] = {
	{"network", "bind, listen, accept and what a session receives are not judged"},
	{"source routes",
	 "IP options, IPv6 routing headers and source addresses in control messages "
	 "are not judged: they can lead a packet elsewhere than to its address"},
	{"names", "a file can be deleted, renamed, linked or made a directory, link, pipe or "
		  "device wherever the user may do so; only opening is judged"},
	{"creating by open", "an open that is denied because it would make a file leaves the file "
			     "behind, empty; mknod of a regular file is not judged"},
	{"truncate by path", "truncate(2) on a path is not judged; opening with O_TRUNC is"},
	{"metadata", "mode, owner, times and extended attributes can be read and changed "
		     "wherever the user may do so"},
	{"listing links",
	 "readlink(2) and watching by inotify are not judged; opening a directory is"},
	{"executable mappings", "mapping a file executable needs only what opening it needs"},
	{"received descriptors", "a descriptor handed over by another process can be used; the "
				 "session judges only its own opens"},
	{"unix sockets", "a session can talk to every service whose socket the user may "
			 "connect to, and the service acts outside the session"},
	{"shared memory",
	 "System V memory, semaphores and queues, and kernel keyrings, are open as "
	 "far as the user's are"},
	{"planted links",
	 "where a rule allows what lies behind a symbolic link, who can put another link there widens "
	 "the next session: the user, a session under another policy or in audit mode, and, since "
	 "names are not judged, one whose policy does not let it create there"},
	{"hard links",
	 "a file that the user may link to, his own or one that he can read and write, can be linked "
	 "out of a denied directory and opens by its new name, in this session and in the next; a "
	 "rule that denies or forbids the file itself holds by each of its names"},
	{"processes", "signals, ptrace and /proc of processes outside the session are limited "
		      "only as for every process of the user"},
	{"mounts and namespaces", "a session can make namespaces and mounts if the user may; "
				  "what it opens there is judged all the same"},
	{"guard", "a session that runs as root is not kept from ringfence's own maps, pins, "
		  "cgroups and sockets, nor from raw devices and modules"},
	{"io_uring, bpf and perf", "these interfaces are not judged as such; files opened through "
				   "io_uring are"},
	{"containers", "only commands started by `ringfence run` are confined, not containers "
		       "that already run"},
	{"nested sessions",
	 "a session cannot start another one under a narrower policy; `ringfence "
	 "run` inside of a session is refused"},
	{"use without root", "only root can start a session (for another user, with --user)"},
	{NULL, NULL},
};
