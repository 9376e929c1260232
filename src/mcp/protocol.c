/* protocol.c: see protocol.h. */
#include "mcp/protocol.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "mcp/build.h"

#define MODERN_VERSION "2026-07-28"
#define META           "io.modelcontextprotocol/"

/* Newest first: an initialize that asks for anything else is answered with the first. */
static const char *const legacy_versions[] = {
	"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static json_t *server_info(const struct mcp_offer *o)
{
	return json_pack(
		"{s:s,s:s,s:s}", "name", o->name, "title", o->title, "version", build.version);
}

static json_t *capabilities(const struct mcp_offer *o, bool modern)
{
	/* where there are no prompts: clients ask for the list all the same */
	json_t *all = json_pack("{s:{},s:{},s:{}}", "tools", "resources", "prompts");
	if (o->prompts)
		json_object_set_new(all, "completions", json_object());
	if (o->apps)
		json_object_set_new(all, "extensions", json_pack("{s:{}}", MCP_UI_EXTENSION));
	if (o->logs)
		json_object_set_new(all, "logging", json_object());
	/* of the older era there is no stream that could tell of it */
	static const char *const lists[] = {"tools", "resources", "prompts"};
	for (size_t i = 0; modern && o->changes && i < ARRAY_SIZE(lists); i++)
		json_object_set_new(json_object_get(all, lists[i]), "listChanged", json_true());
	return all;
}

static int unsupported_version(const char *requested, struct jsonrpc_error *ret_error)
{
	jsonrpc_error_set(ret_error, MCP_UNSUPPORTED_VERSION,
		"Unsupported protocol version; use " MODERN_VERSION
		", or initialize with an older one");
	/* those that server/discover names: with an envelope no other can be used */
	ret_error->data =
		json_pack("{s:[s],s:s}", "supported", MODERN_VERSION, "requested", requested);
	return -EINVAL;
}

int mcp_envelope_read(const char *method, const json_t *params, struct mcp_envelope *ret,
	struct jsonrpc_error *ret_error)
{
	json_t *meta = json_object_get(params, "_meta");
	json_t *version = json_object_get(meta, META "protocolVersion");
	json_t *token = json_object_get(meta, "progressToken");

	*ret = (struct mcp_envelope){0};
	if (meta && !json_is_object(meta)) {
		jsonrpc_error_set(
			ret_error, JSONRPC_INVALID_PARAMS, "params._meta must be an object");
		return -EINVAL;
	}
	if (json_is_integer(token) ||
		(json_is_string(token) && json_string_length(token) <= LIMIT_MCP_ID))
		ret->progress_token = token;
	if (!version && strcmp(method, "server/discover") != 0)
		return 0;

	if (!json_is_string(version) || json_string_length(version) > LIMIT_MCP_ID) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"params._meta[\"" META "protocolVersion\"] is missing or no version");
		return -EINVAL;
	}
	if (strcmp(json_string_value(version), MODERN_VERSION) != 0)
		return unsupported_version(json_string_value(version), ret_error);
	if (!json_is_object(json_object_get(meta, META "clientCapabilities"))) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"params._meta[\"" META "clientCapabilities\"] is missing or no object");
		return -EINVAL;
	}
	ret->modern = true;
	ret->capabilities = json_object_get(meta, META "clientCapabilities");
	ret->log_level = json_string_value(json_object_get(meta, META "logLevel"));
	return 0;
}

const char *mcp_envelope_version(const json_t *params)
{
	return json_string_value(
		json_object_get(json_object_get(params, "_meta"), META "protocolVersion"));
}

/* Versions are dates: their order is that of their texts. */
bool mcp_version_is_modern(const char *version)
{
	return strcmp(version, MODERN_VERSION) >= 0;
}

bool mcp_version_is_legacy(const char *version)
{
	for (size_t i = 0; i < ARRAY_SIZE(legacy_versions); i++)
		if (strcmp(legacy_versions[i], version) == 0)
			return true;
	return false;
}

static json_t *with_instructions(const struct mcp_offer *o, json_t *result)
{
	if (o->instructions)
		json_object_set_new(result, "instructions", json_string(o->instructions));
	return result;
}

json_t *mcp_initialize_result(const struct mcp_offer *o, const char *requested_version)
{
	const char *version = legacy_versions[0];
	for (size_t i = 0; i < ARRAY_SIZE(legacy_versions); i++)
		if (strcmp(legacy_versions[i], requested_version) == 0)
			version = legacy_versions[i];
	return with_instructions(
		o, json_pack("{s:s,s:o,s:o}", "protocolVersion", version, "capabilities",
			   capabilities(o, false), "serverInfo", server_info(o)));
}

json_t *mcp_discover_result(const struct mcp_offer *o)
{
	return with_instructions(o, json_pack("{s:[s],s:o}", "supportedVersions", MODERN_VERSION,
					    "capabilities", capabilities(o, true)));
}

void mcp_result_finish(const struct mcp_offer *o, json_t *result, bool modern)
{
	if (!modern)
		return;
	if (!json_object_get(result, "resultType")) /* else: input_required */
		json_object_set_new(result, "resultType", json_string("complete"));
	json_t *meta = json_object_get(result, "_meta");
	if (!meta) {
		meta = json_object();
		json_object_set_new(result, "_meta", meta);
	}
	json_object_set_new(meta, META "serverInfo", server_info(o));
}

void mcp_result_cache(json_t *result, bool modern, int ttl_ms, const char *scope)
{
	if (!modern)
		return;
	json_object_set_new(result, "ttlMs", json_integer(ttl_ms));
	json_object_set_new(result, "cacheScope", json_string(scope));
}
