/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A kernel side of memory alone: all of user/kernel.h, linked in the place of
 * user/kernel.c. It keeps count of what it is asked to hold, fails where a test
 * says so, and its events come from the test.
 */
#ifndef RF_UNIT_FAKE_KERNEL_H
#define RF_UNIT_FAKE_KERNEL_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "policy/image.h"
#include "user/kernel.h"

#define FAKE_SLOTS 16
#define FAKE_ANCHORS 1024
#define FAKE_EVENTS 8192

struct rf_kernel {
	bool open, adopted;
	const char *fail; /* name of the function that fails, */
	int error; /* with this, */
	int after; /* after so many calls that do not */
	uint64_t next_session, next_policy;
	void *image[FAKE_SLOTS];
	size_t image_size[FAKE_SLOTS];
	unsigned int image_refs[FAKE_SLOTS];
	struct {
		struct rf_anchor_key key;
		struct rf_anchor anchor;
	} anchors[FAKE_ANCHORS];
	size_t n_anchors;
	struct rf_kernel_session sessions[FAKE_SLOTS]; /* id 0: free */
	struct rf_counters counters[FAKE_SLOTS];
	struct rf_meter meters[FAKE_SLOTS];
	struct rf_event *events[FAKE_EVENTS];
	size_t n_events;
	int fd;
	unsigned int unloads, synchronized;
};

static struct rf_kernel fake = {.fd = -1};

static inline bool fake_fails(const char *name)
{
	return fake.fail && !strcmp(fake.fail, name) && fake.after-- <= 0;
}

static inline void fake_fail(const char *name, int error, int after)
{
	fake.fail = name;
	fake.error = error;
	fake.after = after;
}

static inline unsigned int fake_images(void)
{
	unsigned int n = 0;

	for (size_t i = 0; i < FAKE_SLOTS; i++)
		n += fake.image_refs[i];
	return n;
}

static inline unsigned int fake_sessions(void)
{
	unsigned int n = 0;

	for (size_t i = 0; i < FAKE_SLOTS; i++)
		n += fake.sessions[i].id != 0;
	return n;
}

static inline void fake_reset(void)
{
	for (size_t i = 0; i < FAKE_SLOTS; i++)
		free(fake.image[i]);
	for (size_t i = 0; i < fake.n_events; i++)
		free(fake.events[i]);
	if (fake.fd >= 0)
		close(fake.fd);
	fake = (struct rf_kernel){.fd = -1};
}

/* The next of the events; `path` below the anchor. */
static inline struct rf_event *fake_event(uint64_t session, const struct rf_anchor_key *key,
					  uint32_t name, const char *path)
{
	struct rf_event *event = calloc(1, sizeof(*event));
	uint64_t one = 1;

	if (!event)
		abort();
	event->session = session;
	event->time = 1;
	event->decision = RF_DENY;
	event->op = RF_OP_OPEN;
	event->reason = RF_REASON_RULE;
	event->rule = 1;
	event->want = RF_READ | RF_MODIFY;
	event->missing = RF_READ;
	event->tgid = event->pid = (uint32_t)getpid();
	memcpy(event->comm, "test", 5);
	if (key)
		event->anchor = *key;
	else
		event->flags = RF_EVENT_NO_ANCHOR;
	event->anchor_name = name;
	event->path_len = (uint32_t)strlen(path);
	memcpy(event->path, path, event->path_len);
	fake.events[fake.n_events++] = event;
	if (fake.fd >= 0 && write(fake.fd, &one, sizeof(one)) != sizeof(one))
		abort();
	return event;
}

int rf_kernel_open(const char *pin_dir, struct rf_diags *diags, struct rf_kernel **ret_kernel)
{
	(void)pin_dir;
	if (fake_fails("open")) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "boot with lsm=...,bpf", "bpf is no LSM here");
		return fake.error;
	}
	fake.adopted = fake.open;
	fake.open = true;
	if (fake.fd < 0)
		fake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*ret_kernel = &fake;
	return fake.fd < 0 ? -errno : 0;
}

bool rf_kernel_adopted(const struct rf_kernel *kernel)
{
	return kernel->adopted;
}

