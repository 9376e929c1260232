/* path.c: see path.h. */
#include "files/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"

#define REPLACEMENT "\xEF\xBF\xBD"

static bool is_control(uint8_t c)
{
	return c < 0x20 || c == 0x7F;
}

char *path_printable(const void *name, size_t n)
{
	_cleanup_buf_ struct buf b = BUF_INIT(3 * n + 1), safe = BUF_INIT(9 * n + 1);
	CHECK(str_utf8_repair(&b, name, n, NULL) == 0);
	for (size_t i = 0; i < b.len; i++) {
		/* C1 controls too: U+0080 to U+009F are C2 80 to C2 9F */
		bool c1 = b.data[i] == 0xC2 && i + 1 < b.len && b.data[i + 1] < 0xA0;
		if (is_control(b.data[i]) || c1)
			CHECK(buf_append_str(&safe, REPLACEMENT) == 0);
		else
			CHECK(buf_append(&safe, &b.data[i], 1) == 0);
		i += c1;
	}
	return buf_steal_str(&safe);
}

void path_shown(const char *path, char ret_text[static PATH_SHOWN])
{
	_cleanup_free_ char *text = path_printable(path, strlen(path));
	size_t n = strlen(text), most = PATH_SHOWN - 1 - strlen("…");
	const char *from = text;
	if (n > most) {
		from += n - most;
		from += str_utf8_skip(from, most);
	}
	(void)snprintf(ret_text, PATH_SHOWN, "%s%s", from == text ? "" : "…", from);
}

static bool is_dotdot(const char *name, size_t n)
{
	return n == 2 && name[0] == '.' && name[1] == '.';
}

/* What follows the first components of path where those are prefix, else NULL. */
static const char *below(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);
	if (strncmp(path, prefix, n) != 0 || (path[n] != '\0' && path[n] != '/'))
		return NULL;
	return path + n;
}

void path_mounts(const struct path_view *v, char ret_text[static PATH_MOUNTS])
{
	static const char more[] = ", …";
	size_t n = (size_t)snprintf(
		ret_text, PATH_MOUNTS, "%s", v->n_mounts ? "mounts:" : "no folder is mounted");
	for (size_t i = 0; i < v->n_mounts; i++) {
		const char *name = v->mounts[i];
		if (n + strlen(", ") + strlen(name) + sizeof(more) > PATH_MOUNTS) {
			(void)snprintf(ret_text + n, PATH_MOUNTS - n, "%s", more);
			return;
		}
		n += (size_t)snprintf(ret_text + n, PATH_MOUNTS - n, "%s %s", i ? "," : "", name);
	}
}

/* What to do differs: code sees some of what lies outside, and can copy it; the rest is nowhere in
 * the sandbox. */
static int refuse_outside(const struct path_view *v, const char *path, struct err *err)
{
	static const char *const inside[] = {"/tmp", "/dev/shm", "/usr", "/etc", "/bin", "/lib"};
	char shown[PATH_SHOWN], mounts[PATH_MOUNTS];
	const char *remedy = "what else the person has is not in the sandbox, until they mount its "
			     "folder (scb serve --mount NAME=FOLDER)";
	for (size_t i = 0; i < ARRAY_SIZE(inside); i++) {
		if (below(path, inside[i]))
			remedy = "copy the file into the workspace first (with run_command: cp)";
	}
	path_shown(path, shown);
	path_mounts(v, mounts);
	return err_set(err, ERR_FILE_REFUSED, EXDEV,
		"%s is outside: only the workspace (relative paths, or /workspace/…) and mounts "
		"(/mnt/NAME/…) can be reached here (%s); %s",
		shown, mounts, remedy);
}

static int refuse_dotdot(const char *path, struct err *err)
{
	char shown[PATH_SHOWN];
	path_shown(path, shown);
	return err_set(err, ERR_FILE_REFUSED, EXDEV,
		"\"..\" is not taken in a path: %s; write it without, from the workspace on "
		"(data/x.csv) or as /mnt/NAME/x.csv",
		shown);
}

/* name has n bytes. */
static int check_mount(const struct path_view *v, const char *name, size_t n, struct err *err)
{
	char mounts[PATH_MOUNTS];
	for (size_t i = 0; i < v->n_mounts; i++) {
		if (strlen(v->mounts[i]) == n && memcmp(v->mounts[i], name, n) == 0)
			return 0;
	}
	path_mounts(v, mounts);
	return err_set(err, ERR_NO_SUCH_FILE, ENOENT, "there is no mount '%.*s'; %s",
		(int)str_utf8_trim(name, MIN(n, 60)), name, mounts);
}

static int check_text(const char *path, struct err *err)
{
	char shown[PATH_SHOWN];
	size_t n = strlen(path);
	if (n == 0)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"path is empty; \".\" names the workspace");
	path_shown(path, shown);
	if (n > LIMIT_PATH)
		return err_set(err, ERR_INVALID_ARGUMENT, ENAMETOOLONG,
			"path has %zu bytes; at most %d are possible", n, LIMIT_PATH);
	if (!str_utf8_valid(path, n))
		return err_set(err, ERR_INVALID_ARGUMENT, EILSEQ, "path is no UTF-8: %s", shown);
	for (size_t i = 0; i < n; i++) {
		if (is_control((uint8_t)path[i]))
			return err_set(err, ERR_FILE_REFUSED, EINVAL,
				"path holds a control character (byte %zu): %s; rename the file "
				"first (with run_command: mv)",
				i, shown);
	}
	return 0;
}

/* Appends the components of rest to out. ".." is refused wherever it stands: what a/.. is depends
 * on whether a is a link. */
static int append_components(struct buf *out, const char *path, const char *rest, struct err *err)
{
	char shown[PATH_SHOWN];
	for (size_t n; *rest; rest += n) {
		rest += strspn(rest, "/");
		n = strcspn(rest, "/");
		if (n == 0 || (n == 1 && rest[0] == '.'))
			continue;
		if (n > LIMIT_NAME) {
			path_shown(path, shown);
			return err_set(err, ERR_INVALID_ARGUMENT, ENAMETOOLONG,
				"a name in the path is longer than %d bytes: %s", LIMIT_NAME,
				shown);
		}
		if (is_dotdot(rest, n))
			return refuse_dotdot(path, err);
		CHECK(buf_printf(out, "%s%.*s", out->len ? "/" : "", (int)n, rest) == 0);
	}
	return 0;
}

int path_canonical(const struct path_view *v, const char *path, char **ret, struct err *err)
{
	int r = check_text(path, err);
	if (r < 0)
		return r;
	_cleanup_buf_ struct buf out = BUF_INIT(2 * LIMIT_PATH);
	const char *rest = path[0] == '/' ? below(path, "/workspace") : path;
	if (!rest && v->workspace && v->workspace[0] == '/')
		rest = below(path, v->workspace);
	const char *mount = rest ? NULL : below(path, "/mnt");
	if (mount) {
		mount += strspn(mount, "/");
		size_t n = strcspn(mount, "/");
		if (is_dotdot(mount, n))
			return refuse_dotdot(path, err);
		r = n ? check_mount(v, mount, n, err) : 0;
		if (r < 0)
			return r;
		rest = mount + n;
		CHECK(buf_printf(&out, n ? "/mnt/%.*s" : "/mnt", (int)n, mount) == 0);
	}
	if (!rest)
		return refuse_outside(v, path, err);
	r = append_components(&out, path, rest, err);
	if (r < 0)
		return r;
	if (out.len == 0)
		CHECK(buf_append_str(&out, ".") == 0);
	*ret = buf_steal_str(&out);
	return 0;
}
