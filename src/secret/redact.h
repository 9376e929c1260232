/* redact.h: what of a text must not leave: the known secrets, in all the forms of forms.h.
 *
 * The mask is '*', as many as there were bytes: offsets stay what they were, and no JSON string,
 * and no UTF-8 text, is broken by it. Where forms overlap all of them is masked. How a text is cut
 * into pieces changes nothing.
 *
 * It stops accidents. A program that wants a secret out has only to write it backwards.
 *
 * A redactor does not change once made. Its references are counted on one thread; while one is held
 * another thread may search with it. NULL stands for one that knows nothing, and costs nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

struct redactor;
struct secret_value;

/* NULL for n 0. ERR_LIMIT_REACHED where their table would pass LIMIT_REDACT_TABLE, or there are
 * more than LIMIT_REDACT_VALUES. Of values nothing is kept but their forms. */
int redactor_new(struct secret_value *const *values, size_t n, struct redactor **ret,
	struct err *err) MUST_CHECK;
struct redactor *redactor_ref(const struct redactor *r);
void redactor_unref(struct redactor *r);
static inline void redactor_unrefp(struct redactor **r)
{
	redactor_unref(*r);
}
#define _cleanup_redactor_ CLEANUP(redactor_unrefp)
/* How many bytes beyond the edges of a range one has to look at, so that no form that touches the
 * range can hide beyond them. 0 for NULL. */
size_t redactor_reach(const struct redactor *r);
#define REDACT_REACH_MAX (6 * LIMIT_SECRET_BYTES) /* each byte as \u00xx */
/* No two of a process have the same; 0 for NULL. */
uint64_t redactor_serial(const struct redactor *r);
/* Bytes of its table. */
size_t redactor_size(const struct redactor *r);

/* How often which secret was found, by name: one place counts once for a secret. */
struct redact_hits {
	struct redact_count {
		char *name;
		uint64_t count;
	} * counts;
	size_t n;
};
void redact_hits_done(struct redact_hits *h);
/* Adds what from counted to h. */
void redact_hits_add(struct redact_hits *h, const struct redact_hits *from);

/* A redactor at work for one answer; both may be NULL. */
struct redacting {
	const struct redactor *redactor;
	struct redact_hits *hits;
};

/* In place, a whole text: at how many places something ended that is masked now. hits may be NULL,
 * here and below. */
size_t redact_bytes(const struct redactor *r, void *p, size_t n, struct redact_hits *hits);
/* As redact_bytes(), for a piece of a text whose rest cannot be looked at (dropped, or not sent):
 * what could be the end of a form at its start (before: something stood there), or the beginning
 * of one at its end (after), is masked as well, from REDACT_PART bytes on. */
size_t redact_piece(const struct redactor *r, void *p, size_t n, bool before, bool after,
	struct redact_hits *hits);
#define REDACT_PART 4
/* The same for a text that is valid UTF-8, which it stays: where a secret ends within a character
 * all of the character is masked. */
size_t redact_text(const struct redactor *r, char *p, size_t n, bool before, bool after,
	struct redact_hits *hits);
/* In place, a text that was shortened before it came here: where "…" or "..." stands, what could be
 * the beginning of a secret before it, or the end of one behind it, is masked from REDACT_SHORT
 * bytes on; blanks, quotes and newlines may stand between. Where there are more such places than
 * can be looked at, the words at them are. The text stays valid UTF-8. */
void redact_shortened(const struct redactor *r, char *p, size_t n);
#define REDACT_SHORT 8
/* How many bytes at the end of what was read so far could be the beginning of a form; 0 where they
 * are fewer than REDACT_PART. Before redact_bytes(). */
size_t redact_pending(const struct redactor *r, const void *p, size_t n);

/* A text that comes in pieces. Holds back at most redactor_reach() bytes. */
struct redact_stream {
	const struct redactor *redactor; /* borrowed */
	struct redact_hits *hits;        /* may be NULL */
	uint32_t state;
	uint8_t *held;
	size_t n_held;
};
void redact_stream_init(
	struct redact_stream *s, const struct redactor *r, struct redact_hits *hits);
/* Appends to out what nothing more can change. 0, or -ENOBUFS: out is full. */
int redact_stream_feed(
	struct redact_stream *s, const void *p, size_t n, struct buf *out) MUST_CHECK;
/* … and the rest. */
int redact_stream_end(struct redact_stream *s, struct buf *out) MUST_CHECK;
/* Frees what it holds, at any time. */
void redact_stream_done(struct redact_stream *s);

/* Looks for a first secret in a text that comes in pieces, and changes nothing. */
struct redact_search {
	const struct redactor *redactor; /* borrowed */
	uint32_t state;
	uint64_t read;
	const char *name; /* of the secret that was found, borrowed from the redactor; NULL: none */
	uint64_t offset;  /* where it begins */
};
/* True once one was found. */
bool redact_search_feed(struct redact_search *s, const void *p, size_t n);
/* A whole text: the name of the first secret in it, or NULL. */
const char *redact_find(const struct redactor *r, const void *p, size_t n);
