/* parts.h: what a broker is made of, whether it serves fronts or one host alone: places, audit log,
 * store, presented files, sessions, the MCP server. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "cli/settings.h"

struct parts {
	const struct settings *settings;
	bool solo; /* a store in memory and a runtime directory of its own: all ends with it */
	uv_loop_t loop;
	char *state, *outputs_dir, *runtime, *agent, *kernels;
	int runtime_lock;
	struct policy *policy;
	struct policy_watch *watch;
	struct audit *audit;
	struct store *store;
	struct vault *vault; /* secrets */
	struct outputs *outputs;
	struct err no_outputs;
	struct sessions *sessions;
	struct mcp_server *server;
	/* Other rules hold: whoever gives secrets is to be asked again. NULL: nobody yet. */
	void (*policy_changed)(void *user);
	void *policy_user;
	uv_timer_t deadline; /* of the end */
	void (*ended)(void *user);
	void *ended_user;
};

/* settings are borrowed, and checked. Whatever it returns, parts_close() is needed. */
int parts_open(
	struct parts *p, const struct settings *settings, bool solo, struct err *err) MUST_CHECK;
/* Reads the policy file again. What is wrong with it is logged and audited, and the rules stay as
 * they were. */
void parts_reload_policy(struct parts *p);
/* The end has begun: what is not gone some seconds from now is left to the next start, and the
 * process exits. */
void parts_must_end(struct parts *p);
/* Ends every session, after the connections, and then the server. done (may be NULL) once nothing
 * of them is left. */
void parts_end(struct parts *p, void (*done)(void *user), void *user);
/* After a parts_open() that went well, where something else did not: ends what it began. Runs the
 * loop. */
void parts_abandon(struct parts *p);
/* The rest. */
void parts_close(struct parts *p);
