/* SPDX-License-Identifier: BSD-2-Clause */
/* Load, pin, adopt and write the kernel side: see kernel.h. */
#include "user/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "policy/image.h"
#include "policy/util.h"
#include "ringfence.skel.h"
#include "user/cleanup.h"
#include "user/probe.h"

/* The maps that user space writes or reads, by the name that they are pinned with. */
enum map {
	MAP_GLOBAL,
	MAP_SESSIONS,
	MAP_ROOTS,
	MAP_ANCHORS,
	MAP_IMAGES, /* one for each class, in order */
	MAP_COUNTERS = MAP_IMAGES + RF_CLASSES,
	MAP_METERS,
	MAP_DENIALS,
	MAP_OTHERS,
	MAP_LABELS,
	MAP_SUPERS,
	MAP_MADE,
	MAPS,
};

static const char *const map_names[MAPS] = {
	[MAP_GLOBAL] = "global",
	[MAP_SESSIONS] = "sessions",
	[MAP_ROOTS] = "roots",
	[MAP_ANCHORS] = "anchors",
	[MAP_IMAGES + RF_CLASS_16K] = "images_16k",
	[MAP_IMAGES + RF_CLASS_128K] = "images_128k",
	[MAP_IMAGES + RF_CLASS_1M] = "images_1m",
	[MAP_IMAGES + RF_CLASS_4M] = "images_4m",
	[MAP_COUNTERS] = "counters",
	[MAP_METERS] = "meters",
	[MAP_DENIALS] = "denials",
	[MAP_OTHERS] = "others",
	[MAP_LABELS] = "labels",
	[MAP_SUPERS] = "supers",
	[MAP_MADE] = "made",
};

/* The iterator's pin. LSM programs are pinned by their links, LINK_PREFIX + hook. */
#define IDENTIFY "identify"
#define LINK_PREFIX "link-"

struct image {
	unsigned int refs;
	uint32_t size, checksum;
};

struct rf_kernel {
	char *pin_dir;
	bool adopted;
	int maps[MAPS];
	int identify;
	struct rf_global *global; /* mapped */
	struct rf_session *sessions; /* mapped, RF_MAX_SESSIONS of them */
	struct rf_meter *meters; /* mapped, RF_METERS of them */
	struct ring_buffer *rings[2];
	int poll; /* on both rings */
	int budget, read; /* of one ring_buffer__consume() */
	void (*event)(void *userdata, const struct rf_event *event, size_t size);
	void *userdata;
	uint32_t next_slot; /* slots are taken in turn, to be reused as late as possible */
	struct image images[RF_CLASSES][RF_IMAGES_PER_CLASS];
};

