/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The probe's acts in races: a mover, in no session, and openers, in sessions or not, that
 * share a page of a file. On it the mover says which scene is on, and counts: before and
 * after each move. So an open that began after a move had returned and ended before the
 * next began is known to have one right result.
 */
#ifndef RF_LIVE_PROBE_RACE_H
#define RF_LIVE_PROBE_RACE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "selftests/live/probe_net.h"

enum {
	RACE_SCENES = 16,
	RACE_OPENERS = 8,
	RACE_TARGETS = 32,
	RACE_BURST = 8, /* moves of a scene before the next is on */
};

struct stage {
	_Atomic uint32_t on; /* the scene */
	_Atomic uint32_t begun;
	_Atomic uint32_t over;
	_Atomic uint32_t openers;
	_Atomic uint64_t moves[RACE_SCENES]; /* two for each move: odd while it is made */
	/* How often each has opened all targets of the scene. */
	_Atomic uint64_t rounds[RACE_OPENERS];
};

static struct stage *stage_at(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stage *stage;

	if (fd < 0)
		return NULL;
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return stage == MAP_FAILED ? NULL : stage;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/*
 * A thread of timers. On an emulated machine, whose CPUs take turns, each that goes off lets the
 * next CPU go on, whatever the last was at: without them it would be the same one for long.
 */
static void *disturb(void *over)
{
	while (!*(_Atomic uint32_t *)over)
		usleep((useconds_t)(rand() % 200));
	return NULL;
}

/* Lets others go on, on this CPU and on the next. */
static void relax(void)
{
	asm volatile("pause");
	sched_yield();
}

/* ---- the mover --------------------------------------------------------------- */

struct scene {
	char *kind, *a, *b;
	unsigned long moved, kept; /* of these, with a number of an inode that was there before */
	bool back; /* is it at B? */
	ino_t numbers[2]; /* of the directory and the file */
};

/* The directory and its file, made anew. */
static bool make(struct scene *scene, const char *path)
{
	char name[256];
	struct stat dir, file;
	int fd;

	snprintf(name, sizeof(name), "%s/f", path);
	if (mkdir(path, 0755) < 0)
		return false;
	fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
	if (fd < 0 || fstat(fd, &file) < 0 || stat(path, &dir) < 0)
		return false;
	close(fd);
	scene->kept += file.st_ino == scene->numbers[0] || file.st_ino == scene->numbers[1];
	scene->numbers[0] = dir.st_ino;
	scene->numbers[1] = file.st_ino;
	return true;
}

static bool unmake(const char *path)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/f", path);
	return unlink(name) == 0 && rmdir(path) == 0;
}

/*
 * A directory deep in A, B says behind a colon where, is put aside while A goes to B and comes back.
 * It is never below B, but who reads its way up slowly may meet it in A and A in B.
 */
static bool carry(const struct scene *scene)
{
	char in[512], aside[256], b[256];
	int size = (int)strcspn(scene->b, ":");

	snprintf(b, sizeof(b), "%.*s", size, scene->b);
	snprintf(in, sizeof(in), "%s/%s", scene->a, scene->b + size + 1);
	snprintf(aside, sizeof(aside), "%s.aside/C", scene->a);
	return rename(in, aside) == 0 && rename(scene->a, b) == 0 && rename(b, scene->a) == 0 &&
	       rename(aside, in) == 0;
}

static bool move(struct scene *scene)
{
	const char *from = scene->back ? scene->b : scene->a;
	const char *to = scene->back ? scene->a : scene->b;

	scene->moved++;
	scene->back = !scene->back;
	if (!strcmp(scene->kind, "exchange"))
		return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0;
	if (!strcmp(scene->kind, "link"))
		return link(from, to) == 0 && unlink(from) == 0;
	if (!strcmp(scene->kind, "remake"))
		return unmake(from) && make(scene, to);
	if (!strcmp(scene->kind, "carry"))
		return carry(scene);
	return rename(from, to) == 0;
}

/*
 * Until each opener has opened everything three times since the last move: a verdict that
 * was kept is there to be stale.
 */
