/* fronts.c: see fronts.h. */
#include "mcp/fronts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "mcp/build.h"
#include "mcp/front_internal.h"
#include "mcp/jsonrpc.h"
#include "mcp/server.h"
#include "policy/policy.h"
#include "session/session.h"

#define TICK_MS 1000
/* What a connection's buffers may keep between messages. */
#define KEEP FRONTREAD_CHUNK

static void on_poll(uv_poll_t *h, int status, int events);

/* ---- sending ---- */

static void poll_for(struct front *f, int events)
{
	if (events == f->events)
		return;
	f->events = events;
	if (events)
		(void)uv_poll_start(&f->poll, events, on_poll);
	else
		(void)uv_poll_stop(&f->poll);
}

/* A peer that asks without reading the answers is not read from either. */
static void update_poll(struct front *f)
{
	bool hold = f->out.len > LIMIT_MCP_OUT_QUEUE || f->ending;
	poll_for(f, (hold ? 0 : UV_READABLE) | (f->out.len > 0 ? UV_WRITABLE : 0));
}

/* The end of file that this makes is seen by the loop, which then closes it. */
static void front_break(struct front *f)
{
	f->broken = true;
	buf_done(&f->out);
	(void)shutdown(f->fd, SHUT_RDWR);
	poll_for(f, UV_READABLE);
}

static void flush_out(struct front *f)
{
	if (fd_send(f->fd, &f->out) < 0)
		front_break(f);
	else if (f->out.len == 0 && f->out.cap > KEEP)
		buf_done(&f->out);
}

/* What the socket did not take at once of these parts. */
static void queue_rest(struct front *f, const struct iovec *parts, size_t n_parts, size_t taken)
{
	for (size_t i = 0; i < n_parts; i++) {
		size_t skip = MIN(taken, parts[i].iov_len);
		taken -= skip;
		if (buf_append(&f->out, (const uint8_t *)parts[i].iov_base + skip,
			    parts[i].iov_len - skip) < 0) {
			log_error("a front has %zu bytes of answers unread; closing", f->out.len);
			front_break(f);
			return;
		}
	}
}

void front_send(
	struct front *f, const uint8_t *head, size_t head_n, const char *p, size_t n, bool newline)
{
	if (f->broken)
		return;
	struct iovec parts[] = {
		{(void *)head, head_n},
		{(void *)p, n},
		{"\n", newline ? 1 : 0},
	};
	size_t all = head_n + n + (newline ? 1 : 0), taken = 0;
	if (f->out.len == 0) {
		struct msghdr m = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};
		ssize_t sent = sendmsg(f->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno != EAGAIN && errno != EINTR) {
			front_break(f);
			return;
		}
		taken = sent > 0 ? (size_t)sent : 0;
	}
	if (taken < all) {
		queue_rest(f, parts, ARRAY_SIZE(parts), taken);
		update_poll(f);
	}
}

void front_send_json(struct front *f, enum front_type type, const json_t *o)
{
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_FRONT_CONTROL);
	uint8_t head[FRONT_HEAD];
	if (jsonrpc_encode(o, &text) < 0) {
		log_error("an answer to a front was too long");
		front_break(f);
		return;
	}
	frontwire_head(type, text.len, head);
	front_send(f, head, sizeof(head), (const char *)text.data, text.len, false);
}

static void send_reply(struct front *f, enum front_type type, const struct err *why, bool retry)
{
	struct front_reply r = {.retry = retry};
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_FRONT_JSON);
	uint8_t head[FRONT_HEAD];
	if (why)
		r.why = *why;
	front_reply_encode(&r, &text);
	frontwire_head(type, text.len, head);
	front_send(f, head, sizeof(head), (const char *)text.data, text.len, false);
}

/* Refuses it. What is queued still goes out; then the peer closes. */
static void refuse(struct front *f, const struct err *why, bool retry)
{
	log_info("a front was refused: %s", why->text);
	send_reply(f, FRONT_REFUSED, why, retry);
	if (!f->broken)
		(void)shutdown(f->fd, SHUT_RD);
}

/* ---- the transport ---- */

static struct front *of_transport(const struct mcp_transport *t)
{
	return container_of(t, struct front, transport);
}

static void transport_send(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	uint8_t head[FRONT_NUMBER_HEAD];
	if (number) {
		frontwire_number_head(FRONT_ANSWER, number, n + 1, head);
		front_send(of_transport(t), head, FRONT_NUMBER_HEAD, message, n, true);
	} else {
		frontwire_head(FRONT_NOTE, n + 1, head);
		front_send(of_transport(t), head, FRONT_HEAD, message, n, true);
	}
}

static bool transport_congested(const struct mcp_transport *t)
{
	return of_transport(t)->out.len > 0;
}