__attribute__((format(printf, 1, 2))) static char *format(const char *pattern, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, pattern);
	if (vasprintf(&text, pattern, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

/* ---- libbpf's words -------------------------------------------------------- */

/* The end of what libbpf warned of, for the diagnostic of a failed load. */
static __thread char warnings[4096];

__attribute__((format(printf, 2, 0))) static int keep_warning(enum libbpf_print_level level,
							      const char *pattern, va_list args)
{
	_cleanup_free_ char *text = NULL;
	size_t used = strlen(warnings), size, over;
	int n;

	if (level != LIBBPF_WARN)
		return 0;
	n = vasprintf(&text, pattern, args);
	if (n < 0) {
		text = NULL;
		return n;
	}
	/* The verifier says last what it refuses. */
	size = (size_t)n < sizeof(warnings) ? (size_t)n : sizeof(warnings) - 1;
	over = used + size < sizeof(warnings) ? 0 : used + size - (sizeof(warnings) - 1);
	memmove(warnings, warnings + over, used - over);
	memcpy(warnings + used - over, text + n - size, size);
	warnings[used - over + size] = '\0';
	return n;
}

/* ---- open, adopt, close ---------------------------------------------------- */

static int map_shared(int fd, size_t size, void **ret_memory)
{
	void *memory;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	*ret_memory = memory;
	return 0;
}

static size_t sessions_bytes(void)
{
	return RF_MAX_SESSIONS * sizeof(struct rf_session);
}

static size_t meters_bytes(void)
{
	return RF_METERS * sizeof(struct rf_meter);
}

static int on_event(void *userdata, void *data, size_t size)
{
	struct rf_kernel *kernel = userdata;
	const struct rf_event *event = data;

	if (size < offsetof(struct rf_event, path) ||
	    size - offsetof(struct rf_event, path) < event->path_len)
		return 0;
	kernel->event(kernel->userdata, event, size);
	kernel->read++;
	/* The record is taken all the same. */
	return --kernel->budget > 0 ? 0 : -EAGAIN;
}

/* One ring_buffer for each ring: a busy ring does not keep the other from being read. */
static int open_rings(struct rf_kernel *kernel)
{
	kernel->poll = epoll_create1(EPOLL_CLOEXEC);
	if (kernel->poll < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		int fd = kernel->maps[MAP_DENIALS + i];
		struct epoll_event event = {.events = EPOLLIN};

		kernel->rings[i] = ring_buffer__new(fd, on_event, kernel, NULL);
		if (!kernel->rings[i] || epoll_ctl(kernel->poll, EPOLL_CTL_ADD, fd, &event) < 0)
			return -errno;
	}
	return 0;
}

/* What both a loaded and an adopted kernel need once the maps' descriptors are there. */
static int open_shared(struct rf_kernel *kernel, struct rf_diags *diags)
{
	void *memory = NULL;
	int r;

	r = map_shared(kernel->maps[MAP_GLOBAL], sizeof(struct rf_global), &memory);
	if (r < 0)
		goto fail;
	kernel->global = memory;
	r = map_shared(kernel->maps[MAP_SESSIONS], sessions_bytes(), &memory);
	if (r < 0)
		goto fail;
	kernel->sessions = memory;
	r = map_shared(kernel->maps[MAP_METERS], meters_bytes(), &memory);
	if (r < 0)
		goto fail;
	kernel->meters = memory;
	r = open_rings(kernel);
	if (r < 0)
		goto fail;
	return 0;
fail:
	rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot map the kernel's tables: %s",
		strerror(-r));
	return r;
}

static struct rf_kernel *kernel_new(const char *pin_dir)
{
	struct rf_kernel *kernel = calloc(1, sizeof(*kernel));
	size_t i;

	if (!kernel)
		return NULL;
	kernel->identify = kernel->poll = -1;
	for (i = 0; i < MAPS; i++)
		kernel->maps[i] = -1;
	kernel->pin_dir = strdup(pin_dir);
	if (!kernel->pin_dir) {
		free(kernel);
		return NULL;
	}
	libbpf_set_print(keep_warning);
	return kernel;
}

void rf_kernel_close(struct rf_kernel *kernel)
{
	size_t i;

	if (!kernel)
		return;
	for (i = 0; i < 2; i++)
		ring_buffer__free(kernel->rings[i]);
	rf_closep(&kernel->poll);
	if (kernel->global)
		munmap(kernel->global, sizeof(struct rf_global));
	if (kernel->sessions)
		munmap(kernel->sessions, sessions_bytes());
	if (kernel->meters)
		munmap(kernel->meters, meters_bytes());
	for (i = 0; i < MAPS; i++)
		rf_closep(&kernel->maps[i]);
	rf_closep(&kernel->identify);
	free(kernel->pin_dir);
	free(kernel);
}

/* Remove a directory of pins and all in it. */
static int unpin(const char *dir)
{
	struct dirent *entry;
	DIR *d;

	d = opendir(dir);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
	return rmdir(dir) < 0 ? -errno : 0;
}

/* For hooks that not every supported kernel has, and that older ones do without. */
static bool has_hook(const char *hook)
{
	_cleanup_free_ char *name = format("bpf_lsm_%s", hook);
	struct btf *btf = btf__load_vmlinux_btf();
	bool has;

	has = btf && name && btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
	btf__free(btf);
	return has;
}

/* The skeleton with the programs that this kernel has hooks for; NULL and errno. */
static struct rf_bpf *open_skeleton(void)
{
	struct rf_bpf *skeleton = rf_bpf__open();

	if (skeleton && !has_hook("file_ioctl_compat"))
		bpf_program__set_autoload(skeleton->progs.rf_file_ioctl_compat, false);
	return skeleton;
}

static void maps_of(const struct rf_bpf *skeleton, struct bpf_map **ret_maps)
{
	ret_maps[MAP_GLOBAL] = skeleton->maps.bss;
	ret_maps[MAP_SESSIONS] = skeleton->maps.sessions;
	ret_maps[MAP_ROOTS] = skeleton->maps.roots;
	ret_maps[MAP_ANCHORS] = skeleton->maps.anchors;
	ret_maps[MAP_IMAGES + RF_CLASS_16K] = skeleton->maps.images_16k;
	ret_maps[MAP_IMAGES + RF_CLASS_128K] = skeleton->maps.images_128k;
	ret_maps[MAP_IMAGES + RF_CLASS_1M] = skeleton->maps.images_1m;
	ret_maps[MAP_IMAGES + RF_CLASS_4M] = skeleton->maps.images_4m;
	ret_maps[MAP_COUNTERS] = skeleton->maps.counters;
	ret_maps[MAP_METERS] = skeleton->maps.meters;
	ret_maps[MAP_DENIALS] = skeleton->maps.denials;
	ret_maps[MAP_OTHERS] = skeleton->maps.others;
	ret_maps[MAP_LABELS] = skeleton->maps.labels;
	ret_maps[MAP_SUPERS] = skeleton->maps.supers;
	ret_maps[MAP_MADE] = skeleton->maps.made;
}

/* The hook of a program that is to be attached, NULL if it is not. */
static const char *hook_of(const struct bpf_program *program)
{
	if (bpf_program__type(program) != BPF_PROG_TYPE_LSM || !bpf_program__autoload(program))
		return NULL;
	return strchr(bpf_program__section_name(program), '/') + 1;
}

static bool is_link(const char *path)
{
	_cleanup_fd_ int fd = bpf_obj_get(path);
	struct bpf_link_info info = {};
	__u32 size = sizeof(info);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0 &&
	       info.type == BPF_LINK_TYPE_TRACING;
}

/* The same ABI does not say the same hooks: each one of ours must be attached and pinned. */
static int check_links(const struct rf_kernel *kernel, struct rf_diags *diags)
{
	struct rf_bpf *skeleton = open_skeleton();
	struct bpf_program *program;
	int r = skeleton ? 0 : -errno;

	if (r < 0)
		return r;
	bpf_object__for_each_program(program, skeleton->obj)
	{
		const char *hook = hook_of(program);
		_cleanup_free_ char *path =
			hook ? format("%s/" LINK_PREFIX "%s", kernel->pin_dir, hook) : NULL;

		if (!hook || (path && is_link(path)))
			continue;
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			"end the sessions with the version that started them",
			"the loaded programs are not all that this version needs: lsm/%s is not "
			"pinned in %s",
			hook, kernel->pin_dir);
		r = path ? -EPROTO : -ENOMEM;
	}
	rf_bpf__destroy(skeleton);
	return r;
}

