/* front.c: a front: carries one host's MCP messages to the broker and back, and outlives it.
 *
 * It reads nothing in them. Each line of the host gets a number and is kept until the broker has
 * answered it or said that no answer comes; a broker that has died is replaced, and given what is
 * still kept, in order. So cancellations come after what they cancel, and an answer that the host
 * has had is never asked for again. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/gather.h"
#include "cli/paths.h"
#include "cli/reach.h"
#include "cli/serve.h"
#include "mcp/frontread.h"
#include "mcp/frontsecret.h"
#include "mcp/jsonrpc.h"
#include "mcp/lines.h"

#define CHUNK FRONTREAD_CHUNK
/* After the host's end: the broker closes the connection once it has let go of what ran. */
#define BYE_US (2 * USEC_PER_SEC)

/* So long after a lone line a front looks for its answer instead of sleeping, and after an answer
 * for the next line. It saves more than its own waking: while it keeps one processor busy, the
 * broker, the agent and the interpreter wake each other on the other one, and none of them waits
 * until an idle processor has come back. */
#define ANSWER_LOOK_US 500
#define LINE_LOOK_US   100

/* A line of the host, as the frame that is sent; its head is written then. */
struct kept {
	struct kept *next;
	uint64_t number, came_us;
	uint8_t flags;
	bool sent; /* begun to be: a broker may have it */
	size_t n;  /* of the line */
	uint8_t frame[];
};

struct front {
	const struct settings *settings;
	char *state;
	struct front_hello hello;
	int in, out, sock; /* sock -1: no broker at the moment */
	bool in_ended, out_gone, leaving, said_bye;
	struct lines lines;
	struct kept *first, *last;
	struct kept *unsent; /* the first that is not all sent; NULL: none */
	size_t unsent_at;    /* so many bytes of it are */
	size_t kept_bytes, unsent_bytes;
	uint64_t last_number;
	uint64_t answered_us;  /* when the last answer came */
	bool may_look;         /* there are two processors */
	uint64_t met_us;       /* when the last broker was reached */
	unsigned deaths;       /* of brokers, without an answer in between */
	struct gather *gather; /* secrets that the broker asks for */
	size_t secret_at;      /* so many bytes of the next SECRET are out */
	struct buf from;       /* the broker's bytes that are no whole frame yet */
	struct buf queue;      /* for the host, which has not taken it yet */
	char chunk[CHUNK];
};

/* ---- to the host ---- */

static void flush_queue(struct front *f)
{
	size_t done = 0;
	while (done < f->queue.len && !f->out_gone) {
		ssize_t n = write(f->out, f->queue.data + done, f->queue.len - done);
		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			f->out_gone = true;
	}
	buf_consume(&f->queue, done);
	if (f->queue.len == 0 && f->queue.cap > CHUNK)
		buf_done(&f->queue);
}

/* A line with its newline. */
static void give(struct front *f, const char *p, size_t n)
{
	if (f->queue.len == 0 && !f->out_gone) {
		ssize_t done = write(f->out, p, n);
		if (done < 0 && errno != EAGAIN && errno != EINTR)
			f->out_gone = true;
		if (done > 0) {
			p += done;
			n -= (size_t)done;
		}
	}
	/* the queue has room for one read of the broker beyond its limit: see watch() */
	if (n > 0 && !f->out_gone && buf_append(&f->queue, p, n) < 0)
		f->out_gone = true;
}

/* ---- what is kept ---- */

static size_t frame_size(const struct kept *k)
{
	return FRONT_MESSAGE_HEAD + k->n;
}

static void keep(void *user, const char *line, size_t n)
{
	struct front *f = user;
	struct kept *k = xmalloc(sizeof(*k) + FRONT_MESSAGE_HEAD + n);
	*k = (struct kept){.number = ++f->last_number,
		.came_us = clock_monotonic_us(),
		.flags = line ? 0 : FRONT_TOO_LONG,
		.n = n};
	if (n)
		memcpy(k->frame + FRONT_MESSAGE_HEAD, line, n);
	if (f->last)
		f->last->next = k;
	else
		f->first = k;
	f->last = k;
	if (!f->unsent)
		f->unsent = k;
	f->kept_bytes += frame_size(k);
	f->unsent_bytes += frame_size(k);
}

/* That number is dealt with: what was kept of it, for free(). NULL: it is not kept. */
static struct kept *take(struct front *f, uint64_t number)
{
	struct kept *before = NULL, *k = f->first;
	for (; k && k->number != number; k = k->next)
		before = k;
	if (!k || k == f->unsent) /* what is not all sent cannot be answered */
		return NULL;
	if (before)
		before->next = k->next;
	else
		f->first = k->next;
	if (f->last == k)
		f->last = before;
	f->kept_bytes -= frame_size(k);
	f->deaths = 0;
	return k;
}

