/* fronts.h: the broker's end of its fronts: who may connect, what each brings with it, and the
 * transport of its messages (SPEC.md, "Front protocol"). What a front sends is hostile input, but a
 * front is always of the broker's own user: the kernel says so (SO_PEERCRED). */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"

struct fronts;
struct mcp_server;
struct policy;
struct sessions;
struct vault;

/* Borrowed pointers live as long as the fronts. */
struct fronts_config {
	uv_loop_t *loop;
	struct mcp_server *server;
	struct sessions *sessions;
	struct policy *policy;
	struct vault *vault; /* NULL: there are no secrets */
	const char *outputs; /* where presented files go */
	const char *state;   /* the state directory, for messages */
	bool stays;          /* it serves others than fronts, too, and goes for none of them */
	/* One has come or gone. May be NULL. */
	void (*changed)(void *user);
	/* The broker shall go because nobody uses it and somebody wants another. From the loop,
	 * inside a front's callback: only to be noted. */
	void (*unused)(void *user);
	/* A newer build wants to take over: the broker sends its lock to this socket, by
	 * fronts_pass_lock(), and ends. Does not return. */
	void (*hand_over)(void *user, int fd);
	void *user;
};

/* Owns the listening socket. */
struct fronts *fronts_new(const struct fronts_config *c, int listen_fd);
/* Fronts that carry a host's messages, and commands. Control connections count while sessions are
 * closed for them. */
unsigned fronts_count(const struct fronts *f);
/* The policy has changed: all are asked for secrets once more. */
void fronts_secrets_reload(struct fronts *f);
/* No more connections; whoever is connected is told to connect anew. */
void fronts_leave(struct fronts *f);
/* CONTROL_ANSWER to "leave", with the lock's descriptor. 0 or a negative errno. */
int fronts_pass_lock(int fd, int lock_fd) MUST_CHECK;
/* Closes every connection as a front that has gone is. Frees it from the loop's next turn. */
void fronts_close(struct fronts *f);