/* Nor the same maps: what is written to one of another shape would fail, or say something else. */
static int check_maps(const struct rf_kernel *kernel, struct rf_diags *diags)
{
	struct rf_bpf *skeleton = rf_bpf__open();
	struct bpf_map *maps[MAPS];
	int r = skeleton ? 0 : -errno;
	size_t i;

	if (r < 0) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot read the own BPF programs: %s",
			strerror(-r));
		return r;
	}
	maps_of(skeleton, maps);
	for (i = 0; i < MAPS && r == 0; i++) {
		struct bpf_map_info info = {};
		__u32 size = sizeof(info);

		if (bpf_obj_get_info_by_fd(kernel->maps[i], &info, &size) < 0) {
			r = -errno;
			break;
		}
		if (info.type == (__u32)bpf_map__type(maps[i]) &&
		    info.key_size == bpf_map__key_size(maps[i]) &&
		    info.value_size == bpf_map__value_size(maps[i]) &&
		    info.max_entries == bpf_map__max_entries(maps[i]))
			continue;
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			"end the sessions with the version that started them",
			"%s/%s is not the map that this version needs: type, bytes of a key and of a "
			"value, and entries are %u, %u, %u, %u, not %u, %u, %u, %u",
			kernel->pin_dir, map_names[i], info.type, info.key_size, info.value_size,
			info.max_entries, (unsigned int)bpf_map__type(maps[i]),
			bpf_map__key_size(maps[i]), bpf_map__value_size(maps[i]),
			bpf_map__max_entries(maps[i]));
		r = -EPROTO;
	}
	rf_bpf__destroy(skeleton);
	return r;
}

static int adopt(struct rf_kernel *kernel, struct rf_diags *diags)
{
	size_t i;
	int r;

	for (i = 0; i <= MAPS; i++) {
		_cleanup_free_ char *path =
			format("%s/%s", kernel->pin_dir, i < MAPS ? map_names[i] : IDENTIFY);
		int fd;

		if (!path)
			return -ENOMEM;
		fd = bpf_obj_get(path);
		if (fd < 0) {
			r = -errno;
			rf_diag(diags, RF_ERROR, NULL, 0, 0,
				"end all sessions, remove that directory, start again",
				"%s is there but %s cannot be opened: %s", kernel->pin_dir, path,
				strerror(-r));
			return r == -ENOENT ? -EPROTO : r;
		}
		if (i < MAPS)
			kernel->maps[i] = fd;
		else
			kernel->identify = fd;
	}
	r = check_maps(kernel, diags);
	if (r < 0)
		return r;
	r = open_shared(kernel, diags);
	if (r < 0)
		return r;
	if (kernel->global->abi != RF_ABI_VERSION) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			"end the sessions with the version that started them",
			"the loaded programs have ABI version %u, this daemon has %u",
			kernel->global->abi, RF_ABI_VERSION);
		return -EPROTO;
	}
	r = check_links(kernel, diags);
	if (r < 0)
		return r;
	kernel->adopted = true;
	return 0;
}

/* A file system that nobody sees, gone at once. */
static void make_memory(void)
{
	_cleanup_fd_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC), mount = -1;

	if (context >= 0 && fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		mount = fsmount(context, FSMOUNT_CLOEXEC, 0);
}

/*
 * A program that loads and attaches may still never be called (bpf is not among the
 * active LSMs), so provoke each hook once and see that its program ran.
 */