/* ANSWER or DONE. The host has its answer before anything else is done for it. */
static void settle(struct front *f, const struct front_frame *frame)
{
	struct kept *k = take(f, frame->number);
	if (!k)
		return;
	if (frame->type == FRONT_ANSWER)
		give(f, frame->p, frame->n);
	f->answered_us = clock_monotonic_us();
	free(k);
}

/* Answers a kept line that no broker will. */
static void answer_failure(struct front *f, const struct kept *k, const char *text)
{
	struct jsonrpc_msg m = {0};
	struct jsonrpc_error e = {0};
	_cleanup_buf_ struct buf out = BUF_INIT(LIMIT_MCP_RESULT);
	if (k->flags & FRONT_TOO_LONG ||
		jsonrpc_parse((const char *)k->frame + FRONT_MESSAGE_HEAD, k->n, &m, &e) < 0) {
		jsonrpc_error_done(&e);
		return;
	}
	if (m.kind == JSONRPC_REQUEST) {
		jsonrpc_error_set(&e, JSONRPC_INTERNAL, "%s", text);
		e.id = m.id;
		json_t *message = jsonrpc_error_message(&e);
		CHECK(jsonrpc_encode(message, &out) == 0 && buf_append(&out, "\n", 1) == 0);
		json_decref(message);
		give(f, (const char *)out.data, out.len);
	}
	jsonrpc_msg_done(&m);
}

/* Answers all that is kept. */
static void give_up(struct front *f, const char *text)
{
	log_error("%s", text);
	for (struct kept *k = f->first, *next; k; k = next) {
		next = k->next;
		answer_failure(f, k, text);
		free(k);
	}
	f->first = f->last = f->unsent = NULL;
	f->unsent_at = f->kept_bytes = f->unsent_bytes = 0;
	f->deaths = 0;
}

/* ---- to the broker ---- */

static void lose_broker(struct front *f)
{
	fd_closep(&f->sock);
	buf_done(&f->from);
	gather_forget_broker(f->gather);
	f->secret_at = 0;
	f->unsent = f->first;
	f->unsent_at = 0;
	f->unsent_bytes = f->kept_bytes;
	for (struct kept *k = f->first; k; k = k->next)
		if (k->sent)
			k->flags |= FRONT_REPLAYED;
}

#define PARTS_MAX 16

/* So many bytes more are out. */
static void count_sent(struct front *f, size_t n)
{
	f->unsent_at += n;
	f->unsent_bytes -= n;
	while (f->unsent && f->unsent_at > 0) {
		f->unsent->sent = true;
		if (f->unsent_at < frame_size(f->unsent))
			break;
		f->unsent_at -= frame_size(f->unsent);
		f->unsent = f->unsent->next;
	}
}

/* Is there a secret to be given, and is it its turn? Between two messages, and then at once. */
static bool secret_due(const struct front *f, struct gather_answer *ret)
{
	return f->unsent_at == 0 && gather_answer(f->gather, ret);
}

/* From where the value stands to the socket: no copy of it is made here. */
static bool send_secrets(struct front *f)
{
	struct gather_answer a;
	while (secret_due(f, &a)) {
		uint8_t head[FRONT_HEAD], name[FRONTSECRET_HEAD];
		size_t n_name = frontsecret_head(
			a.value ? FRONTSECRET_VALUE : FRONTSECRET_NONE, a.name, name);
		size_t n = a.value ? 0 : strlen(a.why);
		const void *p = a.value ? secret_value_bytes(a.value, &n) : (const void *)a.why;
		frontwire_head(FRONT_SECRET, n_name + n, head);
		struct iovec parts[] = {{head, sizeof(head)}, {name, n_name}, {(void *)p, n}};
		struct msghdr m = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};
		size_t skip = f->secret_at, size = sizeof(head) + n_name + n;
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
			size_t s = MIN(skip, parts[i].iov_len);
			parts[i].iov_base = (uint8_t *)parts[i].iov_base + s;
			parts[i].iov_len -= s;
			skip -= s;
		}
		ssize_t sent = sendmsg(f->sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN;
		f->secret_at += (size_t)sent;
		if (f->secret_at == size) {
			f->secret_at = 0;
			gather_given(f->gather);
		}
	}
	return true;
}

