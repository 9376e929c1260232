/* meta.c: see meta.h. */
#include "files/meta.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "files/mime.h"
#include "files/name.h"

#define VERSION 1

char *meta_uri(const char *id, const char *name)
{
	_cleanup_free_ char *encoded = name_encode(name);
	return xasprintf(META_URI "%s/%s", id, encoded);
}

void meta_principal(const char *principal, char ret_hex[static 2 * SHA256_SIZE + 1])
{
	static const char salt[] = "scb outputs v1\n";
	struct sha256 sha;
	uint8_t digest[SHA256_SIZE];
	sha256_init(&sha);
	sha256_update(&sha, salt, sizeof(salt) - 1);
	sha256_update(&sha, principal, strlen(principal));
	sha256_final(&sha, digest);
	id_hex(digest, sizeof(digest), ret_hex);
}

char *meta_write(const char *principal, const struct output *o)
{
	char owner[2 * SHA256_SIZE + 1], when[CLOCK_RFC3339_SIZE];
	meta_principal(principal, owner);
	clock_rfc3339(o->created_us, when);
	json_t *j =
		json_pack("{s:i, s:s, s:s, s:s, s:s*, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:b, s:b}",
			"version", VERSION, "principal", owner, "id", o->id, "name", o->name,
			"title", o->title, "sourcePath", o->source_path, "session", o->session,
			"bytes", (json_int_t)o->size, "createdUs", (json_int_t)o->created_us,
			"created", when, "sha256", o->sha256, "mimeType", o->mime_type, "text",
			o->text, "executable", o->executable);
	char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
	json_decref(j);
	CHECK(text); /* every string in it has been checked to be UTF-8 */
	return text;
}

/* True where the values are what a record can hold. */
static bool take(const json_t *j, const char *principal, struct output *ret)
{
	int version, text, executable;
	json_int_t bytes, created_us;
	const char *owner, *id, *name, *title = NULL, *source, *session, *sha256, *mime;
	char want[2 * SHA256_SIZE + 1];
	if (json_unpack((json_t *)j,
		    "{s:i, s:s, s:s, s:s, s?s, s:s, s:s, s:I, s:I, s:s, s:s, s:b, s:b}", "version",
		    &version, "principal", &owner, "id", &id, "name", &name, "title", &title,
		    "sourcePath", &source, "session", &session, "bytes", &bytes, "createdUs",
		    &created_us, "sha256", &sha256, "mimeType", &mime, "text", &text, "executable",
		    &executable) < 0)
		return false;
	if (version != VERSION || !id_valid('o', id) || bytes < 0 || created_us < 0 ||
		strlen(sha256) != 2 * SHA256_SIZE || name_check(name, NULL) < 0)
		return false;
	if (principal) {
		meta_principal(principal, want);
		if (strcmp(owner, want) != 0)
			return false;
	}
	*ret = (struct output){
		.uri = meta_uri(id, name),
		.name = xstrdup(name),
		.title = title ? xstrdup(title) : NULL,
		.source_path = xstrdup(source),
		.session = xstrdup(session),
		.size = (uint64_t)bytes,
		.created_us = (uint64_t)created_us,
		.mime_type = mime_intern(mime),
		.text = text,
		.executable = executable,
	};
	memcpy(ret->id, id, sizeof(ret->id));
	memcpy(ret->sha256, sha256, sizeof(ret->sha256));
	return true;
}

int meta_read(const char *text, size_t n, const char *principal, struct output *ret)
{
	json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
	bool good = j && take(j, principal, ret);
	json_decref(j);
	return good ? 0 : -EPROTO;
}
