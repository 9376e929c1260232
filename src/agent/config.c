/* config.c: see config.h. */
#include "agent/config.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "wire/frame.h"
#include "wire/tlv.h"

/* The broker writes it; large only by BOOT_ENV. */
#define CONFIG_BYTES (1 * MIB)

#define FIRST_WORD_MS (60 * 1000)

#define CONFIG_INIT                                                                                \
	{                                                                                          \
		.workspace_fd = -1, .lifeline_fd = -1, .oom_fd = -1, .pids_events_fd = -1,         \
		.memory_fd = -1, .pids_fd = -1, .spool_head = LIMIT_SPOOL_HEAD,                    \
		.spool_tail = LIMIT_SPOOL_TAIL, .spool_session = LIMIT_SPOOL_SESSION,              \
	}

/* As many bytes as stand there, or up to the end of the file. */
static int read_all(int fd, struct buf *b, size_t max)
{
	for (;;) {
		int r = buf_reserve(b, 64 * KIB); /* at once, so that no copy of the key stays */
		if (r < 0)
			return r;
		ssize_t n = read(fd, b->data + b->len, MIN(b->cap - b->len, max - b->len));
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			b->len += (size_t)n;
	}
}

static int get_bytes(const struct tlv *t, void *ret, size_t n)
{
	if (t->n != n)
		return -EPROTO;
	memcpy(ret, t->p, n);
	return 0;
}

static int get_text(const struct tlv *t, char **ret)
{
	char *s = tlv_dup_str(t);
	if (!s || !s[0]) {
		free(s);
		return -EPROTO;
	}
	free(*ret);
	*ret = s;
	return 0;
}

static int get_u32(const struct tlv *t, uint32_t *ret)
{
	uint64_t v;
	if (tlv_get_u64(t, &v) < 0 || v > UINT32_MAX)
		return -EPROTO;
	*ret = (uint32_t)v;
	return 0;
}

static int get_fd(const struct tlv *t, int *ret)
{
	uint64_t v;
	if (t->n > 0 && t->p[0] == '/') { /* what cannot be opened is not known */
		char *path = tlv_dup_str(t);
		*ret = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		free(path);
		return 0;
	}
	if (tlv_get_u64(t, &v) < 0 || v > INT32_MAX)
		return -EPROTO;
	int r = fd_set_cloexec((int)v, true); /* fails where it is not open */
	if (r == 0)
		*ret = (int)v;
	return r;
}

static int read_mount(struct config *c, const struct tlv *t)
{
	if (t->tag == BOOT_MOUNT_NAME) {
		if (c->n_mounts == LIMIT_MOUNTS ||
			(c->n_mounts && !c->mounts[c->n_mounts - 1].path))
			return -EPROTO;
		c->mounts[c->n_mounts] = (struct config_mount){.fd = -1};
		return get_text(t, &c->mounts[c->n_mounts++].name);
	}
	if (!c->n_mounts || c->mounts[c->n_mounts - 1].path)
		return -EPROTO;
	return get_text(t, &c->mounts[c->n_mounts - 1].path);
}