static void transport_done(struct mcp_transport *t, uint64_t number)
{
	uint8_t head[FRONT_NUMBER_HEAD];
	frontwire_number_head(FRONT_DONE, number, 0, head);
	front_send(of_transport(t), head, sizeof(head), NULL, 0, false);
}

static void transport_session(struct mcp_transport *t, const char *handle)
{
	struct front *f = of_transport(t);
	uint8_t head[FRONT_HEAD];
	str_copy(f->session, sizeof(f->session), handle);
	frontwire_head(FRONT_SESSION, strlen(f->session), head);
	front_send(f, head, sizeof(head), f->session, strlen(f->session), false);
}

/* ---- hello ---- */

static int some_session(void *user, struct session *s)
{
	(void)user;
	(void)s;
	return 1;
}

static bool broker_unused(const struct fronts *a)
{
	return !a->config.stays && a->n_live == 0 &&
	       (!a->config.sessions ||
		       !sessions_each(a->config.sessions, NULL, some_session, NULL));
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;
	return b && (strcmp(a, b) == 0 || (stat(a, &x) == 0 && stat(b, &y) == 0 &&
						  x.st_dev == y.st_dev && x.st_ino == y.st_ino));
}

/* The first of the front's options that the broker does not hold to; NULL: none. */
static const char *find_conflict(const struct fronts *a, const struct front_hello *h)
{
	for (size_t i = 0; i < h->n_limits; i++)
		if (!policy_holds(a->config.policy, h->limits[i]))
			return h->limits[i];
	if (h->policy && !same_file(h->policy, policy_path(a->config.policy)))
		return h->policy;
	if (h->outputs && strcmp(h->outputs, a->config.outputs) != 0)
		return h->outputs;
	return NULL;
}

/* Sets what the connection brings. 0, or the reason why it may not stay. */
static int admit(struct front *f, const struct front_hello *h, struct err *err, bool *ret_retry)
{
	struct fronts *a = f->all;
	if (a->leaving) {
		*ret_retry = true;
		return err_set(err, ERR_CANCELLED, 0, "the broker is about to end");
	}
	if (h->protocol_max < build.front_min || h->protocol_min > build.front_max)
		return err_set(err, ERR_PROTOCOL, 0,
			"this scb (%s) and the broker that runs (%s) do not understand each other: "
			"restart the program that started scb, so that it starts the scb that is "
			"installed now",
			h->build, build.version);
	const char *conflict = find_conflict(a, h);
	if (conflict && broker_unused(a)) {
		*ret_retry = true;
		a->config.unused(a->config.user);
		return err_set(err, ERR_CANCELLED, 0, "the broker ends to be started anew");
	}
	if (conflict)
		return err_set(err, ERR_CONFLICT, 0,
			"the broker of %.100s is in use with other settings than \"%.60s\", and "
			"these hold for all its sessions: give --state DIR to use another broker, "
			"--solo for none at all, or end its sessions first (scb sessions close "
			"--all)",
			a->config.state, conflict);
	return 0;
}

/* What no sandbox of this provider can be held to is told at the start. */
static bool provider_permitted(const struct fronts *a, const struct provider *provider,
	const struct session_profile *profile, struct err *err)
{
	struct policy_decision d;
	struct capabilities caps;
	if (!a->config.sessions)
		return true;
	sessions_capabilities(a->config.sessions, profile, &caps);
	if (session_permit_held(a->config.policy, provider, &caps, &d))
		return true;
	(void)err_set(err, ERR_POLICY_DENIED, EPERM, "%s", d.reason);
	return false;
}

static int open_conn(struct front *f, const struct front_hello *h, struct err *err)
{
	struct err no_provider = {0};
	struct session_profile profile = {
		.mounts = h->mounts, .n_mounts = h->n_mounts, .root = h->image_root};
	if (provider_select(h->provider, &profile.provider, &no_provider) < 0) {
		if (no_provider.code == ERR_INVALID_ARGUMENT) {
			*err = no_provider;
			return -EINVAL;
		}
		log_warning("%s", no_provider.text);
	}
	if (profile.provider && !h->resume &&
		!provider_permitted(f->all, profile.provider, &profile, err))
		return -EPERM;
	const struct mcp_conn_config config = {
		.principal = f->principal,
		.host = h->name,
		.profile = &profile,
		.no_provider = profile.provider ? NULL : &no_provider,
		.default_session = h->session,
	};
	f->conn = mcp_conn_new(f->all->config.server, &f->transport, &config);
	return 0;
}

