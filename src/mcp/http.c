/* http.c: see http.h. */
#include "mcp/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/list.h"
#include "http/peers.h"
#include "http/server.h"
#include "http/tls.h"
#include "mcp/httpfiles.h"
#include "mcp/httpgate.h"
#include "mcp/httpwho.h"
#include "mcp/metrics.h"
#include "mcp/page.h"
#include "mcp/server.h"
#include "mcp/webcookie.h"
#include "session/session.h"

/* Proxies and browsers close a stream on which nothing comes for a minute. */
#define KEEP_ALIVE_MS 15000
/* Of a request: its number for the transport. */
#define REQUEST    1
#define OUTPUTS    "/outputs/"
#define PAGE_STATE "/page/state"
/* Members of the query with which one comes in. */
#define TOKEN "token"
#define CODE  "code"

static const char type_json[] = "application/json", type_stream[] = "text/event-stream";

struct mcp_http {
	struct mcp_server *server;
	struct session_profile profile;
	const struct err *no_provider;
	struct httpwho *who;
	struct httpgate *gate;
	bool tls;
	uint8_t link_key[WEBLINK_KEY];
	char *url; /* what clients reach it by; NULL: as each says in Host */
	struct httpfiles *files;
	struct page *page;
	struct http_server *door;
	uv_timer_t keep_alive, reaper;
	unsigned handles; /* to be closed, the door among them */
	struct list running, finished;
	bool closing;
	void (*done)(void *user);
	void *done_user;
};

/* A request that is being worked on. */
struct running {
	struct mcp_transport transport;
	struct list link;
	struct mcp_http *http;
	struct mcp_conn *conn;
	struct http_exchange *x; /* NULL: its client has gone */
	json_t *id;
	const char *principal;
	bool modern, reads_streams, streaming;
	size_t bytes;      /* of its body */
	unsigned status;   /* of its answer */
	uint64_t since_us; /* CLOCK_MONOTONIC */
};

/* ---- answers ---- */

static void answer_json(struct http_exchange *x, unsigned status, const char *p, size_t n)
{
	http_answer(x, status, type_json, NULL, 0, p, n);
}

/* Takes the error. */
static void answer_error(struct http_exchange *x, unsigned status, struct jsonrpc_error *e)
{
	_cleanup_buf_ struct buf out = BUF_INIT(64 * KIB);
	json_t *message = jsonrpc_error_message(e);
	CHECK(jsonrpc_encode(message, &out) == 0);
	json_decref(message);
	jsonrpc_error_done(e);
	answer_json(x, status, (const char *)out.data, out.len);
}

static void answer_text(struct http_exchange *x, unsigned status, const char *text)
{
	http_answer(x, status, "text/plain; charset=utf-8", NULL, 0, text, strlen(text));
}

/* ---- the transport of one request ---- */

static void begin_stream(struct running *r)
{
	static const struct http_field fields[] = {
		{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};
	if (r->streaming)
		return;
	r->streaming = true;
	http_begin(r->x, 200, type_stream, fields, ARRAY_SIZE(fields), HTTP_UNKNOWN);
}

static void send_event(struct running *r, const char *message, size_t n)
{
	static const char begin[] = "event: message\ndata: ", end[] = "\n\n";
	begin_stream(r);
	_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_MCP_RESULT + 64);
	CHECK(buf_append_str(&b, begin) == 0 && buf_append(&b, message, n) == 0 &&
		buf_append_str(&b, end) == 0);
	http_write(r->x, b.data, b.len);
}

static void reap(uv_timer_t *t);

/* Its connection goes from a later turn: the server may be in the middle of it. */
static void finish(struct running *r)
{
	r->x = NULL;
	list_remove(&r->link);
	list_append(&r->http->finished, &r->link);
	if (!r->http->closing)
		(void)uv_timer_start(&r->http->reaper, reap, 0, 0);
}

static void on_send(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	struct running *r = container_of(t, struct running, transport);
	struct http_exchange *x = r->x;
	if (number != REQUEST) {
		if (x && r->reads_streams)
			send_event(r, message, n);
		return;
	}
	if (x && r->streaming) {
		send_event(r, message, n);
		if (r->x)
			http_end(x);
	} else if (x) {
		answer_json(x, r->status, message, n);
	}
	finish(r);
}

