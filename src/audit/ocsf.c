/* ocsf.c: see ocsf.h. */
#include "audit/ocsf.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit/entry.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

enum class_uid {
	PROCESS_ACTIVITY = 1007,
	DETECTION_FINDING = 2004,
	APPLICATION_LIFECYCLE = 6002,
	API_ACTIVITY = 6003,
};
enum severity { INFORMATIONAL = 1, LOW, MEDIUM, HIGH };
#define OTHER 99

struct mapping {
	const char *event; /* the longest one that the event's name begins with counts */
	enum class_uid class_uid;
	int activity_id;
	const char *activity;
	enum severity severity;
};
static const struct mapping mappings[] = {
	{"", API_ACTIVITY, OTHER, NULL, INFORMATIONAL},
	{"audit.", APPLICATION_LIFECYCLE, OTHER, NULL, INFORMATIONAL},
	{"audit.gap", DETECTION_FINDING, 1, "Create", HIGH},
	{"broker.leave", APPLICATION_LIFECYCLE, 4, "Stop", INFORMATIONAL},
	{"broker.start", APPLICATION_LIFECYCLE, 3, "Start", INFORMATIONAL},
	{"exec.end", PROCESS_ACTIVITY, 2, "Terminate", INFORMATIONAL},
	{"exec.start", PROCESS_ACTIVITY, 1, "Launch", INFORMATIONAL},
	{"file.present", API_ACTIVITY, 1, "Create", INFORMATIONAL},
	{"file.refused", API_ACTIVITY, 1, "Create", LOW},
	{"file.fetch", API_ACTIVITY, 2, "Read", INFORMATIONAL},
	{"handle.foreign", DETECTION_FINDING, 1, "Create", MEDIUM},
	{"link.auth_failed", DETECTION_FINDING, 1, "Create", HIGH},
	{"redact.hit", DETECTION_FINDING, 1, "Create", MEDIUM},
	{"session.close", API_ACTIVITY, 4, "Delete", INFORMATIONAL},
	{"session.lost", API_ACTIVITY, 4, "Delete", LOW},
	{"session.open", API_ACTIVITY, 1, "Create", INFORMATIONAL},
};

static const struct mapping *mapping_of(const char *event)
{
	const struct mapping *best = &mappings[0];
	for (size_t i = 1; i < ARRAY_SIZE(mappings); i++)
		if (str_starts(event, mappings[i].event) &&
			strlen(mappings[i].event) > strlen(best->event))
			best = &mappings[i];
	return best;
}

static const char *text(const json_t *line, const char *key)
{
	return json_string_value(json_object_get(line, key));
}

