/* listen.c: see listen.h. */
#include "mcp/listen.h"

#include "base/limits.h"

struct listen {
	struct list link; /* of conn->listens */
	json_t *id;
	uint64_t number;
	bool wants[MCP_LISTS];
};

static const struct {
	const char *filter, *method;
} lists[MCP_LISTS] = {
	[MCP_TOOLS] = {"toolsListChanged", "notifications/tools/list_changed"},
	[MCP_PROMPTS] = {"promptsListChanged", "notifications/prompts/list_changed"},
	[MCP_RESOURCES] = {"resourcesListChanged", "notifications/resources/list_changed"},
};

static struct listen *find(struct mcp_conn *c, const json_t *id)
{
	list_for_each (l, next, &c->listens, struct listen, link)
		if (json_equal(l->id, id))
			return l;
	return NULL;
}

static void tell(struct mcp_conn *c, const struct listen *l, const char *method, json_t *params)
{
	json_object_set_new(params, "_meta",
		json_pack("{s:O}", "io.modelcontextprotocol/subscriptionId", l->id));
	conn_send(c, 0, jsonrpc_notification(method, params));
}

static void acknowledge(struct mcp_conn *c, const struct listen *l)
{
	json_t *honoured = json_object();
	for (size_t i = 0; i < MCP_LISTS; i++)
		if (l->wants[i])
			json_object_set_new(honoured, lists[i].filter, json_true());
	tell(c, l, "notifications/subscriptions/acknowledged",
		json_pack("{s:o}", "notifications", honoured));
}

static void refuse(struct mcp_conn *c, uint64_t number, json_t *id, int code, const char *why)
{
	struct jsonrpc_error e = {.id = json_incref(id)};
	jsonrpc_error_set(&e, code, "%s", why);
	conn_error(c, number, &e);
}

void listen_start(struct mcp_conn *c, const struct mcp_message *message,
	const struct jsonrpc_msg *m, const struct mcp_envelope *envelope)
{
	const json_t *filter = json_object_get(m->params, "notifications");
	const struct mcp_transport *t = c->transport;
	(void)envelope;
	if (!json_is_object(filter)) {
		refuse(c, message->number, m->id, JSONRPC_INVALID_PARAMS,
			"params.notifications is missing or no object");
	} else if (find(c, m->id)) {
		refuse(c, message->number, m->id, JSONRPC_INVALID_REQUEST,
			"A request with this id is still being worked on");
	} else if (c->n_listens == LIMIT_MCP_LISTENS) {
		refuse(c, message->number, m->id, JSONRPC_INTERNAL,
			"Too many of these requests at once on this connection");
	} else if (t->reaches && !t->reaches(t)) {
		refuse(c, message->number, m->id, JSONRPC_INVALID_REQUEST,
			"This needs a client that accepts text/event-stream");
	} else {
		struct listen *l = xcalloc(1, sizeof(*l));
		l->id = json_incref(m->id);
		l->number = message->number;
		for (size_t i = 0; i < MCP_LISTS; i++)
			l->wants[i] = json_is_true(json_object_get(filter, lists[i].filter));
		list_append(&c->listens, &l->link);
		c->n_listens++;
		acknowledge(c, l);
	}
}

static void listen_free(struct mcp_conn *c, struct listen *l)
{
	list_remove(&l->link);
	c->n_listens--;
	json_decref(l->id);
	free(l);
}

bool listen_cancel(struct mcp_conn *c, const json_t *id, uint64_t number)
{
	struct listen *l = find(c, id);
	if (!l)
		return false;
	uint64_t own = l->number;
	listen_free(c, l);
	conn_done(c, own);
	conn_done(c, number);
	return true;
}

void listen_close_all(struct mcp_conn *c)
{
	list_for_each (l, next, &c->listens, struct listen, link)
		listen_free(c, l);
}

void listen_changed(struct mcp_server *s, enum mcp_list list)
{
	list_for_each (c, next_conn, &s->conns, struct mcp_conn, link)
		list_for_each (l, next, &c->listens, struct listen, link)
			if (l->wants[list])
				tell(c, l, lists[list].method, json_object());
}
