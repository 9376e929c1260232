/* paths.h: where scb keeps and finds things on the host. All strings are the caller's to free. */
#pragma once

#include "base/err.h"

/* $XDG_STATE_HOME/scb, else ~/.local/state/scb; given (may be NULL) instead. Made 0700. */
int paths_state(const char *given, char **ret, struct err *err) MUST_CHECK;
/* ~/scb-outputs, or given. Not made. */
int paths_outputs(const char *given, char **ret, struct err *err) MUST_CHECK;
/* path, from the current directory where it is no absolute one; links in it stay. */
int paths_absolute(const char *path, char **ret, struct err *err) MUST_CHECK;
/* The user's own policy file: $XDG_CONFIG_HOME/scb/policy.json, else ~/.config/scb/policy.json,
 * whether there is one or not. NULL: there is no place for it. */
char *paths_policy(void);
/* The key of the audit log's head: $SCB_AUDIT_KEY, else ~/.config/scb/audit.key: not where the log
 * is. Not made. */
int paths_audit_key(char **ret, struct err *err) MUST_CHECK;
/* Of the machine's last start. */
const char *paths_boot_id(void);
/* A new private directory for this process's sockets and records, under $XDG_RUNTIME_DIR/scb, else
 * /run/scb for root, else /tmp/scb-UID: made 0700, owner and mode checked. *ret_lock is a
 * descriptor that marks it as in use until the process ends. */
int paths_runtime(char **ret, int *ret_lock, struct err *err) MUST_CHECK;
/* The same for the broker of a state directory: the one that its last broker had, since sandboxes
 * that live on are found there; a new one after a boot, and where it is gone. The file "runtime" in
 * the state directory names it. To be called under the state directory's lock. */
int paths_runtime_of_state(
	const char *state, char **ret, int *ret_lock, struct err *err) MUST_CHECK;
/* Replaces a small file of the state directory, mode 0600, in one step. */
int paths_write(
	const char *state, const char *name, const void *p, size_t n, struct err *err) MUST_CHECK;
/* Calls fn for each private directory whose process is gone, and removes it where nothing is left
 * in it then. */
void paths_sweep(const char *own, void (*fn)(const char *dir));
void paths_runtime_remove(const char *dir);
