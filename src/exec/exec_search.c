/* exec_search.c: looking for text in a job's output; see exec.h. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "exec/exec_call.h"
#include "exec/exec_parse.h"

struct search_call {
	struct exec_call call;
	struct exec_found found;
	exec_search_fn done;
	void *user;
};

static int search_msg(struct exec_call *c, struct tlv_reader msg)
{
	struct exec_found *f = &((struct search_call *)c)->found;
	if (f->n >= LIMIT_SEARCH_HITS)
		return -EPROTO;
	f->hits = xrealloc(f->hits, (f->n + 1) * sizeof(*f->hits));
	int r = exec_parse_hit(msg, &f->hits[f->n]);
	if (r == 0)
		f->n++;
	return r;
}

static int search_end(struct exec_call *c, struct tlv_reader msg)
{
	return exec_parse_found(msg, &((struct search_call *)c)->found);
}

static void search_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct search_call *s = (struct search_call *)c;
	(void)lost;
	s->done(s->user, err ? NULL : &s->found, err);
}

static void search_done(struct exec_call *c)
{
	struct exec_found *f = &((struct search_call *)c)->found;
	for (size_t i = 0; i < f->n; i++)
		free(f->hits[i].text);
	free(f->hits);
}

static const struct exec_call_type search_type = {
	.msg = search_msg, .end = search_end, .finish = search_finish, .done = search_done};

struct exec_call *exec_search(struct exec *x, const char *job, enum wire_channel channel,
	uint64_t offset, const char *pattern, uint64_t limit, exec_search_fn done, void *user)
{
	struct search_call *s = exec_call_new(x, &search_type, sizeof(*s), "job", job);
	CHECK(limit >= 1 && limit <= LIMIT_SEARCH_HITS && strlen(pattern) <= LIMIT_PATTERN);
	exec_call_within(&s->call, EXEC_ANSWER_US);
	s->done = done;
	s->user = user;
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	if (exec_body_job(&b, job) < 0) {
		exec_call_fail(&s->call, ERR_NO_SUCH_JOB, EINVAL, "\"%.40s\" is no job", job);
		return &s->call;
	}
	int r = tlv_u64(&b, TAG_CHANNEL, channel);
	r = r ? r : tlv_str(&b, TAG_PATTERN, pattern);
	r = r ? r : tlv_u64(&b, TAG_OFFSET, offset);
	r = r ? r : tlv_u64(&b, TAG_LIMIT, limit);
	exec_call_open(&s->call, OP_JOB_SEARCH, &b, r);
	return &s->call;
}
