/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernel parameters: how this distribution's boot loader is told of one, see probe.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/probe.h"

#define GRUB "/etc/default/grub"
#define GRUB_LINE "GRUB_CMDLINE_LINUX="

static FILE *open_below(const char *root, const char *path)
{
	_cleanup_free_ char *full = NULL;

	if (asprintf(&full, "%s%s", root, path) < 0) {
		full = NULL;
		return NULL;
	}
	return fopen(full, "re");
}

/* The value behind `key` in a file of shell assignments, without its quotes; NULL if there is none. */
static char *assigned(const char *root, const char *path, const char *key)
{
	FILE *file = open_below(root, path);
	_cleanup_free_ char *line = NULL;
	char *value = NULL;
	size_t size = 0;

	/* As in a shell the last one counts. */
	while (file && getline(&line, &size, file) > 0) {
		char *from = line + strlen(key), quote;
		size_t length;

		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		quote = *from == '"' || *from == '\'' ? *from++ : 0;
		length = quote ? strcspn(from, (char[]){quote, '\n', 0}) : strcspn(from, " \t\n#");
		free(value);
		value = strndup(from, length);
		if (!value)
			break;
	}
	if (file)
		fclose(file);
	return value;
}

/* Is `word` one of `words`, which have blanks between them? */
static bool among(const char *words, const char *word)
{
	size_t size = strlen(word);

	for (const char *at = words; size && (at = strstr(at, word)); at += size)
		if ((at == words || at[-1] == ' ') && (at[size] == ' ' || !at[size]))
			return true;
	return false;
}

/* Is it one of these distributions, or made from one? */
static bool is_like(const char *root, const char *names)
{
	_cleanup_free_ char *id = assigned(root, "/etc/os-release", "ID="),
			    *like = assigned(root, "/etc/os-release", "ID_LIKE=");
	char *word, *rest = like;

	if (id && among(names, id))
		return true;
	while (rest && (word = strsep(&rest, " ")))
		if (among(names, word))
			return true;
	return false;
}

/* The words of a command line with `parameter` in place of its like. */
static char *with_parameter(const char *words, const char *parameter)
{
	size_t key = strcspn(parameter, "=") + 1;
	_cleanup_free_ char *copy = strdup(words);
	_cleanup_text_ struct rf_text text = {0};
	char *word, *rest = copy;

	while (rest && (word = strsep(&rest, " \t"))) {
		if (!*word || strncmp(word, parameter, key) == 0)
			continue;
		rf_text_add(&text, word, strlen(word));
		rf_text_byte(&text, ' ');
	}
	rf_text_add(&text, parameter, strlen(parameter) + 1);
	return !copy || text.failed ? NULL : rf_steal(&text.text);
}

/* The whole line, as it is to stand in GRUB's file, and the command behind it. */
static char *grub_fix(const char *root, const char *parameter, const char *command)
{
	_cleanup_free_ char *old = assigned(root, GRUB, GRUB_LINE),
			    *words = with_parameter(old ? old : "", parameter);
	char *fix;

	if (!words || asprintf(&fix, "set in " GRUB ": " GRUB_LINE "\"%s\"; then: %s && reboot",
			       words, command) < 0)
		return NULL;
	return fix;
}

static bool has_grub(const char *root)
{
	FILE *file = open_below(root, GRUB);

	if (file)
		fclose(file);
	return file != NULL;
}

char *rf_probe_boot_fix(const char *root, const char *parameter)
{
	static const struct {
		const char *names, *command;
	} grubs[] = {
		{"debian ubuntu", "update-grub"},
		{"suse opensuse", "grub2-mkconfig -o /boot/grub2/grub.cfg"},
		{"arch alpine gentoo void", "grub-mkconfig -o /boot/grub/grub.cfg"},
	};
	char *fix;
	int n;

	for (size_t i = 0; has_grub(root) && i < RF_COUNT(grubs); i++)
		if (is_like(root, grubs[i].names))
			return grub_fix(root, parameter, grubs[i].command);
	if (is_like(root, "fedora rhel centos"))
		n = asprintf(&fix, "grubby --update-kernel=ALL --args=\"%s\" && reboot", parameter);
	else if (is_like(root, "nixos"))
		n = asprintf(&fix,
			     "set in configuration.nix: boot.kernelParams = [ \"%s\" ]; then: "
			     "nixos-rebuild boot && reboot",
			     parameter);
	else
		n = asprintf(&fix,
			     "add %s to the kernel's command line in the boot loader's settings, "
			     "and reboot",
			     parameter);
	return n < 0 ? NULL : fix;
}