static int check_called(struct rf_bpf *skeleton, struct rf_diags *diags)
{
	const struct {
		const char *hook;
		struct bpf_program *program;
	} checks[] = {
		{"file_open", skeleton->progs.rf_file_open},
		{"task_alloc", skeleton->progs.rf_task_alloc},
		{"file_ioctl", skeleton->progs.rf_file_ioctl},
		{"inode_alloc_security", skeleton->progs.rf_inode_alloc_security},
		{"sb_kern_mount", skeleton->progs.rf_sb_kern_mount},
		{"sb_free_security", skeleton->progs.rf_sb_free_security},
		{"socket_create", skeleton->progs.rf_socket_create},
		{"socket_connect", skeleton->progs.rf_socket_connect},
		{"socket_sendmsg", skeleton->progs.rf_socket_sendmsg},
		{"netlink_send", skeleton->progs.rf_netlink_send},
	};
	_cleanup_fd_ int stats = -1, file = -1, peer = -1, netlink = -1;
	const struct nlmsghdr message = {.nlmsg_len = sizeof(message), .nlmsg_type = NLMSG_NOOP};
	/* Too short for the kernel, which says so behind the hooks: nothing is connected or sent. */
	const struct sockaddr nobody = {.sa_family = AF_UNIX};
	struct termios mode;
	pid_t child;
	size_t i;
	int r = 0;

	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats < 0)
		return -errno;
	file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)ioctl(file, TCGETS, &mode);
	make_memory();
	peer = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	(void)connect(peer, &nobody, sizeof(nobody.sa_family));
	(void)sendto(peer, "", 1, 0, &nobody, sizeof(nobody.sa_family));
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	(void)send(netlink, &message, sizeof(message), 0);
	child = fork();
	if (child == 0)
		_exit(0);
	if (child > 0)
		waitpid(child, NULL, 0);
	for (i = 0; i < RF_COUNT(checks); i++) {
		struct bpf_prog_info info = {};

		/* A file system's end may come later than the call that ends it. */
		for (int tries = 0; !info.run_cnt && tries < 100; tries++) {
			__u32 size = sizeof(info);

			if (tries)
				usleep(10000);
			memset(&info, 0, sizeof(info));
			if (bpf_obj_get_info_by_fd(bpf_program__fd(checks[i].program), &info,
						   &size) < 0)
				return -errno;
		}
		if (info.run_cnt)
			continue;
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			"boot with `bpf` added to the list in the lsm= kernel parameter",
			"the program on lsm/%s is attached, but the kernel never calls it",
			checks[i].hook);
		r = -EOPNOTSUPP;
	}
	return r;
}

static int pin_all(struct rf_bpf *skeleton, struct bpf_map *const *maps, const char *dir)
{
	struct bpf_program *program;
	size_t i;
	int r;

	for (i = 0; i < MAPS; i++) {
		_cleanup_free_ char *path = format("%s/%s", dir, map_names[i]);

		if (!path)
			return -ENOMEM;
		r = bpf_map__pin(maps[i], path);
		if (r < 0)
			return r;
	}
	bpf_object__for_each_program(program, skeleton->obj)
	{
		const char *hook = hook_of(program);
		_cleanup_free_ char *path = NULL;
		struct bpf_link *link;

		if (!hook)
			continue;
		path = format("%s/" LINK_PREFIX "%s", dir, hook);
		if (!path)
			return -ENOMEM;
		link = bpf_program__attach_lsm(program);
		if (!link)
			return -errno;
		r = bpf_link__pin(link, path);
		/* The pin holds it from now on; without the pin this detaches. */
		bpf_link__destroy(link);
		if (r < 0)
			return r;
	}
	{
		_cleanup_free_ char *path = format("%s/" IDENTIFY, dir);

		if (!path)
			return -ENOMEM;
		return bpf_program__pin(skeleton->progs.rf_identify, path);
	}
}

static int load(struct rf_kernel *kernel, struct rf_diags *diags)
{
	_cleanup_free_ char *partial = NULL;
	struct rf_bpf *skeleton;
	size_t i;
	int r;

	warnings[0] = '\0';
	/* Pinned under another name until all is there: a crash leaves nothing that looks whole (bpffs refuses dots). */
	partial = format("%s-partial", kernel->pin_dir);
	if (!partial)
		return -ENOMEM;
	skeleton = open_skeleton();
	if (!skeleton) {
		r = -errno;
		goto failed;
	}
	{
		struct bpf_map *maps[MAPS];

		maps_of(skeleton, maps);
		r = rf_bpf__load(skeleton);
		if (r < 0)
			goto failed;
		r = unpin(partial);
		if (r < 0)
			goto failed;
		if (mkdir(partial, 0700) < 0) {
			r = -errno;
			goto failed;
		}
		r = pin_all(skeleton, maps, partial);
		if (r < 0)
			goto failed;
		for (i = 0; i < MAPS; i++) {
			kernel->maps[i] = fcntl(bpf_map__fd(maps[i]), F_DUPFD_CLOEXEC, 3);
			if (kernel->maps[i] < 0) {
				r = -errno;
				goto failed;
			}
		}
	}
	kernel->identify = fcntl(bpf_program__fd(skeleton->progs.rf_identify), F_DUPFD_CLOEXEC, 3);
	if (kernel->identify < 0) {
		r = -errno;
		goto failed;
	}
	r = check_called(skeleton, diags);
	if (r < 0)
		goto failed;
	r = open_shared(kernel, diags);
	if (r < 0)
		goto failed;
	if (getrandom(kernel->global->key, sizeof(kernel->global->key), 0) !=
	    sizeof(kernel->global->key)) {
		r = -EIO;
		goto failed;
	}
	kernel->global->abi = RF_ABI_VERSION;
	kernel->global->next_session = 1;
	kernel->global->next_policy = 1;
	if (rename(partial, kernel->pin_dir) < 0) {
		r = -errno;
		goto failed;
	}
	rf_bpf__destroy(skeleton);
	return 0;
failed:
	unpin(partial);
	rf_bpf__destroy(skeleton);
	if (!diags->errors)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot load the BPF programs: %s\n%s",
			strerror(-r), warnings);
	return r;
}

