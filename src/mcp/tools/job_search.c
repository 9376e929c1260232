/* job_search.c: see job_search.h. */
#include "mcp/tools/job_search.h"

#include <string.h>

#include "base/limits.h"
#include "exec/exec.h"

#define HITS_FALLBACK 20
/* Hits that would pass this are left out, and the answer says where to go on. */
#define HITS_TEXT_MAX (16 * KIB)

const struct field job_hit_fields[] = {
	{"stream", "string", true, NULL},
	{"offset", "integer", true, NULL},
	{"text", "string", true, NULL},
	{0},
};

enum wire_channel job_channel(const struct call *c, enum wire_channel fallback)
{
	const char *stream = args_text(c->args, "stream");
	if (!stream)
		return fallback;
	return strcmp(stream, "stdout") == 0   ? CHANNEL_STDOUT
	       : strcmp(stream, "stderr") == 0 ? CHANNEL_STDERR
					       : CHANNEL_BOTH;
}

const char *job_channel_name(enum wire_channel channel)
{
	return channel == CHANNEL_STDERR ? "stderr" : "stdout";
}

static void print_hit(struct call *c, const struct exec_hit *h, json_t *list)
{
	const char *stream = job_channel_name(h->channel);
	json_t *text = jsonrpc_text(h->text);
	call_print(
		c, "%s %llu: %s\n", stream, (unsigned long long)h->offset, json_string_value(text));
	json_array_append_new(list, json_pack("{s:s,s:I,s:o}", "stream", stream, "offset",
					    (json_int_t)h->offset, "text", text));
}

static void on_found(void *user, const struct exec_found *f, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	enum wire_channel next_channel = f->next_channel;
	uint64_t next_offset = f->next_offset;
	bool more = f->more;
	json_t *list = json_array();
	for (size_t i = 0; i < f->n; i++) {
		if (c->text.len > HITS_TEXT_MAX) {
			more = true;
			next_channel = f->hits[i].channel;
			next_offset = f->hits[i].offset;
			break;
		}
		print_hit(c, &f->hits[i], list);
	}
	if (f->n == 0)
		call_print(c, "not found in what is kept of the output\n");
	if (more) {
		const char *stream = job_channel_name(next_channel);
		call_print(c, "(there is more; go on with stream=%s offset=%llu%s)\n", stream,
			(unsigned long long)next_offset,
			job_channel(c, CHANNEL_BOTH) == CHANNEL_BOTH &&
					next_channel == CHANNEL_STDOUT
				? ", then stream=stderr"
				: "");
		call_set_text(c, "nextStream", stream);
		call_set_u64(c, "nextOffset", next_offset);
	} else if (f->n > 0) {
		call_print(c, "(that is all; action=read with an offset shows what stands around "
			      "it)\n");
	}
	call_set_text(c, "job", c->job);
	call_set(c, "hits", list);
	call_set(c, "more", json_boolean(more));
	call_finish(c);
}

void job_search(struct call *c)
{
	uint64_t limit = args_u64(c->args, "limit", HITS_FALLBACK);
	c->op = exec_search(session_exec(c->session), c->job, job_channel(c, CHANNEL_BOTH),
		args_u64(c->args, "offset", 0), args_text(c->args, "pattern"),
		MIN(limit, LIMIT_SEARCH_HITS), on_found, c);
}
