/* fronthello.h: the JSON in a front's HELLO and in what a broker says to it (SPEC.md, "Front
 * protocol"). Unknown members are ignored, so that builds can differ. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/limits.h"
#include "provider/provider.h"
#include "wire/delivery.h"

#define FRONT_LIMITS_MAX 32 /* limits given by a front */

enum front_kind {
	FRONT_SERVE,        /* a host's MCP messages */
	FRONT_RUN,          /* the same of one command: its session ends with it */
	FRONT_CONTROL_ONLY, /* CONTROL and nothing else; whatever the protocol */
};

/* Texts are borrowed: from whoever encodes it, or from root. */
struct front_hello {
	unsigned protocol_min, protocol_max;
	const char *build; /* version of the front's scb */
	enum front_kind kind;
	uint8_t front[DELIVERY_FRONT]; /* its own random id */
	bool resume;                   /* an earlier broker knew this front */
	char session[ID_TEXT_SIZE];    /* its default session; "": none */
	bool secrets;                  /* it answers SECRETS */
	const char *name;              /* the host's configured name; "": none */
	const char *provider;          /* NULL: "auto" */
	struct sandbox_mount mounts[LIMIT_MOUNTS];
	size_t n_mounts;
	const char *image_root; /* of the image that its sandboxes see, by real path; NULL: none */
	/* what is the broker's own and not the connection's; none given: whatever the broker has */
	const char *limits[FRONT_LIMITS_MAX];
	size_t n_limits;
	const char *outputs; /* NULL: not given */
	const char *policy;  /* its file; NULL: not given */
	json_t *root;
};
/* Appends to out. ERR_INVALID_ARGUMENT where it is no text or too long. */
int front_hello_encode(const struct front_hello *h, struct buf *out, struct err *err) MUST_CHECK;
/* ERR_PROTOCOL; else ret->root is owned. */
int front_hello_decode(
	const char *p, size_t n, struct front_hello *ret, struct err *err) MUST_CHECK;
void front_hello_done(struct front_hello *h);

/* Of a folder in the sandbox: up to 64 letters, digits, "_", "-" and "."; not "." or "-" first. */
bool front_mount_name_valid(const char *name, size_t n);

/* WELCOME and REFUSED. */
struct front_reply {
	char build[32]; /* of the broker, and its process: filled in by encoding */
	int pid;
	/* REFUSED: */
	struct err why;
	bool retry; /* this broker is about to go: connect again */
};
void front_reply_encode(const struct front_reply *r, struct buf *out);
int front_reply_decode(
	const char *p, size_t n, struct front_reply *ret, struct err *err) MUST_CHECK;

/* More than 0 where version a ("1.10.2") is newer than b; 0 too where one of them is no version. */
int front_build_compare(const char *a, const char *b);