/* As much as the socket takes: usually one line in one call. False: the broker is gone. */
static bool send_unsent(struct front *f)
{
	if (!send_secrets(f))
		return false;
	while (f->unsent && f->secret_at == 0) {
		struct iovec parts[PARTS_MAX];
		struct msghdr m = {.msg_iov = parts};
		uint64_t now = clock_monotonic_us();
		size_t skip = f->unsent_at;
		for (struct kept *k = f->unsent; k && m.msg_iovlen < PARTS_MAX; k = k->next) {
			if (skip == 0) /* its head is not out yet */
				frontwire_message_head(k->number, k->flags,
					(uint32_t)((now - k->came_us) / USEC_PER_MSEC), k->n,
					k->frame);
			parts[m.msg_iovlen++] =
				(struct iovec){k->frame + skip, frame_size(k) - skip};
			skip = 0;
		}
		ssize_t n = sendmsg(f->sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		count_sent(f, (size_t)n);
	}
	return send_secrets(f);
}

/* The host is done; the broker then ends what nobody will hear of. */
static void say_bye(struct front *f)
{
	uint8_t head[FRONT_HEAD];
	frontwire_head(FRONT_BYE, 0, head);
	(void)send(f->sock, head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT);
	f->said_bye = true;
}

/* ---- from the broker ---- */

/* An answer that is on its way goes to its end first: there are none, or this is a new broker. */
static bool ask_for_secrets(struct front *f, const struct front_frame *frame)
{
	struct err err;
	if (f->secret_at > 0) /* it asks faster than it reads */
		return false;
	if (gather_ask(f->gather, frame->p, frame->n, &err) == 0)
		return true;
	log_error("%s", err.text);
	return true; /* then they are not available */
}

static bool on_frame(void *user, const struct front_frame *frame)
{
	struct front *f = user;
	switch (frame->type) {
	case FRONT_ANSWER:
	case FRONT_DONE:
		settle(f, frame);
		return true;
	case FRONT_NOTE:
		give(f, frame->p, frame->n);
		return true;
	case FRONT_SESSION:
		if (frame->n >= sizeof(f->hello.session))
			return false;
		memcpy(f->hello.session, frame->p, frame->n);
		f->hello.session[frame->n] = '\0';
		return true;
	case FRONT_SECRETS:
		return ask_for_secrets(f, frame);
	case FRONT_LEAVING:
		f->leaving = true;
		return false;
	case FRONT_HELLO:
	case FRONT_MESSAGE:
	case FRONT_BYE:
	case FRONT_CONTROL:
	case FRONT_SECRET:
	case FRONT_WELCOME:
	case FRONT_REFUSED:
	case FRONT_CONTROL_ANSWER:
		break;
	}
	return false;
}

/* ---- the loop ---- */

static void read_host(struct front *f)
{
	ssize_t n = read(f->in, f->chunk, sizeof(f->chunk));
	if (n > 0) {
		lines_feed(&f->lines, f->chunk, (size_t)n, keep, f);
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 0)
		lines_end(&f->lines, keep, f);
	f->in_ended = true;
}

/* Another broker, and all that is kept once more. */
static void reconnect(struct front *f)
{
	struct err err = {0};
	if (!f->leaving)
		f->deaths += clock_monotonic_us() - f->met_us < LIMIT_FRONT_YOUNG_US ? 10 : 1;
	if (f->deaths > LIMIT_FRONT_DEATHS)
		give_up(f, "scb's broker has died again and again while it worked on this; see "
			   "broker.log in its state directory");
	f->leaving = false;
	f->hello.resume = true;
	if (reach_broker(f->state, f->settings, &f->hello, &f->sock, &err) < 0) {
		give_up(f, err.text);
		f->leaving = true; /* tried again when the host asks something */
	}
	f->met_us = clock_monotonic_us();
}

/* After a death at once, so that what runs is looked after; else when there is something to ask. */
static bool broker_wanted(const struct front *f)
{
	return f->sock < 0 && (f->first || (!f->leaving && f->deaths < LIMIT_FRONT_DEATHS));
}

/* poll(2), which does not sleep at first where that pays; whoever else wants the processor has it.
 */
static int wait_for(const struct front *f, struct pollfd *p, size_t n, int timeout_ms)
{
	uint64_t until = 0;
	if (f->may_look && !f->first)
		until = f->answered_us + LINE_LOOK_US;
	else if (f->may_look && f->first == f->last)
		until = f->first->came_us + ANSWER_LOOK_US;
	while (clock_monotonic_us() < until) {
		int r = poll(p, n, 0);
		if (r != 0)
			return r;
		(void)sched_yield();
	}
	return poll(p, n, timeout_ms);
}

/* Waits for something to happen, and does it. */
static void turn(struct front *f, int timeout_ms)
{
	/* a host that asks without reading the answers is not read from either */
	bool full = f->queue.len > LIMIT_MCP_OUT_QUEUE;
	bool hold = full || f->unsent_bytes > CHUNK || f->kept_bytes > LIMIT_FRONT_KEPT;
	enum { IN, OUT, SOCK, N };
	struct gather_answer due;
	bool sends = f->unsent || secret_due(f, &due);
	const struct frontread how = {FRONT_FROM_BROKER, on_frame, f, (uint8_t *)f->chunk};
	struct pollfd p[N + LIMIT_SECRETS] = {
		[IN] = {f->in_ended || hold ? -1 : f->in, POLLIN, 0},
		/* without events, too, it says when nobody reads there any more */
		[OUT] = {f->out, f->queue.len ? POLLOUT : 0, 0},
		[SOCK] = {f->sock, (short)((full ? 0 : POLLIN) | (sends ? POLLOUT : 0)), 0},
	};
	size_t n = N + gather_poll(f->gather, p + N, LIMIT_SECRETS);
	if (wait_for(f, p, n, gather_timeout_ms(f->gather, timeout_ms)) < 0)
		return;
	gather_work(f->gather);
	if (p[OUT].revents & (POLLERR | POLLHUP | POLLNVAL))
		f->out_gone = true;
	if (p[OUT].revents & POLLOUT)
		flush_queue(f);
	if (p[IN].revents)
		read_host(f);
	bool lost = p[SOCK].revents & ~POLLOUT && !frontread(&how, f->sock, &f->from);
	if (!lost && f->sock >= 0 && !send_unsent(f))
		lost = !frontread(&how, f->sock, &f->from); /* it may have said why */
	if (lost)
		lose_broker(f);
}

/* Carries until the host has ended or reads no more. */
static void carry(struct front *f)
{
	while (!f->out_gone && !f->in_ended) {
		if (broker_wanted(f))
			reconnect(f);
		turn(f, -1);
	}
	uint64_t end = clock_monotonic_us() + BYE_US, now;
	while (!f->out_gone && f->sock >= 0 && (now = clock_monotonic_us()) < end) {
		if (!f->unsent && !f->said_bye)
			say_bye(f);
		turn(f, (int)((end - now) / USEC_PER_MSEC) + 1);
	}
	while (!f->out_gone && f->queue.len && (now = clock_monotonic_us()) < end)
		turn(f, (int)((end - now) / USEC_PER_MSEC) + 1);
}

/* A pipe can be filled by what is written, and a front must not wait there: its host may be waiting
 * for it to read. */
static void set_unblocking(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) &&
		fd_set_nonblock(fd, true) < 0)
		log_warning("stdout cannot be written without waiting: %s", strerror(errno));
}

