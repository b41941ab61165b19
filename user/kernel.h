/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ringfenced does to the kernel: load, attach and pin the BPF programs (all
 * or nothing), adopt what an earlier daemon pinned, and write the maps. Only
 * the daemon uses this. Errors fill `diags` with the cause and the fix.
 */
#ifndef RF_USER_KERNEL_H
#define RF_USER_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"
#include "policy/diag.h"

#define RF_PIN_DIR "/sys/fs/bpf/ringfence"

struct rf_kernel;

/*
 * Adopt what is pinned under `pin_dir`, or load, attach and pin it. -EOPNOTSUPP:
 * this kernel cannot enforce (diagnostics name each missing feature);
 * -EPROTO: pinned objects of another ABI version.
 */
int rf_kernel_open(const char *pin_dir, struct rf_diags *diags, struct rf_kernel **ret_kernel);
bool rf_kernel_adopted(const struct rf_kernel *kernel);

/* Forget our descriptors; the pinned programs go on enforcing. NULL is fine. */
void rf_kernel_close(struct rf_kernel *kernel);

/* Detach and unpin everything, then close. For a daemon without sessions. */
int rf_kernel_unload(struct rf_kernel *kernel);

/* Numbers that are never reused while the programs stay loaded; never 0. */
uint64_t rf_kernel_next_session(struct rf_kernel *kernel);
uint64_t rf_kernel_next_policy(struct rf_kernel *kernel);

/* Where an image lies in the kernel. Equal images are one, counted. */
struct rf_image_ref {
	uint32_t class; /* enum rf_class */
	uint32_t slot;
};

/*
 * Verify an image as untrusted input and put it into the kernel, or take
 * another reference to an equal one. -EINVAL: not a valid image; -ENOSPC: no slot.
 */
int rf_kernel_put_image(struct rf_kernel *kernel, const void *image, size_t size,
			struct rf_diags *diags, struct rf_image_ref *ret_ref);
void rf_kernel_drop_image(struct rf_kernel *kernel, struct rf_image_ref ref);
/* A copy of an image (malloc'ed, the caller frees), also of an adopted one. */
int rf_kernel_get_image(struct rf_kernel *kernel, struct rf_image_ref ref, void **ret_image,
			size_t *ret_size);
/* Count a reference to an image already in the kernel (taking sessions over). */
int rf_kernel_hold_image(struct rf_kernel *kernel, struct rf_image_ref ref);

/*
 * The identities of n descriptors of this process, as the kernel reads them.
 * All or nothing: -EBADF if one of them was not seen.
 */
int rf_kernel_identify(struct rf_kernel *kernel, const int *fds, size_t n,
		       struct rf_identity *ret_identities);

/*
 * Give an object one more name: `state` of the policy's automaton after that
 * name, flags 0 or RF_NAME_DENY_ONLY. *ret_name is the name's index in the
 * anchor, that of an earlier one where the state is equal. -ENOSPC: RF_ANCHOR_NAMES
 * different names already, or no room for anchors or file systems. -EOPNOTSUPP: objects of this
 * file system cannot be recognised; without an anchor they stay out of reach.
 */
int rf_kernel_add_anchor(struct rf_kernel *kernel, uint64_t policy,
			 const struct rf_identity *object, uint32_t state, uint32_t flags,
			 uint32_t *ret_name);
int rf_kernel_drop_anchors(struct rf_kernel *kernel, uint64_t policy);

/* A session in the kernel. `word` is built by RF_WORD(). */
struct rf_kernel_session {
	uint64_t id;
	uint64_t word;
	uint64_t cgroup; /* id of the cgroup at its root */
	uint32_t
		mnt_ns; /* inode number of its mount namespace, which must not end before it; or 0 */
	uint32_t slot; /* set by rf_kernel_start_session() */
};

/* Enforce from now on for every task in the cgroup and below. -ENOSPC: no slot. */
int rf_kernel_start_session(struct rf_kernel *kernel, struct rf_kernel_session *session);
/* Switch the session to another word (policy swap), atomically. */
int rf_kernel_switch_session(struct rf_kernel *kernel, const struct rf_kernel_session *session,
			     uint64_t word);
/*
 * Nobody has held the session's mount namespace for a while: unless its number is that of
 * `lasting`, which cannot have ended, no mount decides by its place any more. Sets
 * session->mnt_ns to what is left, 0 for none.
 */
int rf_kernel_check_mounts(struct rf_kernel *kernel, struct rf_kernel_session *session,
			   uint32_t lasting);
/* The word that is in force. -ESRCH: the slot is another session's by now. */
int rf_kernel_session_word(struct rf_kernel *kernel, const struct rf_kernel_session *session,
			   uint64_t *ret_word);
/*
 * Wait until every check that began before the call has ended, and with it what it read
 * of words, images and anchors. `ref` is an image that is in the kernel.
 */
int rf_kernel_synchronize(struct rf_kernel *kernel, struct rf_image_ref ref);
/* Free the slot: tasks still labelled with it are denied everything. */
int rf_kernel_end_session(struct rf_kernel *kernel, const struct rf_kernel_session *session);
/* The sum over CPUs. */
int rf_kernel_counters(struct rf_kernel *kernel, uint32_t slot, struct rf_counters *ret_counters);
/* The session's meter itself, which the kernel's programs change: only by atomic means. */
struct rf_meter *rf_kernel_meter(struct rf_kernel *kernel, uint32_t slot);

/*
 * Events. Poll rf_kernel_events_fd() for reading, then call rf_kernel_consume(),
 * which calls `event` for each and returns their number or -errno. `size` is
 * that of the record (checked: >= offsetof path + path_len). It reads at most
 * RF_EVENTS_AT_ONCE from each ring, since a busy session may fill a ring as fast as
 * it is read: fewer than that in all say that everything has been read.
 */
#define RF_EVENTS_AT_ONCE 256
#define RF_EVENTS_MAX (2 * RF_RING_BYTES / 128) /* that the rings can hold */
int rf_kernel_events_fd(const struct rf_kernel *kernel);
int rf_kernel_consume(struct rf_kernel *kernel,
		      void (*event)(void *userdata, const struct rf_event *event, size_t size),
		      void *userdata);

#endif
