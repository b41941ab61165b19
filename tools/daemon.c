/* SPDX-License-Identifier: BSD-2-Clause */
/* Is a daemon there? For the commands that look but start nothing. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "user/client.h"
#include "user/kernel.h"

static bool not_running(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED;
}

int daemon_connect(struct rf_diags *diags, struct rf_client **ret_client)
{
	_cleanup_diags_ struct rf_diags own = {0};
	int r = rf_client_connect(false, &own, ret_client);

	if (r == 0)
		return 0;
	/* What there is nobody else can see. */
	if (not_running(r) && geteuid() != 0) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "use sudo",
			"only root may use ringfence in this version");
		return -EACCES;
	}
	if (not_running(r) && access(RF_PIN_DIR, F_OK) < 0) {
		*ret_client = NULL;
		return 0;
	}
	if (not_running(r))
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "start ringfenced; it takes the sessions over",
			"ringfenced is not running, but its programs are in the kernel and go on "
			"enforcing");
	else
		for (size_t i = 0; i < own.n; i++)
			rf_diag(diags, own.items[i].severity, own.items[i].file, own.items[i].line,
				own.items[i].column, own.items[i].hint, "%s", own.items[i].message);
	return r;
}
