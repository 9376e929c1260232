/* audit_show.c: `scb audit tail` and `scb audit export`: lines of the log for people and for other
 * programs. What a line holds came from sandboxes and clients, and does nothing to a terminal. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/logset.h"
#include "audit/ocsf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/audit.h"
#include "mcp/build.h"

#define LINES_DEFAULT 20
#define FOLLOW_US     (200 * USEC_PER_MSEC)

struct show {
	const struct audit_args *args;
	bool colours;
	char host[256];
	/* the last so many lines of the file that is read, in a ring */
	char **ring;
	size_t room, n, next;
};

/* ---- for people ---- */

static const char *member(const json_t *o, const char *key)
{
	const char *t = json_string_value(json_object_get(o, key));
	return t ? t : "";
}

static bool is_bad(const json_t *o, const char *event, const char *reason)
{
	const json_t *decision = json_array_get(json_object_get(o, "policyDecisions"), 0);
	return strcmp(member(decision, "decision"), "deny") == 0 ||
	       strcmp(event, "file.refused") == 0 || strcmp(event, "audit.gap") == 0 ||
	       strcmp(event, "link.auth_failed") == 0 || strcmp(event, "session.lost") == 0 ||
	       (reason[0] && strcmp(reason, "exit") != 0);
}

static void add(char *to, size_t size, const char *prefix, const char *value)
{
	size_t n = strlen(to);
	char one[400];
	if (!value[0])
		return;
	(void)snprintf(one, sizeof(one), "%s%s", prefix, value);
	(void)snprintf(to + n, size - n, "%s%s", n ? "  " : "", one);
}

static void print_row(const struct show *s, const json_t *o)
{
	const char *event = member(o, "event"), *reason = member(o, "exitReason");
	const json_t *decision = json_array_get(json_object_get(o, "policyDecisions"), 0);
	const json_t *code = json_object_get(o, "exitCode"), *ms = json_object_get(o, "durationMs");
	bool bad = is_bad(o, event, reason);
	char what[160] = "", rest[1000] = "", number[40], ts[24];
	(void)snprintf(what, sizeof(what), "%.60s%s%.60s", member(o, "tool"),
		member(o, "action")[0] ? "." : "", member(o, "action"));
	(void)snprintf(ts, sizeof(ts), "%.19s", member(o, "ts"));
	if (ts[0])
		ts[10] = ' ';
	if (strcmp(member(decision, "decision"), "deny") == 0)
		add(rest, sizeof(rest), "denied by ", member(decision, "rule"));
	add(rest, sizeof(rest), "", reason);
	if (code) {
		(void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(code));
		add(rest, sizeof(rest), "status ", number);
	}
	if (ms) {
		(void)snprintf(number, sizeof(number), "%.1f ms", json_number_value(ms));
		add(rest, sizeof(rest), "", number);
	}
	add(rest, sizeof(rest), "", member(o, "path"));
	add(rest, sizeof(rest), "", member(o, "detail"));
	str_make_printable(what);
	str_make_printable(rest);
	char name[40], session[16], principal[40];
	(void)snprintf(name, sizeof(name), "%.36s", event);
	(void)snprintf(session, sizeof(session), "%.10s", member(o, "session"));
	(void)snprintf(principal, sizeof(principal), "%.30s", member(o, "principal"));
	str_make_printable(name);
	str_make_printable(session);
	str_make_printable(principal);
	const char *dim = s->colours ? "\033[2m" : "", *plain = s->colours ? "\033[0m" : "";
	const char *tint = !s->colours ? "" : bad ? "\033[31m" : "";
	(void)printf("%s%s%s  %6lld  %s%-16s%s  %-22s  %-10s  %-10s  %s%s%s\n", dim, ts, plain,
		(long long)json_integer_value(json_object_get(o, "seq")), tint, name, plain, what,
		principal, session, tint, rest, plain);
}

static void print_line(const struct show *s, const char *line, size_t n)
{
	if (s->args->json) {
		(void)printf("%.*s\n", (int)n, line);
		return;
	}
	if (s->args->ocsf) {
		json_t *o = ocsf_event(line, n, s->host, build.version);
		if (o && json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) == 0)
			(void)putchar('\n');
		json_decref(o);
		return;
	}
	json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
	if (o) {
		print_row(s, o);
	} else {
		char text[200];
		(void)snprintf(text, sizeof(text), "%.*s", (int)MIN(n, sizeof(text) - 1), line);
		str_make_printable(text);
		(void)printf("(no line of a log) %s\n", text);
	}
	json_decref(o);
}

/* ---- which lines ---- */

static void print_wanted(void *user, const char *line, size_t n)
{
	const struct show *s = user;
	if (audit_wanted(s->args, line, n))
		print_line(s, line, n);
}

static void keep_wanted(void *user, const char *line, size_t n)
{
	struct show *s = user;
	if (s->room == 0 || !audit_wanted(s->args, line, n))
		return;
	free(s->ring[s->next]);
	s->ring[s->next] = xstrndup(line, n);
	s->next = (s->next + 1) % s->room;
	s->n = MIN(s->n + 1, s->room);
}

static int open_one(int dir, const char *name, struct err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	int errnum = fd < 0 ? errno : EINVAL;
	fd_closep(&fd);
	return err_set(err, errnum == ENOENT ? ERR_NO_SUCH_FILE : ERR_IO, errnum,
		"%.200s cannot be opened: %s", name, strerror(errnum));
}

