/* SPDX-License-Identifier: BSD-2-Clause */
/* The requirements that can be seen before anything is loaded: see probe.h. */
#include "user/probe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>

#include "policy/util.h"
#include "user/cgroup.h"
#include "user/cleanup.h"

/* ---- findings --------------------------------------------------------------- */

void rf_finding_add(struct rf_findings *findings, const char *name, enum rf_finding_status status,
		    bool kernel, char *fix, const char *format, ...)
{
	struct rf_finding finding = {.name = name, .status = status, .kernel = kernel, .fix = fix};
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&finding.text, format, args);
	va_end(args);
	if (n < 0 ||
	    rf_grow(&findings->items, &findings->capacity, findings->n + 1, sizeof(finding)) < 0) {
		if (n >= 0)
			free(finding.text);
		free(fix);
		findings->failed = true;
		return;
	}
	findings->items[findings->n++] = finding;
}

void rf_findings_done(struct rf_findings *findings)
{
	for (size_t i = 0; i < findings->n; i++) {
		free(findings->items[i].text);
		free(findings->items[i].fix);
	}
	free(findings->items);
	*findings = (struct rf_findings){0};
}

const char *rf_finding_status_name(enum rf_finding_status status)
{
	return status == RF_FINDING_OK	      ? "ok"
	       : status == RF_FINDING_WARNING ? "warning"
					      : "failure";
}

#define ok(findings, name, ...)                                                                    \
	rf_finding_add(findings, name, RF_FINDING_OK, false, NULL, __VA_ARGS__)
/* A fix that is a text of ours. */
#define unsure(findings, name, fix, ...)                                                           \
	rf_finding_add(findings, name, RF_FINDING_WARNING, false, strdup(fix), __VA_ARGS__)
#define missing(findings, name, fix, ...)                                                          \
	rf_finding_add(findings, name, RF_FINDING_FAILURE, true, strdup(fix), __VA_ARGS__)

/* ---- files ------------------------------------------------------------------ */

/* The first line of a file, without its end; NULL if it cannot be read (errno). */
static char *first_line(const char *root, const char *path)
{
	_cleanup_free_ char *full = NULL, *line = NULL;
	size_t size = 0;
	FILE *file;

	if (asprintf(&full, "%s%s", root, path) < 0) {
		full = NULL;
		return NULL;
	}
	file = fopen(full, "re");
	if (!file)
		return NULL;
	if (getline(&line, &size, file) < 0) {
		free(line);
		line = strdup("");
	}
	fclose(file);
	if (line)
		line[strcspn(line, "\n")] = '\0';
	return rf_steal(&line);
}

static bool has_word(const char *list, const char *word, const char *between)
{
	_cleanup_free_ char *copy = strdup(list);
	char *one, *rest = copy;

	while (rest && (one = strsep(&rest, between)))
		if (strcmp(one, word) == 0)
			return true;
	return false;
}

static bool file_has(const char *path, const char *text)
{
	char line[4096] = "";
	bool found = false;
	FILE *file;

	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, text) != NULL;
	fclose(file);
	return found;
}

/* ---- the kernel ------------------------------------------------------------- */

/* Are there those that it takes to load programs? */
static bool look_privileges(struct rf_findings *findings)
{
	_cleanup_free_ char *map = first_line("", "/proc/self/uid_map");
	cap_flag_value_t admin = CAP_CLEAR;
	cap_t own = cap_get_proc();
	const char *fix = "run outside of the container or service that limits root", *what = NULL;
	unsigned int from, to, n;

	if (own)
		cap_get_flag(own, CAP_SYS_ADMIN, CAP_EFFECTIVE, &admin);
	cap_free(own);
	if (geteuid() != 0) {
		what = "not root: BPF programs can only be loaded by root";
		fix = "run it as root, with sudo";
	} else if (admin != CAP_SET) {
		what = "root without CAP_SYS_ADMIN";
	} else if (map &&
		   (sscanf(map, "%u %u %u", &from, &to, &n) != 3 || from || to || n != ~0u)) {
		what = "root of a user namespace only, not of the machine";
	}
	if (what)
		rf_finding_add(findings, "privileges", RF_FINDING_FAILURE, false, strdup(fix), "%s",
			       what);
	else
		ok(findings, "privileges", "root with CAP_SYS_ADMIN");
	return !what;
}

static void look_kernel(struct rf_findings *findings)
{
	struct utsname name = {0};

	uname(&name);
	if (strcmp(name.machine, "x86_64") != 0)
		rf_finding_add(findings, "kernel", RF_FINDING_WARNING, false, NULL,
			       "Linux %s on %s: only x86_64 is tested", name.release, name.machine);
	else
		ok(findings, "kernel", "Linux %s on %s", name.release, name.machine);
}

