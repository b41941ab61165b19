/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a policy's name to its text. A name with a '/' in it is a path; any other
 * means NAME.yaml in the first of these folders that has it:
 *
 *   ./.ringfence
 *   HOME/.config/ringfence
 *   /etc/ringfence
 *   the profiles that ringfence comes with
 *
 * A name that ./.ringfence and another folder have is refused: a project must not
 * change what the name of a policy means.
 */
#ifndef RF_USER_FIND_H
#define RF_USER_FIND_H

#include <stdbool.h>
#include <stddef.h>

#define RF_POLICY_FILE_MAX (4u << 20) /* bytes of a file that are read at all */

/*
 * 0 with *ret_file (its path), *ret_text (NUL-terminated, *ret_size bytes without
 * the NUL), both malloc'ed. `from` is the file that asks (`extends`), to whose
 * folder a relative path then refers, or NULL. `home` may be NULL. -ENOENT: not
 * found; -EEXIST: in ./.ringfence and elsewhere; -EINVAL: an empty name; -EFBIG; other -errno of open and read.
 */
int rf_find_policy(const char *name, const char *from, const char *home, char **ret_file,
		   char **ret_text, size_t *ret_size);

/*
 * What to do where rf_find_policy() failed with -`error`: where it was looked for, which name or
 * file is meant. Malloc'ed; NULL where there is nothing to say, or no memory.
 */
char *rf_find_hint(const char *name, const char *from, const char *home, int error);

/* Is it the file of a profile that ringfence comes with, as rf_find_policy() gives its path? */
bool rf_find_shipped(const char *file);

/* Where a name is looked for, for messages: "A, B, C"; malloc'ed, NULL on no memory. */
char *rf_find_places(const char *home);

#endif