int rf_kernel_open(const char *pin_dir, struct rf_diags *diags, struct rf_kernel **ret_kernel)
{
	struct rf_kernel *kernel;
	int r;

	kernel = kernel_new(pin_dir);
	if (!kernel)
		return -ENOMEM;
	if (access(pin_dir, F_OK) == 0) {
		r = adopt(kernel, diags);
	} else {
		r = rf_probe(diags);
		if (r == 0)
			r = load(kernel, diags);
	}
	if (r < 0) {
		rf_kernel_close(kernel);
		return r;
	}
	*ret_kernel = kernel;
	return 0;
}

bool rf_kernel_adopted(const struct rf_kernel *kernel)
{
	return kernel->adopted;
}

int rf_kernel_unload(struct rf_kernel *kernel)
{
	int r;

	r = unpin(kernel->pin_dir);
	rf_kernel_close(kernel);
	return r;
}

/* ---- numbers --------------------------------------------------------------- */

uint64_t rf_kernel_next_session(struct rf_kernel *kernel)
{
	return __atomic_fetch_add(&kernel->global->next_session, 1, __ATOMIC_SEQ_CST);
}

uint64_t rf_kernel_next_policy(struct rf_kernel *kernel)
{
	return __atomic_fetch_add(&kernel->global->next_policy, 1, __ATOMIC_SEQ_CST);
}

/* ---- images ---------------------------------------------------------------- */

static int read_image(const struct rf_kernel *kernel, struct rf_image_ref ref, void *buffer)
{
	_cleanup_fd_ int inner = -1;
	__u32 zero = 0, id;

	if (bpf_map_lookup_elem(kernel->maps[MAP_IMAGES + ref.class], &ref.slot, &id) < 0)
		return -errno;
	inner = bpf_map_get_fd_by_id(id);
	if (inner < 0)
		return -errno;
	return bpf_map_lookup_elem(inner, &zero, buffer) < 0 ? -errno : 0;
}

int rf_kernel_get_image(struct rf_kernel *kernel, struct rf_image_ref ref, void **ret_image,
			size_t *ret_size)
{
	const struct rf_image *head;
	void *buffer;
	int r;

	if (ref.class >= RF_CLASSES || ref.slot >= RF_IMAGES_PER_CLASS)
		return -EINVAL;
	buffer = calloc(1, RF_CLASS_BYTES(ref.class));
	if (!buffer)
		return -ENOMEM;
	r = read_image(kernel, ref, buffer);
	head = buffer;
	if (r == 0 && (head->size < sizeof(*head) || head->size > RF_CLASS_BYTES(ref.class)))
		r = -EBADMSG;
	if (r < 0) {
		free(buffer);
		return r;
	}
	*ret_image = buffer;
	*ret_size = head->size;
	return 0;
}

int rf_kernel_hold_image(struct rf_kernel *kernel, struct rf_image_ref ref)
{
	_cleanup_free_ char *image = NULL;
	struct image *held;
	void *copy;
	size_t size;
	int r;

	r = rf_kernel_get_image(kernel, ref, &copy, &size);
	if (r < 0)
		return r;
	image = copy;
	held = &kernel->images[ref.class][ref.slot];
	held->refs++;
	held->size = size;
	held->checksum = ((const struct rf_image *)copy)->checksum;
	return 0;
}

/* Is the image in this slot the same, byte for byte? */
static bool same_image(struct rf_kernel *kernel, struct rf_image_ref ref, const void *image,
		       size_t size)
{
	_cleanup_free_ char *copy = NULL;
	void *buffer;
	size_t have;

	if (rf_kernel_get_image(kernel, ref, &buffer, &have) < 0)
		return false;
	copy = buffer;
	return have == size && memcmp(copy, image, size) == 0;
}