/* The kernel's configuration, of those places where it may be; NULL if it is in none. */
static gzFile open_config(const char *root)
{
	static const char *const places[] = {"/proc/config.gz", "/boot/config-",
					     "/usr/lib/modules/", "/lib/modules/"};
	struct utsname name = {0};
	gzFile file = NULL;

	uname(&name);
	for (size_t i = 0; !file && i < RF_COUNT(places); i++) {
		_cleanup_free_ char *path = NULL;

		/* A name that ends with - or / goes on with the kernel's, the latter with a file. */
		if (asprintf(&path, "%s%s%s%s", root, places[i], i ? name.release : "",
			     i > 1 ? "/config" : "") < 0) {
			path = NULL;
			return NULL;
		}
		file = gzopen(path, "rbe");
	}
	return file;
}

static void look_config(const char *root, struct rf_findings *findings)
{
	static const char *const needed[] = {
		"CONFIG_BPF_SYSCALL=y", "CONFIG_BPF_JIT=y",	     "CONFIG_BPF_LSM=y",
		"CONFIG_SECURITY=y",	"CONFIG_SECURITY_NETWORK=y", "CONFIG_DEBUG_INFO_BTF=y",
		"CONFIG_CGROUPS=y",	"CONFIG_CGROUP_BPF=y",
	};
	bool found[RF_COUNT(needed)] = {false};
	_cleanup_text_ struct rf_text absent = {0};
	gzFile file = open_config(root);
	char line[512];

	if (!file) {
		unsure(findings, "config", "modprobe configs, or look in the kernel's package",
		       "the kernel's configuration is neither in /proc/config.gz nor in /boot");
		return;
	}
	while (gzgets(file, line, sizeof(line))) {
		line[strcspn(line, "\n")] = '\0';
		for (size_t i = 0; i < RF_COUNT(needed); i++)
			found[i] |= strcmp(line, needed[i]) == 0;
	}
	gzclose(file);
	for (size_t i = 0; i < RF_COUNT(needed); i++) {
		if (found[i])
			continue;
		rf_text_add(&absent, " ", absent.n ? 1 : 0);
		rf_text_add(&absent, needed[i], strlen(needed[i]));
	}
	rf_text_byte(&absent, '\0');
	if (absent.failed)
		findings->failed = true;
	else if (*absent.text)
		missing(findings, "config", "use a kernel that is built with these options",
			"the kernel is built without %s", absent.text);
	else
		ok(findings, "config", "the kernel is built with all that is needed");
}

static void look_btf(const char *root, struct rf_findings *findings)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/sys/kernel/btf/vmlinux", root) < 0) {
		path = NULL;
		findings->failed = true;
	} else if (access(path, R_OK) < 0) {
		missing(findings, "btf", "use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
			"the kernel has no type information (/sys/kernel/btf/vmlinux)");
	} else {
		ok(findings, "btf", "/sys/kernel/btf/vmlinux is there");
	}
}

/* Not known (no securityfs) is no failure: the hooks are provoked once the programs are there. */
static void look_lsm(const char *root, struct rf_findings *findings)
{
	_cleanup_free_ char *list = first_line(root, "/sys/kernel/security/lsm"), *parameter = NULL;

	if (!list) {
		unsure(findings, "lsm", "mount -t securityfs securityfs /sys/kernel/security",
		       "the list of active LSMs cannot be read (/sys/kernel/security/lsm)");
	} else if (has_word(list, "bpf", ",")) {
		ok(findings, "lsm", "`bpf` is among the active LSMs: %s", list);
	} else if (asprintf(&parameter, "lsm=%s%sbpf", list, *list ? "," : "") < 0) {
		parameter = NULL;
		findings->failed = true;
	} else {
		rf_finding_add(findings, "lsm", RF_FINDING_FAILURE, true,
			       rf_probe_boot_fix(root, parameter),
			       "`bpf` is not among the active LSMs (/sys/kernel/security/lsm): %s",
			       list);
	}
}

/* Only the start is refused: what is loaded goes on when a kernel is locked down later. */
static void look_lockdown(const char *root, struct rf_findings *findings)
{
	_cleanup_free_ char *modes = first_line(root, "/sys/kernel/security/lockdown");

	if (modes && strstr(modes, "[confidentiality]"))
		rf_finding_add(findings, "lockdown", RF_FINDING_FAILURE, true,
			       rf_probe_boot_fix(root, "lockdown=integrity"),
			       "the kernel is locked down for confidentiality "
			       "(/sys/kernel/security/lockdown), which forbids BPF programs to "
			       "read its memory");
	else
		ok(findings, "lockdown", "%s",
		   modes ? modes : "not known or not there: it keeps nothing from the programs");
}