static bool wait_for_openers(struct stage *stage, uint32_t openers)
{
	double end = now() + 60;
	uint64_t since[RACE_OPENERS];

	for (uint32_t i = 0; i < openers; i++)
		since[i] = stage->rounds[i];
	for (uint32_t i = 0; i < openers; i++) {
		while (stage->rounds[i] < since[i] + 4) {
			if (now() > end)
				return false;
			relax();
		}
	}
	/* Not always in step with them. */
	if (rand() % 2)
		usleep((useconds_t)(rand() % 200));
	return true;
}

/*
 * moves STAGE OPENERS SECONDS MOVES KIND:A:B...: move A to B and back, by rename, by
 * exchange, by link and unlink, or by making it anew, for SECONDS or MOVES of each; KIND
 * `churn` is a rename that waits for no one, and so is `carry`: see carry().
 */
static int act_moves(char **args)
{
	uint32_t openers = (uint32_t)atoi(args[1]), n = 0;
	unsigned long moves = strtoul(args[3], NULL, 10);
	double seconds = atof(args[2]), end;
	struct scene scenes[RACE_SCENES] = {0};
	struct stage *stage = stage_at(args[0]);
	int status = ALLOWED;
	pthread_t timers;

	if (!stage || openers > RACE_OPENERS)
		return not_attempted(args[0]);
	umask(0);
	for (args += 4; *args && n < RACE_SCENES; args++, n++) {
		scenes[n].kind = strsep(args, ":");
		scenes[n].a = strsep(args, ":");
		scenes[n].b = *args;
		if (!scenes[n].b)
			return not_attempted("KIND:A:B");
		if (!strcmp(scenes[n].kind, "remake") && !make(&scenes[n], scenes[n].a))
			return not_attempted(scenes[n].a);
	}
	while (stage->openers < openers)
		usleep(1000);
	if (pthread_create(&timers, NULL, disturb, &stage->over))
		return not_attempted("thread");
	stage->begun = 1;
	end = now() + seconds;
	for (uint32_t i = 0; n && status == ALLOWED; i = (i + 1) % n) {
		bool churn = !strcmp(scenes[i].kind, "churn") || !strcmp(scenes[i].kind, "carry");

		/* Each as often as the others. */
		if (i == 0 && scenes[0].moved && (moves ? scenes[0].moved >= moves : now() > end))
			break;
		stage->on = i;
		for (int j = 0; j < RACE_BURST && status == ALLOWED; j++) {
			/* Now and then at once, so that openers are met at any point. */
			bool wait = !churn && (moves || rand() % 8);

			if (wait && !wait_for_openers(stage, openers)) {
				fprintf(stderr, "probe: the openers do not open\n");
				status = OTHER;
			}
			stage->moves[i]++;
			if (!move(&scenes[i])) {
				perror(scenes[i].kind);
				status = OTHER;
			}
			stage->moves[i]++;
		}
	}
	while (!n && now() < end)
		usleep(1000);
	stage->over = 1;
	pthread_join(timers, NULL);
	for (uint32_t i = 0; i < n; i++)
		printf("%s %lu %lu\n", scenes[i].kind, scenes[i].moved, scenes[i].kept);
	return status;
}

/* ---- openers ----------------------------------------------------------------- */

struct target {
	const char *text, *name;
	/* '+' begins allowed, '-' denied; '=' is always allowed, '<' for reading only, '!' denied, '~' either */
	char sign;
	bool moves; /* or else it is a name, with nothing behind it at times */
	int dir;
	uint32_t scene;
	uint64_t last; /* the count of moves when it was last known where it is */
	unsigned long turns, allowed, denied, absent, wrong_allow, wrong_deny, wrong;
	char magic[32];
};

