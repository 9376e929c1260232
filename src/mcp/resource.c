/* resource.c: see resource.h. */
#include "mcp/resource.h"

#include <string.h>

#include "base/str.h"

static void set_text(json_t *o, const char *name, const char *text)
{
	if (text)
		json_object_set_new(o, name, json_string(text));
}

static json_t *entry(const struct resource *r)
{
	json_t *o = json_pack(
		"{s:s,s:s}", r->variable ? "uriTemplate" : "uri", r->uri, "name", r->name);
	set_text(o, "title", r->title);
	set_text(o, "description", r->description);
	set_text(o, "mimeType", r->mime_type);
	if (r->meta)
		json_object_set_new(o, "_meta", r->meta(r));
	return o;
}

static void add(const struct mcp_offer *o, bool templates, json_t *list)
{
	for (size_t i = 0; o->resources && o->resources[i]; i++)
		if ((o->resources[i]->variable != NULL) == templates)
			json_array_append_new(list, entry(o->resources[i]));
}

void resource_list(const struct mcp_offer *o, json_t *list)
{
	add(o, false, list);
}

json_t *resource_templates(const struct mcp_offer *o)
{
	json_t *list = json_array();
	add(o, true, list);
	return json_pack("{s:o}", "resourceTemplates", list);
}

const struct resource *resource_of_template(const struct mcp_offer *o, const char *uri)
{
	for (size_t i = 0; uri && o->resources && o->resources[i]; i++)
		if (o->resources[i]->variable && strcmp(o->resources[i]->uri, uri) == 0)
			return o->resources[i];
	return NULL;
}

/* Is uri r's? A template's variable is then in *ret_value, owned by the caller. */
static bool is_of(const struct resource *r, const char *uri, char **ret_value)
{
	if (!r->variable)
		return strcmp(r->uri, uri) == 0;
	size_t before = strcspn(r->uri, "{"), n = strlen(uri);
	const char *after = strchr(r->uri, '}') + 1;
	if (n <= before + strlen(after) || strncmp(uri, r->uri, before) != 0 ||
		strcmp(uri + n - strlen(after), after) != 0)
		return false;
	n -= before + strlen(after);
	if (memchr(uri + before, '/', n))
		return false;
	*ret_value = xstrndup(uri + before, n);
	return true;
}

json_t *resource_read(const struct mcp_offer *o, const char *uri)
{
	for (size_t i = 0; o->resources && o->resources[i]; i++) {
		const struct resource *r = o->resources[i];
		_cleanup_free_ char *value = NULL;
		if (!is_of(r, uri, &value))
			continue;
		json_t *content = r->read(r, value);
		json_object_set_new(content, "uri", json_string(uri));
		set_text(content, "mimeType", r->mime_type);
		return json_pack("{s:[o]}", "contents", content);
	}
	return NULL;
}