/* Cancelled: there is no answer. A stream without events says so to clients that expect JSON or a
 * stream and nothing else. */
static void on_done(struct mcp_transport *t, uint64_t number)
{
	struct running *r = container_of(t, struct running, transport);
	if (number != REQUEST)
		return;
	if (r->x && r->reads_streams) {
		begin_stream(r);
		http_end(r->x);
	} else if (r->x) {
		http_answer(r->x, 204, NULL, NULL, 0, NULL, 0);
	}
	finish(r);
}

static bool on_congested(const struct mcp_transport *t)
{
	const struct running *r = container_of(t, const struct running, transport);
	return !r->x || !r->reads_streams || http_queued(r->x) > 0;
}

static void on_failed(struct mcp_transport *t, uint64_t number, int code)
{
	if (number == REQUEST)
		container_of(t, struct running, transport)->status = httprules_status(code);
}

static bool on_reaches(const struct mcp_transport *t)
{
	const struct running *r = container_of(t, const struct running, transport);
	return r->x && r->reads_streams;
}

/* ---- requests ---- */

static bool is_principal(void *user, const char *principal)
{
	return httpwho_is_principal(((const struct mcp_http *)user)->who, principal);
}

/* notifications/cancelled of the older era comes as a request of its own: meant is the one with
 * that id of the same principal, where there is one alone. */
static void cancel(struct mcp_http *h, const char *principal, const struct jsonrpc_msg *m)
{
	const json_t *id = json_object_get(m->params, "requestId");
	struct running *found = NULL;
	if (m->kind != JSONRPC_NOTIFICATION || strcmp(m->method, "notifications/cancelled") != 0)
		return;
	list_for_each (r, next, &h->running, struct running, link) {
		if (r->modern || strcmp(r->principal, principal) != 0 || !json_equal(r->id, id))
			continue;
		if (found)
			return;
		found = r;
	}
	if (found)
		mcp_conn_parsed(found->conn, &(struct mcp_message){0}, m);
}

static void on_gone(void *user);
static const struct http_watcher watcher = {on_gone, NULL};

/* One more of so many bytes, beside what a principal has? */
static bool has_room(const struct mcp_http *h, const char *principal, size_t bytes)
{
	size_t n = 0;
	list_for_each (r, next, &h->running, struct running, link) {
		if (strcmp(r->principal, principal) != 0)
			continue;
		n++;
		bytes += r->bytes;
	}
	return n < LIMIT_HTTP_CALLS && (n == 0 || bytes <= LIMIT_HTTP_CALLS_BYTES);
}

static void answer_too_many(struct http_exchange *x, const struct jsonrpc_msg *m)
{
	struct jsonrpc_error e = {.id = json_incref(m->id)};
	jsonrpc_error_set(&e, JSONRPC_INTERNAL,
		"Too many requests at once: %d are worked on for a principal, of %llu MiB "
		"together; try again when one has been answered",
		LIMIT_HTTP_CALLS, LIMIT_HTTP_CALLS_BYTES / MIB);
	answer_error(x, 429, &e);
}

static void run(struct mcp_http *h, struct http_exchange *x, const char *principal,
	const struct jsonrpc_msg *m, bool modern, size_t bytes)
{
	const struct http_head *head = http_head(x);
	struct running *r = xcalloc(1, sizeof(*r));
	r->transport = (struct mcp_transport){
		.send = on_send,
		.congested = on_congested,
		.done = on_done,
		.failed = on_failed,
		.reaches = on_reaches,
	};
	r->bytes = bytes;
	r->status = 200;
	r->http = h;
	r->x = x;
	r->id = json_incref(m->id);
	r->principal = principal;
	r->modern = modern;
	r->since_us = clock_monotonic_us();
	r->reads_streams = httprules_names_type(http_field(head, "accept"), type_stream);
	_cleanup_free_ char *base =
		h->url ? xstrdup(h->url)
		       : xasprintf("http%s://%s", h->tls ? "s" : "", http_field(head, "host"));
	const struct weblink_place links = {h->link_key, base};
	const struct mcp_conn_config config = {
		.principal = principal,
		.profile = &h->profile,
		.no_provider = h->no_provider,
		.links = &links,
	};
	r->conn = mcp_conn_new(h->server, &r->transport, &config);
	http_watch(x, &watcher, r);
	list_append(&h->running, &r->link);
	mcp_conn_parsed(r->conn, &(struct mcp_message){.number = REQUEST}, m);
}

