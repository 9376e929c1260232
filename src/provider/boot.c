/* boot.c: see boot.h. */
#include "provider/boot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "wire/tlv.h"

/* Key, paths, mounts and environment: far below it. */
#define CONFIG_MAX (256 * KIB)

/* One NAME=value for the environment of every job. */
static int env_add(struct buf *b, const char *name, const char *value)
{
	_cleanup_free_ char *text = xasprintf("%s=%s", name, value);
	return tlv_str(b, BOOT_ENV, text);
}

/* Nothing of the broker's environment but its time zone: it may hold tokens. */
static int environment(struct buf *b, const struct boot *boot)
{
	char cpus[16];
	(void)snprintf(cpus, sizeof(cpus), "%u", boot->spec->cpus);
	_cleanup_free_ char *matplotlib = xasprintf("%s/.matplotlib", boot->tmp);
	_cleanup_free_ char *ipython = xasprintf("%s/.ipython", boot->tmp);
	_cleanup_free_ char *cache = xasprintf("%s/.cache", boot->tmp);
	const char *tz = getenv("TZ");
	const char *const pairs[][2] = {
		{"PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"},
		{"HOME", boot->workspace},
		{"TMPDIR", boot->tmp},
		{"USER", "sandbox"},
		{"LOGNAME", "sandbox"},
		{"SHELL", "/bin/sh"},
		{"LANG", "C.UTF-8"},
		{"TERM", "dumb"},
		{"TZ", tz},
		/* nproc(1) and the numeric libraries look at these, not at the cgroup. */
		{"OMP_NUM_THREADS", cpus},
		{"OPENBLAS_NUM_THREADS", cpus},
		{"MKL_NUM_THREADS", cpus},
		{"NUMEXPR_NUM_THREADS", cpus},
		/* Caches go where they neither lie beside the user's files nor are refused. */
		{"XDG_CACHE_HOME", cache},
		{"MPLCONFIGDIR", matplotlib},
		{"IPYTHONDIR", ipython},
		{"npm_config_cache", cache},
		{"PYTHONDONTWRITEBYTECODE", "1"},
		{"PIP_DISABLE_PIP_VERSION_CHECK", "1"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		int r = pairs[i][1] ? env_add(b, pairs[i][0], pairs[i][1]) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int mounts(struct buf *b, const struct boot *boot)
{
	for (size_t i = 0; i < boot->spec->n_mounts; i++) {
		const struct sandbox_mount *m = &boot->spec->mounts[i];
		_cleanup_free_ char *path =
			boot->mnt ? xasprintf("%s/%s", boot->mnt, m->name) : xstrdup(m->source);
		int r = tlv_str(b, BOOT_MOUNT_NAME, m->name);
		if (r == 0)
			r = tlv_str(b, BOOT_MOUNT_PATH, path);
		if (r < 0)
			return r;
	}
	return 0;
}

static int numbers(struct buf *b, const struct boot *boot)
{
	const struct {
		uint16_t tag;
		uint64_t value;
		bool given;
	} all[] = {
		{BOOT_OOM_FD, (uint64_t)boot->oom_fd, boot->oom_fd >= 0},
		{BOOT_PIDS_EVENTS_FD, (uint64_t)boot->pids_events_fd, boot->pids_events_fd >= 0},
		{BOOT_MEMORY_FD, (uint64_t)boot->memory_fd, boot->memory_fd >= 0},
		{BOOT_PIDS_FD, (uint64_t)boot->pids_fd, boot->pids_fd >= 0},
		{BOOT_LIFELINE_FD, (uint64_t)boot->lifeline_fd, boot->lifeline_fd >= 0},
		{BOOT_MEMORY_MAX, boot->memory_max, boot->memory_max > 0},
		{BOOT_PIDS_MAX, boot->pids_max, boot->pids_max > 0},
		{BOOT_LEASE_MS, boot->spec->lease_ms, true},
		{BOOT_ORPHAN_MS, boot->spec->orphan_ms, true},
		{BOOT_SPOOL_HEAD, LIMIT_SPOOL_HEAD, true},
		{BOOT_SPOOL_TAIL, LIMIT_SPOOL_TAIL, true},
		{BOOT_SPOOL_SESSION, LIMIT_SPOOL_SESSION, true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		int r = all[i].given ? tlv_u64(b, all[i].tag, all[i].value) : 0;
		if (r < 0)
			return r;
	}
	const struct {
		uint16_t tag;
		const char *path;
	} paths[] = {
		{BOOT_OOM_FD, boot->oom_path},
		{BOOT_PIDS_EVENTS_FD, boot->pids_events_path},
		{BOOT_MEMORY_FD, boot->memory_path},
		{BOOT_PIDS_FD, boot->pids_path},
	};
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int r = paths[i].path ? tlv_str(b, paths[i].tag, paths[i].path) : 0;
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(boot->hold_fds); i++) {
		int fd = boot->hold_fds[i];
		int r = fd < 0 ? 0 : tlv_u64(b, BOOT_HOLD_FD, (uint64_t)fd);
		if (r < 0)
			return r;
	}
	return 0;
}

static int join_fds(struct buf *b, const struct boot *boot)
{
	for (size_t i = 0; i < boot->n_join_fds; i++) {
		int r = tlv_u64(b, BOOT_JOIN_FD, (uint64_t)boot->join_fds[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Where it is, what it sees, and what its children have around them. */
static int places(struct buf *b, const struct boot *boot)
{
	int r = tlv_str(b, BOOT_WORKSPACE, boot->workspace);
	if (r == 0)
		r = tlv_str(b, BOOT_TMP, boot->tmp);
	if (r == 0 && boot->empty)
		r = tlv_str(b, BOOT_EMPTY, boot->empty);
	if (r == 0)
		r = mounts(b, boot);
	return r == 0 ? environment(b, boot) : r;
}

static int confinement(struct buf *b, const struct boot *boot)
{
	int r = tlv_u64(b, BOOT_CONFINE, boot->confine);
	if (r == 0 && boot->rlimit_nproc)
		r = tlv_u64(b, BOOT_RLIMIT_NPROC, boot->rlimit_nproc);
	if (r == 0 && boot->rlimit_data)
		r = tlv_u64(b, BOOT_RLIMIT_DATA, boot->rlimit_data);
	return r == 0 ? join_fds(b, boot) : r;
}

int boot_kernel_config(const struct boot *boot, struct buf *ret)
{
	int r = places(ret, boot);
	return r == 0 ? confinement(ret, boot) : r;
}

int boot_config_bytes(const struct boot *boot, struct buf *b)
{
	uint8_t id[16];
	id_random(id, sizeof(id));
	buf_init(b, CONFIG_MAX);
	b->wipe = true; /* the key is in it */
	int r = tlv_bytes(b, BOOT_KEY, boot->key, AUTH_KEY);
	if (r == 0)
		r = tlv_bytes(b, BOOT_ID, id, sizeof(id));
	if (r == 0)
		r = places(b, boot);
	if (r == 0)
		r = confinement(b, boot);
	return r == 0 ? numbers(b, boot) : r;
}

int boot_config(const struct boot *boot)
{
	_cleanup_buf_ struct buf b = {0};
	int r = boot_config_bytes(boot, &b);
	return r == 0 ? fd_memfd("scb-boot", b.data, b.len) : r;
}
