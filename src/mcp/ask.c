/* ask.c: see ask.h. */
#include "mcp/ask.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/limits.h"
#include "mcp/base64.h"
#include "mcp/protocol.h"
#include "wire/sha256.h"

/* What was kept, sealed: the MAC in hex, then the payload in base64. */
#define MAC_TEXT (2 * SHA256_SIZE)

struct ask {
	bool modern;
	json_t *capabilities; /* NULL: not known */
	uint8_t key[ASK_KEY];
	struct buf of;    /* what it is sealed for */
	json_t *answers;  /* of the last round; key → result */
	json_t *kept;     /* in the last round; NULL: nothing */
	json_t *requests; /* of this round; key → {method, params} */
	json_t *keep;     /* … NULL: nothing */
	json_t *missing;  /* capabilities that it would have needed; name → {} */
};

static const struct kind {
	const char *capability, *method;
	const char *member; /* that every answer has … */
	json_type type;     /* … of this type */
} kinds[] = {
	[ASK_ELICITATION] = {"elicitation", "elicitation/create", "action", JSON_STRING},
	[ASK_SAMPLING] = {"sampling", "sampling/createMessage", "role", JSON_STRING},
	[ASK_ROOTS] = {"roots", "roots/list", "roots", JSON_ARRAY},
};

/* ---- the seal ---- */

/* Principal, method, what is named, and a digest of the arguments, none of which can pass for
 * another. */
static int seal_for(struct ask *a, const struct ask_request *r)
{
	const json_t *named = json_object_get(r->params, "name");
	const char *name = json_string_value(named ? named : json_object_get(r->params, "uri"));
	const json_t *arguments = json_object_get(r->params, "arguments");
	_cleanup_free_ char *text =
		arguments ? json_dumps(arguments, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY)
			  : xstrdup("");
	uint8_t digest[SHA256_SIZE];
	struct sha256 s;
	if (!text)
		return -EINVAL;
	sha256_init(&s);
	sha256_update(&s, text, strlen(text));
	sha256_final(&s, digest);
	buf_init(&a->of, LIMIT_MCP_LINE);
	return buf_append(&a->of, digest, sizeof(digest)) < 0 ||
			       buf_append(&a->of, r->principal, strlen(r->principal) + 1) < 0 ||
			       buf_append(&a->of, r->method, strlen(r->method) + 1) < 0 ||
			       buf_append_str(&a->of, name ? name : "") < 0
		       ? -EINVAL
		       : 0;
}

static void mac_of(
	const struct ask *a, const char *payload, size_t n, uint8_t ret_mac[static SHA256_SIZE])
{
	/* the first part's length, so that it ends where it ends */
	const uint64_t of_size = a->of.len;
	const struct hmac_part parts[] = {
		{&of_size, sizeof(of_size)}, {a->of.data, a->of.len}, {payload, n}};
	sha256_hmac(a->key, sizeof(a->key), parts, ARRAY_SIZE(parts), ret_mac);
}

static json_t *seal(const struct ask *a, json_t *kept)
{
	uint8_t mac[SHA256_SIZE];
	char mac_text[MAC_TEXT + 1];
	json_t *all = json_pack("{s:I,s:O}", "until",
		(json_int_t)(clock_monotonic_us() + LIMIT_ASK_US), "kept", kept);
	_cleanup_free_ char *text = json_dumps(all, JSON_COMPACT);
	CHECK(text);
	json_t *payload = base64_json(text, strlen(text));
	mac_of(a, json_string_value(payload), json_string_length(payload), mac);
	id_hex(mac, sizeof(mac), mac_text);
	_cleanup_free_ char *sealed = xasprintf("%s%s", mac_text, json_string_value(payload));
	json_decref(payload);
	json_decref(all);
	return json_string(sealed);
}

/* What was sealed for this request, and not too long ago; NULL: it was not. Nothing of it is read
 * before its MAC is known to be right. */
static json_t *unseal(const struct ask *a, const char *sealed, size_t n)
{
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_MCP_RESULT);
	uint8_t mac[SHA256_SIZE], given[SHA256_SIZE];
	char mac_text[MAC_TEXT + 1];
	if (n <= MAC_TEXT)
		return NULL;
	memcpy(mac_text, sealed, MAC_TEXT);
	mac_text[MAC_TEXT] = '\0';
	mac_of(a, sealed + MAC_TEXT, n - MAC_TEXT, mac);
	if (id_unhex(mac_text, given, sizeof(given)) < 0 || !id_equal(mac, given, sizeof(mac)))
		return NULL;
	CHECK(base64_decode(sealed + MAC_TEXT, n - MAC_TEXT, &text) == 0);
	json_t *all = json_loadb((const char *)text.data, text.len, JSON_ALLOW_NUL, NULL);
	CHECK(all);
	bool in_time =
		(uint64_t)json_integer_value(json_object_get(all, "until")) > clock_monotonic_us();
	json_t *kept = in_time ? json_incref(json_object_get(all, "kept")) : NULL;
	json_decref(all);
	return kept;
}

