/* outputs.h: presented files: a file's only way out of a sandbox. They belong to a principal and
 * outlive the session.
 *
 * Layout under dir (0700): PRINCIPAL-HASH/ID/NAME and ID/meta.json, written under a temporary name,
 * fsynced and renamed. On stdio a person finds them there; a model reads them by URI. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/id.h"
#include "files/files.h"

struct outputs;

/* dir is made where it is missing. */
int outputs_open(const char *dir, struct outputs **ret, struct err *err) MUST_CHECK;
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
	bool text;             /* may be given as text in resources/read */
	bool executable; /* opening it would run something (scripts, binaries, HTML, office macros,
			    .desktop, …) */
};
void output_done(struct output *o);

typedef void (*outputs_present_fn)(void *user, const struct output *o, const struct err *err);
struct outputs_call;
/* Copies path out of the sandbox while hashing; refuses what files_fetch() refuses, names that
 * cannot be carried safely, and what passes the principal's quota. */
struct outputs_call *outputs_present(struct outputs *o, const char *principal, const char *session,
	struct files *f, const char *path, const char *title, outputs_present_fn done, void *user);
void outputs_abandon(struct outputs_call *c);

/* By URI, for its owner only; ERR_NO_SUCH_RESOURCE for unknown and foreign alike. */
int outputs_find(struct outputs *o, const char *principal, const char *uri, struct output *ret,
	struct err *err) MUST_CHECK;
/* Bytes of it. */
int outputs_read(struct outputs *o, const char *principal, const char *uri, uint64_t offset,
	uint64_t length, struct buf *ret, struct err *err) MUST_CHECK;
/* Newest first. */
int outputs_list(struct outputs *o, const char *principal,
	int (*fn)(void *user, const struct output *o), void *user, struct err *err) MUST_CHECK;
/* Removes what is older than LIMIT_OUTPUTS_AGE_S and half-written rests; the number removed. */
int outputs_expire(struct outputs *o);