static int read_one(struct config *c, const struct tlv *t)
{
	switch (t->tag) {
	case BOOT_KEY:
		return get_bytes(t, c->key, sizeof(c->key));
	case BOOT_ID:
		return get_bytes(t, c->boot_id, sizeof(c->boot_id));
	case BOOT_WORKSPACE:
		return get_text(t, &c->workspace);
	case BOOT_TMP:
		return get_text(t, &c->tmp);
	case BOOT_EMPTY:
		return get_text(t, &c->empty);
	case BOOT_MOUNT_NAME:
	case BOOT_MOUNT_PATH:
		return read_mount(c, t);
	case BOOT_ENV:
		return c->n_env == LIMIT_ARGS ? -E2BIG : get_text(t, &c->env[c->n_env++]);
	case BOOT_JOIN_FD:
		return c->n_join_fds == CONFIG_JOIN_FDS ? -E2BIG
							: get_fd(t, &c->join_fds[c->n_join_fds++]);
	case BOOT_HOLD_FD:
		return c->n_hold_fds == CONFIG_HOLD_FDS ? -E2BIG
							: get_fd(t, &c->hold_fds[c->n_hold_fds++]);
	case BOOT_OOM_FD:
		return get_fd(t, &c->oom_fd);
	case BOOT_PIDS_EVENTS_FD:
		return get_fd(t, &c->pids_events_fd);
	case BOOT_MEMORY_FD:
		return get_fd(t, &c->memory_fd);
	case BOOT_PIDS_FD:
		return get_fd(t, &c->pids_fd);
	case BOOT_LIFELINE_FD:
		return get_fd(t, &c->lifeline_fd);
	case BOOT_MEMORY_MAX:
		return tlv_get_u64(t, &c->memory_max);
	case BOOT_PIDS_MAX:
		return tlv_get_u64(t, &c->pids_max);
	case BOOT_CONFINE:
		return get_u32(t, &c->confine);
	case BOOT_RLIMIT_NPROC:
		return tlv_get_u64(t, &c->rlimit_nproc);
	case BOOT_RLIMIT_DATA:
		return tlv_get_u64(t, &c->rlimit_data);
	case BOOT_LEASE_MS:
		return get_u32(t, &c->lease_ms);
	case BOOT_ORPHAN_MS:
		return get_u32(t, &c->orphan_ms);
	case BOOT_SPOOL_HEAD:
		return tlv_get_u64(t, &c->spool_head);
	case BOOT_SPOOL_TAIL:
		return tlv_get_u64(t, &c->spool_tail);
	case BOOT_SPOOL_SESSION:
		return tlv_get_u64(t, &c->spool_session);
	default:
		return 0;
	}
}

static int open_directories(struct config *c)
{
	c->workspace_fd = open(c->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (c->workspace_fd < 0) {
		int e = errno;
		log_error("the workspace %s cannot be opened: %s", c->workspace, strerror(e));
		return -e;
	}
	for (size_t i = 0; i < c->n_mounts; i++) {
		struct config_mount *m = &c->mounts[i];
		m->fd = open(m->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (m->fd < 0)
			log_warning("mount %s: %s: %s", m->name, m->path, strerror(errno));
	}
	return 0;
}

static int read_tags(const void *p, size_t n, struct config *c, bool *ret_has_key, bool *ret_has_id)
{
	struct tlv_reader reader = tlv_reader(p, n);
	for (struct tlv t; tlv_next(&reader, &t);) {
		int r = read_one(c, &t);
		if (r < 0) {
			log_error(
				"the configuration's tag %u has no sense: %s", t.tag, strerror(-r));
			return r;
		}
		*ret_has_key |= t.tag == BOOT_KEY;
		*ret_has_id |= t.tag == BOOT_ID;
	}
	return reader.bad || !c->workspace || (c->n_mounts && !c->mounts[c->n_mounts - 1].path)
		       ? -EPROTO
		       : 0;
}

int config_parse(const void *p, size_t n, struct config *c)
{
	bool has_key = false, has_id = false;
	*c = (struct config)CONFIG_INIT;
	int r = read_tags(p, n, c, &has_key, &has_id);
	if (r == 0 && !c->tmp)
		c->tmp = xstrdup("/tmp");
	return r;
}

int config_read(int fd, bool ahead, struct config *c)
{
	*c = (struct config)CONFIG_INIT;
	_cleanup_buf_ struct buf b = BUF_INIT(CONFIG_BYTES);
	int r = 0;
	size_t max = SIZE_MAX;
	if (ahead) {
		/* The broker died before it told anything: nobody else will. */
		struct pollfd p = {.fd = fd, .events = POLLIN};
		r = poll(&p, 1, FIRST_WORD_MS) == 1 ? read_all(fd, &b, 4) : -ETIMEDOUT;
		max = b.len == 4 ? wire_get32(b.data) : 0;
		buf_clear(&b);
	}
	if (r == 0)
		r = read_all(fd, &b, max);
	if (!ahead)
		(void)close(fd);
	if (r < 0) {
		log_error("the configuration cannot be read: %s", strerror(-r));
		return r;
	}
	bool has_key = false, has_id = false;
	r = read_tags(b.data, b.len, c, &has_key, &has_id);
	if (b.len)
		explicit_bzero(b.data, b.len); /* it held the key */
	if (r < 0 || !has_key || !has_id) {
		log_error("the configuration is broken, or without key, id or workspace");
		return -EPROTO;
	}
	if (!c->tmp)
		c->tmp = xstrdup("/tmp");
	return open_directories(c);
}
