/* schema.h: one table per tool is both its JSON Schema and the check of its arguments.
 *
 * The schemas stay inside what every client takes: root objects, no combinators, no references, no
 * type lists. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum arg_type {
	ARG_TEXT,    /* string; min and max count bytes of UTF-8 */
	ARG_INTEGER, /* 5 and 5.0 alike */
	ARG_NUMBER,
	ARG_BOOLEAN,
	ARG_LIST,   /* strings; max counts elements */
	ARG_MAP,    /* an object of strings; max counts members */
	ARG_OBJECT, /* an object of anything, or its JSON as a text (some hosts send that); max
		       counts bytes of JSON */
};

struct arg {
	const char *name;
	enum arg_type type;
	bool required;
	bool binary; /* ARG_TEXT that may hold NUL characters */
	double min, max;
	const char *const *choices; /* ARG_TEXT: the only values, NULL at the end */
	const char *description;    /* NULL: the name says it */
	const char *header; /* over HTTP its value stands in Mcp-Param-HEADER, too; NULL: it does
			       not. No ARG_NUMBER, ARG_LIST or ARG_MAP. */
};

/* An action of a tool that has several, and the arguments it cannot do without. */
struct arg_action {
	const char *name;
	const char *needs[3];
};

struct arg_table {
	const struct arg *args;
	size_t n_args;
	const struct arg_action *actions; /* NULL: the tool has no argument "action" */
	size_t n_actions;
};

/* Checks arguments (an object) and returns a new object with what was given: null counts as left
 * out, whole numbers come as integers. ERR_INVALID_ARGUMENT names the argument and what is
 * accepted.
 */
int args_check(const struct arg_table *t, const json_t *arguments, json_t **ret,
	struct err *err) MUST_CHECK;
/* The value of "action" where it is one of the table's, else NULL: for the audit, before the check.
 */
const char *args_action(const struct arg_table *t, const json_t *arguments);
/* inputSchema. */
json_t *args_schema(const struct arg_table *t);

/* Reading checked arguments. */
const char *args_text(const json_t *args, const char *name); /* NULL: not given */
size_t args_text_len(const json_t *args, const char *name);
double args_number(const json_t *args, const char *name, double fallback);
uint64_t args_u64(const json_t *args, const char *name, uint64_t fallback);
bool args_bool(const json_t *args, const char *name);

/* A member of a result, for outputSchema. type: "string", "integer", "number", "boolean", "object",
 * and "[string]", "[object]" for lists of them. */
struct field {
	const char *name, *type;
	bool required;
	const struct field *sub; /* members of the object(s); a field without name ends the list */
};
/* outputSchema: root object, fields ended by one without name. */
json_t *fields_schema(const struct field *fields);
