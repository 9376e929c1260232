/* redaction.h: JSON on its way out, with its principal's secrets masked. */
#pragma once

#include <jansson.h>

#include "secret/redact.h"

struct mcp_server;

/* What texts for that principal are masked with; NULL: nothing is known of it. Borrowed until the
 * loop goes on. */
const struct redactor *redaction_of(const struct mcp_server *s, const char *principal);

/* Masks every text in v, in place: the last that is done to an answer. Names of members stay, they
 * are the protocol's; so do ids and tokens that the client chose, and the bytes of images. */
void redaction_mask(json_t *v, const struct redacting *w);
/* The same for data of a program, which it may name and number as it likes: names of members are
 * masked, and numbers in which a secret stands become texts. v is stolen; the masked one. */
json_t *redaction_mask_data(json_t *v, const struct redacting *w);