/* Milliseconds; 0 where ts is none. */
static json_int_t time_of(const char *ts)
{
	struct tm tm = {0};
	const char *rest = ts ? strptime(ts, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	unsigned ms = 0;
	if (!rest)
		return 0;
	(void)sscanf(rest, ".%3u", &ms);
	return (json_int_t)timegm(&tm) * 1000 + ms;
}

static bool is_denied(const json_t *line)
{
	size_t i;
	json_t *d;
	json_array_foreach (json_object_get(line, "policyDecisions"), i, d) {
		const char *decision = text(d, "decision");
		if (decision && strcmp(decision, "deny") == 0)
			return true;
	}
	return false;
}

/* ---- objects ---- */

static void set_metadata(json_t *o, const json_t *line, const char *version)
{
	const char *run = text(line, "run");
	json_int_t seq = json_integer_value(json_object_get(line, "seq"));
	char uid[64];
	(void)snprintf(uid, sizeof(uid), "%.20s-%lld", run ? run : "", (long long)seq);
	json_object_set_new(o, "metadata",
		json_pack("{s:s,s:{s:s,s:s,s:s},s:s,s:I,s:s,s:s*}", "version", OCSF_VERSION,
			"product", "name", "scb", "vendor_name", "Sandbox Compute Broker",
			"version", version, "uid", uid, "sequence", seq, "log_name", "audit",
			"original_time", text(line, "ts")));
}

static void set_actor(json_t *o, const json_t *line)
{
	const char *principal = text(line, "principal"), *session = text(line, "session");
	json_t *actor = json_pack("{s:s}", "app_name", "scb");
	if (principal)
		json_object_set_new(
			actor, "user", json_pack("{s:s,s:s}", "name", principal, "uid", principal));
	if (session)
		json_object_set_new(actor, "session", json_pack("{s:s}", "uid", session));
	json_object_set_new(o, "actor", actor);
}

/* The sandbox that it ran in. */
static void set_process(json_t *o, const json_t *line, const char *host)
{
	const char *job = text(line, "job"), *sandbox = text(line, "sandboxId");
	const char *level = text(line, "isolationLevel");
	json_t *code = json_object_get(line, "exitCode");
	json_object_set_new(o, "process",
		json_pack("{s:s,s:s*}", "uid", job ? job : "unknown", "name", text(line, "tool")));
	json_object_set_new(o, "device",
		json_pack("{s:i,s:s,s:s*,s:s*,s:s}", "type_id", OTHER, "type",
			level ? level : "sandbox", "uid", sandbox, "name", text(line, "provider"),
			"hostname", host));
	if (code)
		json_object_set(o, "exit_code", code);
}

static void set_api(json_t *o, const json_t *line, const char *event, const char *host)
{
	const char *tool = text(line, "tool"), *action = text(line, "action");
	const char *delivery = text(line, "delivery"), *path = text(line, "path");
	const char *sandbox = text(line, "sandboxId"), *session = text(line, "session");
	_cleanup_free_ char *operation =
		tool ? xasprintf("%s%s%s", tool, action ? "." : "", action ? action : "") : NULL;
	json_t *api = json_pack("{s:s,s:{s:s}}", "operation", operation ? operation : event,
		"service", "name", "scb");
	json_t *resources = json_array();
	if (delivery)
		json_object_set_new(api, "request", json_pack("{s:s}", "uid", delivery));
	if (path)
		json_array_append_new(
			resources, json_pack("{s:s,s:s}", "type", "file", "name", path));
	if (sandbox)
		json_array_append_new(resources, json_pack("{s:s,s:s,s:s*}", "type", "sandbox",
							 "uid", sandbox, "name", session));
	json_object_set_new(o, "api", api);
	json_object_set_new(
		o, "src_endpoint", json_pack("{s:s,s:s}", "name", "scb", "hostname", host));
	if (json_array_size(resources))
		json_object_set(o, "resources", resources);
	json_decref(resources);
}

static void set_finding(json_t *o, const json_t *line, const char *event)
{
	const char *detail = text(line, "detail");
	const char *uid = text(json_object_get(o, "metadata"), "uid");
	json_object_set_new(o, "finding_info",
		json_pack("{s:s*,s:s,s:s}", "uid", uid, "title", event, "desc",
			detail ? detail : event));
}

static void set_app(json_t *o, const char *version)
{
	json_object_set_new(o, "app",
		json_pack("{s:s,s:s,s:s}", "name", "scb", "vendor_name", "Sandbox Compute Broker",
			"version", version));
}

static void set_status(json_t *o, const json_t *line, const char *event)
{
	const char *reason = text(line, "exitReason"), *detail = text(line, "detail");
	json_t *duration = json_object_get(line, "durationMs");
	bool failed = is_denied(line) || strcmp(event, "file.refused") == 0 ||
		      (strcmp(event, "tool.end") == 0 && detail) ||
		      json_integer_value(json_object_get(line, "exitCode")) != 0 ||
		      (reason && strcmp(reason, "exit") != 0);
	json_object_set_new(o, "status_id", json_integer(failed ? 2 : 1));
	json_object_set_new(o, "status", json_string(failed ? "Failure" : "Success"));
	if (reason || detail)
		json_object_set_new(o, "status_detail", json_string(detail ? detail : reason));
	if (duration)
		json_object_set_new(
			o, "duration", json_integer((json_int_t)json_number_value(duration)));
}

/* What OCSF has no place for, under the names that it has here. */
static void set_unmapped(json_t *o, const json_t *line)
{
	static const char *const keys[] = {"event", "owasp", "prev", "run", "provider",
		"isolationLevel", "exitReason", "agentReported", "bytesOut", "policyDecisions",
		"sha256", "limits", "enforced", "lastSeq", "lastHash", "tornBytes"};
	json_t *rest = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		json_t *v = json_object_get(line, keys[i]);
		if (v)
			json_object_set(rest, keys[i], v);
	}
	json_object_set_new(o, "unmapped", rest);
}

json_t *ocsf_event(const char *line, size_t n, const char *host, const char *version)
{
	struct entry e;
	json_t *l = entry_parse(line, n, &e) < 0
			    ? NULL
			    : json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
	const char *event = text(l, "event");
	if (!event) {
		json_decref(l);
		return NULL;
	}
	const struct mapping *m = mapping_of(event);
	json_t *o = json_pack("{s:i,s:i,s:i,s:s,s:i,s:i,s:I,s:s}", "category_uid",
		m->class_uid / 1000, "class_uid", m->class_uid, "activity_id", m->activity_id,
		"activity_name", m->activity ? m->activity : event, "type_uid",
		m->class_uid * 100 + m->activity_id, "severity_id", m->severity, "time",
		time_of(text(l, "ts")), "message", event);
	set_metadata(o, l, version);
	set_actor(o, l);
	if (m->class_uid == PROCESS_ACTIVITY)
		set_process(o, l, host);
	else if (m->class_uid == API_ACTIVITY)
		set_api(o, l, event, host);
	else if (m->class_uid == DETECTION_FINDING)
		set_finding(o, l, event);
	else
		set_app(o, version);
	set_status(o, l, event);
	set_unmapped(o, l);
	json_object_set_new(o, "raw_data", json_stringn(line, n));
	json_decref(l);
	return o;
}