/* f->hello is all there, and so is what its provider has to be asked. */
static void greet(struct front *f)
{
	CLEANUP(front_hello_done) struct front_hello h = *f->hello;
	struct err err = {0};
	bool retry = false;
	int r = 0;
	free(TAKE_PTR(f->hello));
	if (h.kind != FRONT_CONTROL_ONLY) {
		r = admit(f, &h, &err, &retry);
		if (r == 0)
			r = open_conn(f, &h, &err);
	}
	if (r < 0) {
		refuse(f, &err, retry);
		return;
	}
	f->greeted = true;
	f->kind = h.kind;
	memcpy(f->id, h.front, sizeof(f->id));
	str_copy(f->session, sizeof(f->session), h.session);
	if (f->conn)
		f->all->n_live++;
	send_reply(f, FRONT_WELCOME, NULL, false);
	front_secrets_begin(f, &h);
	if (f->all->config.changed)
		f->all->config.changed(f->all->config.user);
}

static void on_provider_known(void *user)
{
	struct front *f = user;
	f->all->n_waiting--;
	greet(f);
	if (!f->conn && f->all->config.changed)
		f->all->config.changed(f->all->config.user);
	if (!f->broken)
		update_poll(f);
}

/* True where it is greeted, or waits for that. */
static bool on_hello(struct front *f, const struct front_frame *frame)
{
	struct err err = {0};
	struct front_hello *h = xcalloc(1, sizeof(*h));
	if (front_hello_decode(frame->p, frame->n, h, &err) < 0) {
		refuse(f, &err, false);
		front_hello_done(h);
		free(h);
		return false;
	}
	f->hello = h;
	f->provider = (struct provider_wait){.done = on_provider_known, .user = f};
	if (h->kind != FRONT_CONTROL_ONLY &&
		provider_await(f->all->config.loop, h->provider, &f->provider)) {
		f->all->n_waiting++;
		return true;
	}
	greet(f);
	return f->greeted;
}

/* ---- receiving ---- */

static void on_message(struct front *f, const struct front_frame *frame)
{
	bool too_long = frame->flags & FRONT_TOO_LONG;
	struct mcp_message m = {
		.p = too_long ? NULL : frame->p,
		.n = too_long ? 0 : frame->n,
		.number = frame->number,
		.age_us = (uint64_t)frame->age_ms * USEC_PER_MSEC,
	};
	delivery_make(f->id, frame->number, frame->flags & FRONT_REPLAYED, &m.delivery);
	mcp_conn_message(f->conn, &m);
}

/* Its calls end, and what a command opened, however it ended. */
static void end_conn(struct front *f)
{
	struct fronts *a = f->all;
	struct session *s = NULL;
	if (!f->conn)
		return;
	mcp_conn_close(TAKE_PTR(f->conn));
	front_secrets_end(f);
	a->n_live--;
	if (f->kind == FRONT_RUN && f->session[0] && a->config.sessions &&
		sessions_find(a->config.sessions, f->principal, f->session, &s, NULL) == 0)
		session_close(s, "its command has ended", NULL, NULL);
	if (a->config.changed)
		a->config.changed(a->config.user);
}

/* True: go on reading. */
static bool on_frame(void *user, const struct front_frame *frame)
{
	struct front *f = user;
	if (!f->greeted) /* one that waits says nothing more until then */
		return frame->type == FRONT_HELLO && !f->hello && on_hello(f, frame);
	if (frame->type == FRONT_MESSAGE && f->conn && frame->number) {
		on_message(f, frame);
		return true;
	}
	if (frame->type == FRONT_SECRET && f->giver)
		return front_secrets_take(f, frame);
	if (frame->type == FRONT_CONTROL && !f->conn && !f->control) {
		front_control(f, frame->p, frame->n);
		return true;
	}
	if (frame->type == FRONT_BYE && f->conn) {
		end_conn(f);
		f->ending = true;
		return f->out.len > 0; /* what it has been answered it shall have */
	}
	return false; /* what has no place here */
}

static void front_close(struct front *f);

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct front *f = h->data;
	const struct frontread how = {FRONT_FROM_FRONT, on_frame, f, f->all->chunk};
	bool goes_on = true;
	if (f->broken || status < 0) {
		front_close(f);
		return;
	}
	if (events & UV_WRITABLE)
		flush_out(f);
	if (events & UV_READABLE)
		goes_on = frontread(&how, f->fd, &f->in);
	if (!goes_on || (f->ending && f->out.len == 0 && !f->broken))
		front_close(f);
	else if (!f->broken)
		update_poll(f);
}

/* ---- coming and going ---- */

static void on_front_closed(uv_handle_t *h)
{
	struct front *f = h->data;
	fd_closep(&f->fd);
	buf_done(&f->in);
	buf_done(&f->out);
	free(f);
}

static void front_close(struct front *f)
{
	struct fronts *a = f->all;
	flush_out(f);
	f->broken = true; /* nothing is sent to it any more */
	end_conn(f);
	if (f->hello) { /* it waits */
		provider_wait_cancel(&f->provider);
		front_hello_done(f->hello);
		free(TAKE_PTR(f->hello));
		a->n_waiting--;
	}
	if (f->control)
		front_control_forget(f->control);
	list_remove(&f->link);
	a->n_connected--;
	uv_close((uv_handle_t *)&f->poll, on_front_closed);
}

