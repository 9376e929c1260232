/* session_audit.c: what the audit log is told of a session. */
#include "base/log.h"
#include "secret/vault.h"
#include "session/session_internal.h"

struct audit_event session_audit_about(
	const struct session *s, const char *event, const char *detail)
{
	struct vault *vault = s->all->config.vault;
	return (struct audit_event){
		.event = event,
		.principal = s->principal,
		.session = s->handle,
		.provider = s->profile.provider->name,
		.isolation_level = s->caps.isolation_level,
		.sandbox_id = s->sandbox_id,
		.detail = detail,
		.redactor = vault ? vault_redactor(vault, s->principal) : NULL,
	};
}

int session_audit_write(const struct session *s, const struct audit_event *e, struct err *err)
{
	struct audit *a = s->all->config.audit;
	return s->once ? audit_event_once(a, e, err) : audit_event(a, e, err);
}

void session_audit_after(const struct session *s, const char *event, const char *detail)
{
	struct err err;
	if (!s->all)
		return;
	struct audit_event e = session_audit_about(s, event, detail);
	if (session_audit_write(s, &e, &err) < 0)
		log_warning("%s of %s is not in the audit log: %s", event, s->sandbox_id, err.text);
}

int session_audit_open(const struct session *s, struct err *err)
{
	const struct policy_limits *l = &s->limits;
	const struct capabilities *k = &s->caps;
	const struct audit_pair may_have[] = {
		{"memoryBytes", NULL, l->memory},
		{"workspaceBytes", NULL, l->workspace},
		{"tmpBytes", NULL, l->tmp},
		{"shmBytes", NULL, l->shm},
		{"cpus", NULL, l->cpus},
		{"processes", NULL, l->pids},
	};
	const struct audit_pair held_by[] = {
		{"memory", k->memory, 0},
		{"pids", k->pids, 0},
		{"cpu", k->cpu, 0},
		{"disk", k->disk, 0},
		{"inodes", k->inodes, 0},
		{"killTree", k->kill_tree, 0},
		{"egress", k->egress, 0},
		{"agentApart", k->agent_apart, 0},
		{"seccomp", k->seccomp, 0},
		{"readOnlyRoot", k->read_only_root, 0},
		{"hostUid", k->host_uid, 0},
	};
	struct audit_event e =
		session_audit_about(s, "session.open", s->implicit ? "implicit" : "asked for");
	e.limits = may_have;
	e.n_limits = ARRAY_SIZE(may_have);
	e.enforced = held_by;
	e.n_enforced = ARRAY_SIZE(held_by);
	return session_audit_write(s, &e, err);
}