int rf_kernel_put_image(struct rf_kernel *kernel, const void *image, size_t size,
			struct rf_diags *diags, struct rf_image_ref *ret_ref)
{
	const struct rf_image *head = image;
	_cleanup_free_ char *padded = NULL;
	_cleanup_fd_ int inner = -1;
	struct rf_image_ref ref = {};
	__u32 zero = 0, id;
	uint32_t slot;
	int r;

	r = rf_image_verify(image, size, diags);
	if (r < 0)
		return r;
	r = rf_image_class(size);
	if (r < 0)
		return r;
	ref.class = r;
	for (slot = 0; slot < RF_IMAGES_PER_CLASS; slot++) {
		struct image *held = &kernel->images[ref.class][slot];

		ref.slot = slot;
		if (!held->refs || held->size != size || held->checksum != head->checksum)
			continue;
		if (!same_image(kernel, ref, image, size))
			continue;
		held->refs++;
		*ret_ref = ref;
		return 0;
	}
	for (slot = 0; slot < RF_IMAGES_PER_CLASS; slot++)
		/* An adopted kernel may hold images of sessions that we do not know. */
		if (!kernel->images[ref.class][slot].refs &&
		    bpf_map_lookup_elem(kernel->maps[MAP_IMAGES + ref.class], &slot, &id) < 0 &&
		    errno == ENOENT)
			break;
	if (slot == RF_IMAGES_PER_CLASS) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "end some sessions",
			"the kernel already holds %u policies of this size", RF_IMAGES_PER_CLASS);
		return -ENOSPC;
	}
	ref.slot = slot;
	padded = calloc(1, RF_CLASS_BYTES(ref.class));
	if (!padded)
		return -ENOMEM;
	memcpy(padded, image, size);
	inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "rf_image", sizeof(__u32),
			       RF_CLASS_BYTES(ref.class), 1, NULL);
	if (inner < 0)
		return -errno;
	if (bpf_map_update_elem(inner, &zero, padded, BPF_ANY) < 0)
		return -errno;
	if (bpf_map_freeze(inner) < 0)
		return -errno;
	if (bpf_map_update_elem(kernel->maps[MAP_IMAGES + ref.class], &slot, &inner, BPF_ANY) < 0)
		return -errno;
	kernel->images[ref.class][slot] = (struct image){1, size, head->checksum};
	*ret_ref = ref;
	return 0;
}

void rf_kernel_drop_image(struct rf_kernel *kernel, struct rf_image_ref ref)
{
	struct image *held = &kernel->images[ref.class][ref.slot];

	if (!held->refs || --held->refs)
		return;
	bpf_map_delete_elem(kernel->maps[MAP_IMAGES + ref.class], &ref.slot);
}

/* ---- anchors --------------------------------------------------------------- */

int rf_kernel_identify(struct rf_kernel *kernel, const int *fds, size_t n,
		       struct rf_identity *ret_identities)
{
	union bpf_iter_link_info info = {.task.pid = getpid()};
	LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info,
		    .iter_info_len = sizeof(info));
	_cleanup_fd_ int link = -1, iterator = -1;
	struct rf_identity records[64], *found;
	size_t i, j, missing = n;
	ssize_t got;

	found = calloc(n ?: 1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	link = bpf_link_create(kernel->identify, 0, BPF_TRACE_ITER, &options);
	if (link < 0)
		goto failed;
	iterator = bpf_iter_create(link);
	if (iterator < 0)
		goto failed;
	for (size_t have = 0;;) {
		/* A read may end within a record. */
		got = read(iterator, (char *)records + have, sizeof(records) - have);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (got < 0)
			goto failed;
		if (got == 0)
			break;
		have += got;
		for (i = 0; i < have / sizeof(records[0]); i++)
			for (j = 0; j < n; j++)
				if (fds[j] == (int)records[i].fd && !found[j].mode) {
					found[j] = records[i];
					missing--;
				}
		have %= sizeof(records[0]);
		memmove(records, &records[i], have);
	}
	if (missing) {
		free(found);
		return -EBADF;
	}
	memcpy(ret_identities, found, n * sizeof(*found));
	free(found);
	return 0;
failed:
	free(found);
	return -errno;
}

/*
 * File systems that fold names, whose servers choose identities, or where an inode
 * number is not unique: an object there cannot be recognised, so it gets no
 * anchor and stays out of reach.
 */
static bool has_stable_identity(const struct rf_identity *object)
{
	static const uint64_t unstable[] = {
		0x6969, /* NFS */
		0x5346414f, /* AFS */
		0x00c36400, /* Ceph */
		0x9123683e, /* btrfs: numbers are per subvolume */
		0xca451a4e, /* bcachefs: the same */
	};
	size_t i;

	if (object->flags & RF_IDENTITY_FOLDS)
		return false;
	for (i = 0; i < RF_COUNT(unstable); i++)
		if (object->magic == unstable[i])
			return false;
	return true;
}

