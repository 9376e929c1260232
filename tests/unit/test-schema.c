/* test-schema.c: the tools' tables: schemas that every client takes, and arguments checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/limits.h"
#include "mcp/jsonrpc.h"
#include "mcp/tool.h"

static json_t *parse(const char *text)
{
	json_error_t e;
	json_t *v = json_loads(text, JSON_ALLOW_NUL, &e);
	if (!v)
		fail_msg("%s: %s", text, e.text);
	return v;
}

static void refused(const char *tool, const char *arguments, const char *word, const char *other)
{
	json_t *given = parse(arguments), *args = NULL;
	struct err err = {0};
	int r = args_check(&tools_find(product_offer(), tool)->args, given, &args, &err);
	if (r == 0 || err.code != ERR_INVALID_ARGUMENT || !strstr(err.text, word) ||
		!strstr(err.text, other))
		fail_msg("%s %s: %d \"%s\"", tool, arguments, r, err.text);
	assert_null(args);
	json_decref(given);
}

static void wrong_arguments_are_named(void **state)
{
	(void)state;
	refused("run_command", "{\"command\":7}", "\"command\"", "string");
	refused("run_command", "{\"command\":\"\"}", "\"command\"", "empty");
	refused("run_command", "{\"command\":\"a\\u0000b\"}", "\"command\"", "NUL");
	refused("run_command", "{\"comand\":\"x\"}", "\"comand\"", "command, argv");
	refused("run_command", "{\"argv\":\"ls\"}", "\"argv\"", "list of strings");
	refused("run_command", "{\"argv\":[]}", "\"argv\"", "1");
	refused("run_command", "{\"argv\":[\"a\",1]}", "\"argv\"", "number");
	refused("run_command", "{\"env\":{\"A=B\":\"x\"}}", "\"env\"", "A=B");
	refused("run_command", "{\"env\":{\"\":\"x\"}}", "\"env\"", "empty");
	refused("run_command", "{\"env\":{\"A\":1}}", "\"env\"", "number");
	refused("run_command", "{\"timeout_s\":\"soon\"}", "\"timeout_s\"", "number");
	refused("run_command", "{\"timeout_s\":0}", "\"timeout_s\"", "0.1");
	refused("run_command", "{\"timeout_s\":1e300}", "\"timeout_s\"", "3600");
	refused("run_command", "{\"wait_s\":51}", "\"wait_s\"", "50");
	refused("run_command", "{\"stdin_open\":1}", "\"stdin_open\"", "true or false");
	refused("run_code", "{}", "\"code\"", "missing");
	refused("run_code", "{\"code\":null}", "\"code\"", "missing");
	refused("run_code", "{\"code\":\"1\",\"language\":\"cobol\"}", "cobol", "python");
	refused("job", "{}", "\"action\"", "missing");
	refused("job", "{\"action\":\"explode\"}", "explode", "wait, read");
	refused("job", "{\"action\":\"wait\"}", "\"job\"", "wait needs it");
	refused("job", "{\"action\":\"read\",\"job\":\"j\",\"offset\":1.5}", "\"offset\"", "whole");
	refused("job", "{\"action\":\"read\",\"job\":\"j\",\"offset\":-1}", "\"offset\"", "0");
	refused("files", "{\"action\":\"write\",\"path\":\"x\"}", "\"content\"", "write needs it");
	refused("session", "{\"action\":\"close\"}", "\"session\"", "close needs it");
}

static void right_arguments_come_as_they_are(void **state)
{
	(void)state;
	json_t *given = parse("{\"action\":\"read\",\"job\":\"j-1\",\"offset\":5.0,\"length\":10,"
			      "\"encoding\":null}");
	json_t *args = NULL;
	struct err err = {0};
	assert_int_equal(args_check(&tool_job.args, given, &args, &err), 0);
	assert_string_equal(args_text(args, "job"), "j-1");
	assert_int_equal(args_u64(args, "offset", 9), 5);
	assert_int_equal(args_u64(args, "length", 9), 10);
	assert_null(args_text(args, "encoding"));
	assert_int_equal(args_u64(args, "limit", 9), 9);
	json_decref(args);
	json_decref(given);

	/* NUL is data for stdin, and counted */
	given = parse("{\"command\":\"cat\",\"stdin\":\"a\\u0000b\",\"timeout_s\":0.5}");
	assert_int_equal(args_check(&tool_run_command.args, given, &args, &err), 0);
	assert_int_equal(args_text_len(args, "stdin"), 3);
	assert_true(args_number(args, "timeout_s", 0) == 0.5);
	json_decref(args);
	json_decref(given);
}

static void the_action_is_known_before_the_check(void **state)
{
	(void)state;
	json_t *good = parse("{\"action\":\"delete\",\"bogus\":1}"),
	       *bad = parse("{\"action\":\"x\"}");
	assert_string_equal(args_action(&tool_files.args, good), "delete");
	assert_null(args_action(&tool_files.args, bad));
	assert_null(args_action(&tool_run_code.args, good));
	json_decref(good);
	json_decref(bad);
}

/* What real clients refuse, and then often the whole list with it. */
static void check_portable(const json_t *v, bool schema)
{
	static const char *const banned[] = {
		"oneOf", "anyOf", "allOf", "not", "if", "$ref", "$defs", "const", "format"};
	const char *key;
	json_t *item;
	size_t i;
	json_object_foreach ((json_t *)v, key, item) {
		for (size_t b = 0; schema && b < ARRAY_SIZE(banned); b++)
			assert_string_not_equal(key, banned[b]);
		if (schema && strcmp(key, "type") == 0 && !json_is_string(item))
			fail_msg("a list of types");
		check_portable(item, schema && strcmp(key, "properties") != 0);
		if (strcmp(key, "properties") == 0) {
			const char *name;
			json_t *property;
			json_object_foreach (item, name, property) {
				assert_true(strlen(name) <= 64);
				assert_non_null(json_object_get(property, "type"));
				check_portable(property, true);
			}
		}
	}
	json_array_foreach ((json_t *)v, i, item)
		check_portable(item, schema);
	const char *type = json_string_value(json_object_get(v, "type"));
	if (schema && type && strcmp(type, "array") == 0)
		assert_non_null(json_object_get(v, "items"));
}

static void the_list_is_small_and_portable(void **state)
{
	(void)state;
	json_t *list = tools_list(product_offer());
	char *text = json_dumps(list, JSON_COMPACT);
	assert_true(strlen(text) <= 14 * KIB);
	free(text);
	size_t i;
	json_t *tool;
	json_array_foreach (json_object_get(list, "tools"), i, tool) {
		const json_t *in = json_object_get(tool, "inputSchema");
		const json_t *out = json_object_get(tool, "outputSchema");
		assert_string_equal(json_string_value(json_object_get(in, "type")), "object");
		assert_string_equal(json_string_value(json_object_get(out, "type")), "object");
		assert_true(json_is_false(json_object_get(in, "additionalProperties")));
		assert_non_null(json_object_get(tool, "title"));
		assert_int_equal(json_object_size(json_object_get(tool, "annotations")), 4);
		check_portable(in, true);
		check_portable(out, true);
		assert_ptr_equal(tools_find(product_offer(),
					 json_string_value(json_object_get(tool, "name"))),
			product_offer()->tools[i]);
	}
	assert_null(product_offer()->tools[i]);
	assert_null(tools_find(product_offer(), "nope"));
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_arguments_are_named),
		cmocka_unit_test(right_arguments_come_as_they_are),
		cmocka_unit_test(the_action_is_known_before_the_check),
		cmocka_unit_test(the_list_is_small_and_portable),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
