/* tool.c: see tool.h. */
#include "mcp/tool.h"

#include <string.h>

const struct tool *tools_find(const struct mcp_offer *o, const char *name)
{
	for (size_t i = 0; o->tools[i]; i++)
		if (strcmp(o->tools[i]->name, name) == 0)
			return o->tools[i];
	return NULL;
}

static json_t *input_schema(const struct tool *t)
{
	if (!t->input_schema)
		return args_schema(&t->args);
	json_t *schema = json_loads(t->input_schema, JSON_REJECT_DUPLICATES, NULL);
	CHECK(schema);
	return schema;
}

/* MCP Apps 2026-01-26; the flat key is its older form, which hosts still read. A tool for the App
 * alone opens none: hosts would list it as another App. */
static json_t *ui_meta(const struct tool *t)
{
	json_t *visible = t->app_only ? json_pack("[s]", "app") : json_pack("[ss]", "model", "app");
	if (t->app_only)
		return json_pack("{s:{s:o}}", "ui", "visibility", visible);
	return json_pack("{s:{s:s, s:o}, s:s}", "ui", "resourceUri", t->ui, "visibility", visible,
		"ui/resourceUri", t->ui);
}

static json_t *tool_json(const struct mcp_offer *offer, const struct tool *t)
{
	json_t *annotations = json_object();
	json_object_set_new(annotations, "readOnlyHint", json_boolean(t->read_only));
	json_object_set_new(annotations, "destructiveHint", json_boolean(t->destructive));
	json_object_set_new(annotations, "idempotentHint", json_boolean(t->idempotent));
	json_object_set_new(annotations, "openWorldHint", json_false());

	json_t *o = json_object();
	json_object_set_new(o, "name", json_string(t->name));
	json_object_set_new(o, "title", json_string(t->title));
	json_object_set_new(o, "description", json_string(t->description));
	json_object_set_new(o, "inputSchema", input_schema(t));
	if (t->result)
		json_object_set_new(o, "outputSchema", fields_schema(t->result));
	json_object_set_new(o, "annotations", annotations);
	if (t->ui && offer->apps)
		json_object_set_new(o, "_meta", ui_meta(t));
	return o;
}

json_t *tools_list(const struct mcp_offer *offer)
{
	json_t *list = json_array();
	for (size_t i = 0; offer->tools[i]; i++)
		json_array_append_new(list, tool_json(offer, offer->tools[i]));
	json_t *o = json_object();
	json_object_set_new(o, "tools", list);
	return o;
}
