/* head.c: see head.h. */
#include "audit/head.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"

#define SLOT_AT 4096 /* a page, and a disk's block, each */
#define N_SLOTS 2

static const char magic[8] = {'s', 'c', 'b', 'h', 'e', 'a', 'd', '1'};

/* As it stands in the file; numbers are little-endian. */
struct slot {
	char magic[8];
	uint64_t generation, seq, offset, next_seq, next_bytes;
	uint8_t chain[HASH_SIZE], hash[HASH_SIZE], next_hash[HASH_SIZE], boot[HEAD_BOOT];
	uint8_t mac[HASH_SIZE]; /* of all before it */
};
_Static_assert(sizeof(struct slot) == 48 + 4 * HASH_SIZE + HEAD_BOOT, "no holes");

static bool take_slot(const struct slot *s, unsigned number, const uint8_t *key, struct head *ret)
{
	uint8_t mac[HASH_SIZE];
	hash_mac(key, s, offsetof(struct slot, mac), mac);
	if (!id_equal(mac, s->mac, sizeof(mac)) || memcmp(s->magic, magic, sizeof(magic)) != 0 ||
		le64toh(s->generation) % N_SLOTS != number)
		return false;
	*ret = (struct head){
		.generation = le64toh(s->generation),
		.seq = le64toh(s->seq),
		.offset = le64toh(s->offset),
		.next_seq = le64toh(s->next_seq),
		.next_bytes = le64toh(s->next_bytes),
	};
	memcpy(ret->chain, s->chain, sizeof(ret->chain));
	memcpy(ret->hash, s->hash, sizeof(ret->hash));
	memcpy(ret->next_hash, s->next_hash, sizeof(ret->next_hash));
	memcpy(ret->boot, s->boot, sizeof(ret->boot));
	return true;
}

int head_read(int fd, const uint8_t key[static HASH_KEY_SIZE], enum head_state *ret_state,
	struct head *ret)
{
	static const struct slot empty;
	struct head h[N_SLOTS];
	bool good[N_SLOTS], written = false;
	for (unsigned i = 0; i < N_SLOTS; i++) {
		struct slot slot = empty;
		if (pread(fd, &slot, sizeof(slot), (off_t)i * SLOT_AT) < 0)
			return -errno;
		written = written || memcmp(&slot, &empty, sizeof(slot)) != 0;
		good[i] = take_slot(&slot, i, key, &h[i]);
	}
	if (!good[0] && !good[1]) {
		*ret_state = written ? HEAD_FOREIGN : HEAD_MISSING;
		return 0;
	}
	if (good[1] && (!good[0] || h[1].generation > h[0].generation)) {
		*ret_state = HEAD_SETTLED;
		*ret = h[1];
	} else {
		bool followed = good[1] && h[1].generation + 1 == h[0].generation;
		*ret_state = followed ? HEAD_OPEN : HEAD_FULFILLED;
		*ret = h[0];
	}
	return 0;
}

void head_write(void *map, const uint8_t key[static HASH_KEY_SIZE], struct head *h)
{
	unsigned number = h->next_bytes ? 0 : 1;
	do
		h->generation++;
	while (h->generation % N_SLOTS != number);
	struct slot s = {
		.generation = htole64(h->generation),
		.seq = htole64(h->seq),
		.offset = htole64(h->offset),
		.next_seq = htole64(h->next_seq),
		.next_bytes = htole64(h->next_bytes),
	};
	memcpy(s.magic, magic, sizeof(s.magic));
	memcpy(s.chain, h->chain, sizeof(s.chain));
	memcpy(s.hash, h->hash, sizeof(s.hash));
	memcpy(s.next_hash, h->next_hash, sizeof(s.next_hash));
	memcpy(s.boot, h->boot, sizeof(s.boot));
	hash_mac(key, &s, offsetof(struct slot, mac), s.mac);
	memcpy((uint8_t *)map + (size_t)number * SLOT_AT, &s, sizeof(s));
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* before whatever system call comes next */
}

int head_map(int fd, void **ret_map)
{
	static const uint8_t zeros[N_SLOTS * SLOT_AT];
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	size_t have = (size_t)MIN(st.st_size, (off_t)sizeof(zeros)), lack = sizeof(zeros) - have;
	if (lack && pwrite(fd, zeros, lack, (off_t)have) != (ssize_t)lack)
		return errno ? -errno : -ENOSPC;
	void *map = mmap(NULL, sizeof(zeros), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*ret_map = map;
	return 0;
}

void head_unmap(void *map)
{
	if (map)
		(void)munmap(map, N_SLOTS * SLOT_AT);
}

int head_prepare(int fd)
{
	static const uint8_t zeros[N_SLOTS * SLOT_AT];
	ssize_t n = pwrite(fd, zeros, sizeof(zeros), 0);
	return n == (ssize_t)sizeof(zeros) ? 0 : n < 0 ? -errno : -ENOSPC;
}

void head_boot(uint8_t ret[static HEAD_BOOT])
{
	char text[40], hex[2 * HEAD_BOOT + 1] = "";
	memset(ret, 0, HEAD_BOOT);
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	size_t k = 0;
	for (ssize_t i = 0; i < n && k < sizeof(hex) - 1; i++)
		if (text[i] != '-' && text[i] != '\n')
			hex[k++] = text[i];
	hex[k] = '\0';
	(void)!id_unhex(hex, ret, HEAD_BOOT);
}

/* ---- the key ---- */

static int key_error(struct err *err, const char *path, int errnum, const char *why)
{
	return err_set(err, ERR_AUDIT_UNAVAILABLE, errnum,
		"the audit log's key %.200s %s; SCB_AUDIT_KEY names another place for it", path,
		why);
}

static int read_key(const char *path, int fd, uint8_t ret[static HASH_KEY_SIZE], struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		(st.st_mode & 077))
		return key_error(err, path, EPERM,
			"is not a file of this user's that others can neither read nor write");
	if (st.st_size != HASH_KEY_SIZE || pread(fd, ret, HASH_KEY_SIZE, 0) != HASH_KEY_SIZE)
		return key_error(err, path, EINVAL, "is damaged");
	return 0;
}

/* Of brokers that begin at the same time one's key is taken by all: it appears whole. */
static int make_key(const char *path)
{
	_cleanup_free_ char *dir = xstrdup(path);
	for (char *slash = dir; (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST && errno != EROFS)
			return -errno;
		*slash = '/';
	}
	uint8_t key[HASH_KEY_SIZE];
	char unique[ID_TEXT_SIZE];
	id_random(key, sizeof(key));
	id_new('k', unique);
	_cleanup_free_ char *tmp = xasprintf("%s.%s", path, unique);
	_cleanup_close_ int fd =
		open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, key, sizeof(key));
	if (r == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0))
		r = -errno;
	/* where there are no hard links, the last one's is taken */
	if (r == 0 && link(tmp, path) < 0 && errno != EEXIST && rename(tmp, path) < 0)
		r = -errno;
	(void)unlink(tmp);
	return r;
}

int head_key(const char *path, bool make, uint8_t ret[static HASH_KEY_SIZE], struct err *err)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	_cleanup_close_ int fd = open(path, flags);
	if (fd < 0 && errno == ENOENT && make) {
		int r = make_key(path);
		if (r < 0)
			return err_set(err, ERR_AUDIT_UNAVAILABLE, -r,
				"the audit log's key %.200s cannot be made (%s); SCB_AUDIT_KEY "
				"names another place for it",
				path, strerror(-r));
		fd = open(path, flags);
	}
	if (fd < 0)
		return key_error(err, path, errno, strerror(errno));
	return read_key(path, fd, ret, err);
}