/* Takes the descriptor. */
static void front_new(struct fronts *a, int fd, uid_t uid)
{
	struct front *f = xcalloc(1, sizeof(*f));
	f->all = a;
	f->fd = fd;
	f->transport = (struct mcp_transport){
		.send = transport_send,
		.congested = transport_congested,
		.done = transport_done,
		.session = transport_session,
	};
	f->since_us = clock_monotonic_us();
	(void)snprintf(f->principal, sizeof(f->principal), "uid:%u", uid);
	buf_init(&f->in, LIMIT_MCP_LINE + FRONT_MESSAGE_HEAD + FRONTREAD_CHUNK);
	f->in.wipe = true;
	/* every request in flight may end with a largest message at once */
	buf_init(&f->out, LIMIT_MCP_OUT_QUEUE +
				  LIMIT_MCP_INFLIGHT * (LIMIT_MCP_RESULT + 1 + FRONT_NUMBER_HEAD));
	CHECK(uv_poll_init(a->config.loop, &f->poll, fd) == 0);
	f->poll.data = f;
	list_append(&a->fronts, &f->link);
	a->n_connected++;
	update_poll(f);
	if (a->n_connected > LIMIT_FRONTS) {
		struct err err;
		(void)err_set(&err, ERR_LIMIT_REACHED, 0,
			"the broker has %d connections, and takes no more", LIMIT_FRONTS);
		refuse(f, &err, false);
	}
}

static void on_tick(uv_timer_t *t);
static void on_connection(uv_poll_t *h, int status, int events);

void fronts_tick_later(struct fronts *a)
{
	if (!uv_is_active((uv_handle_t *)&a->timer))
		(void)uv_timer_start(&a->timer, on_tick, TICK_MS, 0);
}

static void on_connection(uv_poll_t *h, int status, int events)
{
	struct fronts *a = h->data;
	(void)status;
	(void)events;
	for (;;) {
		int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno != EAGAIN) { /* no descriptors left: not again and again */
			log_error("a front cannot connect: %s", strerror(errno));
			(void)uv_poll_stop(&a->listener);
			fronts_tick_later(a);
		}
		if (fd < 0)
			return;
		struct ucred peer;
		socklen_t size = sizeof(peer);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
			peer.uid != geteuid() || a->n_connected > LIMIT_FRONTS + 8) {
			(void)close(fd);
			continue;
		}
		front_new(a, fd, peer.uid);
		fronts_tick_later(a);
	}
}

static void on_tick(uv_timer_t *t)
{
	struct fronts *a = t->data;
	uint64_t now = clock_monotonic_us();
	bool again = false;
	list_for_each (f, next, &a->fronts, struct front, link) {
		if (f->greeted) {
			again |= front_secrets_owed(f, now);
			continue;
		}
		if (now - f->since_us > LIMIT_FRONT_HELLO_US && !f->hello)
			front_close(f);
		else
			again = true;
	}
	if (!a->leaving && !uv_is_active((uv_handle_t *)&a->listener))
		(void)uv_poll_start(&a->listener, UV_READABLE, on_connection);
	if (again)
		fronts_tick_later(a);
}

struct fronts *fronts_new(const struct fronts_config *c, int listen_fd)
{
	struct fronts *a = xcalloc(1, sizeof(*a));
	a->config = *c;
	a->fd = listen_fd;
	list_init(&a->fronts);
	(void)uv_timer_init(c->loop, &a->timer);
	CHECK(uv_poll_init(c->loop, &a->listener, listen_fd) == 0);
	a->timer.data = a->listener.data = a;
	a->handles = 2;
	(void)uv_poll_start(&a->listener, UV_READABLE, on_connection);
	return a;
}

unsigned fronts_count(const struct fronts *f)
{
	return f->n_live + f->n_waiting;
}

void fronts_leave(struct fronts *a)
{
	uint8_t head[FRONT_HEAD];
	frontwire_head(FRONT_LEAVING, 0, head);
	a->leaving = true;
	(void)uv_poll_stop(&a->listener);
	list_for_each (f, next, &a->fronts, struct front, link)
		if (f->conn)
			front_send(f, head, sizeof(head), NULL, 0, false);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct fronts *a = h->data;
	if (--a->handles > 0)
		return;
	fd_closep(&a->fd);
	free(a);
}

void fronts_close(struct fronts *a)
{
	if (!a)
		return;
	a->leaving = true;
	a->config.changed = NULL;
	list_for_each (f, next, &a->fronts, struct front, link)
		front_close(f);
	uv_close((uv_handle_t *)&a->timer, on_handle_closed);
	uv_close((uv_handle_t *)&a->listener, on_handle_closed);
}
