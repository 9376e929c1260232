/* server.c: see server.h. */
#include "http/server.h"

#include <string.h>
#include <sys/resource.h>

#include "base/limits.h"
#include "base/log.h"
#include "http/conn.h"

#define BACKLOG 512

void http_server_handle_closed(struct http_server *s)
{
	if (--s->n_handles > 0)
		return;
	void (*done)(void *user) = s->done;
	void *user = s->done_user;
	tls_context_free(s->tls);
	peers_free(s->peers);
	free(s);
	if (done)
		done(user);
}

static void on_listener_closed(uv_handle_t *h)
{
	http_server_handle_closed(h->data);
}

static void on_connection(uv_stream_t *listener, int status)
{
	if (status < 0)
		log_warning("a connection could not be taken: %s", uv_strerror(status));
	else
		http_conn_accept(listener->data);
}

static int address_of(const char *host, uint16_t port, struct sockaddr_storage *ret)
{
	int r = uv_ip4_addr(host, port, (struct sockaddr_in *)ret);
	return r < 0 ? uv_ip6_addr(host, port, (struct sockaddr_in6 *)ret) : r;
}

/* Whoever connects, token or not, must not take what sandboxes and files need. */
static size_t connections_max(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == RLIM_INFINITY)
		return LIMIT_HTTP_CONNECTIONS;
	return (size_t)MIN(r.rlim_cur - MIN(r.rlim_cur / 2, (rlim_t)LIMIT_HTTP_OTHERS),
		(rlim_t)LIMIT_HTTP_CONNECTIONS);
}

int http_server_new(const struct http_server_config *config, const char *host, uint16_t port,
	struct http_server **ret, struct err *err)
{
	struct sockaddr_storage a = {0};
	if (address_of(host, port, &a) < 0) {
		tls_context_free(config->tls);
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"\"%.60s\" is no numeric IPv4 or IPv6 address", host);
	}
	struct http_server *s = xcalloc(1, sizeof(*s));
	s->config = *config;
	s->tls = config->tls;
	s->peers = peers_new();
	s->max_conns = connections_max();
	list_init(&s->conns);
	(void)uv_tcp_init(config->loop, &s->listener);
	s->listener.data = s;
	s->n_handles = 1;
	int r = uv_tcp_bind(&s->listener, (struct sockaddr *)&a, 0);
	if (r == 0)
		r = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
	if (r < 0) {
		http_server_close(s, NULL, NULL);
		return err_set(err, ERR_IO, -r, "cannot listen on %.60s port %u: %s", host, port,
			uv_strerror(r));
	}
	*ret = s;
	return 0;
}

uint16_t http_server_port(const struct http_server *s)
{
	struct sockaddr_storage a;
	int size = sizeof(a);
	if (uv_tcp_getsockname(&s->listener, (struct sockaddr *)&a, &size) < 0)
		return 0;
	return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
					     : ((struct sockaddr_in *)&a)->sin_port);
}

void http_server_set_tls(struct http_server *s, struct tls_context *tls)
{
	CHECK(s->tls);
	tls_context_free(s->tls);
	s->tls = tls;
}

struct peers *http_server_peers(struct http_server *s)
{
	return s->peers;
}

const struct http_stats *http_server_stats(const struct http_server *s)
{
	return &s->stats;
}

size_t http_server_connections(const struct http_server *s)
{
	return s->n_conns;
}

void http_server_close(struct http_server *s, void (*done)(void *user), void *user)
{
	CHECK(!s->closing);
	s->closing = true;
	s->done = done;
	s->done_user = user;
	while (!list_empty(&s->conns))
		http_conn_close(s->conns.next);
	uv_close((uv_handle_t *)&s->listener, on_listener_closed);
}
