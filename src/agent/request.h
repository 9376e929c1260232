/* request.h: what a file operation asks for, read from its OPEN message, and where its path
 * points: to the workspace or a mount. */
#pragma once

#include <sys/types.h>

#include "agent/config.h"
#include "agent/stream.h"

struct stat;

/* A path, confined: rel is only ever given to fd_open_beneath() and its kin, with dirfd. */
struct place {
	int dirfd;       /* of the workspace or a mount; borrowed */
	const char *rel; /* points into text; "." for the top itself; does not end in a slash */
	bool read_only;
	char *text; /* as it was asked for, owned */
};

struct request {
	struct place path, target; /* text is NULL where there was none */
	bool has_offset, has_length;
	uint64_t offset, length; /* each ≤ INT64_MAX */
	bool has_expected;       /* WRITE: only to a file of this size and time */
	uint64_t expected_size, expected_mtime_us;
	bool append, parents, replace, recursive, stable;
	bool has_count; /* WRITE: the broker's own number, which END repeats */
	uint64_t count;
	uint32_t mode; /* 0: none given */
	uint32_t depth, limit;
	uint8_t *pattern;
	size_t pattern_len;
	char *name_pattern;
};
void request_done(struct request *q);
#define _cleanup_request_ CLEANUP(request_done)

enum request_need {
	REQUEST_READS,  /* PATH, anywhere */
	REQUEST_LISTS,  /* the same, and "/mnt" itself: then path.rel is NULL */
	REQUEST_WRITES, /* PATH, in the workspace */
	REQUEST_MOVES,  /* PATH and TARGET, in the workspace */
};
/* True where q is complete; else the stream has been ended with the reason. c must outlive q. */
bool request_read(struct stream *s, struct tlv_reader body, const struct config *c,
	enum request_need need, struct request *q) MUST_CHECK;

/* Makes the directories that lead to p, with mode 0755. 0, or a negative errno. */
int request_make_parents(const struct place *p) MUST_CHECK;

/* Ends the stream with the status and words for a (positive) errno. */
void request_fail(struct stream *s, int errnum);
/* Ends the stream with WIRE_NOT_REGULAR, WIRE_IS_DIRECTORY or WIRE_IS_LINK, as the mode says. */
void request_fail_kind(struct stream *s, mode_t mode);
/* st is of the file that WRITE may be done to (or it does not matter). */
bool request_expects(const struct request *q, const struct stat *st);
/* Appends KIND, SIZE, MODE and MTIME_US. 0 or -ENOBUFS. */
int request_describe(struct buf *b, const struct stat *st) MUST_CHECK;
