/* outputs.h: presented files: a file's only way out of a sandbox. They belong to a principal and
 * outlive the session.
 *
 * They lie under dir as PRINCIPAL/TIME_ID/NAME (files/shelf.h), so that on stdio a person finds
 * them, newest last; a model reads them by URI. They are never executable there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/id.h"
#include "files/files.h"

struct outputs;
struct redactor;

/* dir is made (0700) where it is missing. */
int outputs_open(const char *dir, struct outputs **ret, struct err *err) MUST_CHECK;
/* Calls must have been abandoned or have called back. NULL is fine. */
void outputs_close(struct outputs *o);

struct output {
	char id[ID_TEXT_SIZE]; /* "o-…" */
	char *uri;             /* "resource://scb/o-…/NAME" with NAME percent-encoded */
	char *name;            /* last component, safe on every system that matters */
	char *title;           /* NULL: none */
	char *source_path;     /* in the workspace */
	char *host_path;       /* absolute */
	char *session;
	uint64_t size;
	uint64_t created_us; /* CLOCK_REALTIME */
	char sha256[2 * SHA256_SIZE + 1];
	const char *mime_type; /* from name and first bytes; own small table */
	bool text;             /* all of it is UTF-8: may be given as text in resources/read */
	const char *unread; /* "zip", "gzip", …: packed, so that no secret was looked for in it;
			     * NULL: one was, or none is known */
	bool executable; /* opening it would run something (scripts, binaries, HTML, office macros,
			    .desktop, …), or it was executable in the sandbox */
};
void output_done(struct output *o);

/* o is NULL where err is not, and is gone after the call. */
typedef void (*outputs_present_fn)(void *user, const struct output *o, const struct err *err);
struct outputs_call;
/* What a presentation is called, and for whom: all borrowed. */
struct outputs_wish {
	const char *principal, *session;
	const char *path;                /* in the workspace */
	const char *title;               /* NULL: none */
	const char *id;                  /* "o-…"; NULL: a new one */
	const struct redactor *redactor; /* secrets that refuse a file; NULL: none is known */
	uint64_t max_bytes, quota; /* of one, and of all of the principal; 0: LIMIT_PRESENT_BYTES,
				      LIMIT_OUTPUTS_BYTES */
	bool not_executable;       /* what would run something is refused */
	bool again; /* it may have been put there before, under this id: then that is it */
};
/* Copies path out of the sandbox while hashing; refuses what files_fetch() refuses, names that
 * cannot be carried safely, what passes the principal's quota, and what has a secret in its bytes,
 * path or title. Calls back once, from the loop.
 *
 * Pieces are written from the loop, as they come (≤ 256 KiB, into the page cache); what can take
 * long, making directories, fsync, renaming and removing, is done by libuv's threads. */
struct outputs_call *outputs_present(struct outputs *o, struct files *f,
	const struct outputs_wish *wish, outputs_present_fn done, void *user);
/* No callback any more, and nothing stays of the file. Before files_free(). */
void outputs_abandon(struct outputs_call *c);

/* By URI, for its owner only; ERR_NO_SUCH_RESOURCE for unknown and foreign alike (and for one that
 * the person has moved away). */
int outputs_find(struct outputs *o, const char *principal, const char *uri, struct output *ret,
	struct err *err) MUST_CHECK;
/* The same with its bytes: *ret_fd is open for reading. In a worker thread, too. */
int outputs_open_file(struct outputs *o, const char *principal, const char *uri, struct output *ret,
	int *ret_fd, struct err *err) MUST_CHECK;
/* Appends up to length bytes of it; fewer only at its end. ERR_LIMIT_REACHED where ret is too
 * small.
 */
int outputs_read(struct outputs *o, const char *principal, const char *uri, uint64_t offset,
	uint64_t length, struct buf *ret, struct err *err) MUST_CHECK;
/* Newest first, until fn answers other than 0, which then is the value. */
int outputs_list(struct outputs *o, const char *principal,
	int (*fn)(void *user, const struct output *o), void *user, struct err *err) MUST_CHECK;
/* Removes what is older than LIMIT_OUTPUTS_AGE_S and half-written rests; the number removed, or a
 * negative errno. Blocks on the disk. */
int outputs_expire(struct outputs *o);