static void on_post(struct mcp_http *h, struct http_exchange *x, const char *principal)
{
	struct jsonrpc_msg m = {0};
	struct jsonrpc_error e = {0};
	struct httprules_verdict v;
	size_t n;
	const char *body = http_body(x, &n);
	if (jsonrpc_parse(body ? body : "", n, &m, &e) < 0) {
		answer_error(x, 400, &e);
		return;
	}
	http_body_done(x);
	httprules_judge(http_head(x), &m, mcp_server_offer(h->server), &v);
	if (v.status == 0 && !has_room(h, principal, n)) {
		answer_too_many(x, &m);
	} else if (v.status == 0) {
		run(h, x, principal, &m, v.modern, n);
	} else if (v.status == 202) {
		if (m.kind == JSONRPC_RESPONSE)
			mcp_server_response(h->server, principal, &m);
		else
			cancel(h, principal, &m);
		http_answer(x, 202, NULL, NULL, 0, NULL, 0);
	} else {
		answer_error(x, v.status, &v.error);
	}
	jsonrpc_msg_done(&m);
}

static bool is_path(const struct http_head *head, const char *path)
{
	size_t n = strlen(path);
	return strncmp(head->target, path, n) == 0 &&
	       (head->target[n] == '\0' || head->target[n] == '?');
}

static void refuse_place(struct http_exchange *x)
{
	struct jsonrpc_error e = {0};
	jsonrpc_error_set(&e, JSONRPC_INVALID_REQUEST,
		"This Host or Origin is not let in; --allow-host and --allow-origin name further "
		"ones");
	answer_error(x, 403, &e);
}

/* Of /mcp and what the page asks: a token, or the page's cookie, which may be an old one. */
static const char *principal_of(const struct mcp_http *h, const struct http_head *head)
{
	const char *bearer = httpwho_bearer(h->who, head);
	if (bearer || http_count(head, "authorization"))
		return bearer;
	return httpwho_from_page(h->who, head);
}

static void on_request(void *user, struct http_exchange *x);

/* Answers where it may not come in. */
static void check_token(struct mcp_http *h, struct http_exchange *x, bool page, bool may_have_link)
{
	const struct http_head *head = http_head(x);
	struct peers *peers = http_server_peers(h->door);
	if (httpgate_waits(h->gate, peers, x) ||
		(page ? principal_of(h, head) : httpwho_bearer(h->who, head)))
		return;
	if (http_count(head, "authorization"))
		httpgate_failed(h->gate, peers, x);
	if (!may_have_link)
		httpgate_refuse(x);
}

/* Whoever tries tokens or codes waits, as at /mcp. */
static void check_query(struct mcp_http *h, struct http_exchange *x)
{
	_cleanup_free_ char *token = webcookie_query(http_head(x)->target, TOKEN);
	_cleanup_free_ char *code = webcookie_query(http_head(x)->target, CODE);
	if (token || code)
		(void)httpgate_waits(h->gate, http_server_peers(h->door), x);
}

/* A body is for POST /mcp alone, which a token is needed for: nobody else's is held. */
static void refuse_body(struct mcp_http *h, struct http_exchange *x)
{
	enum http_verb verb = http_head(x)->verb;
	if (verb == HTTP_VERB_GET || verb == HTTP_VERB_HEAD)
		answer_text(x, 413, "Content Too Large: what is asked for here takes no body\n");
	else
		on_request(h, x); /* says at once what is wrong with it */
}

