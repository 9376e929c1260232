/* files.h: the workspace of one sandbox, over its link.
 *
 * Paths: relative ones and those under /workspace name the workspace; /mnt/NAME/… a mount
 * (read-only). Anything else is ERR_FILE_REFUSED with the way to do it. The agent confines every
 * path again; nothing is read on the host.
 *
 * Each call calls back once, from the loop, never from inside the call; a failure names the path.
 * What the agent says is checked: the numbers of entries and bytes, and names, which are made valid
 * UTF-8 without control characters (U+FFFD stands for what was not).
 *
 * tag, where something is changed: what the agent has done under it once is not done again, and is
 * answered as it was then (wire/delivery.h). NULL: done each time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/delivery.h"
#include "wire/proto.h"
#include "wire/sha256.h"

struct link;
struct redactor;
struct sandbox_mount;
struct files;
struct files_call;

struct files *files_new(struct link *l);
/* Abandons every call. Before link_close(). */
void files_free(struct files *f);
/* Another absolute path that callers may name the workspace by: as code in the sandbox sees it,
 * where that is not /workspace. Copied. */
void files_set_workspace(struct files *f, const char *path);
/* The names of what is mounted under /mnt: other mounts are refused with these. Copied; once. */
void files_set_mounts(struct files *f, const struct sandbox_mount *mounts, size_t n);
uv_loop_t *files_loop(const struct files *f);
/* The short form of a path, owned by the caller (path_canonical() of files/path.h). */
int files_path(const struct files *f, const char *path, char **ret, struct err *err) MUST_CHECK;
/* No callback any more; what was asked may have been done or not. */
void files_abandon(struct files_call *c);

struct files_entry {
	char *path; /* as a caller would name it: "data/x.csv", "/mnt/sales/x.csv" */
	enum wire_file_kind kind;
	uint64_t size;
	uint32_t mode;
	uint64_t mtime_us;
	/* search hits only: */
	uint64_t line; /* 0: matched by name */
	bool has_offset;
	uint64_t offset; /* of the pattern in the file */
	char *line_text;
};

/* What an operation answers; members that it does not fill are zero. */
struct files_result {
	struct files_entry stat;
	struct files_entry *entries;
	size_t n_entries;
	bool more; /* the list was cut at the limit */
	struct buf bytes;
	uint64_t offset;
	uint64_t size; /* of the whole file, afterwards */
	uint64_t count;
	uint8_t sha256[SHA256_SIZE];
};
/* r is NULL where err is not, and is gone after the call (members may be taken with TAKE_PTR). */
typedef void (*files_done_fn)(void *user, struct files_result *r, const struct err *err);

struct files_call *files_stat(struct files *f, const char *path, files_done_fn done, void *user);
struct files_call *files_list(struct files *f, const char *path, uint32_t depth, uint32_t limit,
	files_done_fn done, void *user);
/* length ≤ LIMIT_READ_TEXT. The result's size is the file's when it was opened. */
struct files_call *files_read(struct files *f, const char *path, uint64_t offset, uint64_t length,
	files_done_fn done, void *user);
enum files_write_mode { FILES_REPLACE, FILES_APPEND, FILES_AT_OFFSET };
/* Missing parent directories are made. p is copied. */
struct files_call *files_write(struct files *f, const char *path, enum files_write_mode mode,
	uint64_t offset, const void *p, size_t n, const uint8_t *tag, files_done_fn done,
	void *user);
/* Replaces old_text by new_text; old_text must occur exactly once (or all, where all is true); the
 * result's count is the number of places. Files ≤ LIMIT_EDIT_BYTES before and after. ERR_CONFLICT
 * where something else changes the file meanwhile. again: it may have been done under this tag
 * already, which is asked first. What the redactor (may be NULL) masks is no place where old_text
 * occurs: nobody can find a secret by trying. */
struct files_call *files_edit(struct files *f, const char *path, const char *old_text,
	const char *new_text, bool all, const struct redactor *redactor, const uint8_t *tag,
	bool again, files_done_fn done, void *user);
/* pattern: literal text in contents (of a line); name: pattern (base/glob.h) for names, or for
 * paths below path where it has a slash. One of them, or both. */
struct files_call *files_search(struct files *f, const char *path, const char *pattern,
	const char *name, uint32_t limit, files_done_fn done, void *user);
/* Missing parent directories of target are made. */
struct files_call *files_move(struct files *f, const char *path, const char *target, bool replace,
	const uint8_t *tag, files_done_fn done, void *user);
struct files_call *files_delete(struct files *f, const char *path, bool recursive,
	const uint8_t *tag, files_done_fn done, void *user);
struct files_call *files_mkdir(
	struct files *f, const char *path, const uint8_t *tag, files_done_fn done, void *user);

/* Streams a regular file of the workspace for promotion: sink gets the bytes in order (0, or a
 * negative errno to stop: then done gets ERR_IO with it as errnum); done's result has stat (of the
 * opened file) and sha256 (of the bytes that sink got, by OpenSSL, in the broker). Refused: links,
 * devices, FIFOs, sockets, directories, setuid files, files > max, files that change meanwhile. */
typedef int (*files_sink_fn)(void *user, const uint8_t *p, size_t n);
struct files_call *files_fetch(struct files *f, const char *path, uint64_t max, files_sink_fn sink,
	files_done_fn done, void *user);
