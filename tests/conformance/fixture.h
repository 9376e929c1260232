/* fixture.h: what the fixture server offers: the tools, prompts and resources that MCP's
 * conformance suite asks for, made with the same library as scb's own. What each of them does
 * stands in the suite's descriptions of its scenarios. */
#pragma once

#include "mcp/offer.h"
#include "mcp/prompts.h"
#include "mcp/resource.h"
#include "mcp/tool.h"

/* A red pixel, and two samples of silence. */
extern const char fixture_png[], fixture_wav[];
json_t *fixture_image(void);

/* Without a name at the end: fixture-tools.c, and those that ask: fixture-asks.c. */
extern const struct tool fixture_tools[], fixture_ask_tools[];
/* NULL at the end: fixture-texts.c. */
extern const struct prompt *const fixture_prompts[];
extern const struct resource *const fixture_resources[];

/* A form with fields (an object of schemas, stolen), all of them required. */
json_t *fixture_form(const char *message, json_t *fields);
/* What a person wrote into a field; "" where there is nothing. */
const char *fixture_field(const json_t *answer, const char *name);
