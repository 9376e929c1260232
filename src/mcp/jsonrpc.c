/* jsonrpc.c: see jsonrpc.h. */
#include "mcp/jsonrpc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"

void jsonrpc_msg_done(struct jsonrpc_msg *m)
{
	json_decref(m->root);
	*m = (struct jsonrpc_msg){0};
}

void jsonrpc_error_done(struct jsonrpc_error *e)
{
	json_decref(e->id);
	json_decref(e->data);
	*e = (struct jsonrpc_error){0};
}

void jsonrpc_error_set(struct jsonrpc_error *e, int code, const char *fmt, ...)
{
	va_list ap;
	e->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	str_make_printable(e->text);
}

/* Of what stands outside strings: how deep brackets are nested, and how many values there are,
 * about. Whether it is JSON is the parser's business. */
struct shape {
	unsigned depth;
	size_t values;
};

/* Ends where it is deeper or has more than max. */
static bool has_shape(const char *p, size_t n, const struct shape *max)
{
	struct shape s = {0};
	bool in_string = false;
	for (size_t i = 0; i < n && s.depth <= max->depth && s.values <= max->values; i++) {
		char c = p[i];
		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == ',') {
			s.values++;
		} else if (c == '[' || c == '{') {
			s.depth++;
			s.values++;
		} else if ((c == ']' || c == '}') && s.depth > 0) {
			s.depth--;
		}
	}
	return s.depth <= max->depth && s.values <= max->values;
}

bool jsonrpc_too_deep(const char *p, size_t n, unsigned max)
{
	return !has_shape(p, n, &(struct shape){max, SIZE_MAX});
}

static bool id_ok(const json_t *id)
{
	return (json_is_string(id) && json_string_length(id) <= LIMIT_MCP_ID) ||
	       json_is_integer(id);
}

static int parse_failed(const json_error_t *je, struct jsonrpc_error *ret_error)
{
	if (json_error_code(je) == json_error_duplicate_key) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_REQUEST,
			"Invalid request: an object has the same key twice (near byte %d)",
			je->position);
		return -EINVAL;
	}
	jsonrpc_error_set(ret_error, JSONRPC_PARSE_ERROR,
		"Parse error near byte %d: %.120s. Send one JSON-RPC 2.0 object a line, in UTF-8",
		je->position, je->text);
	return -EINVAL;
}

/* root's members into *m, which borrows them. */
static const char *classify(json_t *root, struct jsonrpc_msg *m)
{
	json_t *version = json_object_get(root, "jsonrpc");
	json_t *method = json_object_get(root, "method");
	json_t *id = json_object_get(root, "id");
	json_t *params = json_object_get(root, "params");

	if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
		return "member jsonrpc must be \"2.0\"";
	if (!method) {
		if (!json_object_get(root, "result") && !json_object_get(root, "error"))
			return "member method is missing";
		m->kind = JSONRPC_RESPONSE;
		m->id = id;
		return NULL;
	}
	if (!json_is_string(method) ||
		strlen(json_string_value(method)) != json_string_length(method))
		return "member method must be a string";
	if (id && !id_ok(id))
		return "member id must be an integer or a string of at most 1024 bytes";
	if (params && !json_is_object(params))
		return "member params must be an object";
	m->kind = id ? JSONRPC_REQUEST : JSONRPC_NOTIFICATION;
	m->id = id;
	m->method = json_string_value(method);
	m->params = params;
	return NULL;
}

int jsonrpc_parse(const char *p, size_t n, struct jsonrpc_msg *ret, struct jsonrpc_error *ret_error)
{
	*ret_error = (struct jsonrpc_error){0};
	if (!has_shape(p, n, &(struct shape){LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES})) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_REQUEST,
			"Invalid request: nested deeper than %d levels, or of more than %d values",
			LIMIT_JSON_DEPTH, LIMIT_JSON_VALUES);
		return -EINVAL;
	}

	json_error_t je;
	json_t *root =
		json_loadb(p, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
	if (!root)
		return parse_failed(&je, ret_error);

	struct jsonrpc_msg m = {.root = root};
	const char *wrong = json_is_array(root)
				    ? "batches are not supported, send one message a line"
			    : !json_is_object(root) ? "a message is a JSON object"
						    : classify(root, &m);
	if (wrong) {
		json_t *id = json_object_get(root, "id");
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_REQUEST, "Invalid request: %s", wrong);
		ret_error->id = id_ok(id) ? json_incref(id) : NULL;
		json_decref(root);
		return -EINVAL;
	}
	*ret = m;
	return 0;
}

static json_t *envelope(json_t *id)
{
	json_t *m = json_object();
	json_object_set_new(m, "jsonrpc", json_string("2.0"));
	if (id)
		json_object_set(m, "id", id);
	return m;
}

json_t *jsonrpc_result(json_t *id, json_t *result)
{
	json_t *m = envelope(id);
	json_object_set_new(m, "result", result);
	return m;
}

json_t *jsonrpc_error_message(const struct jsonrpc_error *e)
{
	json_t *m = envelope(e->id ? e->id : json_null());
	json_t *error = json_object();
	json_object_set_new(error, "code", json_integer(e->code));
	json_object_set_new(error, "message", jsonrpc_text(e->text));
	if (e->data)
		json_object_set(error, "data", e->data);
	json_object_set_new(m, "error", error);
	return m;
}

json_t *jsonrpc_notification(const char *method, json_t *params)
{
	json_t *m = envelope(NULL);
	json_object_set_new(m, "method", json_string(method));
	json_object_set_new(m, "params", params);
	return m;
}

static int append(const char *p, size_t n, void *user)
{
	return buf_append(user, p, n) < 0 ? -1 : 0;
}

int jsonrpc_encode(const json_t *message, struct buf *out)
{
	size_t before = out->len;
	if (json_dump_callback(message, append, out, JSON_COMPACT | JSON_REAL_PRECISION(15)) == 0)
		return 0;
	out->len = before;
	return -ENOBUFS;
}

json_t *jsonrpc_text_n(const void *p, size_t n)
{
	if (n == 0) /* p may be NULL then, and json_stringn(NULL, 0) is no string */
		return json_string("");
	if (str_utf8_valid(p, n))
		return json_stringn(p, n);
	_cleanup_buf_ struct buf b = BUF_INIT(3 * n);
	CHECK(str_utf8_repair(&b, p, n, NULL) == 0);
	return json_stringn((const char *)b.data, b.len);
}

json_t *jsonrpc_text(const char *text)
{
	return jsonrpc_text_n(text, strlen(text));
}
