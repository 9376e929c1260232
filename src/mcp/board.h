/* board.h: what data_dashboard and dashboard_event share: finding a dashboard, putting a cell of it
 * on record and sending it, and the end of its waiting. */
#pragma once

#include "base/limits.h"
#include "dashboard/dashboard.h"
#include "mcp/call.h"

/* What a tool does with an answer; exported: the members by which a person gets the file that was
 * asked for (present.h), NULL: none was. */
typedef void (*board_fn)(
	struct call *c, struct dashboard *d, const struct dashboard_answer *a, json_t *exported);

/* Code of a dashboard. LIMIT_CODE holds the whole request: this leaves room for JSON's escapes. */
#define BOARD_CODE_MAX (120 * KIB)

struct board_call {
	struct dashboard *dashboard;
	struct dashboard_wait *wait;
	struct present *presenting; /* the file that was asked for; NULL: none, or not yet */
	json_t *page;               /* that came with it */
	uint64_t seq;
	board_fn answered;
};

/* The dashboard that the argument names, or whose code and session the event has; its session
 * becomes the call's, where it is there and the policy permits it. */
int board_find(struct call *c, struct dashboard **ret, struct err *err) MUST_CHECK;
/* Sends a cell; answered is called with what it says, or that it still runs; an error ends the
 * call. request is stolen. */
void board_send(struct call *c, struct dashboard *d, enum dashboard_kind kind, json_t *request,
	uint64_t seq, uint64_t wait_us, board_fn answered);
/* Deals with an event as the App or the model sends it. */
void board_event(struct call *c, struct dashboard *d, const json_t *event, uint64_t wait_us,
	board_fn answered);
/* For struct tool: nothing is waited for any more; the cell goes on. */
bool board_cancel(struct call *c);

/* A picture, as a block of the answer. */
void board_add_image(struct call *c, const struct exec_mime *m);
/* Why a cell has no answer, in words; NULL: it has one. Owned by the caller. */
char *board_trouble(const struct dashboard_answer *a);
/* Two hooks of struct dashboards_config; user is the server. */
json_t *board_mask(void *user, struct session *s, json_t *v, struct err *ret);
void board_ended(void *user, struct session *s, const struct dashboard_ask *ask,
	const struct exec_status *status, const struct err *err);
