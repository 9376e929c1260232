/* vault.h: what a broker knows of secrets at present, per principal: what the policy wants, what
 * fronts have given, what files say, and what sessions were given.
 *
 * A value is known as long as somebody holds it: the front that gave it, the policy that names its
 * file, or a session that was given it. All that is known of a principal is masked in what leaves
 * for that principal, and for no other (a mask of somebody else's value would tell that it was
 * guessed right). A value that cannot be masked is not taken. Of several values of one name the one
 * that came last goes to new sessions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/limits.h"
#include "secret/value.h"

struct vault;
struct redactor;

enum vault_source { VAULT_ENV, VAULT_FILE, VAULT_EXEC };
enum vault_exposure {
	VAULT_PLACEHOLDER, /* code is given a text that is worth nothing */
	VAULT_SESSION,     /* every process of a session can read the value */
};

/* One secret as the policy names it. */
struct vault_want {
	const char *name;
	enum vault_source source;
	const char *place;       /* VAULT_ENV: the variable; VAULT_FILE: the path */
	const char *const *argv; /* VAULT_EXEC: NULL at its end */
	enum vault_exposure exposure;
	const char *variable; /* of the sandbox */
};

struct vault *vault_new(void);
void vault_free(struct vault *v);
/* What the policy says of that principal from now on (copied); files are read. Names, variables and
 * sizes have been checked. What is wanted no more is forgotten, unless a session has it. */
void vault_set_wants(
	struct vault *v, const char *principal, const struct vault_want *wants, size_t n);
/* Has vault_set_wants() been called for it? */
bool vault_has(const struct vault *v, const char *principal);
void vault_each(struct vault *v, void (*fn)(void *user, const char *principal), void *user);
/* Borrowed until the next vault_set_wants(). */
size_t vault_wants(const struct vault *v, const char *principal, const struct vault_want **ret);
/* What texts for that principal are to be masked with; borrowed until anything of the vault
 * changes. NULL: no secret is known. */
struct redactor *vault_redactor(struct vault *v, const char *principal);

/* Masks what is known of anybody: for the log of whoever runs the broker. */
void vault_mask(struct vault *v, char *text, size_t n);

/* ---- fronts ---- */

struct vault_giver;
/* A front has come that will be asked for all that is wanted from fronts. */
struct vault_giver *vault_giver_new(struct vault *v, const char *principal);
/* It has gone, and what it gave with it. NULL is allowed. */
void vault_giver_free(struct vault_giver *g);
/* It is asked (once more) now: until it has answered, vault_pending(). */
void vault_giver_ask(struct vault_giver *g);
/* Its answer; what nobody asked for is let go of. The value is not taken over. */
void vault_give(struct vault_giver *g, struct secret_value *value);
void vault_give_nothing(struct vault_giver *g, const char *name, const char *why);
/* It has answered nothing for so long that it will not: what is still open is not available. */
void vault_giver_late(struct vault_giver *g);
bool vault_giver_open(const struct vault_giver *g);
/* Somebody is about to give something that nobody else has given yet. */
bool vault_pending(const struct vault *v, const char *principal);

/* ---- sessions ---- */

struct vault_grant;
struct vault_granted {
	char name[LIMIT_SECRET_NAME + 1], variable[LIMIT_SECRET_NAME + 1];
	enum vault_exposure exposure;
	struct secret_value *value; /* NULL: a placeholder, not available, or not known */
	char placeholder[LIMIT_SECRET_NAME + 64]; /* "": a value, or none */
	char why[240];                            /* it is not available; "": it is */
};
/* All that a new session of that principal is to be given, NULL where that is nothing. Files are
 * read anew. What it holds stays known until it is freed. */
struct vault_grant *vault_grant_new(struct vault *v, const char *principal);
/* Of a session that an earlier broker has left: what it was given, by name. Values: none, until
 * they are known here; a placeholder is never. */
struct vault_grant *vault_grant_found(struct vault *v, const char *principal);
void vault_grant_found_add(struct vault_grant *g, const char *name, const char *variable,
	enum vault_exposure exposure);
void vault_grant_free(struct vault_grant *g);
size_t vault_grant_list(const struct vault_grant *g, const struct vault_granted **ret);
/* A found one takes what is known by now. True once every value that code can read is known: then
 * texts of the session can be masked. err (may be NULL): which are not (ERR_SECRET_UNAVAILABLE). */
bool vault_grant_complete(struct vault_grant *g, struct err *err);
/* The sandbox has another value of one of them than this. It is complete no more. */
void vault_grant_other(struct vault_grant *g);