static void fill_hello(struct front *f, enum front_kind kind)
{
	const struct settings *s = f->settings;
	const char *provider = s->provider ? s->provider : getenv("BROKER_PROVIDER");
	struct front_hello *h = &f->hello;
	reach_fill_hello(h, kind);
	h->secrets = true;
	h->name = s->name ? s->name : "";
	h->provider = provider && *provider ? provider : NULL;
	memcpy(h->mounts, s->mounts, sizeof(h->mounts));
	h->n_mounts = s->n_mounts;
	h->image_root = s->root;
	memcpy(h->limits, s->limits, sizeof(h->limits));
	h->n_limits = s->n_limits;
	h->outputs = s->outputs;
	h->policy = s->policy;
}

static bool have_two_processors(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 1;
}

int front_serve(const struct settings *settings, enum front_kind kind, int fd_out)
{
	struct err err = {0};
	struct front *f = xcalloc(1, sizeof(*f));
	f->settings = settings;
	f->in = STDIN_FILENO;
	f->out = fd_out;
	f->sock = -1;
	f->may_look = have_two_processors();
	f->gather = gather_new();
	lines_init(&f->lines, LIMIT_MCP_LINE);
	buf_init(&f->from, LIMIT_MCP_RESULT + 1 + FRONT_NUMBER_HEAD + 2 * CHUNK);
	buf_init(&f->queue, LIMIT_MCP_OUT_QUEUE + LIMIT_FRONT_KEPT);
	set_unblocking(f->out);
	fill_hello(f, kind);

	int r = paths_state(settings->state, &f->state, &err);
	if (r == 0)
		r = reach_broker(f->state, settings, &f->hello, &f->sock, &err);
	f->met_us = clock_monotonic_us();
	if (r == 0)
		carry(f);
	for (struct kept *k = f->first, *next; k; k = next) {
		next = k->next;
		free(k);
	}
	gather_free(f->gather);
	fd_closep(&f->sock);
	fd_closep(&f->out);
	lines_done(&f->lines);
	buf_done(&f->from);
	buf_done(&f->queue);
	free(f->state);
	free(f);
	return r < 0 ? cli_failed(&err) : 0;
}