int rf_kernel_add_anchor(struct rf_kernel *kernel, uint64_t policy,
			 const struct rf_identity *object, uint32_t state, uint32_t flags,
			 uint32_t *ret_name)
{
	struct rf_anchor_key key = {
		.policy = policy,
		.ino = object->ino,
		.subvol = object->subvol,
		.super = object->super,
		.generation = object->generation,
	};
	__u64 word = RF_NAME_WORD(policy, state, flags);
	struct rf_anchor anchor = {};
	uint32_t i;

	if (!has_stable_identity(object))
		return -EOPNOTSUPP;
	if (!object->super && object->subvol != RF_SUBVOL_TYPE)
		return -ENOSPC;
	if (bpf_map_lookup_elem(kernel->maps[MAP_ANCHORS], &key, &anchor) < 0 && errno != ENOENT)
		return -errno;
	for (i = 0; i < RF_ANCHOR_NAMES && anchor.name[i]; i++) {
		if ((anchor.name[i] | RF_NAME_DENY_ONLY) != (word | RF_NAME_DENY_ONLY))
			continue;
		*ret_name = i;
		/* A name that may give says all that one of the same state that may not says. */
		if (anchor.name[i] == word || flags & RF_NAME_DENY_ONLY)
			return 0;
		break;
	}
	if (i == RF_ANCHOR_NAMES)
		return -ENOSPC;
	anchor.name[i] = word;
	__atomic_fetch_or(&kernel->global->anchored[RF_ANCHORED_BIT(key.ino) / 64],
			  1ull << RF_ANCHORED_BIT(key.ino) % 64, __ATOMIC_SEQ_CST);
	if (bpf_map_update_elem(kernel->maps[MAP_ANCHORS], &key, &anchor, BPF_ANY) < 0)
		return errno == E2BIG ? -ENOSPC : -errno;
	*ret_name = i;
	return 0;
}

int rf_kernel_drop_anchors(struct rf_kernel *kernel, uint64_t policy)
{
	struct rf_anchor_key key, next;
	bool others = false;
	int end;

	end = bpf_map_get_next_key(kernel->maps[MAP_ANCHORS], NULL, &next) < 0 ? errno : 0;
	while (!end) {
		key = next;
		end = bpf_map_get_next_key(kernel->maps[MAP_ANCHORS], &key, &next) < 0 ? errno : 0;
		if (key.policy != policy)
			others = true;
		else if (bpf_map_delete_elem(kernel->maps[MAP_ANCHORS], &key) < 0 &&
			 errno != ENOENT)
			return -errno;
	}
	/* Only who has seen all of them knows that there are no others. */
	if (end != ENOENT)
		return -end;
	if (!others)
		memset(kernel->global->anchored, 0, sizeof(kernel->global->anchored));
	return 0;
}

/* ---- sessions -------------------------------------------------------------- */

/* One store that a check sees whole, after all earlier ones. */
static void store(__u64 *where, __u64 value)
{
	__atomic_store_n(where, value, __ATOMIC_SEQ_CST);
}

static void raise_generation(struct rf_kernel *kernel)
{
	__atomic_fetch_add(&kernel->global->generation, 1, __ATOMIC_SEQ_CST);
}

