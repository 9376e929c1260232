/* audit.c: see audit.h. */
#include "audit/audit.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/line.h"
#include "audit/tail.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"

/* Bytes of one field (a path has no more), and of the lines of one write; a byte may need six in
 * JSON. */
#define FIELD_MAX (4 * 1024)
#define LINES_MAX (128 * 1024)

struct audit {
	int fd;
	uint64_t seq;
	char run[9];      /* tells the lines of two brokers in one file apart */
	bool torn;        /* the last line could not be written whole: begin with a newline */
	struct buf lines; /* not yet written: those that go out with the next one */
	unsigned n_lines;
	char ts[CLOCK_RFC3339_SIZE]; /* of the last line */
	uint64_t ts_second;
	struct tail *tail; /* NULL: not asked for yet */
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

/* A line was begun and not ended: by a broker that was killed while it wrote. */
static bool is_torn(int fd, off_t size)
{
	char last;
	return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

int audit_open(const char *path, struct audit **ret, struct err *err)
{
	_cleanup_close_ int fd =
		open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
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
	a->torn = is_torn(a->fd, st.st_size);
	buf_init(&a->lines, LINES_MAX);
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
	struct err err;
	if (audit_flush(a, &err) < 0)
		log_error("%s", err.text);
	fd_closep(&a->fd);
	buf_done(&a->lines);
	tail_free(a->tail);
	free(a);
}

/* In the order of the two lists, each id once. */
static void put_owasp(struct line *l, const struct audit_event *e)
{
	const char *ids[ARRAY_SIZE(owasp_map[0].ids) + ARRAY_SIZE(owasp_limit_ids)];
	size_t n = 0, best = ARRAY_SIZE(owasp_map), best_len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(owasp_map); i++) {
		size_t len = strlen(owasp_map[i].event);
		if (len > best_len && strncmp(e->event, owasp_map[i].event, len) == 0) {
			best = i;
			best_len = len;
		}
	}
	if (best < ARRAY_SIZE(owasp_map))
		while (n < ARRAY_SIZE(owasp_map[best].ids) && owasp_map[best].ids[n]) {
			ids[n] = owasp_map[best].ids[n];
			n++;
		}
	bool limit = false;
	for (size_t i = 0; e->exit_reason && i < ARRAY_SIZE(limit_reasons); i++)
		limit = limit || strcmp(e->exit_reason, limit_reasons[i]) == 0;
	for (size_t i = 0; limit && i < ARRAY_SIZE(owasp_limit_ids); i++) {
		bool have = false;
		for (size_t k = 0; k < n; k++)
			have = have || strcmp(ids[k], owasp_limit_ids[i]) == 0;
		if (!have)
			ids[n++] = owasp_limit_ids[i];
	}
	line_open(l, "owasp", '[');
	for (size_t i = 0; i < n; i++)
		line_text(l, NULL, ids[i], FIELD_MAX);
	line_close(l, ']');
}

/* Reasons that this side knows for itself. */
static bool broker_reason(const char *reason)
{
	return strcmp(reason, "cancelled") == 0 || strcmp(reason, "sandbox_lost") == 0 ||
	       strcmp(reason, "policy_denied") == 0;
}

static void put_pairs(struct line *l, const char *key, const struct audit_pair *pairs, size_t n)
{
	if (n == 0)
		return;
	line_open(l, key, '{');
	for (size_t i = 0; i < n; i++) {
		if (pairs[i].text)
			line_text(l, pairs[i].name, pairs[i].text, FIELD_MAX);
		else
			line_int(l, pairs[i].name, (int64_t)pairs[i].number);
	}
	line_close(l, '}');
}

static void put_result(struct line *l, const struct audit_event *e)
{
	if (e->has_exit)
		line_int(l, "exitCode", e->exit_code);
	line_text(l, "exitReason", e->exit_reason, FIELD_MAX);
	if (e->has_exit || (e->exit_reason && !broker_reason(e->exit_reason))) {
		line_open(l, "agentReported", '[');
		line_text(l, NULL, "exitCode", FIELD_MAX);
		line_text(l, NULL, "exitReason", FIELD_MAX);
		line_close(l, ']');
	}
	if (e->duration_us)
		line_milli(l, "durationMs", e->duration_us);
	if (e->bytes_out)
		line_int(l, "bytesOut", (int64_t)e->bytes_out);
	if (!e->policy_rule)
		return;
	line_open(l, "policyDecisions", '[');
	line_open(l, NULL, '{');
	line_text(l, "rule", e->policy_rule, FIELD_MAX);
	line_text(l, "decision", e->policy_denied ? "deny" : "allow", FIELD_MAX);
	line_close(l, '}');
	line_close(l, ']');
}

/* The calendar is asked once a second. */
static const char *time_text(struct audit *a)
{
	uint64_t now_us = clock_realtime_us(), fraction = now_us % USEC_PER_SEC;
	if (now_us / USEC_PER_SEC != a->ts_second)
		clock_rfc3339(now_us, a->ts);
	a->ts_second = now_us / USEC_PER_SEC;
	for (char *p = a->ts + strlen(a->ts) - 2; *p != '.'; p--, fraction /= 10)
		*p = (char)('0' + fraction % 10);
	return a->ts;
}

static int put_event(struct audit *a, const struct audit_event *e)
{
	struct line l = {.out = &a->lines};
	line_open(&l, NULL, '{');
	line_text(&l, "ts", time_text(a), FIELD_MAX);
	line_int(&l, "seq", (int64_t)(a->seq + a->n_lines + 1));
	line_text(&l, "run", a->run, FIELD_MAX);
	line_text(&l, "event", e->event, FIELD_MAX);
	line_text(&l, "tool", e->tool, FIELD_MAX);
	line_text(&l, "action", e->action, FIELD_MAX);
	line_text(&l, "principal", e->principal, FIELD_MAX);
	line_text(&l, "session", e->session, FIELD_MAX);
	line_text(&l, "job", e->job, FIELD_MAX);
	if (e->delivery && e->delivery[0])
		line_text(&l, "delivery", e->delivery, FIELD_MAX);
	line_text(&l, "provider", e->provider, FIELD_MAX);
	line_text(&l, "isolationLevel", e->isolation_level, FIELD_MAX);
	line_text(&l, "sandboxId", e->sandbox_id, FIELD_MAX);
	put_result(&l, e);
	line_text(&l, "path", e->path, FIELD_MAX);
	line_text(&l, "sha256", e->sha256, FIELD_MAX);
	line_text(&l, "detail", e->detail, FIELD_MAX);
	put_pairs(&l, "limits", e->limits, e->n_limits);
	put_pairs(&l, "enforced", e->enforced, e->n_enforced);
	put_owasp(&l, e);
	line_close(&l, '}');
	return l.r ? l.r : buf_append(&a->lines, "\n", 1);
}

/* What has been written is gone from the buffer, and what has not as well: it was an error. */
static void forget_lines(struct audit *a, size_t written)
{
	const uint8_t *p = a->lines.data, *end = p + written;
	for (const uint8_t *at = p; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
		a->seq++;
	if (written)
		a->torn = end[-1] != '\n';
	buf_clear(&a->lines);
	a->n_lines = 0;
}

int audit_flush(struct audit *a, struct err *err)
{
	if (a->n_lines == 0)
		return 0;
	size_t n = a->lines.len;
	if (a->torn && write(a->fd, "\n", 1) == 1)
		a->torn = false;
	/* One write: lines of two brokers do not mix under O_APPEND. */
	ssize_t done;
	do
		done = write(a->fd, a->lines.data, n);
	while (done < 0 && errno == EINTR);
	int errnum = done < 0 ? errno : ENOSPC;
	forget_lines(a, done > 0 ? (size_t)done : 0);
	if (done == (ssize_t)n)
		return 0;
	tail_free(TAKE_PTR(a->tail)); /* it may speak of lines that are not there */
	return err_set(err, ERR_AUDIT_UNAVAILABLE, errnum,
		"the audit log cannot be written (%s), so nothing was run; make room for it or "
		"repair its file system",
		strerror(errnum));
}

/* What the event happens to once; NULL: it may happen again and again. */
static const char *subject_of(const struct audit_event *e)
{
	switch (tail_subject(e->event)) {
	case TAIL_DELIVERY:
		return e->delivery && e->delivery[0] ? e->delivery : NULL;
	case TAIL_JOB:
		return e->job;
	case TAIL_SESSION:
		return e->session;
	case TAIL_NOTHING:
		break;
	}
	return NULL;
}

int audit_event(struct audit *a, const struct audit_event *e, struct err *err)
{
	size_t before = a->lines.len;
	if (put_event(a, e) < 0) {
		a->lines.len = before;
		return err_set(err, ERR_AUDIT_UNAVAILABLE, E2BIG,
			"the audit record is too large; nothing was done");
	}
	a->n_lines++;
	if (a->tail)
		tail_add(a->tail, e->event, subject_of(e));
	return e->with_next ? 0 : audit_flush(a, err);
}

/* ---- after a broker's death ---- */

static struct tail *tail(struct audit *a)
{
	struct err err;
	if (!a->tail && audit_flush(a, &err) < 0)
		log_error("%s", err.text);
	if (!a->tail)
		a->tail = tail_read(a->fd);
	return a->tail;
}

int audit_event_once(struct audit *a, const struct audit_event *e, struct err *err)
{
	const char *subject = subject_of(e);
	if (!subject || !audit_recorded(a, e->event, subject))
		return audit_event(a, e, err);
	return e->with_next ? 0 : audit_flush(a, err);
}

bool audit_recorded(struct audit *a, const char *event, const char *subject)
{
	return tail_has(tail(a), event, subject);
}

void audit_each_open_job(
	struct audit *a, void (*fn)(void *user, const struct audit_job *j), void *user)
{
	tail_each_open_job(tail(a), a->fd, fn, user);
}
