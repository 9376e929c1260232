/* fronthello.c: see fronthello.h. */
#include "mcp/fronthello.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "mcp/build.h"
#include "mcp/jsonrpc.h"

static const char *const kinds[] = {"serve", "run", "control"};

bool front_mount_name_valid(const char *name, size_t n)
{
	if (n == 0 || n > 64 || name[0] == '.' || name[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '_' || c == '-' || c == '.'))
			return false;
	}
	return true;
}

/* ---- HELLO ---- */

static json_t *encode_mounts(const struct front_hello *h)
{
	json_t *all = json_array();
	for (size_t i = 0; i < h->n_mounts; i++)
		json_array_append_new(all, json_pack("{s:s,s:s}", "name", h->mounts[i].name,
						   "source", h->mounts[i].source));
	return all;
}

static json_t *encode_limits(const struct front_hello *h)
{
	json_t *all = json_array();
	for (size_t i = 0; i < h->n_limits; i++)
		json_array_append_new(all, json_string(h->limits[i]));
	return all;
}

int front_hello_encode(const struct front_hello *h, struct buf *out, struct err *err)
{
	char hex[2 * DELIVERY_FRONT + 1];
	id_hex(h->front, DELIVERY_FRONT, hex);
	/* '*': a member whose value is NULL is left out */
	json_t *o = json_pack("{s:[i,i],s:s,s:s,s:s,s:b,s:b,s:s,s:s,s:s*,s:s*,s:s*,s:s*}",
		"protocol", (int)h->protocol_min, (int)h->protocol_max, "build", h->build, "kind",
		kinds[h->kind], "front", hex, "resume", h->resume, "secrets", h->secrets, "session",
		h->session, "name", h->name, "provider", h->provider, "outputs", h->outputs,
		"policy", h->policy, "root", h->image_root);
	json_t *mounts = encode_mounts(h);
	bool all = o && json_array_size(mounts) == h->n_mounts;
	if (o) {
		json_object_set_new(o, "mounts", mounts);
		json_object_set_new(o, "limits", encode_limits(h));
	} else {
		json_decref(mounts);
	}
	int r = all ? jsonrpc_encode(o, out) : -EILSEQ;
	json_decref(o);
	if (r == -EILSEQ)
		return err_set(err, ERR_INVALID_ARGUMENT, EILSEQ,
			"a name or path among the options is not UTF-8 text");
	if (r < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, -r, "the options are too long");
	return 0;
}

static int bad(struct err *err, const char *what)
{
	return err_set(err, ERR_PROTOCOL, EPROTO, "the front's hello has no valid %s", what);
}

/* A member that is a text of at most max bytes without NUL; NULL where it is not there. */
static int get_text(const json_t *o, const char *name, size_t max, const char **ret)
{
	const json_t *v = json_object_get(o, name);
	*ret = NULL;
	if (!v || json_is_null(v))
		return 0;
	const char *text = json_string_value(v);
	if (!text || json_string_length(v) > max || strlen(text) != json_string_length(v))
		return -EPROTO;
	*ret = text;
	return 0;
}

static int get_unsigned(const json_t *v, unsigned *ret)
{
	json_int_t i = json_integer_value(v);
	if (!json_is_integer(v) || i < 1 || i > INT_MAX)
		return -EPROTO;
	*ret = (unsigned)i;
	return 0;
}

/* As realpath(3) writes it: a policy's rules compare names, so that "/allowed/../other" is none. */
static bool is_real(const char *path)
{
	if (path[0] != '/')
		return false;
	for (const char *p = path; *p && path[1]; p += strcspn(p, "/")) {
		size_t n = strcspn(++p, "/");
		if (n == 0 || (n <= 2 && strncmp(p, "..", n) == 0))
			return false;
	}
	return true;
}

static int decode_mounts(const json_t *all, struct front_hello *h)
{
	if (all && (!json_is_array(all) || json_array_size(all) > LIMIT_MOUNTS))
		return -EPROTO;
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *o = json_array_get(all, i);
		struct sandbox_mount *m = &h->mounts[h->n_mounts];
		if (get_text(o, "name", 64, &m->name) < 0 ||
			get_text(o, "source", LIMIT_PATH, &m->source) < 0 || !m->name ||
			!m->source || !is_real(m->source) ||
			!front_mount_name_valid(m->name, strlen(m->name)))
			return -EPROTO;
		for (size_t j = 0; j < h->n_mounts; j++)
			if (strcmp(h->mounts[j].name, m->name) == 0)
				return -EPROTO;
		h->n_mounts++;
	}
	return 0;
}

static int decode_limits(const json_t *all, struct front_hello *h)
{
	if (all && (!json_is_array(all) || json_array_size(all) > FRONT_LIMITS_MAX))
		return -EPROTO;
	for (size_t i = 0; i < json_array_size(all); i++) {
		h->limits[i] = json_string_value(json_array_get(all, i));
		if (!h->limits[i])
			return -EPROTO;
		h->n_limits++;
	}
	return 0;
}

static int decode_kind(const json_t *o, enum front_kind *ret)
{
	const char *text = json_string_value(json_object_get(o, "kind"));
	for (size_t i = 0; text && i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i], text) == 0) {
			*ret = (enum front_kind)i;
			return 0;
		}
	return -EPROTO;
}

