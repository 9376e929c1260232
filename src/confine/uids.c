/* uids.c: see uids.h. */
#include "confine/uids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

struct range {
	uint32_t first, count;
};

/* The first is beyond what distributions, systemd's dynamic users and container tools hand out; the
 * second fits where only 65,536 ids are mapped, between the ids that Debian and systemd use. */
static const struct range builtin[] = {{2000000000, 64}, {60800, 64}};

/* All of it is inside what this user namespace maps. */
static bool mapped(const char *map_path, struct range r)
{
	FILE *f = fopen(map_path, "re");
	if (!f)
		return false;
	unsigned inside, outside, count;
	bool found = false;
	while (!found && fscanf(f, "%u %u %u", &inside, &outside, &count) == 3)
		found = r.first >= inside && r.first - inside < count &&
			r.count <= count - (r.first - inside);
	(void)fclose(f);
	return found;
}

static int configured(const char *text, struct range *ret)
{
	const char *dash = strchr(text, '-');
	uint64_t first = 0, last = 0;
	_cleanup_free_ char *head = dash ? xstrndup(text, (size_t)(dash - text)) : NULL;
	if (!dash || str_to_u64(head, INT32_MAX, &first) < 0 ||
		str_to_u64(dash + 1, INT32_MAX, &last) < 0 || first == 0 || last < first)
		return -EINVAL;
	*ret = (struct range){(uint32_t)first, (uint32_t)(last - first + 1)};
	return 0;
}

static int choose_range(struct range *ret, struct err *err)
{
	const char *text = getenv("SCB_UID_RANGE");
	if (text && configured(text, ret) < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, EINVAL,
			"SCB_UID_RANGE is \"%.40s\"; it must be FIRST-LAST, two uids above 0",
			text);
	for (size_t i = 0; !text && i < ARRAY_SIZE(builtin); i++) {
		*ret = builtin[i];
		if (mapped("/proc/self/uid_map", *ret) && mapped("/proc/self/gid_map", *ret))
			return 0;
	}
	if (text && mapped("/proc/self/uid_map", *ret) && mapped("/proc/self/gid_map", *ret))
		return 0;
	return err_set(err, ERR_PROVIDER_UNUSABLE, EPERM,
		"no unprivileged uids for sandboxes: this user namespace maps neither "
		"2000000000-2000000063 nor 60800-60863; run scb as an ordinary user, or name "
		"mapped "
		"ones in SCB_UID_RANGE=FIRST-LAST");
}

/* The directory, with its lock held: everything about claims is done under it. */
static int open_dir_locked(int *ret_dir)
{
	(void)mkdir("/run/scb", 0755);
	(void)mkdir(UIDS_DIR, 0700);
	_cleanup_close_ int dir = open(UIDS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	struct stat st;
	if (fstat(dir, &st) < 0 || st.st_uid != 0 || (st.st_mode & 077))
		return -EPERM;
	/* Others hold it for microseconds; one that was stopped in between must not stop us. */
	for (int tries = 0; flock(dir, LOCK_EX | LOCK_NB) < 0; tries++) {
		if (errno != EWOULDBLOCK || tries == 50)
			return -errno;
		(void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	*ret_dir = TAKE_FD(dir);
	return 0;
}

static void uid_name(uid_t uid, char ret_name[static 16])
{
	(void)snprintf(ret_name, 16, "%u", (unsigned)uid);
}

/* 1: claimed, 0: somebody has it. The caller holds the directory's lock. */
static int try_claim(int dir, uid_t uid, struct uid_claim *ret)
{
	char name[16];
	uid_name(uid, name);
	/* Read-only: the sandbox inherits it. */
	_cleanup_close_ int shared =
		openat(dir, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	_cleanup_close_ int guard = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (shared < 0 || guard < 0)
		return -errno;
	if (flock(guard, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 0 : -errno;
	if (flock(guard, LOCK_SH | LOCK_NB) < 0 || flock(shared, LOCK_SH | LOCK_NB) < 0)
		return -errno;
	*ret = (struct uid_claim){
		.uid = uid, .shared_fd = TAKE_FD(shared), .guard_fd = TAKE_FD(guard)};
	return 1;
}

int uids_claim(struct uid_claim *ret, struct err *err)
{
	struct range range;
	int r = choose_range(&range, err);
	if (r < 0)
		return r;
	_cleanup_close_ int dir = -1;
	r = open_dir_locked(&dir);
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot keep the list of sandbox uids in %s: %s", UIDS_DIR, strerror(-r));
	for (uint32_t i = 0; i < range.count; i++) {
		r = try_claim(dir, range.first + i, ret);
		if (r > 0)
			return 0;
		if (r < 0)
			return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
				"cannot claim a sandbox uid in %s: %s", UIDS_DIR, strerror(-r));
	}
	return err_set(err, ERR_LIMIT_REACHED, EUSERS,
		"all %u sandbox uids (%u-%u) are in use; close sessions (`scb sessions close`), or "
		"give a larger range in SCB_UID_RANGE=FIRST-LAST",
		range.count, range.first, range.first + range.count - 1);
}

int uids_share(uid_t uid, struct uid_claim *ret, struct err *err)
{
	char name[16];
	_cleanup_close_ int dir = -1, guard = -1;
	int r = open_dir_locked(&dir);
	uid_name(uid, name);
	if (r == 0)
		guard = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && (guard < 0 || flock(guard, LOCK_SH | LOCK_NB) < 0))
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot share the claim of uid %u in %s: %s", (unsigned)uid, UIDS_DIR,
			strerror(-r));
	*ret = (struct uid_claim){.uid = uid, .shared_fd = -1, .guard_fd = TAKE_FD(guard)};
	return 0;
}

/* True where nobody held the name and it is gone. The caller holds the directory's lock. */
static bool remove_unheld(int dir, const char *name)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir, name, 0) == 0;
}

void uids_release(struct uid_claim *c)
{
	fd_closep(&c->shared_fd);
	fd_closep(&c->guard_fd);
	_cleanup_close_ int dir = -1;
	if (c->uid && open_dir_locked(&dir) == 0) {
		char name[16];
		uid_name(c->uid, name);
		(void)remove_unheld(dir, name);
	}
	*c = UID_CLAIM_NONE;
}

int uids_sweep(void)
{
	_cleanup_close_ int dir = -1;
	if (geteuid() != 0 || access(UIDS_DIR, F_OK) < 0 || open_dir_locked(&dir) < 0)
		return 0;
	DIR *d = opendir(UIDS_DIR);
	if (!d)
		return 0;
	int removed = 0;
	for (struct dirent *e; (e = readdir(d));)
		removed += e->d_name[0] != '.' && remove_unheld(dir, e->d_name);
	(void)closedir(d);
	return removed;
}