/* To whom has not the privileges the kernel refuses what it has, too. */
static void look_programs(bool privileged, struct rf_findings *findings)
{
	if (!privileged)
		unsure(findings, "programs", "see privileges",
		       "whether the kernel has BPF LSM programs is not known");
	else if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_LSM, NULL) == 0)
		missing(findings, "programs",
			"use a kernel >= 6.1 built with CONFIG_BPF_LSM=y; if this one is, a container or "
			"a virtual machine keeps them from it",
			"the kernel loads no BPF LSM programs");
	else if (libbpf_probe_bpf_map_type(BPF_MAP_TYPE_TASK_STORAGE, NULL) == 0)
		missing(findings, "programs", "use a kernel >= 6.1",
			"the kernel has no BPF task storage");
	else
		ok(findings, "programs", "the kernel has BPF LSM programs and task storage");
}

/* The interpreter runs no programs that call functions of the kernel. */
static void look_jit(const char *root, struct rf_findings *findings)
{
	_cleanup_free_ char *value = first_line(root, "/proc/sys/net/core/bpf_jit_enable");

	if (value && strcmp(value, "0") == 0)
		missing(findings, "jit",
			"sysctl -w net.core.bpf_jit_enable=1, and in a file of /etc/sysctl.d",
			"the BPF compiler is off (net.core.bpf_jit_enable is 0)");
	else if (value)
		ok(findings, "jit", "the BPF compiler is on");
	else
		unsure(findings, "jit",
		       "run as root in the machine's own network namespace: sudo nsenter -t 1 -n "
		       "ringfence doctor",
		       "whether the BPF compiler is on cannot be read "
		       "(/proc/sys/net/core/bpf_jit_enable)");
}

static void look_bpffs(const char *root, struct rf_findings *findings)
{
	_cleanup_free_ char *path = NULL;
	struct statfs fs;

	if (asprintf(&path, "%s/sys/fs/bpf", root) < 0) {
		path = NULL;
		findings->failed = true;
	} else if (statfs(path, &fs) < 0 || (unsigned int)fs.f_type != BPF_FS_MAGIC) {
		missing(findings, "bpffs", "mount -t bpf bpf /sys/fs/bpf",
			"no bpf file system is mounted on /sys/fs/bpf");
	} else {
		ok(findings, "bpffs", "a bpf file system is mounted on /sys/fs/bpf");
	}
}

/* Can kernel code be preempted anywhere? */
static bool fully_preemptible(void)
{
	struct utsname name;

	if (uname(&name) < 0)
		return true;
	return strstr(name.version, "PREEMPT_RT") || strstr(name.version, " PREEMPT ") ||
	       file_has("/proc/cmdline", "preempt=full") ||
	       file_has("/sys/kernel/debug/sched/preempt", "(full)");
}

/*
 * Before 6.2 a look-up in a task's storage fails while another task on the same CPU
 * is preempted in one: the label of a task that left its session's cgroup would be
 * missed. Voluntary preemption never gets there. Later kernels have a look-up that
 * copes (bpf_task_storage_get_recur), the newest no longer have the counter behind it.
 */
static bool storage_may_be_busy(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool busy = true;

	if (btf)
		busy = btf__find_by_name_kind(btf, "bpf_task_storage_busy", BTF_KIND_VAR) > 0 &&
		       btf__find_by_name_kind(btf, "bpf_task_storage_get_recur", BTF_KIND_FUNC) < 0;
	btf__free(btf);
	return busy && fully_preemptible();
}

/* Another preemption, or another kernel. */
static char *preempt_fix(const char *root)
{
	_cleanup_free_ char *boot = rf_probe_boot_fix(root, "preempt=voluntary");
	char *fix;

	if (!boot || asprintf(&fix, "%s; or use a kernel >= 6.2", boot) < 0)
		return NULL;
	return fix;
}

static void look_preemption(const char *root, bool has_btf, struct rf_findings *findings)
{
	if (!has_btf)
		unsure(findings, "preemption", "see btf",
		       "whether the storage of tasks copes with preemption is not known");
	else if (storage_may_be_busy())
		rf_finding_add(findings, "preemption", RF_FINDING_FAILURE, true, preempt_fix(root),
			       "this kernel is fully preemptible, and its task storage fails under "
			       "preemption");
	else
		ok(findings, "preemption", "the storage of tasks copes with it");
}

/* ---- the machine ------------------------------------------------------------ */

