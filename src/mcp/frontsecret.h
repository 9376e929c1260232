/* frontsecret.h: secrets between a broker and its fronts (SPEC.md, "Front protocol"): SECRETS says
 * which ones the broker's policy has from variables and programs, and a SECRET frame for each is
 * the answer. A value is never in JSON, whose library would leave copies of it. */
#pragma once

#include <jansson.h>

#include "secret/vault.h"

/* What fronts of that principal are asked for; the caller's. */
json_t *frontsecret_wanted(const struct vault *v, const char *principal);

/* One of them as a front reads it. Texts are borrowed from the JSON. */
struct frontsecret_wish {
	const char *name;
	const char *variable;                         /* NULL: a program */
	const char *argv[LIMIT_SECRET_EXEC_ARGS + 1]; /* NULL at its end */
};
/* The JSON of SECRETS, with a member for each; n of them, the caller's with *ret_root.
 * ERR_PROTOCOL.
 */
int frontsecret_wishes(const char *p, size_t n, json_t **ret_root,
	struct frontsecret_wish ret[static LIMIT_SECRETS], size_t *ret_n,
	struct err *err) MUST_CHECK;

/* SECRET: u8 kind, u8 length of the name, the name, then the value or why there is none. */
enum frontsecret_kind { FRONTSECRET_NONE = 0, FRONTSECRET_VALUE = 1 };
#define FRONTSECRET_HEAD (2 + LIMIT_SECRET_NAME)
/* All but the value or reason; the length. */
size_t frontsecret_head(
	enum frontsecret_kind kind, const char *name, uint8_t ret[static FRONTSECRET_HEAD]);
/* Gives it to the vault. False where it is none. */
bool frontsecret_take(struct vault_giver *g, const uint8_t *p, size_t n);