static int read_one(int fd, const char *name, void (*fn)(void *user, const char *line, size_t n),
	struct show *s, struct err *err)
{
	int r = audit_read_lines(fd, fn, s);
	return r < 0 ? err_set(err, ERR_IO, -r, "%.200s cannot be read: %s", name, strerror(-r))
		     : 0;
}

/* The last n of the files before, and then of this one: the files are read from the newest back
 * until there are enough. *ret_fd: the present file, at its end. */
static int show_last(struct show *s, int dir, uint64_t n, int *ret_fd, struct err *err)
{
	_cleanup_logset_ struct logset set = {0};
	char name[LOGSET_FILE] = LOGSET_NAME;
	int r = logset_read(dir, &set);
	if (r < 0)
		return err_set(err, ERR_IO, -r, "the log's directory: %s", strerror(-r));
	size_t files = set.n + 1;
	char ***kept = xcalloc(files, sizeof(*kept));
	size_t *count = xcalloc(files, sizeof(*count)), first = files;
	while (r == 0 && first > 0 && n > 0) {
		if (--first < set.n)
			logset_name(set.numbers[first], name);
		int fd = open_one(dir, name, err);
		if (fd == -ENOENT && first == set.n)
			continue; /* it is being rotated */
		s->room = (size_t)n;
		s->ring = xcalloc(s->room, sizeof(*s->ring));
		s->n = s->next = 0;
		r = fd < 0 ? fd : read_one(fd, name, keep_wanted, s, err);
		kept[first] = xcalloc(s->room, sizeof(*s->ring));
		for (size_t i = 0; i < s->n; i++)
			kept[first][i] = s->ring[(s->next + s->room - s->n + i) % s->room];
		count[first] = s->n;
		n -= s->n;
		free(s->ring);
		if (first == set.n)
			*ret_fd = TAKE_FD(fd);
		fd_closep(&fd);
	}
	for (size_t i = first; i < files; i++) {
		for (size_t k = 0; k < count[i]; k++) {
			if (r == 0)
				print_line(s, kept[i][k], strlen(kept[i][k]));
			free(kept[i][k]);
		}
		free(kept[i]);
	}
	free(kept);
	free(count);
	return r;
}

static int show_all(struct show *s, int dir, struct err *err)
{
	_cleanup_logset_ struct logset set = {0};
	char name[LOGSET_FILE];
	int r = logset_read(dir, &set);
	if (r < 0)
		return err_set(err, ERR_IO, -r, "the log's directory: %s", strerror(-r));
	for (size_t i = 0; r == 0 && i <= set.n; i++) {
		str_copy(name, sizeof(name), LOGSET_NAME);
		if (i < set.n)
			logset_name(set.numbers[i], name);
		_cleanup_close_ int fd = open_one(dir, name, err);
		r = fd < 0 ? fd : read_one(fd, name, print_wanted, s, err);
	}
	return r;
}

/* Until it is ended. A file that gets a successor is read to its end first. */
static int follow(struct show *s, int dir, int fd, struct err *err)
{
	int r = 0;
	while (r == 0 && fflush(stdout) == 0) {
		struct stat here, there;
		clock_wait_us(FOLLOW_US);
		bool next = fstat(fd, &here) == 0 && fstatat(dir, LOGSET_NAME, &there, 0) == 0 &&
			    here.st_ino != there.st_ino;
		r = read_one(fd, LOGSET_NAME, print_wanted, s, err);
		if (r == 0 && next) {
			fd_closep(&fd);
			r = fd = open_one(dir, LOGSET_NAME, err);
			r = MIN(r, 0);
		}
	}
	fd_closep(&fd);
	return r;
}

/* ---- the commands ---- */

static int show_files(struct show *s, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < s->args->n_files; i++) {
		_cleanup_close_ int fd = open_one(AT_FDCWD, s->args->files[i], err);
		r = fd < 0 ? fd : read_one(fd, s->args->files[i], print_wanted, s, err);
	}
	return r;
}

static int show(struct show *s, uint64_t n, struct err *err)
{
	_cleanup_free_ char *state = NULL;
	int fd = -1, r;
	if (s->args->n_files)
		return show_files(s, err);
	r = audit_state(s->args, &state, err);
	if (r < 0)
		return r;
	_cleanup_close_ int dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(err, errno == ENOENT ? ERR_NO_SUCH_FILE : ERR_IO, errno,
			"%.200s: %s", state, strerror(errno));
	r = n == UINT64_MAX ? show_all(s, dir, err) : show_last(s, dir, n, &fd, err);
	if (r == 0 && s->args->follow && fd < 0) { /* -n 0 */
		r = fd = open_one(dir, LOGSET_NAME, err);
		if (fd >= 0)
			r = lseek(fd, 0, SEEK_END) < 0 ? -errno : 0;
	}
	if (r == 0 && s->args->follow)
		return follow(s, dir, TAKE_FD(fd), err);
	fd_closep(&fd);
	return r;
}

int audit_tail(const struct audit_args *a, struct err *err)
{
	struct show s = {.args = a, .colours = isatty(STDOUT_FILENO) && !getenv("NO_COLOR")};
	if (a->ocsf)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"`scb audit export --ocsf` gives events of OCSF");
	return show(&s, a->n == UINT64_MAX ? LINES_DEFAULT : a->n, err);
}

int audit_export(const struct audit_args *a, struct err *err)
{
	struct show s = {.args = a};
	if (!a->ocsf || a->follow || a->json)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "say `scb audit export --ocsf`");
	if (gethostname(s.host, sizeof(s.host) - 1) < 0)
		(void)snprintf(s.host, sizeof(s.host), "localhost");
	str_make_printable(s.host);
	return show(&s, a->n, err);
}