/* The text is SIGN HOW:SCENE:PATH. */
static bool target_of(char *text, struct target *target)
{
	char *copy = strdup(text), *how = strsep(&copy, ":"), *scene = strsep(&copy, ":"), *slash;
	struct target t = {.text = text, .name = copy, .sign = how[0], .dir = AT_FDCWD, .last = 1};

	if (!copy)
		return false;
	how++;
	t.scene = (uint32_t)atoi(scene) % RACE_SCENES;
	t.moves = strcmp(how, "at") != 0;
	slash = strrchr(copy, '/');
	if (!strcmp(how, "in") && slash) {
		*slash = '\0';
		t.name = slash + 1;
		t.dir = open(copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (t.dir < 0)
			return false;
	}
	*target = t;
	if (!strcmp(how, "fd")) {
		int fd = open(copy, O_PATH | O_CLOEXEC);

		if (fd < 0)
			return false;
		snprintf(target->magic, sizeof(target->magic), "/proc/self/fd/%d", fd);
		target->name = target->magic;
	}
	return true;
}

/* May an open of it have this result, `moves` being the scene's count, or odd if not known? */
static bool is_right(const struct target *t, uint64_t moves, int flags, int error)
{
	bool away = moves / 2 & 1; /* from where it was at the beginning */

	switch (t->sign) {
	case '=':
		return error == 0;
	case '<':
		return error == (flags == O_RDONLY ? 0 : EACCES);
	case '!':
		return error == EACCES;
	case '~':
		return error == 0 || error == EACCES;
	}
	if (t->moves && moves & 1)
		return error == 0 || error == EACCES;
	if (t->moves)
		return error == ((t->sign == '-') != away ? EACCES : 0);
	if (error == ENOENT)
		return moves & 1 || (t->sign == '-') != away;
	return error == (t->sign == '-' ? EACCES : 0) && (moves & 1 || (t->sign == '-') == away);
}

static void open_target(struct stage *stage, struct target *t, int flags)
{
	uint64_t before = stage->moves[t->scene], moves = before;
	int fd = openat(t->dir, t->name, flags | O_CLOEXEC), error = fd < 0 ? errno : 0;

	if (stage->moves[t->scene] != before)
		moves = 1;
	if (fd >= 0)
		close(fd);
	t->allowed += !error;
	t->denied += error == EACCES;
	t->absent += error == ENOENT;
	if (!(moves & 1) && moves != t->last) {
		t->last = moves;
		t->turns++;
	}
	if (is_right(t, moves, flags, error))
		return;
	if (!t->wrong_allow && !t->wrong_deny && !t->wrong)
		fprintf(stderr, "probe: %s: %s, moves %lu\n", t->text, strerror(error),
			(unsigned long)moves);
	if (!error)
		t->wrong_allow++;
	else if (error == EACCES)
		t->wrong_deny++;
	else
		t->wrong++;
}

/*
 * opens STAGE TARGET...: open the targets of the scene that is on, and those that do not
 * move, until it is over, and print for each what came of it.
 */
static int act_opens(char **args)
{
	struct target targets[RACE_TARGETS];
	struct stage *stage = stage_at(args[0]);
	uint32_t me, n = 0;

	if (!stage)
		return not_attempted(args[0]);
	for (args++; *args && n < RACE_TARGETS; args++, n++)
		if (!target_of(*args, &targets[n]))
			return not_attempted(*args);
	me = atomic_fetch_add(&stage->openers, 1) % RACE_OPENERS;
	while (!stage->begun)
		usleep(1000);
	while (!stage->over) {
		uint32_t on = stage->on;

		for (uint32_t i = 0; i < n; i++) {
			if (targets[i].scene != on && strchr("+-", targets[i].sign))
				continue;
			open_target(stage, &targets[i], O_RDONLY);
			open_target(stage, &targets[i], O_RDWR);
		}
		stage->rounds[me]++;
		relax();
	}
	for (uint32_t i = 0; i < n; i++) {
		struct target *t = &targets[i];

		printf("%s %lu %lu %lu %lu %lu %lu %lu\n", t->text, t->turns, t->allowed, t->denied,
		       t->absent, t->wrong_allow, t->wrong_deny, t->wrong);
	}
	return ALLOWED;
}

/* ---- flips: between the check of a name or an address and its use ------------- */

struct flips {
	_Atomic uint32_t over;
	unsigned long flips, good, bad, denied, absent, other;
	char *what;
	bool executes;
	struct peer peer; /* what connect(2) is given */
	in_port_t ports[2];
};

static void *flip(void *arg)
{
	struct flips *flips = arg;
	bool exchange = strcmp(flips->what, "symlink") != 0;

	for (; !flips->over; flips->flips++) {
		if (flips->ports[0]) {
			*(volatile in_port_t *)&flips->peer.address.v4.sin_port =
				flips->ports[flips->flips & 1];
			continue;
		}
		/* Executing takes so long that it would get too little of the CPUs. */
		if (flips->executes)
			relax();
		if (exchange) {
			renameat2(AT_FDCWD, "d", AT_FDCWD, "e", RENAME_EXCHANGE);
		} else if (symlink(flips->flips & 1 ? "ok" : "../secret", "n") == 0) {
			rename("n", "d");
		}
	}
	return NULL;
}

static void count(struct flips *flips, bool done, bool bad)
{
	if (!done && errno == EACCES)
		flips->denied++;
	/* ext4 empties a link that is removed while someone follows it. */
	else if (!done && errno == ENOENT)
		flips->absent++;
	else if (!done && flips->other++ == 0)
		perror("probe: otherwise");
	else if (done && bad)
		flips->bad++;
	else if (done)
		flips->good++;
}

static void flip_open(struct flips *flips)
{
	char text[16] = "";
	int fd = open("d/key", O_RDONLY | O_CLOEXEC);
	bool done = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0;

	count(flips, done, strstr(text, "TOPSECRET"));
	if (fd >= 0)
		close(fd);
}

/* What is to be executed succeeds, what is not does not. */
static void flip_exec(struct flips *flips)
{
	volatile int error = 0;
	int status = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		execl("d/tool", "tool", NULL);
		error = errno;
		_exit(2);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	errno = pid < 0 ? errno : error;
	count(flips, pid > 0 && !error, status != 0);
}

static void flip_connect(struct flips *flips, const char *proto)
{
	const struct linger reset = {.l_onoff = 1};
	struct sockaddr_in peer = {0};
	socklen_t size = sizeof(peer);
	int fd = socket_of(AF_INET, proto);
	bool done = connect(fd, &flips->peer.address.any, flips->peer.size) == 0 &&
		    getpeername(fd, (struct sockaddr *)&peer, &size) == 0;

	count(flips, done, peer.sin_port == flips->ports[1]);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}

/*
 * flips SECONDS open|exec symlink|exchange DIR: use DIR/d, which another thread makes a
 * link to `ok` and to `../secret` in turn.
 * flips SECONDS tcp|udp GOOD BAD: connect to 127.0.0.1 and a port that another thread changes.
 */
static int act_flips(char **args)
{
	double end = now() + atof(args[0]);
	struct flips flips = {.what = args[2], .executes = !strcmp(args[1], "exec")};
	bool connects = !strcmp(args[1], "tcp") || !strcmp(args[1], "udp");
	pthread_t thread, timers;

	if (connects) {
		peer_of("127.0.0.1", args[2], &flips.peer);
		flips.ports[0] = htons((uint16_t)atoi(args[2]));
		flips.ports[1] = htons((uint16_t)atoi(args[3]));
	} else if (chdir(args[3]) < 0) {
		return not_attempted(args[3]);
	}
	if (pthread_create(&thread, NULL, flip, &flips) ||
	    pthread_create(&timers, NULL, disturb, &flips.over))
		return not_attempted("thread");
	while (now() < end) {
		if (connects)
			flip_connect(&flips, args[1]);
		else if (flips.executes)
			flip_exec(&flips);
		else
			flip_open(&flips);
	}
	flips.over = 1;
	pthread_join(thread, NULL);
	pthread_join(timers, NULL);
	printf("%lu %lu %lu %lu %lu %lu\n", flips.flips, flips.good, flips.bad, flips.denied,
	       flips.absent, flips.other);
	return ALLOWED;
}

#endif
