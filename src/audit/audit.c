/* audit.c: see audit.h. */
#include "audit/audit.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"

/* One field and one line at most: a path is ≤ 4,096 bytes, and each byte may need six in JSON. */
#define FIELD_MAX (8 * 1024)
#define LINE_MAX_ (128 * 1024)

struct audit {
	int fd;
	uint64_t seq;
	char run[9]; /* tells the lines of two brokers in one file apart */
	bool torn;   /* the last line could not be written whole: begin with a newline */
};

/* Ids of OWASP's Top 10 for Agentic Applications (2026, v1.0) and of Agentic AI: Threats and
 * Mitigations (v1.1) that an event bears on. The longest prefix of the event's name counts. */
static const struct {
	const char *event;
	const char *ids[5];
} owasp_map[] = {
	{"exec.start", {"ASI05", "T11"}},
	{"exec.end", {"ASI05", "T11"}},
	{"tool.", {"ASI02", "T2"}},
	{"policy.", {"ASI03", "ASI09", "T3", "T10"}},
	{"file.present", {"ASI02", "ASI05", "T2", "T11"}},
	{"file.refused", {"ASI02", "ASI05", "T2", "T11"}},
	{"link.auth_failed", {"ASI03", "ASI07", "T9", "T16"}},
	{"handle.foreign", {"ASI03", "ASI07", "T9", "T16"}},
	{"session.", {"ASI06", "T1", "T12"}},
};
/* What ended by a limit of the sandbox also bears on these. */
static const char *const owasp_limit_ids[] = {"ASI08", "ASI02", "T4"};
static const char *const limit_reasons[] = {
	"timeout", "out_of_memory", "disk_full", "too_many_processes", "output_limit"};

int audit_open(const char *path, struct audit **ret, struct err *err)
{
	_cleanup_close_ int fd = open(
		path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, errno,
			"the audit log %.200s cannot be opened (%s); nothing runs without it", path,
			strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(err, ERR_AUDIT_UNAVAILABLE, EPERM,
			"the audit log %.200s is not a regular file of this user; nothing runs "
			"without it",
			path);
	if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) < 0)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, errno,
			"the audit log %.200s cannot be made private (%s)", path, strerror(errno));

	struct audit *a = xcalloc(1, sizeof(*a));
	a->fd = TAKE_FD(fd);
	uint8_t run[4];
	id_random(run, sizeof(run));
	id_hex(run, sizeof(run), a->run);
	*ret = a;
	return 0;
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	fd_closep(&a->fd);
	free(a);
}

static void put_text(json_t *o, const char *key, const char *text)
{
	if (!text)
		return;
	_cleanup_buf_ struct buf b = BUF_INIT(FIELD_MAX);
	size_t n = strnlen(text, FIELD_MAX / 3); /* U+FFFD is three bytes */
	if (str_utf8_repair(&b, text, n, NULL) < 0)
		return;
	json_object_set_new(o, key, json_stringn((const char *)b.data, b.len));
}

static void add_id(json_t *list, const char *id)
{
	size_t i;
	json_t *have;
	json_array_foreach (list, i, have)
		if (strcmp(json_string_value(have), id) == 0)
			return;
	json_array_append_new(list, json_string(id));
}

static json_t *owasp_ids(const struct audit_event *e)
{
	json_t *list = json_array();
	size_t best = ARRAY_SIZE(owasp_map), best_len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(owasp_map); i++) {
		size_t n = strlen(owasp_map[i].event);
		if (n > best_len && strncmp(e->event, owasp_map[i].event, n) == 0) {
			best = i;
			best_len = n;
		}
	}
	if (best < ARRAY_SIZE(owasp_map))
		for (size_t i = 0; i < ARRAY_SIZE(owasp_map[best].ids); i++)
			if (owasp_map[best].ids[i])
				add_id(list, owasp_map[best].ids[i]);

	bool limit = false;
	for (size_t i = 0; e->exit_reason && i < ARRAY_SIZE(limit_reasons); i++)
		limit = limit || strcmp(e->exit_reason, limit_reasons[i]) == 0;
	for (size_t i = 0; limit && i < ARRAY_SIZE(owasp_limit_ids); i++)
		add_id(list, owasp_limit_ids[i]);
	return list;
}

