/* SPDX-License-Identifier: BSD-2-Clause */
/* The requirements that can be seen before anything is loaded: see probe.h. */
#include "user/probe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>

static void missing(struct rf_diags *diags, const char *what, const char *fix)
{
	rf_diag(diags, RF_ERROR, NULL, 0, 0, fix, "%s", what);
}

/* Is `name` one of the active LSMs? Not known (no securityfs) counts as yes: the hooks are provoked later. */
static int lsm_active(const char *name)
{
	char list[512] = "", *word, *rest = list;
	FILE *file;

	file = fopen("/sys/kernel/security/lsm", "re");
	if (!file)
		return 1;
	if (!fgets(list, sizeof(list), file))
		list[0] = '\0';
	fclose(file);
	while ((word = strsep(&rest, ",\n")))
		if (strcmp(word, name) == 0)
			return 1;
	return 0;
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

int rf_probe(struct rf_diags *diags)
{
	size_t before = diags->errors;
	struct statfs fs;

	if (geteuid() != 0)
		missing(diags, "BPF programs can only be loaded by root", "run as root");
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		missing(diags, "the kernel has no type information (/sys/kernel/btf/vmlinux)",
			"use a kernel built with CONFIG_DEBUG_INFO_BTF=y");
	if (!lsm_active("bpf"))
		missing(diags, "`bpf` is not among the active LSMs (/sys/kernel/security/lsm)",
			"boot with the list found there and `bpf` added: lsm=LIST,bpf");
	if (statfs("/sys/fs/bpf", &fs) < 0 || (unsigned int)fs.f_type != BPF_FS_MAGIC)
		missing(diags, "no bpf file system is mounted on /sys/fs/bpf",
			"mount -t bpf bpf /sys/fs/bpf");
	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_LSM, NULL) == 0)
		missing(diags, "the kernel has no BPF LSM programs",
			"use a kernel >= 6.1 built with CONFIG_BPF_LSM=y");
	if (libbpf_probe_bpf_map_type(BPF_MAP_TYPE_TASK_STORAGE, NULL) == 0)
		missing(diags, "the kernel has no BPF task storage", "use a kernel >= 6.1");
	/* Only the start is refused: what is loaded already goes on when a kernel is locked down later. */
	if (file_has("/sys/kernel/security/lockdown", "[confidentiality]"))
		missing(diags,
			"the kernel is locked down for confidentiality (/sys/kernel/security/lockdown), "
			"which forbids BPF programs to read its memory",
			"boot with lockdown=integrity, or without lockdown");
	if (diags->errors == before && storage_may_be_busy())
		missing(diags,
			"this kernel is fully preemptible, and its task storage fails under preemption",
			"boot with preempt=voluntary, or use a kernel >= 6.2");
	return diags->errors > before ? -EOPNOTSUPP : 0;
}
