/* check.c: see check.h. */
#include "audit/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"

#define ULL(v) ((unsigned long long)(v))

void check_say(struct check *c, const struct check_place *at, bool note, const char *fmt, ...)
{
	va_list ap;
	c->n_wrong += !note;
	if (c->n_findings == CHECK_FINDINGS)
		return;
	struct check_finding *f = &c->findings[c->n_findings++];
	f->at = at ? *at : (struct check_place){0};
	f->note = note;
	va_start(ap, fmt);
	(void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

void check_file(struct check *c, const char *name)
{
	str_copy(c->file, sizeof(c->file), name);
	c->line = 0;
}

/* ---- what a line says ---- */

static void look_at_watches(struct check *c, uint64_t seq)
{
	for (size_t i = 0; i < CHECK_WATCHES; i++) {
		struct check_watch *w = &c->watch[i];
		if (!w->wanted || w->found || w->seq != seq)
			continue;
		w->found = true;
		w->matches = memcmp(w->hash, c->hash, HASH_SIZE) == 0;
		w->at = c->at;
	}
}

/* Was what stood before the first line deleted by the broker? */
static bool covers_start(const struct check *c, const char *p, size_t n)
{
	char hex[HASH_TEXT];
	uint64_t seq;
	id_hex(c->first_prev, HASH_SIZE, hex);
	return entry_number(p, n, "lastSeq", &seq) && seq + 1 == c->first_seq &&
	       entry_is(entry_text(p, n, "lastHash"), hex);
}

static void look_at_event(struct check *c, const struct entry *e, const char *p, size_t n)
{
	struct entry_span detail = entry_text(p, n, "detail");
	int len = (int)MIN(detail.n, (size_t)200);
	c->starts += entry_is(e->event, "exec.start");
	c->ends += entry_is(e->event, "exec.end");
	if (entry_is(e->event, "audit.drop"))
		c->dropped = c->dropped || covers_start(c, p, n);
	else if (entry_is(e->event, "audit.gap"))
		check_say(c, &c->at, false, "a broker found here that %.*s", len, detail.p);
	else if (entry_is(e->event, "audit.recover"))
		check_say(c, &c->at, true, "%.*s", len, detail.p);
}

/* ---- whether it follows ---- */

static void blame(struct check *c, const struct check_place *at)
{
	check_say(c, at, false, "this line was changed: the next line has the hash of another one");
}

static void settle_suspicion(struct check *c, bool last_is_whole)
{
	c->suspect = false;
	if (last_is_whole) {
		blame(c, &c->before);
		return;
	}
	check_say(c, &c->at, false,
		"this line was changed: its `prev` is not the hash of the line before it");
	c->adrift = true;
}

static void compare(struct check *c, const struct entry *e, const struct check_place *here,
	const char *p, size_t n)
{
	bool first_of_file = here->line == 1;
	if (c->adrift || !c->any) {
		c->adrift = false;
	} else if (e->seq > c->seq + 1) {
		struct entry_span path = entry_text(p, n, "path");
		bool file = first_of_file && path.p && entry_is(e->event, "audit.rotate");
		check_say(c, here, false, "lines %llu to %llu are missing before this one%s%.*s",
			ULL(c->seq + 1), ULL(e->seq - 1), file ? ", with the file " : "",
			file ? (int)MIN(path.n, (size_t)LOGSET_FILE) : 0, file ? path.p : "");
		c->adrift = true;
	} else if (e->seq <= c->seq) {
		check_say(c, here, false,
			"this line is inserted, repeated or out of order: %llu came before it",
			ULL(c->seq));
		c->adrift = true;
	} else if (memcmp(e->prev, c->hash, HASH_SIZE) != 0) {
		c->suspect = true;
		c->before = c->at;
		if (entry_is(e->event, "audit.gap")) /* it begins with what the head vouched for */
			settle_suspicion(c, true);
	}
}

void check_line(struct check *c, const char *p, size_t n)
{
	struct entry e;
	struct check_place here = {.line = ++c->line};
	memcpy(here.file, c->file, sizeof(here.file));
	c->lines++;
	c->bytes += n + 1;
	if (entry_parse(p, n, &e) < 0) {
		here.seq = 0;
		if (c->suspect)
			settle_suspicion(c, true);
		check_say(c, &here, false, "this is no line of an audit log%s",
			c->any ? "" : ", or of an older scb");
		c->at = here;
		c->adrift = true;
		return;
	}
	here.seq = e.seq;
	if (c->suspect)
		settle_suspicion(c, memcmp(e.prev, c->hash, HASH_SIZE) == 0);
	compare(c, &e, &here, p, n);
	if (!c->any) {
		c->any = true;
		c->first_seq = e.seq;
		c->first = here;
		memcpy(c->first_prev, e.prev, HASH_SIZE);
	}
	c->at = here;
	c->seq = e.seq;
	hash_bytes(p, n, c->hash);
	look_at_watches(c, e.seq);
	look_at_event(c, &e, p, n);
}

void check_end(struct check *c)
{
	const struct check_watch *head = &c->watch[CHECK_HEAD];
	if (c->suspect)
		settle_suspicion(c, head->found && head->seq == c->seq && head->matches);
}