/* What can be said without the body. */
static unsigned on_head(void *user, struct http_exchange *x)
{
	struct mcp_http *h = user;
	const struct http_head *head = http_head(x);
	if (!httpgate_from_here(h->gate, x)) {
		refuse_place(x);
		return 0;
	}
	bool outputs = strncmp(head->target, OUTPUTS, sizeof(OUTPUTS) - 1) == 0;
	bool page = is_path(head, PAGE_STATE) ||
		    (is_path(head, "/mcp") && head->verb != HTTP_VERB_OPTIONS);
	if (outputs || page || is_path(head, "/metrics"))
		check_token(h, x, page, outputs);
	else if (is_path(head, "/"))
		check_query(h, x);
	if ((head->chunked || head->length) && !http_begun(x) &&
		!(head->verb == HTTP_VERB_POST && is_path(head, "/mcp")))
		refuse_body(h, x);
	return 0;
}

static void on_mcp(struct mcp_http *h, struct http_exchange *x)
{
	static const struct http_field allow[] = {{"allow", "POST, OPTIONS"}};
	const struct http_head *head = http_head(x);
	if (head->verb == HTTP_VERB_OPTIONS)
		httpgate_preflight(x);
	else if (head->verb != HTTP_VERB_POST)
		http_answer(x, 405, NULL, allow, 1, NULL, 0);
	else if (!httprules_names_type(http_field(head, "content-type"), type_json))
		answer_text(x, 415, "Unsupported Media Type: send application/json\n");
	else
		on_post(h, x, principal_of(h, head));
}

static void on_metrics(struct mcp_http *h, struct http_exchange *x)
{
	_cleanup_buf_ struct buf out = BUF_INIT(METRICS_MAX);
	metrics_print(h->server, h->door, &out);
	http_answer(x, 200, METRICS_TYPE, NULL, 0, out.data, out.len);
}

static void on_outputs(struct mcp_http *h, struct http_exchange *x)
{
	static const struct http_field allow[] = {{"allow", "GET, HEAD"}};
	const struct http_head *head = http_head(x);
	if (head->verb != HTTP_VERB_GET && head->verb != HTTP_VERB_HEAD)
		http_answer(x, 405, NULL, allow, 1, NULL, 0);
	else if (!httpfiles_answer(h->files, x, httpwho_bearer(h->who, head)))
		httpgate_failed(h->gate, http_server_peers(h->door), x);
}

/* A token or code in the query is for the page alone. */
static void on_page(struct mcp_http *h, struct http_exchange *x)
{
	const struct http_head *head = http_head(x);
	_cleanup_free_ char *token = webcookie_query(head->target, TOKEN);
	_cleanup_free_ char *code = webcookie_query(head->target, CODE);
	if (!(token || code) || !httpwho_has_tokens(h->who)) {
		page_answer(h->page, x, httpwho_page(h->who, head));
		return;
	}
	const char *principal = token ? httpwho_token(h->who, token) : httpwho_code(h->who, code);
	if (principal) {
		_cleanup_free_ char *cookie = httpwho_cookie(h->who, principal);
		page_enter(h->page, x, principal, cookie);
	} else {
		httpgate_failed(h->gate, http_server_peers(h->door), x);
		page_refuse(x);
	}
}

static void on_request(void *user, struct http_exchange *x)
{
	struct mcp_http *h = user;
	const struct http_head *head = http_head(x);
	bool reads = head->verb == HTTP_VERB_GET || head->verb == HTTP_VERB_HEAD;
	if (is_path(head, "/mcp"))
		on_mcp(h, x);
	else if (strncmp(head->target, OUTPUTS, sizeof(OUTPUTS) - 1) == 0)
		on_outputs(h, x);
	else if (is_path(head, "/metrics") && reads)
		on_metrics(h, x);
	else if (is_path(head, "/healthz") && reads)
		answer_text(x, 200, "ok\n");
	else if (is_path(head, "/") && reads)
		on_page(h, x);
	else if (is_path(head, "/sandbox") && reads)
		page_sandbox(x);
	else if (is_path(head, PAGE_STATE) && reads)
		page_state(h->page, x, principal_of(h, head));
	else
		answer_text(x, 404, "Not Found: MCP is at /mcp, and a page for browsers at /\n");
}

static void on_gone(void *user)
{
	struct running *r = user;
	r->x = NULL;
	if (r->modern)
		finish(r);
	/* else it runs on, and is answered to nobody */
}

/* ---- life ---- */

static void running_free(struct running *r)
{
	list_remove(&r->link);
	mcp_conn_close(r->conn);
	json_decref(r->id);
	free(r);
}