/* References to images are the daemon's, not the kernel's. */
void rf_kernel_close(struct rf_kernel *kernel)
{
	if (kernel)
		memset(kernel->image_refs, 0, sizeof(kernel->image_refs));
}

int rf_kernel_unload(struct rf_kernel *kernel)
{
	kernel->unloads++;
	kernel->open = false;
	rf_kernel_close(kernel);
	return 0;
}

uint64_t rf_kernel_next_session(struct rf_kernel *kernel)
{
	return ++kernel->next_session;
}

uint64_t rf_kernel_next_policy(struct rf_kernel *kernel)
{
	return ++kernel->next_policy;
}

int rf_kernel_put_image(struct rf_kernel *kernel, const void *image, size_t size,
			struct rf_diags *diags, struct rf_image_ref *ret_ref)
{
	int err = fake_fails("put_image") ? fake.error : rf_image_verify(image, size, diags);

	if (err)
		return err;
	for (uint32_t i = 0; i < FAKE_SLOTS; i++) {
		if (!kernel->image_refs[i] || kernel->image_size[i] != size ||
		    memcmp(kernel->image[i], image, size) != 0)
			continue;
		kernel->image_refs[i]++;
		*ret_ref = (struct rf_image_ref){.class = RF_CLASS_16K, .slot = i};
		return 0;
	}
	for (uint32_t i = 0; i < FAKE_SLOTS; i++) {
		if (kernel->image[i])
			continue;
		kernel->image[i] = malloc(size);
		if (!kernel->image[i])
			return -ENOMEM;
		memcpy(kernel->image[i], image, size);
		kernel->image_size[i] = size;
		kernel->image_refs[i] = 1;
		*ret_ref = (struct rf_image_ref){.class = RF_CLASS_16K, .slot = i};
		return 0;
	}
	return -ENOSPC;
}

void rf_kernel_drop_image(struct rf_kernel *kernel, struct rf_image_ref ref)
{
	if (!kernel->image_refs[ref.slot] || --kernel->image_refs[ref.slot])
		return;
	free(kernel->image[ref.slot]);
	kernel->image[ref.slot] = NULL;
}

int rf_kernel_get_image(struct rf_kernel *kernel, struct rf_image_ref ref, void **ret_image,
			size_t *ret_size)
{
	void *copy;

	if (fake_fails("get_image"))
		return fake.error;
	if (ref.slot >= FAKE_SLOTS || !kernel->image[ref.slot])
		return -ENOENT;
	copy = malloc(kernel->image_size[ref.slot]);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, kernel->image[ref.slot], kernel->image_size[ref.slot]);
	*ret_image = copy;
	*ret_size = kernel->image_size[ref.slot];
	return 0;
}

int rf_kernel_hold_image(struct rf_kernel *kernel, struct rf_image_ref ref)
{
	if (ref.slot >= FAKE_SLOTS || !kernel->image[ref.slot])
		return -ENOENT;
	kernel->image_refs[ref.slot]++;
	return 0;
}

int rf_kernel_identify(struct rf_kernel *kernel, const int *fds, size_t n,
		       struct rf_identity *ret_identities)
{
	(void)kernel;
	if (fake_fails("identify"))
		return fake.error;
	for (size_t i = 0; i < n; i++) {
		struct statfs fs;
		struct stat st;

		if (fstat(fds[i], &st) || fstatfs(fds[i], &fs))
			return -EBADF;
		ret_identities[i] = (struct rf_identity){
			.fd = (uint32_t)fds[i],
			.super = major(st.st_dev) << 20 | minor(st.st_dev),
			.ino = st.st_ino,
			.mode = st.st_mode,
			.magic = (uint64_t)fs.f_type,
		};
	}
	return 0;
}

