/* explain.c: see explain.h. One table for probe, create and doctor. */
#include "provider/explain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"

struct explanation {
	const char *printed; /* a part of what was printed */
	const char *exists;  /* and this file exists with "1" (or "0") in it; NULL: always */
	char value;
	const char *meaning;
};

#define APPARMOR "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define CLONE    "/proc/sys/kernel/unprivileged_userns_clone"

/* First match wins. bubblewrap says the same few things for many causes; the files tell them apart.
 */
static const struct explanation table[] = {
	{"exec /usr/bin/bwrap: ENOENT", NULL, 0,
		"bubblewrap is not installed: sudo apt install bubblewrap"},
	{"bwrap: ENOENT", NULL, 0, "bubblewrap is not installed: sudo apt install bubblewrap"},
	{"scb-agent: No such file", NULL, 0,
		"scb-agent is missing beside scb: build it with `make`, or install scb again"},
	{"No permissions to create new namespace", CLONE, '0',
		"this kernel lets only root make user namespaces: sudo sysctl -w "
		"kernel.unprivileged_userns_clone=1 (and the same line in /etc/sysctl.d to keep "
		"it)"},
	{"setting up uid map: Permission denied", APPARMOR, '1',
		"Ubuntu's AppArmor keeps bubblewrap from making user namespaces: sudo sysctl -w "
		"kernel.apparmor_restrict_unprivileged_userns=0 (and the same line in "
		"/etc/sysctl.d "
		"to keep it)"},
	{"RTM_NEWADDR: Operation not permitted", APPARMOR, '1',
		"Ubuntu's AppArmor keeps bubblewrap from making user namespaces: sudo sysctl -w "
		"kernel.apparmor_restrict_unprivileged_userns=0 (and the same line in "
		"/etc/sysctl.d "
		"to keep it)"},
	{"No permissions to create new namespace", NULL, 0,
		"user namespaces cannot be made here: they are switched off (sysctl "
		"user.max_user_namespaces must be above 0), or scb runs inside a container that "
		"forbids them (run scb on the host, or the container with --security-opt "
		"seccomp=unconfined)"},
	{"kernel does not support user namespaces", NULL, 0,
		"this kernel has no user namespaces, or they are switched off: sudo sysctl -w "
		"user.max_user_namespaces=15000"},
	{"namespaces exceeded", NULL, 0,
		"no more namespaces may be made: sudo sysctl -w user.max_user_namespaces=15000 "
		"(and "
		"the same line in /etc/sysctl.d to keep it)"},
	{"Failed to make / slave", NULL, 0,
		"scb seems to run inside a container that forbids mounts; run scb on the host, or "
		"the container with --security-opt seccomp=unconfined --security-opt "
		"apparmor=unconfined"},
	{"Can't mount proc", NULL, 0,
		"/proc cannot be mounted: scb seems to run inside a container that hides parts of "
		"/proc; run scb on the host, or the container with --security-opt "
		"systempaths=unconfined (Docker) or unmask=ALL (Podman)"},
	{"Unknown option", NULL, 0,
		"this bubblewrap is too old: 0.5 or newer is needed (bwrap --version)"},
	{"scb launch: join cgroup", NULL, 0,
		"the sandbox's control group vanished or refuses processes: is another program "
		"cleaning up /sys/fs/cgroup?"},
	{"scb launch: become", NULL, 0,
		"scb runs as root without the right to change its uid (CAP_SETUID, CAP_SETGID): "
		"run "
		"it as an ordinary user instead"},
	{"scb launch: bind", NULL, 0, "a directory to be mounted could not be bound"},
};

static bool holds(const char *path, char value)
{
	FILE *f = fopen(path, "re");
	int c = f ? fgetc(f) : EOF;
	if (f)
		(void)fclose(f);
	return c == value;
}

static const char *meaning_of(const char *said)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strstr(said, table[i].printed) &&
			(!table[i].exists || holds(table[i].exists, table[i].value)))
			return table[i].meaning;
	return NULL;
}

/* One line of valid UTF-8 without control characters. */
static char *printable(const struct buf *said)
{
	_cleanup_buf_ struct buf b = BUF_INIT(64 * KIB);
	if (said->len)
		CHECK(str_utf8_repair(&b, said->data, said->len, NULL) == 0);
	while (b.len && b.data[b.len - 1] <= ' ')
		b.len--;
	for (size_t i = 0; i < b.len; i++)
		if (b.data[i] < ' ' || b.data[i] == 0x7f)
			b.data[i] = ' ';
	return buf_steal_str(&b);
}

void explain_exit(const char *provider, const struct buf *said, int status, struct err *err)
{
	_cleanup_free_ char *text = printable(said);
	size_t n = str_utf8_trim(text, MIN(strlen(text), 200));
	const char *meaning = meaning_of(text);
	char how[48];
	if (status < 0)
		(void)snprintf(how, sizeof(how), "ended; why is not known");
	else if (status > 128)
		(void)snprintf(how, sizeof(how), "was ended by signal %d", status - 128);
	else
		(void)snprintf(how, sizeof(how), "ended with status %d", status);
	enum err_code code = meaning ? ERR_PROVIDER_UNUSABLE : ERR_SANDBOX_LOST;
	if (meaning)
		(void)err_set(
			err, code, ECHILD, "%s (%s said: %.*s)", meaning, provider, (int)n, text);
	else
		(void)err_set(err, code, ECHILD, "the sandbox (%s) %s%s%.*s", provider, how,
			n ? ": " : "", (int)n, text);
}
