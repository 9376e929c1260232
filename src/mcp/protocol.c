/* protocol.c: see protocol.h. */
#include "mcp/protocol.h"
#include "mcp/build.h"

#include <errno.h>
#include <string.h>

#define MODERN_VERSION "2026-07-28"
#define META           "io.modelcontextprotocol/"

/* Newest first: an initialize that asks for anything else is answered with the first. */
static const char *const legacy_versions[] = {
	"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static const char instructions[] =
	"Runs code and commands in a private Linux sandbox without network. Pass the session "
	"handle "
	"that a result begins with to later calls: variables and files then stay. Files of the "
	"person are under /mnt (read-only); /workspace is private scratch; present_output hands a "
	"file to the person.";

static json_t *server_info(void)
{
	return json_pack("{s:s,s:s,s:s}", "name", "scb", "title", "Sandbox Compute Broker",
		"version", build.version);
}

static json_t *capabilities(void)
{
	/* there are no prompts, but clients ask for the list all the same */
	return json_pack("{s:{},s:{},s:{}}", "tools", "resources", "prompts");
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
	if (json_is_string(token) || json_is_integer(token))
		ret->progress_token = token;
	if (!version && strcmp(method, "server/discover") != 0)
		return 0;

	if (!json_is_string(version)) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"params._meta[\"" META "protocolVersion\"] is missing or no string");
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

json_t *mcp_initialize_result(const char *requested_version)
{
	const char *version = legacy_versions[0];
	for (size_t i = 0; i < ARRAY_SIZE(legacy_versions); i++)
		if (strcmp(legacy_versions[i], requested_version) == 0)
			version = legacy_versions[i];
	return json_pack("{s:s,s:o,s:o,s:s}", "protocolVersion", version, "capabilities",
		capabilities(), "serverInfo", server_info(), "instructions", instructions);
}

json_t *mcp_discover_result(void)
{
	return json_pack("{s:[s],s:o,s:s}", "supportedVersions", MODERN_VERSION, "capabilities",
		capabilities(), "instructions", instructions);
}

void mcp_result_finish(json_t *result, bool modern)
{
	if (!modern)
		return;
	json_object_set_new(result, "resultType", json_string("complete"));
	json_t *meta = json_object_get(result, "_meta");
	if (!meta) {
		meta = json_object();
		json_object_set_new(result, "_meta", meta);
	}
	json_object_set_new(meta, META "serverInfo", server_info());
}

void mcp_result_cache(json_t *result, bool modern, int ttl_ms, const char *scope)
{
	if (!modern)
		return;
	json_object_set_new(result, "ttlMs", json_integer(ttl_ms));
	json_object_set_new(result, "cacheScope", json_string(scope));
}
