/* jobstart.h: OP_JOB_START: reading the request, and starting what it asks for. */
#pragma once

#include "agent/job.h"

/* c is kept. Call once. */
void jobstart_init(const struct config *c);
/* The job (a new one, or the one that had this id), or NULL: the stream has been ended. */
struct job *jobstart(
	struct stream *s, struct tlv_reader body, uint64_t *ret_wait_ms, uint64_t *ret_inline);

/* For a moment in which nobody waits. */
void jobstart_settle(void);

/* The base environment, the session's variables over it, the NAME=value texts of more over both.
 * Owned, ends with NULL. */
char **jobstart_environment(char *const *more);
/* A list of owned texts that ends with NULL, with a maximum. False where a text has a NUL in it,
 * is too long, or one too many. */
struct text_list {
	char **v;
	size_t n;
};
bool text_list_add(struct text_list *l, const struct tlv *t);
void text_list_copy(struct text_list *ret, const struct text_list *l);
void text_list_done(struct text_list *l);
