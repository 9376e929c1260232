/* fixture-texts.c: the conformance suite's prompts and resources. */
#include "fixture.h"

#include <string.h>

static json_t *text_block(const char *text)
{
	return json_pack("{s:s,s:s}", "type", "text", "text", text);
}

/* ---- prompts ---- */

static json_t *simple(const json_t *args, struct ask *ask)
{
	(void)args;
	(void)ask;
	return json_pack("[o]", prompt_says(text_block("This is a simple prompt for testing.")));
}

static json_t *with_arguments(const json_t *args, struct ask *ask)
{
	(void)ask;
	_cleanup_free_ char *text = xasprintf("Prompt with arguments: arg1='%s', arg2='%s'",
		args_text(args, "arg1"), args_text(args, "arg2"));
	return json_pack("[o]", prompt_says(text_block(text)));
}

static json_t *with_resource(const json_t *args, struct ask *ask)
{
	(void)ask;
	json_t *block = json_pack("{s:s,s:{s:s,s:s,s:s}}", "type", "resource", "resource", "uri",
		args_text(args, "resourceUri"), "mimeType", "text/plain", "text",
		"Embedded resource content for testing.");
	return json_pack("[o,o]", prompt_says(block),
		prompt_says(text_block("Please process the embedded resource above.")));
}

static json_t *with_image(const json_t *args, struct ask *ask)
{
	(void)args;
	(void)ask;
	return json_pack("[o,o]", prompt_says(fixture_image()),
		prompt_says(text_block("Please analyze the image above.")));
}

static json_t *asking(const json_t *args, struct ask *ask)
{
	(void)args;
	const json_t *context = ask_answer(ask, "user_context", ASK_ELICITATION);
	if (!context) {
		ask_for(ask, "user_context", ASK_ELICITATION,
			fixture_form("What context should the prompt use?",
				json_pack("{s:{s:s}}", "context", "type", "string")));
		return NULL;
	}
	_cleanup_free_ char *text =
		xasprintf("Prompt with context: %s", fixture_field(context, "context"));
	return json_pack("[o]", prompt_says(text_block(text)));
}

static const char *const arg1_choices[] = {"test", "testing", "tested", "other", NULL};
static const struct prompt_arg two_args[] = {
	{"arg1", "First test argument", true, arg1_choices},
	{"arg2", "Second test argument", true, NULL},
};
static const struct prompt_arg uri_arg[] = {
	{"resourceUri", "URI of the resource to embed", true, NULL},
};

static const struct prompt prompt_simple = {"test_simple_prompt", "Simple",
				   "A prompt without arguments", NULL, 0, simple},
			   prompt_with_arguments = {"test_prompt_with_arguments", "Arguments",
				   "A prompt with arguments", two_args, 2, with_arguments},
			   prompt_with_resource = {"test_prompt_with_embedded_resource", "Resource",
				   "A prompt that embeds a resource", uri_arg, 1, with_resource},
			   prompt_with_image = {"test_prompt_with_image", "Image",
				   "A prompt with an image", NULL, 0, with_image},
			   prompt_asking = {"test_input_required_result_prompt", "Context",
				   "A prompt that asks for its context", NULL, 0, asking};

const struct prompt *const fixture_prompts[] = {&prompt_simple, &prompt_with_arguments,
	&prompt_with_resource, &prompt_with_image, &prompt_asking, NULL};

/* ---- resources ---- */

static json_t *read_text(const struct resource *r, const char *value)
{
	(void)value;
	return json_pack("{s:s}", "text",
		strcmp(r->name, "static-text") == 0
			? "This is the content of the static text resource."
			: "Watched resource content");
}

static json_t *read_binary(const struct resource *r, const char *value)
{
	(void)r;
	(void)value;
	return json_pack("{s:s}", "blob", fixture_png);
}

static json_t *read_template(const struct resource *r, const char *value)
{
	(void)r;
	_cleanup_free_ char *data = xasprintf("Data for ID: %s", value);
	json_t *o = json_pack("{s:s,s:b,s:s}", "id", value, "templateTest", true, "data", data);
	char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	json_t *content = json_pack("{s:s}", "text", text);
	free(text);
	return content;
}

static const char *const id_choices[] = {"1", "12", "123", NULL};
static const struct resource resource_text = {"test://static-text", NULL, NULL, "static-text",
				     "Text", "A text for testing", "text/plain", read_text, NULL},
			     resource_binary = {"test://static-binary", NULL, NULL, "static-binary",
				     "Image", "An image for testing", "image/png", read_binary,
				     NULL},
			     resource_watched = {"test://watched-resource", NULL, NULL,
				     "watched-resource", "Watched", "One to subscribe to",
				     "text/plain", read_text, NULL},
			     resource_template = {"test://template/{id}/data", "id", id_choices,
				     "template", "Template", "One for each id", "application/json",
				     read_template, NULL};

const struct resource *const fixture_resources[] = {
	&resource_text, &resource_binary, &resource_watched, &resource_template, NULL};
