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

/* What follows the first components of path where those are prefix, else NULL. */
static const char *below(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);
	if (strncmp(path, prefix, n) != 0 || (path[n] != '\0' && path[n] != '/'))
		return NULL;
	return path + n;
}

static int refuse_outside(const char *path, struct err *err)
{
	char shown[PATH_SHOWN];
	path_shown(path, shown);
	return err_set(err, ERR_FILE_REFUSED, EXDEV,
		"only /workspace and mounts under /mnt can be reached, and %s lies outside; copy "
		"the "
		"file into the workspace first (with run_command: cp)",
		shown);
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

/* Appends the components of rest to out; ".." may not climb above where it began. */
static int append_components(struct buf *out, const char *path, const char *rest, struct err *err)
{
	char shown[PATH_SHOWN];
	int depth = 0;
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
		depth += n == 2 && rest[0] == '.' && rest[1] == '.' ? -1 : 1;
		if (depth < 0)
			return refuse_outside(path, err);
		CHECK(buf_printf(out, "%s%.*s", out->len ? "/" : "", (int)n, rest) == 0);
	}
	return 0;
}

int path_canonical(const char *workspace, const char *path, char **ret, struct err *err)
{
	int r = check_text(path, err);
	if (r < 0)
		return r;
	_cleanup_buf_ struct buf out = BUF_INIT(2 * LIMIT_PATH);
	const char *rest = path[0] == '/' ? below(path, "/workspace") : path;
	if (!rest && workspace && workspace[0] == '/')
		rest = below(path, workspace);
	const char *mount = rest ? NULL : below(path, "/mnt");
	if (mount) {
		mount += strspn(mount, "/");
		size_t n = strcspn(mount, "/");
		if (n > LIMIT_NAME || mount[0] == '.')
			return refuse_outside(path, err);
		rest = mount + n;
		CHECK(buf_printf(&out, n ? "/mnt/%.*s" : "/mnt", (int)n, mount) == 0);
	}
	if (!rest)
		return refuse_outside(path, err);
	r = append_components(&out, path, rest, err);
	if (r < 0)
		return r;
	if (out.len == 0)
		CHECK(buf_append_str(&out, ".") == 0);
	*ret = buf_steal_str(&out);
	return 0;
}