/* ---- life ---- */

static int take_answers(struct ask *a, const json_t *params, struct jsonrpc_error *ret_error)
{
	json_t *answers = json_object_get(params, "inputResponses");
	const json_t *state = json_object_get(params, "requestState");
	if (answers && !json_is_object(answers)) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"params.inputResponses must be an object");
		return -EINVAL;
	}
	if (state && json_is_string(state))
		a->kept = unseal(a, json_string_value(state), json_string_length(state));
	if (state && !a->kept) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"params.requestState is not what this server gave for this request, or is "
			"too old; send the request anew, without it");
		return -EINVAL;
	}
	if (answers) {
		json_decref(a->answers);
		a->answers = json_incref(answers);
	}
	return 0;
}

int ask_open(const struct ask_request *r, struct ask **ret, struct jsonrpc_error *ret_error)
{
	struct ask *a = xcalloc(1, sizeof(*a));
	a->modern = r->modern;
	a->capabilities = json_incref(r->capabilities);
	memcpy(a->key, r->key, sizeof(a->key));
	a->answers = json_object();
	a->requests = json_object();
	a->missing = json_object();
	int rc = r->modern ? seal_for(a, r) : 0;
	if (rc < 0)
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"the request is too large for one that may ask back");
	else if (r->modern)
		rc = take_answers(a, r->params, ret_error);
	if (rc < 0) {
		ask_free(a);
		return rc;
	}
	*ret = a;
	return 0;
}

void ask_free(struct ask *a)
{
	if (!a)
		return;
	json_decref(a->capabilities);
	json_decref(a->answers);
	json_decref(a->kept);
	json_decref(a->requests);
	json_decref(a->keep);
	json_decref(a->missing);
	buf_done(&a->of);
	free(a);
}

/* ---- a round ---- */

bool ask_can(const struct ask *a, enum ask_kind kind)
{
	return !a->capabilities ||
	       json_is_object(json_object_get(a->capabilities, kinds[kind].capability));
}

const json_t *ask_answer(const struct ask *a, const char *key, enum ask_kind kind)
{
	const json_t *answer = json_object_get(a->answers, key);
	const json_t *member = json_object_get(answer, kinds[kind].member);
	return member && json_typeof(member) == kinds[kind].type ? answer : NULL;
}

void ask_for(struct ask *a, const char *key, enum ask_kind kind, json_t *params)
{
	if (!ask_can(a, kind))
		json_object_set_new(a->missing, kinds[kind].capability, json_object());
	json_object_set_new(a->requests, key,
		json_pack("{s:s,s:o}", "method", kinds[kind].method, "params", params));
}

void ask_keep(struct ask *a, json_t *v)
{
	json_decref(a->keep);
	a->keep = v;
}

const json_t *ask_kept(const struct ask *a)
{
	return a->kept;
}

bool ask_refused(const struct ask *a, struct jsonrpc_error *ret_error)
{
	void *first = json_object_iter(a->missing);
	if (!first)
		return false;
	jsonrpc_error_set(ret_error, MCP_MISSING_CAPABILITY,
		"This needs a client with the capability %s, which it has not declared",
		json_object_iter_key(first));
	ret_error->data = json_pack("{s:O}", "requiredCapabilities", a->missing);
	return true;
}

bool ask_pending(const struct ask *a)
{
	return a->keep || json_object_size(a->requests) > 0;
}

json_t *ask_result(struct ask *a, const struct redacting *w)
{
	json_t *result = json_pack("{s:s}", "resultType", "input_required");
	if (json_object_size(a->requests) > 0)
		json_object_set(result, "inputRequests", a->requests);
	if (a->keep) {
		redaction_mask(a->keep, w);
		json_object_set_new(result, "requestState", seal(a, a->keep));
	}
	return result;
}

json_t *ask_requests(const struct ask *a)
{
	return a->requests;
}

void ask_next(struct ask *a, json_t *answers)
{
	json_decref(a->answers);
	a->answers = answers;
	json_decref(a->kept);
	a->kept = TAKE_PTR(a->keep);
	json_decref(a->requests);
	a->requests = json_object();
}
