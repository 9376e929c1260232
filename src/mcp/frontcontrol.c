/* frontcontrol.c: what a control connection may ask: which sessions there are, to close them, the
 * broker's own state, and to hand over. See SPEC.md, "Front protocol". */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "mcp/build.h"
#include "mcp/front_internal.h"
#include "mcp/jsonrpc.h"
#include "session/session.h"

/* sessions.close on its way: ends when every one of them is gone. */
struct control {
	struct front *front; /* NULL: it has gone */
	unsigned asked, waiting;
	json_t *leftovers;
};

/* A broker whose last sandbox is being removed, which may take an engine long, is not unused while
 * somebody waits to hear of it. */
static void wait_for(struct control *c, struct front *f)
{
	c->front = f;
	f->control = c;
	f->all->n_waiting++;
}

void front_control_forget(struct control *c)
{
	struct fronts *a = c->front->all;
	c->front->control = NULL;
	c->front = NULL;
	a->n_waiting--;
	if (a->config.changed)
		a->config.changed(a->config.user);
}

static void answer(struct front *f, json_t *o)
{
	front_send_json(f, FRONT_CONTROL_ANSWER, o);
	json_decref(o);
}

static void answer_error(struct front *f, enum err_code code, const char *text)
{
	answer(f, json_pack("{s:s,s:s}", "error", err_info(code)->name, "text", text));
}

/* ---- status ---- */

static int count_session(void *user, struct session *s)
{
	(void)s;
	++*(json_int_t *)user;
	return 0;
}

static void do_status(struct front *f)
{
	json_int_t n = 0;
	(void)sessions_each(f->all->config.sessions, NULL, count_session, &n);
	answer(f, json_pack("{s:s,s:i,s:i,s:I}", "build", build.version, "pid", (int)getpid(),
			  "fronts", (int)f->all->n_live, "sessions", n));
}

/* ---- sessions.list ---- */

static int add_session(void *user, struct session *s)
{
	char created[CLOCK_RFC3339_SIZE], expires[CLOCK_RFC3339_SIZE];
	clock_rfc3339(session_created_us(s), created);
	clock_rfc3339(session_expires_us(s), expires);
	json_array_append_new(
		user, json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:b}", "session", session_handle(s),
			      "principal", session_principal(s), "provider",
			      session_provider(s)->name, "sandbox", session_sandbox_id(s),
			      "created", created, "expires", expires, "lost", session_lost(s)));
	return 0;
}

static void do_list(struct front *f, const char *principal)
{
	json_t *list = json_array();
	(void)sessions_each(f->all->config.sessions, principal, add_session, list);
	answer(f, json_pack("{s:o}", "sessions", list));
}

/* ---- sessions.close ---- */

static void closing_done(struct control *c)
{
	if (c->front) {
		answer(c->front,
			json_pack("{s:i,s:O}", "closed", (int)c->asked, "leftovers", c->leftovers));
		front_control_forget(c);
	}
	json_decref(c->leftovers);
	free(c);
}

static void on_session_gone(void *user, const char *leftovers)
{
	struct control *c = user;
	if (leftovers)
		json_array_append_new(c->leftovers, jsonrpc_text(leftovers));
	if (--c->waiting == 0)
		closing_done(c);
}

struct closing {
	struct control *control;
	const char *handle; /* NULL: all */
};

static int close_one(void *user, struct session *s)
{
	struct closing *c = user;
	if (c->handle && strcmp(session_handle(s), c->handle) != 0)
		return 0;
	c->control->asked++;
	c->control->waiting++;
	session_close(s, "by scb sessions close", on_session_gone, c->control);
	return 0;
}

static void do_close(struct front *f, const char *handle, const char *principal)
{
	struct control *c = xcalloc(1, sizeof(*c));
	c->leftovers = json_array();
	c->waiting = 1; /* this function's own */
	wait_for(c, f);
	struct closing closing = {c, handle};
	(void)sessions_each(f->all->config.sessions, principal, close_one, &closing);
	if (handle && !c->asked) {
		front_control_forget(c);
		json_decref(c->leftovers);
		free(c);
		answer_error(f, ERR_NO_SUCH_SESSION,
			"no such session: `scb sessions list` tells which there are");
		return;
	}
	on_session_gone(c, NULL);
}

/* ---- leave ---- */

/* Only a newer build takes over: two of one version must not drive each other out. One that serves
 * HTTP stays: who started it decides. For a newer build, or (for_http) for an scb that serves HTTP
 * as well. */
static void do_leave(struct front *f, const char *version, bool for_http)
{
	if (f->all->config.stays)
		answer_error(f, ERR_CONFLICT, "the broker serves HTTP: end it by hand");
	else if (!for_http && (!version || front_build_compare(version, build.version) <= 0))
		answer_error(f, ERR_CONFLICT, "the broker is not older");
	else
		f->all->config.hand_over(f->all->config.user, f->fd);
}

int fronts_pass_lock(int fd, int lock_fd)
{
	static const char text[] = "{\"lock\":true}";
	uint8_t head[FRONT_HEAD];
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec parts[] = {{head, sizeof(head)}, {(void *)text, sizeof(text) - 1}};
	struct msghdr m = {.msg_iov = parts,
		.msg_iovlen = ARRAY_SIZE(parts),
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	frontwire_head(FRONT_CONTROL_ANSWER, sizeof(text) - 1, head);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &lock_fd, sizeof(int));
	return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* ---- dispatch ---- */

void front_control(struct front *f, const char *p, size_t n)
{
	json_t *o = jsonrpc_too_deep(p, n, LIMIT_JSON_DEPTH)
			    ? NULL
			    : json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
	const char *op = json_string_value(json_object_get(o, "op"));
	const char *handle = json_string_value(json_object_get(o, "session"));
	const char *principal = json_string_value(json_object_get(o, "principal"));
	bool all = json_is_true(json_object_get(o, "all"));
	if (op && strcmp(op, "leave") == 0)
		do_leave(f, json_string_value(json_object_get(o, "build")),
			json_is_true(json_object_get(o, "http")));
	else if (!op || !f->all->config.sessions)
		answer_error(f, ERR_PROTOCOL, "no such operation");
	else if (strcmp(op, "status") == 0)
		do_status(f);
	else if (strcmp(op, "sessions.list") == 0)
		do_list(f, principal);
	else if (strcmp(op, "sessions.close") == 0 && (handle || all))
		do_close(f, all ? NULL : handle, principal);
	else
		answer_error(f, ERR_PROTOCOL, "no such operation");
	json_decref(o);
}
