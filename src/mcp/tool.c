/* tool.c: see tool.h. */
#include "mcp/tool.h"

#include <string.h>

const struct tool *const tools_all[] = {
	&tool_run_code,
	&tool_run_command,
	&tool_job,
	&tool_files,
	&tool_present_output,
	&tool_session,
	NULL,
};

const struct tool *tools_find(const char *name)
{
	for (size_t i = 0; tools_all[i]; i++)
		if (strcmp(tools_all[i]->name, name) == 0)
			return tools_all[i];
	return NULL;
}

static json_t *tool_json(const struct tool *t)
{
	json_t *annotations = json_object();
	json_object_set_new(annotations, "title", json_string(t->title));
	json_object_set_new(annotations, "readOnlyHint", json_boolean(t->read_only));
	json_object_set_new(annotations, "destructiveHint", json_boolean(t->destructive));
	json_object_set_new(annotations, "idempotentHint", json_boolean(t->idempotent));
	json_object_set_new(annotations, "openWorldHint", json_false());

	json_t *o = json_object();
	json_object_set_new(o, "name", json_string(t->name));
	json_object_set_new(o, "title", json_string(t->title));
	json_object_set_new(o, "description", json_string(t->description));
	json_object_set_new(o, "inputSchema", args_schema(&t->args));
	json_object_set_new(o, "outputSchema", fields_schema(t->result));
	json_object_set_new(o, "annotations", annotations);
	return o;
}

json_t *tools_list(void)
{
	json_t *list = json_array();
	for (size_t i = 0; tools_all[i]; i++)
		json_array_append_new(list, tool_json(tools_all[i]));
	json_t *o = json_object();
	json_object_set_new(o, "tools", list);
	return o;
}
