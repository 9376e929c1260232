/* audit.c: see audit.h. */
#include "audit/audit.h"

#include <string.h>

#include "audit/chain.h"
#include "audit/owasp.h"
#include "audit/tail.h"
#include "base/log.h"

/* Bytes of one field: a path has no more. */
#define FIELD_MAX (4 * 1024)

/* Names of events: there are some thirty. */
#define NAMES 64

struct audit {
	struct chain *chain;
	struct tail *tail; /* NULL: not asked for yet */
	bool only_owed;    /* of what waits: nothing in it could still be held back */
	struct {
		const char *event;
		uint64_t n;
	} counts[NAMES];
	uint64_t failures;
};

int audit_open(const char *path, const char *key, const struct audit_config *config,
	struct audit **ret, struct err *err)
{
	struct chain *chain;
	int r = chain_open(path, key, config, &chain, err);
	if (r < 0)
		return r;
	struct audit *a = xcalloc(1, sizeof(*a));
	a->chain = chain;
	*ret = a;
	return 0;
}

int audit_configure(struct audit *a, const struct audit_config *config, struct err *err)
{
	return chain_configure(a->chain, config, err);
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	struct err err;
	if (audit_flush(a, &err) < 0)
		log_error("%s", err.text);
	chain_close(a->chain);
	tail_free(a->tail);
	free(a);
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

static void put_event(struct line *l, const struct audit_event *e)
{
	line_text(l, "tool", e->tool, FIELD_MAX);
	line_text(l, "action", e->action, FIELD_MAX);
	line_text(l, "principal", e->principal, FIELD_MAX);
	line_text(l, "session", e->session, FIELD_MAX);
	line_text(l, "job", e->job, FIELD_MAX);
	if (e->delivery && e->delivery[0])
		line_text(l, "delivery", e->delivery, FIELD_MAX);
	line_text(l, "provider", e->provider, FIELD_MAX);
	line_text(l, "isolationLevel", e->isolation_level, FIELD_MAX);
	line_text(l, "sandboxId", e->sandbox_id, FIELD_MAX);
	put_result(l, e);
	line_text(l, "path", e->path, FIELD_MAX);
	line_text(l, "sha256", e->sha256, FIELD_MAX);
	line_text(l, "detail", e->detail, FIELD_MAX);
	put_pairs(l, "limits", e->limits, e->n_limits);
	put_pairs(l, "enforced", e->enforced, e->n_enforced);
	owasp_put(l, e->event, e->exit_reason);
}

int audit_flush(struct audit *a, struct err *err)
{
	int r = chain_flush(a->chain, a->only_owed ? CHAIN_OWED : CHAIN_NEW, err);
	a->only_owed = true;
	if (r < 0)
		tail_free(TAKE_PTR(a->tail)); /* it may speak of lines that are not there */
	return r;
}

/* What has a beginning on record has its end there, too: 1 for a beginning, -1 for an end. 0: it
 * stands alone, and is not owed. */
static int owes(const char *event)
{
	static const struct {
		const char *event;
		int owes;
	} table[] = {
		{"tool.call", 1},
		{"tool.end", -1},
		{"exec.start", 1},
		{"exec.end", -1},
		{"session.open", 1},
		{"session.close", -1},
		{"broker.leave", -1},
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strcmp(table[i].event, event) == 0)
			return table[i].owes;
	return 0;
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

/* ---- counting ---- */

static void count(struct audit *a, const char *event)
{
	size_t i = 0;
	while (i < NAMES && a->counts[i].event && strcmp(a->counts[i].event, event) != 0)
		i++;
	if (i == NAMES)
		return;
	a->counts[i].event = event;
	a->counts[i].n++;
}

uint64_t audit_count(const struct audit *a, const char *event)
{
	for (size_t i = 0; i < NAMES && a->counts[i].event; i++)
		if (strcmp(a->counts[i].event, event) == 0)
			return a->counts[i].n;
	return 0;
}

void audit_each_count(
	const struct audit *a, void (*fn)(void *user, const char *event, uint64_t n), void *user)
{
	for (size_t i = 0; i < NAMES && a->counts[i].event; i++)
		fn(user, a->counts[i].event, a->counts[i].n);
}

uint64_t audit_failures(const struct audit *a)
{
	return a->failures;
}

/* ---- writing ---- */

static int write_event(struct audit *a, const struct audit_event *e, struct err *err)
{
	struct line l;
	bool first = !chain_waits(a->chain);
	int r = chain_begin(a->chain, &l, e->event, err);
	if (r == 0) {
		l.redactor = e->redactor;
		put_event(&l, e);
		r = chain_end(a->chain, &l, err);
	}
	if (r < 0)
		return r;
	int owed = owes(e->event);
	a->only_owed = owed < 0 && (first || a->only_owed);
	chain_owe(a->chain, owed);
	if (a->tail)
		tail_add(a->tail, e->event, subject_of(e));
	r = e->with_next ? 0 : audit_flush(a, err);
	if (r < 0)
		chain_owe(a->chain, -owed);
	return r;
}

int audit_event(struct audit *a, const struct audit_event *e, struct err *err)
{
	int r = write_event(a, e, err);
	if (r < 0)
		a->failures++;
	else
		count(a, e->event);
	return r;
}

uint64_t audit_seq(const struct audit *a)
{
	return chain_seq(a->chain);
}

int audit_dup_dir(const struct audit *a)
{
	return chain_dup_dir(a->chain);
}

/* ---- after a broker's death ---- */

static struct tail *tail(struct audit *a)
{
	struct err err;
	if (!a->tail && audit_flush(a, &err) < 0)
		log_error("%s", err.text);
	if (!a->tail)
		a->tail = tail_read(a->chain);
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
	tail_each_open_job(tail(a), a->chain, fn, user);
}