static int reset_counters(struct rf_kernel *kernel, uint32_t slot, uint64_t id)
{
	int cpus = libbpf_num_possible_cpus();
	struct rf_counters *all;
	int i, r = 0;

	if (cpus < 0)
		return cpus;
	all = calloc(cpus, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (i = 0; i < cpus; i++)
		all[i].session = id;
	if (bpf_map_update_elem(kernel->maps[MAP_COUNTERS], &slot, all, BPF_ANY) < 0)
		r = -errno;
	free(all);
	return r;
}

/* A task of the slot's last session may still be writing: it is turned away first. */
static void reset_meter(struct rf_meter *meter, uint64_t id)
{
	store(&meter->session, 0);
	for (int i = 0; i < RF_STREAMS; i++) {
		store(&meter->stream[i].due, 0);
		for (int j = 0; j < RF_REPEATS; j++)
			store(&meter->stream[i].repeats[j], 0);
	}
	store(&meter->made, RF_MADE_WORD(id, 0));
	store(&meter->session, id);
}

int rf_kernel_start_session(struct rf_kernel *kernel, struct rf_kernel_session *session)
{
	struct rf_session *at;
	uint32_t i, slot = 0;
	int r;

	for (i = 0; i < RF_MAX_SESSIONS; i++) {
		slot = (kernel->next_slot + i) % RF_MAX_SESSIONS;
		if (!kernel->sessions[slot].id)
			break;
	}
	if (i == RF_MAX_SESSIONS)
		return -ENOSPC;
	r = reset_counters(kernel, slot, session->id);
	if (r < 0)
		return r;
	reset_meter(&kernel->meters[slot], session->id);
	at = &kernel->sessions[slot];
	store(&at->cgroup, session->cgroup);
	__atomic_store_n(&at->mnt_ns, session->mnt_ns, __ATOMIC_SEQ_CST);
	store(&at->word, session->word);
	store(&at->id, session->id);
	if (bpf_map_update_elem(kernel->maps[MAP_ROOTS], &session->cgroup, &slot, BPF_NOEXIST) <
	    0) {
		r = -errno;
		store(&at->id, 0);
		store(&at->word, 0);
		return r;
	}
	raise_generation(kernel);
	kernel->next_slot = (slot + 1) % RF_MAX_SESSIONS;
	session->slot = slot;
	return 0;
}

int rf_kernel_switch_session(struct rf_kernel *kernel, const struct rf_kernel_session *session,
			     uint64_t word)
{
	struct rf_session *at = &kernel->sessions[session->slot];

	if (at->id != session->id)
		return -ESRCH;
	store(&at->word, word);
	return 0;
}

int rf_kernel_check_mounts(struct rf_kernel *kernel, struct rf_kernel_session *session,
			   uint32_t lasting)
{
	struct rf_session *at = &kernel->sessions[session->slot];

	if (at->id != session->id)
		return -ESRCH;
	if (at->mnt_ns != lasting)
		__atomic_store_n(&at->mnt_ns, 0, __ATOMIC_SEQ_CST);
	session->mnt_ns = at->mnt_ns;
	return 0;
}

int rf_kernel_session_word(struct rf_kernel *kernel, const struct rf_kernel_session *session,
			   uint64_t *ret_word)
{
	const struct rf_session *at = &kernel->sessions[session->slot];

	if (at->id != session->id)
		return -ESRCH;
	*ret_word = __atomic_load_n(&at->word, __ATOMIC_SEQ_CST);
	return 0;
}

/*
 * LSM programs that may not sleep run within one RCU read-side section, and an update of
 * a map of maps returns only after a grace period (maybe_wait_bpf_programs(), for this
 * very use), on one CPU too, where membarrier(2) does not wait. So the image is put
 * where it is already: a check finds the same map before and after.
 */
int rf_kernel_synchronize(struct rf_kernel *kernel, struct rf_image_ref ref)
{
	int images = kernel->maps[MAP_IMAGES + ref.class];
	_cleanup_fd_ int inner = -1;
	__u32 id;

	if (bpf_map_lookup_elem(images, &ref.slot, &id) < 0)
		return -errno;
	inner = bpf_map_get_fd_by_id(id);
	if (inner < 0)
		return -errno;
	return bpf_map_update_elem(images, &ref.slot, &inner, BPF_ANY) < 0 ? -errno : 0;
}

int rf_kernel_end_session(struct rf_kernel *kernel, const struct rf_kernel_session *session)
{
	struct rf_session *at = &kernel->sessions[session->slot];

	if (at->id != session->id)
		return -ESRCH;
	store(&at->id, 0);
	store(&at->word, 0);
	if (bpf_map_delete_elem(kernel->maps[MAP_ROOTS], &session->cgroup) < 0 && errno != ENOENT)
		return -errno;
	raise_generation(kernel);
	return 0;
}

int rf_kernel_counters(struct rf_kernel *kernel, uint32_t slot, struct rf_counters *ret_counters)
{
	int cpus = libbpf_num_possible_cpus();
	struct rf_counters *all, sum = {};
	size_t i;
	int cpu;

	if (cpus < 0)
		return cpus;
	all = calloc(cpus, sizeof(*all));
	if (!all)
		return -ENOMEM;
	if (bpf_map_lookup_elem(kernel->maps[MAP_COUNTERS], &slot, all) < 0) {
		free(all);
		return -errno;
	}
	for (cpu = 0; cpu < cpus; cpu++) {
		sum.session = all[cpu].session;
		sum.seen += all[cpu].seen;
		sum.written += all[cpu].written;
		sum.coalesced += all[cpu].coalesced;
		for (i = 0; i < RF_LOSSES; i++)
			sum.lost[i] += all[cpu].lost[i];
		for (i = 0; i < RF_REASONS; i++) {
			sum.denied[i] += all[cpu].denied[i];
			sum.would_deny[i] += all[cpu].would_deny[i];
		}
	}
	free(all);
	*ret_counters = sum;
	return 0;
}

struct rf_meter *rf_kernel_meter(struct rf_kernel *kernel, uint32_t slot)
{
	return &kernel->meters[slot];
}

/* ---- events ---------------------------------------------------------------- */

int rf_kernel_events_fd(const struct rf_kernel *kernel)
{
	return kernel->poll;
}

int rf_kernel_consume(struct rf_kernel *kernel,
		      void (*event)(void *userdata, const struct rf_event *event, size_t size),
		      void *userdata)
{
	kernel->event = event;
	kernel->userdata = userdata;
	kernel->read = 0;
	for (int i = 0; i < 2; i++) {
		int r;

		kernel->budget = RF_EVENTS_AT_ONCE;
		r = ring_buffer__consume(kernel->rings[i]);
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	return kernel->read;
}
