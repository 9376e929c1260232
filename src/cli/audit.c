/* audit.c: `scb audit verify|tail|export`: reads the log; writes nothing. */
#include "cli/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/entry.h"
#include "audit/verify.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/paths.h"

/* ---- options ---- */

static int set_number(void *user, const char *value, struct err *err)
{
	if (str_to_u64(value, 1000 * 1000, &((struct audit_args *)user)->n) < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"-n takes a number of lines, at most 1000000, not \"%.60s\"", value);
	return 0;
}

#define FLAG(member)                                                                               \
	static int set_##member(void *user, const char *value, struct err *err)                    \
	{                                                                                          \
		(void)value;                                                                       \
		(void)err;                                                                         \
		((struct audit_args *)user)->member = true;                                        \
		return 0;                                                                          \
	}
#define TEXT(member)                                                                               \
	static int set_##member(void *user, const char *value, struct err *err)                    \
	{                                                                                          \
		(void)err;                                                                         \
		((struct audit_args *)user)->member = value;                                       \
		return 0;                                                                          \
	}
FLAG(follow)
FLAG(json)
FLAG(ocsf)
TEXT(anchor)
TEXT(event)
TEXT(session)
TEXT(principal)
TEXT(tool)
TEXT(since)

static const struct option_def own_options[] = {
	{"-n", "LINES", set_number},
	{"-f", NULL, set_follow},
	{"--json", NULL, set_json},
	{"--ocsf", NULL, set_ocsf},
	{"--anchor", "SEQ:HASH", set_anchor},
	{"--event", "EVENT", set_event},
	{"--session", "HANDLE", set_session},
	{"--principal", "P", set_principal},
	{"--tool", "TOOL", set_tool},
	{"--since", "TIME", set_since},
	{0},
};

static int set_word(void *user, const char *value, struct err *err)
{
	struct audit_args *a = user;
	if (!a->verb) {
		a->verb = value;
		return 0;
	}
	if (a->n_files == AUDIT_ARGS_FILES)
		return err_set(
			err, ERR_INVALID_ARGUMENT, 0, "more than %d files", AUDIT_ARGS_FILES);
	a->files[a->n_files++] = value;
	return 0;
}

/* ---- places and lines ---- */

int audit_state(const struct audit_args *a, char **ret, struct err *err)
{
	return a->settings.state ? paths_absolute(a->settings.state, ret, err)
				 : paths_state(NULL, ret, err);
}

int audit_each_chain(const char *state, int (*fn)(void *user, const char *path), void *user)
{
	_cleanup_free_ char *path = xasprintf("%s/audit.jsonl", state);
	int r = fn(user, path);
	for (int i = 1; r == 0; i++) {
		struct stat st;
		_cleanup_free_ char *dir = xasprintf("%s/solo/%d", state, i);
		_cleanup_free_ char *solo = xasprintf("%s/audit.jsonl", dir);
		if (stat(dir, &st) < 0)
			break;
		r = fn(user, solo);
	}
	return r;
}

static bool matches(const char *want, const char *line, size_t n, const char *key)
{
	struct entry_span have = entry_text(line, n, key);
	size_t len = want ? strlen(want) : 0;
	if (!want)
		return true;
	if (len && want[len - 1] == '*') /* policy.* */
		return have.p && have.n >= len - 1 && memcmp(have.p, want, len - 1) == 0;
	return entry_is(have, want);
}

bool audit_wanted(const struct audit_args *a, const char *line, size_t n)
{
	struct entry e;
	if (a->since && (entry_parse(line, n, &e) < 0 ||
				strncmp(e.ts.p, a->since, MIN(e.ts.n, strlen(a->since))) < 0))
		return false;
	return matches(a->event, line, n, "event") && matches(a->session, line, n, "session") &&
	       matches(a->principal, line, n, "principal") && matches(a->tool, line, n, "tool");
}

