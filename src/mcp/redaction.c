/* redaction.c: see redaction.h. */
#include "mcp/redaction.h"

#include <string.h>

#include "mcp/conn.h"
#include "secret/vault.h"

const struct redactor *redaction_of(const struct mcp_server *s, const char *principal)
{
	struct vault *vault = s->config.vault;
	return vault ? vault_redactor(vault, principal) : NULL;
}

/* NULL: nothing of p[0..n) is a secret. Owned by the caller. */
static char *masked(const char *p, size_t n, const struct redacting *w)
{
	if (!redact_find(w->redactor, p, n))
		return NULL;
	char *text = xstrndup(p, n);
	redact_text(w->redactor, text, n, false, false, w->hits);
	return text;
}

static void mask_string(json_t *v, const struct redacting *w)
{
	size_t n = json_string_length(v);
	_cleanup_free_ char *text = masked(json_string_value(v), n, w);
	if (text)
		(void)json_string_setn_nocheck(v, text, n);
}

/* ---- answers ---- */

/* Not ours to change: what the client called its request, the bytes of an image, and what was
 * masked and then sealed (ask.c). */
static bool is_kept(const json_t *object, const char *key)
{
	if (strcmp(key, "id") == 0 || strcmp(key, "progressToken") == 0 ||
		strcmp(key, "requestState") == 0)
		return true;
	const char *type = json_string_value(json_object_get(object, "type"));
	return strcmp(key, "data") == 0 && type && strcmp(type, "image") == 0;
}

static void mask_answer(json_t *v, const struct redacting *w)
{
	const char *key;
	json_t *item;
	size_t i;
	if (json_is_string(v)) {
		mask_string(v, w);
	} else if (json_is_object(v)) {
		json_object_foreach (v, key, item)
			if (!is_kept(v, key))
				mask_answer(item, w);
	} else if (json_is_array(v)) {
		json_array_foreach (v, i, item)
			mask_answer(item, w);
	}
}

void redaction_mask(json_t *v, const struct redacting *w)
{
	if (w->redactor)
		mask_answer(v, w);
}

/* ---- data ---- */

static json_t *mask_number(json_t *v, const struct redacting *w)
{
	_cleanup_free_ char *digits = json_dumps(v, JSON_ENCODE_ANY);
	_cleanup_free_ char *text = digits ? masked(digits, strlen(digits), w) : NULL;
	if (!text)
		return v;
	json_decref(v);
	return json_string(text);
}

static json_t *mask_object(json_t *v, const struct redacting *w)
{
	json_t *new = json_object(), *item;
	const char *key;
	json_object_foreach (v, key, item) {
		_cleanup_free_ char *name = masked(key, strlen(key), w);
		json_object_set_new(
			new, name ? name : key, redaction_mask_data(json_incref(item), w));
	}
	json_decref(v);
	return new;
}

json_t *redaction_mask_data(json_t *v, const struct redacting *w)
{
	json_t *item;
	size_t i;
	if (!w->redactor)
		return v;
	if (json_is_object(v))
		return mask_object(v, w);
	if (json_is_string(v))
		mask_string(v, w);
	else if (json_is_number(v))
		return mask_number(v, w);
	json_array_foreach (v, i, item)
		json_array_set_new(v, i, redaction_mask_data(json_incref(item), w));
	return v;
}