static json_t *load(const char *p, size_t n)
{
	if (jsonrpc_too_deep(p, n, LIMIT_JSON_DEPTH))
		return NULL;
	json_t *root = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(root))
		return root;
	json_decref(root);
	return NULL;
}

int front_hello_decode(const char *p, size_t n, struct front_hello *ret, struct err *err)
{
	struct front_hello h = {.root = load(p, n)};
	const char *wrong = NULL, *session = NULL, *front = NULL;
	const json_t *o = h.root, *range = json_object_get(o, "protocol");
	if (!o)
		return bad(err, "JSON object");
	if (get_unsigned(json_array_get(range, 0), &h.protocol_min) < 0 ||
		get_unsigned(json_array_get(range, 1), &h.protocol_max) < 0)
		wrong = "protocol";
	else if (get_text(o, "build", 31, &h.build) < 0 || !h.build)
		wrong = "build";
	else if (decode_kind(o, &h.kind) < 0)
		wrong = "kind";
	else if (get_text(o, "front", 2 * DELIVERY_FRONT, &front) < 0 || !front ||
		 id_unhex(front, h.front, DELIVERY_FRONT) < 0)
		wrong = "front";
	else if (get_text(o, "session", sizeof(h.session) - 1, &session) < 0 ||
		 (session && *session && !id_valid('s', session)))
		wrong = "session";
	else if (get_text(o, "name", 64, &h.name) < 0)
		wrong = "name";
	else if (get_text(o, "provider", 64, &h.provider) < 0)
		wrong = "provider";
	else if (get_text(o, "outputs", LIMIT_PATH, &h.outputs) < 0 ||
		 (h.outputs && h.outputs[0] != '/'))
		wrong = "outputs";
	else if (get_text(o, "policy", LIMIT_PATH, &h.policy) < 0 ||
		 (h.policy && h.policy[0] != '/'))
		wrong = "policy";
	else if (get_text(o, "root", LIMIT_PATH, &h.image_root) < 0 ||
		 (h.image_root && h.image_root[0] != '/'))
		wrong = "root";
	else if (decode_mounts(json_object_get(o, "mounts"), &h) < 0)
		wrong = "mounts";
	else if (decode_limits(json_object_get(o, "limits"), &h) < 0)
		wrong = "limits";
	if (wrong) {
		json_decref(h.root);
		return bad(err, wrong);
	}
	h.resume = json_is_true(json_object_get(o, "resume"));
	h.secrets = json_is_true(json_object_get(o, "secrets"));
	str_copy(h.session, sizeof(h.session), session);
	h.name = h.name ? h.name : "";
	*ret = h;
	return 0;
}

void front_hello_done(struct front_hello *h)
{
	json_decref(h->root);
	*h = (struct front_hello){0};
}

/* ---- WELCOME, REFUSED ---- */

void front_reply_encode(const struct front_reply *r, struct buf *out)
{
	json_t *o = json_pack("{s:i,s:s,s:i}", "protocol", (int)build.front_max, "build",
		build.version, "pid", (int)getpid());
	if (r->why.code) {
		json_object_set_new(o, "error", json_string(err_info(r->why.code)->name));
		json_object_set_new(o, "text", jsonrpc_text(r->why.text));
		json_object_set_new(o, "retry", json_boolean(r->retry));
	}
	CHECK(jsonrpc_encode(o, out) == 0);
	json_decref(o);
}

static enum err_code code_by_name(const char *name)
{
	for (int c = 1; name && c < ERR_CODE_MAX_; c++)
		if (strcmp(err_info((enum err_code)c)->name, name) == 0)
			return (enum err_code)c;
	return ERR_INTERNAL;
}

int front_reply_decode(const char *p, size_t n, struct front_reply *ret, struct err *err)
{
	json_t *o = load(p, n);
	const char *version = json_string_value(json_object_get(o, "build"));
	const char *text = json_string_value(json_object_get(o, "text"));
	json_int_t pid = json_integer_value(json_object_get(o, "pid"));
	*ret = (struct front_reply){.retry = json_is_true(json_object_get(o, "retry"))};
	bool good = version && pid > 0 && pid <= INT_MAX;
	if (good) {
		ret->pid = (int)pid;
		str_copy(ret->build, sizeof(ret->build), version);
		str_make_printable(ret->build);
	}
	if (good && text) {
		ret->why.code = code_by_name(json_string_value(json_object_get(o, "error")));
		str_copy(ret->why.text, sizeof(ret->why.text), text);
		str_make_printable(ret->why.text);
	}
	json_decref(o);
	if (!good)
		return err_set(err, ERR_PROTOCOL, EPROTO,
			"what answers on the broker's socket is no broker of this protocol");
	return 0;
}

/* ---- versions ---- */

static bool parse_version(const char *text, unsigned ret[static 3])
{
	return sscanf(text, "%4u.%4u.%4u", &ret[0], &ret[1], &ret[2]) == 3;
}

int front_build_compare(const char *a, const char *b)
{
	unsigned x[3], y[3];
	if (!parse_version(a, x) || !parse_version(b, y))
		return 0;
	for (size_t i = 0; i < 3; i++)
		if (x[i] != y[i])
			return x[i] > y[i] ? 1 : -1;
	return 0;
}
