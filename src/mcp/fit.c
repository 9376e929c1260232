/* fit.c: see fit.h. */
#include "mcp/fit.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

static const size_t string_caps[] = {96 * KIB, 24 * KIB, 6 * KIB, 1536, 384};

static json_t *cut_string(const json_t *v, size_t cap)
{
	size_t n = json_string_length(v);
	size_t keep = str_utf8_trim(json_string_value(v), cap);
	_cleanup_free_ char *text =
		xasprintf("%.*s\n[%zu more bytes left out: the answer was too long]", (int)keep,
			json_string_value(v), n - keep);
	return json_string(text);
}

static void cut_strings(json_t *v, size_t cap)
{
	const char *key;
	json_t *item;
	void *next;
	size_t i;
	if (json_is_object(v)) {
		json_object_foreach_safe (v, next, key, item) {
			if (strcmp(key, "requestState") == 0) /* worth nothing in parts */
				continue;
			if (json_is_string(item) && json_string_length(item) > cap)
				json_object_set_new(v, key, cut_string(item, cap));
			else
				cut_strings(item, cap);
		}
	} else if (json_is_array(v)) {
		json_array_foreach (v, i, item) {
			if (json_is_string(item) && json_string_length(item) > cap)
				json_array_set_new(v, i, cut_string(item, cap));
			else
				cut_strings(item, cap);
		}
	}
}

static void drop_images(json_t *content)
{
	for (size_t i = json_array_size(content); i > 0; i--) {
		json_t *block = json_array_get(content, i - 1);
		const char *type = json_string_value(json_object_get(block, "type"));
		if (type && strcmp(type, "image") == 0)
			json_array_set_new(content, i - 1,
				json_pack("{s:s,s:s}", "type", "text", "text",
					"[a figure was left out: the answer was too long]"));
	}
}

bool fit_shrink(json_t *result, unsigned round)
{
	if (round == 0) {
		drop_images(json_object_get(result, "content"));
		return true;
	}
	if (round - 1 >= ARRAY_SIZE(string_caps))
		return false;
	cut_strings(result, string_caps[round - 1]);
	return true;
}
