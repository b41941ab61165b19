/* SPDX-License-Identifier: BSD-2-Clause */
/* Cleanup attributes for what user space holds (memory: policy/util.h). */
#ifndef RF_USER_CLEANUP_H
#define RF_USER_CLEANUP_H

#include <dirent.h>
#include <jansson.h>
#include <unistd.h>

#include "policy/diag.h"

static inline void rf_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define _cleanup_fd_ __attribute__((cleanup(rf_closep)))

static inline void rf_closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}
#define _cleanup_dir_ __attribute__((cleanup(rf_closedirp)))

static inline void rf_json_decrefp(json_t **json)
{
	json_decref(*json);
}
#define _cleanup_json_ __attribute__((cleanup(rf_json_decrefp)))

#define _cleanup_diags_ __attribute__((cleanup(rf_diags_done)))

/* Take over what a cleanup variable holds. */
static inline int rf_steal_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define rf_steal(pointer)                                                                          \
	({                                                                                         \
		__typeof__(*(pointer)) rf_taken = *(pointer);                                      \
		*(pointer) = NULL;                                                                 \
		rf_taken;                                                                          \
	})

#endif
