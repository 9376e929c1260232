/* sessionenv.c: see sessionenv.h. */
#include "agent/sessionenv.h"

#include <string.h>

#include "agent/kernel.h"
#include "wire/tlv.h"

static struct text_list all;

char *const *sessionenv_all(void)
{
	return all.v;
}

size_t sessionenv_count(void)
{
	return all.n;
}

static char **find(const char *text)
{
	size_t name = (size_t)(strchr(text, '=') - text) + 1;
	for (size_t i = 0; i < all.n; i++)
		if (strncmp(all.v[i], text, name) == 0)
			return &all.v[i];
	return NULL;
}

/* Takes over what q has. True where that changes anything; *ret_other counts other values. */
static bool take(struct text_list *q, uint64_t *ret_other)
{
	bool changed = false;
	for (size_t i = 0; i < q->n; i++) {
		char **had = find(q->v[i]);
		if (had && strcmp(*had, q->v[i]) == 0)
			continue;
		changed = true;
		if (had) {
			++*ret_other;
			free(*had);
			*had = TAKE_PTR(q->v[i]);
			continue;
		}
		all.v = xrealloc(all.v, (all.n + 2) * sizeof(*all.v));
		all.v[all.n++] = TAKE_PTR(q->v[i]);
		all.v[all.n] = NULL;
	}
	return changed;
}

static void op_env(struct stream *s, struct tlv_reader body)
{
	CLEANUP(text_list_done) struct text_list q = {0};
	bool bad = false;
	for (struct tlv t; tlv_next(&body, &t);)
		if (t.tag == TAG_ENV)
			bad |= !text_list_add(&q, &t) || !strchr(q.v[q.n - 1], '=') ||
			       q.v[q.n - 1][0] == '=';
	if (bad || body.bad) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "ENV has no sense");
		return;
	}
	if (all.n + q.n > LIMIT_ARGS / 2) {
		stream_fail(s, WIRE_LIMIT, 0, "there are %zu such variables already", all.n);
		return;
	}
	uint64_t other = 0;
	if (take(&q, &other)) {
		list_for_each (k, next, kernels_all(), struct kernel, node)
			kernel_tell_env(k);
	}
	_cleanup_buf_ struct buf b = BUF_INIT(64);
	CHECK(tlv_u64(&b, TAG_COUNT, other) == 0);
	stream_end(s, WIRE_OK, &b);
}

const struct stream_handler sessionenv_handlers[] = {{OP_ENV, op_env}, {0, NULL}};