static void look_controllers(const char *root, const char *mount, struct rf_findings *findings)
{
	static const struct {
		const char *controller, *limit;
	} all[] = {{"memory", "memory"}, {"pids", "tasks"}, {"cpu", "cpu"}};
	_cleanup_text_ struct rf_text absent = {0}, limits = {0};

	for (size_t i = 0; i < RF_COUNT(all); i++) {
		if (rf_cgroup_has_controller(mount, all[i].controller))
			continue;
		if (absent.n) {
			rf_text_add(&absent, ", ", 2);
			rf_text_add(&limits, ", ", 2);
		}
		rf_text_add(&absent, all[i].controller, strlen(all[i].controller));
		rf_text_add(&limits, all[i].limit, strlen(all[i].limit));
	}
	rf_text_byte(&absent, '\0');
	rf_text_byte(&limits, '\0');
	if (absent.failed || limits.failed)
		findings->failed = true;
	else if (!*absent.text)
		ok(findings, "controllers", "memory, pids and cpu are in the cgroup v2 hierarchy");
	else
		rf_finding_add(findings, "controllers", RF_FINDING_WARNING, false,
			       rf_probe_boot_fix(root, "systemd.unified_cgroup_hierarchy=1"),
			       "not in the cgroup v2 hierarchy: %s; a policy with limits of %s is "
			       "refused",
			       absent.text, limits.text);
}

static void look_cgroup(const char *root, struct rf_findings *findings)
{
	_cleanup_free_ char *mountinfo = NULL, *mount = NULL;

	if (asprintf(&mountinfo, "%s/proc/self/mountinfo", root) < 0) {
		mountinfo = NULL;
		findings->failed = true;
		return;
	}
	mount = rf_cgroup_mount(mountinfo);
	if (!mount) {
		missing(findings, "cgroup2",
			"mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none "
			"/sys/fs/cgroup/unified",
			"there is no cgroup v2 hierarchy, in which sessions live");
		return;
	}
	ok(findings, "cgroup2", "a cgroup v2 hierarchy is mounted on %s", mount);
	look_controllers(root, mount, findings);
}

/* BPF programs of others at LSM hooks: the kernel asks all, and each may deny. */
static void look_others(struct rf_findings *findings)
{
	_cleanup_text_ struct rf_text names = {0};
	struct bpf_prog_info info;
	__u32 id = 0, size;
	unsigned int n = 0;

	while (bpf_prog_get_next_id(id, &id) == 0) {
		_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(id);

		memset(&info, 0, sizeof(info));
		size = sizeof(info);
		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0 ||
		    info.type != BPF_PROG_TYPE_LSM || strncmp(info.name, "rf_", 3) == 0)
			continue;
		if (n++)
			rf_text_add(&names, ", ", 2);
		rf_text_add(&names, info.name, strnlen(info.name, sizeof(info.name)));
	}
	if (errno != ENOENT) {
		unsure(findings, "others", "run as root: sudo ringfence doctor",
		       "whether others use BPF LSM programs is not known: %s", strerror(errno));
		return;
	}
	rf_text_byte(&names, '\0');
	if (names.failed)
		findings->failed = true;
	else if (n)
		unsure(findings, "others", "bpftool prog show type lsm tells whose they are",
		       "others have %u BPF LSM program%s, which may deny more, without an event: %s",
		       n, n == 1 ? "" : "s", names.text);
	else
		ok(findings, "others", "nobody else has BPF LSM programs");
}

/* ---- all -------------------------------------------------------------------- */

/* What the daemon cannot do without. */
static void look_needed(const char *root, bool privileged, struct rf_findings *findings)
{
	size_t before = findings->n;

	look_btf(root, findings);
	look_lsm(root, findings);
	look_lockdown(root, findings);
	look_programs(privileged, findings);
	look_jit(root, findings);
	look_bpffs(root, findings);
	look_preemption(root,
			findings->n > before && findings->items[before].status == RF_FINDING_OK,
			findings);
}

int rf_probe_look(const char *root, struct rf_findings *findings)
{
	bool privileged = look_privileges(findings);

	look_kernel(findings);
	look_config(root, findings);
	look_needed(root, privileged, findings);
	look_cgroup(root, findings);
	look_others(findings);
	return findings->failed ? -ENOMEM : 0;
}

int rf_probe(struct rf_diags *diags)
{
	__attribute__((cleanup(rf_findings_done))) struct rf_findings findings = {0};
	size_t before = diags->errors;

	look_needed("", look_privileges(&findings), &findings);
	for (size_t i = 0; i < findings.n; i++)
		if (findings.items[i].status == RF_FINDING_FAILURE)
			rf_diag(diags, RF_ERROR, NULL, 0, 0, findings.items[i].fix, "%s",
				findings.items[i].text);
	if (findings.failed)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "no memory");
	return diags->errors > before ? -EOPNOTSUPP : 0;
}