static void reap(uv_timer_t *t)
{
	struct mcp_http *h = t->data;
	list_for_each (r, next, &h->finished, struct running, link)
		running_free(r);
}

static void on_keep_alive(uv_timer_t *t)
{
	struct mcp_http *h = t->data;
	list_for_each (r, next, &h->running, struct running, link) {
		bool young = clock_monotonic_us() - r->since_us < KEEP_ALIVE_MS * USEC_PER_MSEC;
		if (!r->x || !r->reads_streams || http_queued(r->x) || (young && !r->streaming))
			continue;
		begin_stream(r);
		if (r->x)
			http_write(r->x, ":\n\n", 3);
	}
}

static void mcp_http_free(struct mcp_http *h)
{
	httpwho_free(h->who);
	httpgate_free(h->gate);
	httpfiles_free(h->files);
	explicit_bzero(h->link_key, sizeof(h->link_key));
	free(h->url);
	session_profile_done(&h->profile);
	free(h);
}

static void one_closed(struct mcp_http *h)
{
	if (--h->handles > 0)
		return;
	void (*done)(void *user) = h->done;
	void *user = h->done_user;
	mcp_http_free(h);
	if (done)
		done(user);
}

static void on_timer_closed(uv_handle_t *timer)
{
	one_closed(timer->data);
}

static void on_part_closed(void *user)
{
	one_closed(user);
}

int mcp_http_new(const struct mcp_http_config *config, struct mcp_http **ret, struct err *err)
{
	struct mcp_http *h = xcalloc(1, sizeof(*h));
	const struct http_server_config door = {.loop = config->loop,
		.user = h,
		.head = on_head,
		.request = on_request,
		.tls = config->tls};
	const struct httpfiles_config files = {.loop = config->loop,
		.server = config->server,
		.key = h->link_key,
		.is_principal = is_principal,
		.user = h};
	const struct httpwho_config who = {.tokens = config->tokens,
		.n_tokens = config->n_tokens,
		.anyone = config->anyone,
		.key = h->link_key,
		.url = config->url,
		.tls = config->tls};
	h->server = config->server;
	h->no_provider = config->no_provider;
	session_profile_copy(config->profile, &h->profile);
	h->gate = httpgate_new(&config->allowed, config->proxies, config->n_proxies);
	list_init(&h->running);
	list_init(&h->finished);
	if (config->link_key)
		memcpy(h->link_key, config->link_key, sizeof(h->link_key));
	else
		id_random(h->link_key, sizeof(h->link_key));
	h->url = config->url ? xstrdup(config->url) : NULL;
	h->who = httpwho_new(&who);
	h->files = httpfiles_new(&files);
	h->tls = config->tls;
	int r = http_server_new(&door, config->host, config->port, &h->door, err);
	if (r < 0) {
		mcp_http_free(h);
		return r;
	}
	httpwho_set_port(h->who, http_server_port(h->door));
	h->page = page_new(config->loop, h->server);
	(void)uv_timer_init(config->loop, &h->keep_alive);
	(void)uv_timer_init(config->loop, &h->reaper);
	h->keep_alive.data = h;
	h->reaper.data = h;
	h->handles = 4;
	(void)uv_timer_start(&h->keep_alive, on_keep_alive, KEEP_ALIVE_MS, KEEP_ALIVE_MS);
	uv_unref((uv_handle_t *)&h->keep_alive);
	*ret = h;
	return 0;
}

void mcp_http_set_tls(struct mcp_http *h, struct tls_context *tls)
{
	http_server_set_tls(h->door, tls);
}

uint16_t mcp_http_port(const struct mcp_http *h)
{
	return http_server_port(h->door);
}

void mcp_http_close(struct mcp_http *h, void (*done)(void *user), void *user)
{
	h->closing = true;
	h->done = done;
	h->done_user = user;
	http_server_close(h->door, on_part_closed, h);
	page_close(h->page, on_part_closed, h);
	list_for_each (r, next, &h->running, struct running, link)
		running_free(r);
	list_for_each (r, next, &h->finished, struct running, link)
		running_free(r);
	uv_close((uv_handle_t *)&h->keep_alive, on_timer_closed);
	uv_close((uv_handle_t *)&h->reaper, on_timer_closed);
}