int audit_read_lines(int fd, void (*fn)(void *user, const char *line, size_t n), void *user)
{
	_cleanup_buf_ struct buf b = BUF_INIT(2 * LIMIT_AUDIT_LINE);
	for (;;) {
		if (b.len >= LIMIT_AUDIT_LINE)
			buf_clear(&b); /* none of ours */
		CHECK(buf_reserve(&b, LIMIT_AUDIT_LINE) == 0);
		ssize_t n = read(fd, b.data + b.len, LIMIT_AUDIT_LINE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		b.len += (size_t)n;
		const char *p = (const char *)b.data, *end = p + b.len, *stop;
		for (; (stop = memchr(p, '\n', (size_t)(end - p))); p = stop + 1)
			fn(user, p, (size_t)(stop - p));
		buf_consume(&b, (size_t)(p - (const char *)b.data));
	}
	/* a line that is being written: the next time */
	return lseek(fd, -(off_t)b.len, SEEK_CUR) < 0 && errno != ESPIPE ? -errno : 0;
}

/* ---- verify ---- */

struct verifying {
	const struct audit_args *args;
	struct verify_request request;
	struct err *err;
	unsigned chains, wrong;
};

static int read_anchor(const char *text, struct verify_request *q, struct err *err)
{
	const char *colon = text ? strchr(text, ':') : NULL;
	if (!text)
		return 0;
	_cleanup_free_ char *seq = colon ? xstrndup(text, (size_t)(colon - text)) : NULL;
	q->anchored = true;
	if (!colon || str_to_u64(seq, INT64_MAX, &q->anchor_seq) < 0 ||
		id_unhex(colon + 1, q->anchor_hash, HASH_SIZE) < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"--anchor takes SEQ:HASH, as `scb audit verify` prints the head, not "
			"\"%.100s\"",
			text);
	return 0;
}

static void print_finding(const struct check_finding *f, const char *where)
{
	char text[CHECK_TEXT], file[CHECK_FILE];
	memcpy(text, f->text, sizeof(text));
	memcpy(file, f->at.file, sizeof(file));
	str_make_printable(text);
	str_make_printable(file);
	if (!file[0])
		(void)printf("%s: ", where);
	else if (file[0] == '/')
		(void)printf("%s:%llu: ", file, (unsigned long long)f->at.line);
	else
		(void)printf("%s%s:%llu: ", where, file, (unsigned long long)f->at.line);
	if (f->at.seq)
		(void)printf("seq %llu: ", (unsigned long long)f->at.seq);
	(void)printf("%s%s\n", f->note ? "note: " : "", text);
}

static void print_result(const struct verify_result *v, const char *path, const char *where)
{
	const struct check *c = &v->check;
	char hex[HASH_TEXT];
	for (unsigned i = 0; i < c->n_findings; i++)
		print_finding(&c->findings[i], where);
	unsigned kept = 0;
	for (unsigned i = 0; i < c->n_findings; i++)
		kept += !c->findings[i].note;
	if (c->n_wrong > kept)
		(void)printf("%s: %u more\n", path, c->n_wrong - kept);
	(void)printf("%s: %zu file%s, %llu line%s", path, v->files, str_plural(v->files),
		(unsigned long long)c->lines, str_plural(c->lines));
	if (c->any)
		(void)printf(", seq %llu to %llu", (unsigned long long)c->first_seq,
			(unsigned long long)c->seq);
	(void)printf(": %s%s\n", c->n_wrong ? "NOT as it was written" : "as it was written",
		v->being_written ? " (a broker is writing it)" : "");
	if (c->any && !c->n_wrong) {
		id_hex(c->hash, HASH_SIZE, hex);
		(void)printf("head %llu:%s\n", (unsigned long long)c->seq, hex);
	}
}

static int verify_chain(void *user, const char *path)
{
	struct verifying *v = user;
	struct verify_result result;
	v->request.path = path;
	int r = verify_log(&v->request, &result, v->err);
	v->request.anchored = false; /* it is the broker's chain's */
	if (r == -ENOENT && v->err->code == ERR_NO_SUCH_FILE && !v->request.n_files)
		return 0;
	if (r < 0)
		return r;
	_cleanup_free_ char *where = xstrdup(v->request.n_files ? "" : path);
	char *slash = strrchr(where, '/');
	if (slash)
		slash[1] = '\0';
	print_result(&result, v->request.n_files ? "these files" : path, where);
	v->chains++;
	v->wrong += result.check.n_wrong;
	return 0;
}

/* 1: something is wrong. */
int audit_verify(const struct audit_args *a, struct err *err)
{
	_cleanup_free_ char *state = NULL, *key = NULL;
	struct verifying v = {.args = a, .err = err};
	v.request.files = a->files;
	v.request.n_files = a->n_files;
	int r = read_anchor(a->anchor, &v.request, err);
	if (r == 0 && !a->n_files)
		r = audit_state(a, &state, err);
	if (r == 0 && !a->n_files)
		r = paths_audit_key(&key, err);
	if (r < 0)
		return r;
	v.request.key = key;
	r = a->n_files ? verify_chain(&v, NULL) : audit_each_chain(state, verify_chain, &v);
	if (r < 0)
		return r;
	if (v.chains == 0 && a->anchor) {
		(void)printf("%s: there is no log, and an anchor was given\n", state);
		return 1;
	}
	if (v.chains == 0)
		return err_set(err, ERR_NO_SUCH_FILE, 0, "there is no audit log in %.300s", state);
	return v.wrong ? 1 : 0;
}

/* ---- the command ---- */

static int run(const struct audit_args *a, struct err *err)
{
	if (a->verb && strcmp(a->verb, "verify") == 0)
		return audit_verify(a, err);
	if (a->verb && strcmp(a->verb, "tail") == 0)
		return audit_tail(a, err);
	if (a->verb && strcmp(a->verb, "export") == 0)
		return audit_export(a, err);
	return err_set(err, ERR_INVALID_ARGUMENT, 0,
		"say `scb audit verify`, `scb audit tail` or `scb audit export --ocsf`");
}

int cli_audit(int argc, char **argv)
{
	static struct audit_args a; /* large */
	struct err err = {0};
	const struct option_table tables[] = {
		{own_options, &a}, {settings_options, &a.settings}, {0}};
	if (options_want_help(argc, argv, tables))
		return cli_help();
	a.n = UINT64_MAX;
	settings_init(&a.settings);
	int r = options_parse(argc, argv, tables, set_word, &err);
	if (r == 0)
		r = run(&a, &err);
	settings_done(&a.settings);
	if (r >= 0 && fflush(stdout) != 0)
		return err_info(ERR_IO)->exit_status;
	return r < 0 ? cli_failed(&err) : r;
}
