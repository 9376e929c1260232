/* conn.h: one connection of a server (server.h); between conn.c and server.c alone. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "http/server.h"

struct http_server {
	struct http_server_config config;
	uv_tcp_t listener;
	struct list conns;
	size_t n_conns, n_handles;
	bool closing;
	void (*done)(void *user);
	void *done_user;
};

/* Takes a connection that waits at the listener. */
void http_conn_accept(struct http_server *s);
/* Closes it: gone() for an open exchange. */
void http_conn_close(struct list *node);
/* A handle of the server's has been closed. */
void http_server_handle_closed(struct http_server *s);
