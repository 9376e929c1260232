/* store.h: where the broker writes what it must find again. A small key-value interface; values are
 * opaque bytes. Keys: "kind/name" of [a-z0-9/_-], ≤ 200 bytes. Every state change is written before
 * it is acted on.
 *
 * A value is the old one or the new one, whole, whenever this process is killed. Nothing is forced
 * to the disk, which would hold up the loop: a power cut may lose the last seconds, or leave an
 * empty value. It ends all sandboxes, too, and who reads a record checks it. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct store;

struct store_ops {
	const char *name;
	/* 0 once a process that comes after this one will find it. */
	int (*put)(struct store *s, const char *key, const void *value, size_t n, struct err *err);
	/* 0 and the value appended to ret; -ENOENT. */
	int (*get)(struct store *s, const char *key, struct buf *ret, struct err *err);
	int (*remove)(struct store *s, const char *key, struct err *err); /* absent is 0 */
	/* Calls fn for each key that begins with prefix, in order of bytes; stops at non-zero and
	 * returns it. fn may put and remove. */
	int (*each)(struct store *s, const char *prefix, int (*fn)(void *user, const char *key),
		void *user, struct err *err);
	void (*close)(struct store *s);
};

struct store {
	const struct store_ops *ops;
};

/* A session's record has some hundred bytes, a keyed call's final status some thousand; what a
 * dashboard showed last may have 256 KiB (LIMIT_DASHBOARD_TREE) and its names. */
#define STORE_VALUE_MAX (320 * 1024)
#define STORE_KEY_MAX   200

int store_memory_open(struct store **ret) MUST_CHECK;
/* One file a record under dir (made 0700 where it is missing), replaced atomically, mode 0600.
 * What a crash left half written is removed here. One process a directory. */
int store_file_open(const char *dir, struct store **ret, struct err *err) MUST_CHECK;

/* "kind/name": no empty part, nothing but [a-z0-9_-] in it. */
bool store_key_valid(const char *key);
/* For back-ends: what every put() refuses first (ERR_INVALID_ARGUMENT), and the error of an odd
 * key.
 */
int store_check_put(const char *key, size_t n, struct err *err) MUST_CHECK;
int store_bad_key(const char *key, struct err *err);
