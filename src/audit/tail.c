/* tail.c: see tail.h.
 *
 * A line is compact JSON in ASCII. Its members are found by their text,
 * `,"job":"`, without parsing: inside a value a quote has a backslash before it, so that text
 * stands nowhere else. */
#include "audit/tail.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"

#define CHUNK (256 * KIB)

/* What happened, each by a hash (0: a free place): ids are random, so that two of them do not meet.
 */
struct tail {
	uint64_t *slots;
	size_t n, room; /* room: a power of two, at most half of it in use */
};

/* A text inside a line. */
struct span {
	const char *p; /* NULL: none */
	size_t n;
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

static uint64_t hash_of(struct span event, struct span subject)
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

static struct span span_of(const char *text)
{
	return (struct span){text, strlen(text)};
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

/* The value of a text member; key as it stands in the line, `,"job":"`. */
static struct span member(struct span line, const char *key)
{
	size_t n_key = strlen(key);
	const char *at = memmem(line.p, line.n, key, n_key);
	if (!at)
		return (struct span){0};
	at += n_key;
	const char *end = memchr(at, '"', (size_t)(line.p + line.n - at));
	return (struct span){end ? at : NULL, end ? (size_t)(end - at) : 0};
}

static struct span subject_in(struct span line, const char *event)
{
	switch (tail_subject(event)) {
	case TAIL_DELIVERY:
		return member(line, ",\"delivery\":\"");
	case TAIL_JOB:
		return member(line, ",\"job\":\"");
	case TAIL_SESSION:
		return member(line, ",\"session\":\"");
	case TAIL_NOTHING:
		break;
	}
	return (struct span){0};
}

/* Calls fn for each whole line of the log's end, the oldest first. */
static int each_line(int fd, void (*fn)(void *user, struct span line), void *user)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	off_t at = MAX((off_t)0, st.st_size - (off_t)LIMIT_AUDIT_TAIL);
	bool partial = at > 0; /* the first line */
	_cleanup_buf_ struct buf b = BUF_INIT(2 * CHUNK);
	while (at < st.st_size) {
		if (b.len > CHUNK)
			buf_clear(&b); /* no line is so long: not one of ours */
		if (buf_reserve(&b, CHUNK) < 0)
			return -ENOMEM;
		ssize_t n = pread(fd, b.data + b.len, CHUNK, at);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		b.len += (size_t)MAX(n, 0);
		at += MAX(n, 0);
		const char *p = (const char *)b.data, *end = p + b.len, *stop;
		for (; (stop = memchr(p, '\n', (size_t)(end - p))); p = stop + 1) {
			if (!partial)
				fn(user, (struct span){p, (size_t)(stop - p)});
			partial = false;
		}
		buf_consume(&b, (size_t)(p - (const char *)b.data));
	}
	return 0;
}

static void add_line(void *user, struct span line)
{
	struct tail *t = user;
	char name[32] = "";
	struct span event = member(line, ",\"event\":\"");
	if (!event.p || event.n >= sizeof(name))
		return;
	memcpy(name, event.p, event.n);
	struct span subject = subject_in(line, name);
	if (subject.p)
		put(t, hash_of(event, subject));
}

struct tail *tail_read(int fd)
{
	struct tail *t = xcalloc(1, sizeof(*t));
	t->room = 1024;
	t->slots = xcalloc(t->room, sizeof(*t->slots));
	int r = each_line(fd, add_line, t);
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

static void try_job(void *user, struct span line)
{
	const struct open_jobs *o = user;
	struct span event = member(line, ",\"event\":\"");
	struct span job = member(line, ",\"job\":\""), session = member(line, ",\"session\":\"");
	struct span tool = member(line, ",\"tool\":\"");
	if (!event.p || event.n != strlen("exec.start") ||
		memcmp(event.p, "exec.start", event.n) != 0 || !job.p || !session.p)
		return;
	if (*slot_of(o->tail, hash_of(span_of("exec.end"), job)))
		return;
	_cleanup_free_ char *job_text = xstrndup(job.p, job.n);
	_cleanup_free_ char *session_text = xstrndup(session.p, session.n);
	_cleanup_free_ char *tool_text = xstrndup(tool.p ? tool.p : "", tool.n);
	o->fn(o->user, &(struct audit_job){job_text, session_text, tool_text});
}

void tail_each_open_job(
	const struct tail *t, int fd, void (*fn)(void *user, const struct audit_job *j), void *user)
{
	struct open_jobs o = {t, fn, user};
	int r = each_line(fd, try_job, &o);
	if (r < 0)
		log_warning("the audit log cannot be read back (%s): some jobs' ends will be "
			    "missing in it",
			strerror(-r));
}
