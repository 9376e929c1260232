/* tail.c: see tail.h. */
#include "audit/tail.h"

#include <string.h>

#include "audit/entry.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"

/* What happened, each by a hash (0: a free place): ids are random, so that two of them do not meet.
 */
struct tail {
	uint64_t *slots;
	size_t n, room; /* room: a power of two, at most half of it in use */
};

/* ---- what is known by what ---- */

enum tail_subject tail_subject(const char *event)
{
	static const struct {
		const char *prefix;
		enum tail_subject subject;
	} table[] = {
		{"tool.", TAIL_DELIVERY},
		{"file.", TAIL_DELIVERY},
		{"handle.", TAIL_DELIVERY},
		{"rate.", TAIL_DELIVERY},
		{"exec.", TAIL_JOB},
		{"session.", TAIL_SESSION},
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (str_starts(event, table[i].prefix))
			return table[i].subject;
	return TAIL_NOTHING;
}

/* ---- the table ---- */

/* FNV-1a, 64 bits. */
static uint64_t hash_more(uint64_t h, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)p[i]) * 0x100000001b3ULL;
	return h;
}

static uint64_t hash_of(struct entry_span event, struct entry_span subject)
{
	uint64_t h = hash_more(0xcbf29ce484222325ULL, event.p, event.n);
	h = hash_more(h, "\n", 1);
	h = hash_more(h, subject.p, subject.n);
	return h ? h : 1;
}

static uint64_t *slot_of(const struct tail *t, uint64_t hash)
{
	size_t i = (size_t)hash & (t->room - 1);
	while (t->slots[i] && t->slots[i] != hash)
		i = (i + 1) & (t->room - 1);
	return &t->slots[i];
}

static void put(struct tail *t, uint64_t hash)
{
	if (2 * (t->n + 1) > t->room) {
		uint64_t *old = t->slots;
		size_t n_old = t->room;
		t->room = 2 * n_old;
		t->slots = xcalloc(t->room, sizeof(*t->slots));
		for (size_t i = 0; i < n_old; i++)
			if (old[i])
				*slot_of(t, old[i]) = old[i];
		free(old);
	}
	uint64_t *slot = slot_of(t, hash);
	t->n += !*slot;
	*slot = hash;
}

static struct entry_span span_of(const char *text)
{
	return (struct entry_span){text, strlen(text)};
}

void tail_add(struct tail *t, const char *event, const char *subject)
{
	if (subject)
		put(t, hash_of(span_of(event), span_of(subject)));
}

bool tail_has(const struct tail *t, const char *event, const char *subject)
{
	return *slot_of(t, hash_of(span_of(event), span_of(subject)));
}

void tail_free(struct tail *t)
{
	if (!t)
		return;
	free(t->slots);
	free(t);
}

/* ---- lines ---- */

static struct entry_span subject_in(const char *line, size_t n, const char *event)
{
	switch (tail_subject(event)) {
	case TAIL_DELIVERY:
		return entry_text(line, n, "delivery");
	case TAIL_JOB:
		return entry_text(line, n, "job");
	case TAIL_SESSION:
		return entry_text(line, n, "session");
	case TAIL_NOTHING:
		break;
	}
	return (struct entry_span){0};
}

static void add_line(void *user, const char *line, size_t n)
{
	struct tail *t = user;
	char name[32] = "";
	struct entry_span event = entry_text(line, n, "event");
	if (!event.p || event.n >= sizeof(name))
		return;
	memcpy(name, event.p, event.n);
	struct entry_span subject = subject_in(line, n, name);
	if (subject.p)
		put(t, hash_of(event, subject));
}

struct tail *tail_read(struct chain *c)
{
	struct tail *t = xcalloc(1, sizeof(*t));
	t->room = 1024;
	t->slots = xcalloc(t->room, sizeof(*t->slots));
	int r = chain_each_line(c, LIMIT_AUDIT_TAIL, add_line, t);
	if (r < 0)
		log_warning("the audit log cannot be read back (%s): lines may be written twice",
			strerror(-r));
	return t;
}

struct open_jobs {
	const struct tail *tail;
	void (*fn)(void *user, const struct audit_job *j);
	void *user;
};

static void try_job(void *user, const char *line, size_t n)
{
	const struct open_jobs *o = user;
	struct entry_span event = entry_text(line, n, "event");
	struct entry_span job = entry_text(line, n, "job"),
			  session = entry_text(line, n, "session");
	struct entry_span tool = entry_text(line, n, "tool");
	if (!entry_is(event, "exec.start") || !job.p || !session.p)
		return;
	if (*slot_of(o->tail, hash_of(span_of("exec.end"), job)))
		return;
	_cleanup_free_ char *job_text = xstrndup(job.p, job.n);
	_cleanup_free_ char *session_text = xstrndup(session.p, session.n);
	_cleanup_free_ char *tool_text = xstrndup(tool.p ? tool.p : "", tool.n);
	o->fn(o->user, &(struct audit_job){job_text, session_text, tool_text});
}

void tail_each_open_job(const struct tail *t, struct chain *c,
	void (*fn)(void *user, const struct audit_job *j), void *user)
{
	struct open_jobs o = {t, fn, user};
	int r = chain_each_line(c, LIMIT_AUDIT_TAIL, try_job, &o);
	if (r < 0)
		log_warning("the audit log cannot be read back (%s): some jobs' ends will be "
			    "missing in it",
			strerror(-r));
}