int rf_kernel_add_anchor(struct rf_kernel *kernel, uint64_t policy,
			 const struct rf_identity *object, uint32_t state, uint32_t flags,
			 uint32_t *ret_name)
{
	const struct rf_anchor_key key = {.policy = policy,
					  .ino = object->ino,
					  .subvol = object->subvol,
					  .super = object->super,
					  .generation = object->generation};
	uint64_t word = RF_NAME_WORD(policy, state, flags);
	size_t i;

	if (fake_fails("add_anchor"))
		return fake.error;
	/* The kernel's own file systems, which every policy has. */
	if (object->subvol == RF_SUBVOL_TYPE) {
		*ret_name = 0;
		return 0;
	}
	for (i = 0; i < kernel->n_anchors; i++)
		if (!memcmp(&kernel->anchors[i].key, &key, sizeof(key)))
			break;
	if (i == FAKE_ANCHORS)
		return -ENOSPC;
	kernel->anchors[i].key = key;
	if (i == kernel->n_anchors) {
		memset(&kernel->anchors[i].anchor, 0, sizeof(struct rf_anchor));
		kernel->n_anchors++;
	}
	for (uint32_t k = 0; k < RF_ANCHOR_NAMES; k++) {
		__u64 *name = &kernel->anchors[i].anchor.name[k];

		if (*name && *name != word)
			continue;
		*name = word;
		*ret_name = k;
		return 0;
	}
	return -ENOSPC;
}

int rf_kernel_drop_anchors(struct rf_kernel *kernel, uint64_t policy)
{
	size_t kept = 0;

	for (size_t i = 0; i < kernel->n_anchors; i++)
		if (kernel->anchors[i].key.policy != policy)
			kernel->anchors[kept++] = kernel->anchors[i];
	kernel->n_anchors = kept;
	return 0;
}

int rf_kernel_start_session(struct rf_kernel *kernel, struct rf_kernel_session *session)
{
	if (fake_fails("start_session"))
		return fake.error;
	for (uint32_t i = 0; i < FAKE_SLOTS; i++) {
		if (kernel->sessions[i].id)
			continue;
		session->slot = i;
		kernel->sessions[i] = *session;
		kernel->counters[i] = (struct rf_counters){.session = session->id};
		kernel->meters[i] = (struct rf_meter){.session = session->id};
		return 0;
	}
	return -ENOSPC;
}

int rf_kernel_switch_session(struct rf_kernel *kernel, const struct rf_kernel_session *session,
			     uint64_t word)
{
	if (fake_fails("switch_session"))
		return fake.error;
	kernel->sessions[session->slot].word = word;
	return 0;
}

int rf_kernel_check_mounts(struct rf_kernel *kernel, struct rf_kernel_session *session,
			   uint32_t lasting)
{
	(void)kernel;
	session->mnt_ns = lasting;
	return 0;
}

int rf_kernel_session_word(struct rf_kernel *kernel, const struct rf_kernel_session *session,
			   uint64_t *ret_word)
{
	if (kernel->sessions[session->slot].id != session->id)
		return -ESRCH;
	*ret_word = kernel->sessions[session->slot].word;
	return 0;
}

int rf_kernel_synchronize(struct rf_kernel *kernel, struct rf_image_ref ref)
{
	if (fake_fails("synchronize"))
		return fake.error;
	if (!kernel->image[ref.slot])
		return -ENOENT;
	kernel->synchronized++;
	return 0;
}

int rf_kernel_end_session(struct rf_kernel *kernel, const struct rf_kernel_session *session)
{
	if (kernel->sessions[session->slot].id != session->id)
		return -ESRCH;
	kernel->sessions[session->slot].id = 0;
	return 0;
}

int rf_kernel_counters(struct rf_kernel *kernel, uint32_t slot, struct rf_counters *ret_counters)
{
	*ret_counters = kernel->counters[slot];
	return 0;
}

struct rf_meter *rf_kernel_meter(struct rf_kernel *kernel, uint32_t slot)
{
	return &kernel->meters[slot];
}

int rf_kernel_events_fd(const struct rf_kernel *kernel)
{
	return kernel->fd;
}

int rf_kernel_consume(struct rf_kernel *kernel,
		      void (*event)(void *userdata, const struct rf_event *event, size_t size),
		      void *userdata)
{
	uint64_t count;
	int n = (int)kernel->n_events;

	if (read(kernel->fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return -errno;
	for (size_t i = 0; i < kernel->n_events; i++) {
		struct rf_event *e = kernel->events[i];

		event(userdata, e, offsetof(struct rf_event, path) + e->path_len);
		free(e);
	}
	kernel->n_events = 0;
	return n;
}

#endif