/* Reasons that this side knows for itself. */
static bool broker_reason(const char *reason)
{
	return strcmp(reason, "cancelled") == 0 || strcmp(reason, "sandbox_lost") == 0 ||
	       strcmp(reason, "policy_denied") == 0;
}

static void put_pairs(json_t *o, const char *key, const struct audit_pair *pairs, size_t n)
{
	json_t *members = json_object();
	for (size_t i = 0; i < n; i++) {
		if (pairs[i].text)
			put_text(members, pairs[i].name, pairs[i].text);
		else
			json_object_set_new(
				members, pairs[i].name, json_integer((json_int_t)pairs[i].number));
	}
	if (n)
		json_object_set(o, key, members);
	json_decref(members);
}

static json_t *event_json(struct audit *a, const struct audit_event *e)
{
	char ts[CLOCK_RFC3339_SIZE];
	clock_rfc3339(clock_realtime_us(), ts);
	json_t *o = json_object();
	put_text(o, "ts", ts);
	json_object_set_new(o, "seq", json_integer((json_int_t)(a->seq + 1)));
	put_text(o, "run", a->run);
	put_text(o, "event", e->event);
	put_text(o, "tool", e->tool);
	put_text(o, "action", e->action);
	put_text(o, "principal", e->principal);
	put_text(o, "session", e->session);
	put_text(o, "job", e->job);
	if (e->delivery && e->delivery[0])
		put_text(o, "delivery", e->delivery);
	put_text(o, "provider", e->provider);
	put_text(o, "isolationLevel", e->isolation_level);
	put_text(o, "sandboxId", e->sandbox_id);
	if (e->has_exit)
		json_object_set_new(o, "exitCode", json_integer(e->exit_code));
	put_text(o, "exitReason", e->exit_reason);
	if (e->has_exit || (e->exit_reason && !broker_reason(e->exit_reason)))
		json_object_set_new(
			o, "agentReported", json_pack("[s,s]", "exitCode", "exitReason"));
	if (e->duration_us)
		json_object_set_new(o, "durationMs", json_real((double)e->duration_us / 1000.0));
	if (e->bytes_out)
		json_object_set_new(o, "bytesOut", json_integer((json_int_t)e->bytes_out));
	if (e->policy_rule)
		json_object_set_new(o, "policyDecisions",
			json_pack("[{s:s,s:s}]", "rule", e->policy_rule, "decision",
				e->policy_denied ? "deny" : "allow"));
	put_text(o, "path", e->path);
	put_text(o, "sha256", e->sha256);
	put_text(o, "detail", e->detail);
	put_pairs(o, "limits", e->limits, e->n_limits);
	put_pairs(o, "enforced", e->enforced, e->n_enforced);
	json_object_set_new(o, "owasp", owasp_ids(e));
	return o;
}

static int append_json(const char *p, size_t n, void *user)
{
	return buf_append(user, p, n) < 0 ? -1 : 0;
}

int audit_event(struct audit *a, const struct audit_event *e, struct err *err)
{
	_cleanup_buf_ struct buf line = BUF_INIT(LINE_MAX_);
	json_t *o = event_json(a, e);
	int r = a->torn ? buf_append(&line, "\n", 1) : 0;
	if (r == 0)
		r = json_dump_callback(o, append_json, &line,
			JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
	if (r == 0)
		r = buf_append(&line, "\n", 1);
	json_decref(o);
	if (r != 0)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, E2BIG,
			"the audit record is too large; nothing was done");

	/* One write a line: lines of two brokers do not mix under O_APPEND. */
	ssize_t n;
	do
		n = write(a->fd, line.data, line.len);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)line.len) {
		int e_num = n < 0 ? errno : ENOSPC;
		a->torn = a->torn || n > 0;
		return err_set(err, ERR_AUDIT_UNAVAILABLE, e_num,
			"the audit log cannot be written (%s), so nothing was run; make room for "
			"it "
			"or repair its file system",
			strerror(e_num));
	}
	a->torn = false;
	a->seq++;
	return 0;
}
