/* bwrap_args.c: see bwrap_args.h. */
#include "provider/bwrap_args.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Beside /usr: links into it on today's systems, directories on older ones. */
static const char *const beside_usr[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

/* Of /etc: what programs and libraries need to start, look right and check certificates. Never what
 * names the host's people, its network or its secrets. A bind costs a sandbox's start about 50 µs,
 * so small files are copied instead. */
static const char *const etc_bound[] = {"/etc/alternatives", "/etc/ld.so.cache",
	"/etc/ld-musl-*.path", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust",
	"/etc/crypto-policies", "/etc/fonts", "/etc/python3.*", "/etc/R", "/etc/java-*",
	"/etc/localtime", "/etc/os-release"};
static const char *const etc_copied[] = {"/etc/matplotlibrc", "/etc/mime.types", "/etc/protocols",
	"/etc/services", "/etc/ssl/openssl.cnf", "/etc/timezone", "/etc/debian_version"};
#define COPY_MAX (128 * KIB)

static const struct {
	const char *path, *text;
} made_up[] = {
	{"/etc/passwd", "root:x:0:0:root:/workspace:/bin/sh\n"
			"sandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n"
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"/etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
	{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
			       "protocols: files\nservices: files\n"},
	{"/etc/hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"},
	{"/etc/hostname", "sandbox\n"},
};

void bwrap_args_done(struct bwrap_args *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i]);
	a->n = 0;
}

void bwrap_add(struct bwrap_args *a, ...)
{
	va_list ap;
	va_start(ap, a);
	for (const char *s; (s = va_arg(ap, const char *));) {
		CHECK(a->n < BWRAP_ARGS);
		a->v[a->n++] = xstrdup(s);
	}
	va_end(ap);
	a->v[a->n] = NULL;
}

void bwrap_add_number(struct bwrap_args *a, const char *option, int number)
{
	char text[16];
	(void)snprintf(text, sizeof(text), "%d", number);
	bwrap_add(a, option, text, NULL);
}

void bwrap_add_tmpfs(struct bwrap_args *a, const char *path, uint64_t size)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
	bwrap_add(a, "--perms", "1777", "--size", text, "--tmpfs", path, NULL);
}

void bwrap_add_dir(struct bwrap_args *a, const char *path)
{
	bwrap_add(a, "--perms", "0755", "--dir", path, NULL);
}

/* As it is on the host: a link becomes the same link, the rest a read-only bind. */
static void same(struct bwrap_args *a, const char *path)
{
	struct stat st;
	char target[256];
	if (lstat(path, &st) < 0)
		return;
	if (!S_ISLNK(st.st_mode)) {
		bwrap_add(a, "--ro-bind", path, path, NULL);
		return;
	}
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	bwrap_add(a, "--symlink", target, path, NULL);
}

/* Looked up once: glob() is slow beside the rest of starting a sandbox. */
static const glob_t *etc_paths(void)
{
	static glob_t found;
	static bool done;
	for (size_t i = 0; !done && i < ARRAY_SIZE(etc_bound); i++)
		(void)glob(etc_bound[i], i ? GLOB_APPEND : 0, NULL, &found);
	done = true;
	return &found;
}

static void file(struct bwrap_args *a, struct launch *l, const char *path, int fd)
{
	bwrap_add(a, "--perms", "0644", NULL);
	bwrap_add_number(a, "--file", launch_give_owned(l, fd));
	bwrap_add(a, path, NULL);
}

static void add_copied(struct bwrap_args *a, struct launch *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(etc_copied); i++) {
		struct stat st;
		_cleanup_close_ int fd = open(etc_copied[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		/* Not what only root may read on this host. */
		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
			(st.st_mode & S_IROTH) && st.st_size <= (off_t)COPY_MAX)
			file(a, l, etc_copied[i], TAKE_FD(fd));
	}
}

static int add_made_up(struct bwrap_args *a, struct launch *l, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(made_up); i++) {
		int fd = fd_memfd("scb-etc", made_up[i].text, strlen(made_up[i].text));
		if (fd < 0)
			return err_set(err, ERR_INTERNAL, -fd, "memfd: %s", strerror(-fd));
		file(a, l, made_up[i].path, fd);
	}
	return 0;
}

/* Made up in its place, where the image has such a file. */
static int cover(struct bwrap_args *a, struct launch *l, int etc, size_t i, struct err *err)
{
	struct stat st;
	const char *name = made_up[i].path + strlen("/etc/");
	if (fstatat(etc, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	int fd = fd_memfd("scb-etc", made_up[i].text, strlen(made_up[i].text));
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, -fd, "memfd: %s", strerror(-fd));
	bwrap_add_number(a, "--ro-bind-data", launch_give_owned(l, fd));
	bwrap_add(a, made_up[i].path, NULL);
	return 0;
}

/* Links in an image lead where they would lead in the sandbox, never to a place of this host: what
 * is bound is no link, nor is anything on the way to it. */
static int add_image(struct bwrap_args *a, struct launch *l, const char *root, struct err *err)
{
	const char *seen = launch_see(l, root, true, false);
	_cleanup_close_ int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int usr =
		top < 0 ? -1 : fd_open_beneath_no_links(top, "usr", O_PATH | O_DIRECTORY, 0);
	_cleanup_close_ int etc =
		top < 0 ? -1 : fd_open_beneath_no_links(top, "etc", O_PATH | O_DIRECTORY, 0);
	if (usr < 0 || etc < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, ENOENT,
			"the image in %.300s is gone or has no /usr and /etc; `scb image verify` "
			"tells more",
			root);
	for (size_t i = 0; i < ARRAY_SIZE(beside_usr); i++) {
		char target[256];
		struct stat st;
		const char *name = beside_usr[i] + 1;
		if (fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		ssize_t n =
			S_ISLNK(st.st_mode) ? readlinkat(top, name, target, sizeof(target) - 1) : 0;
		target[MAX(n, 0)] = '\0';
		_cleanup_free_ char *from = xasprintf("%s%s", seen, beside_usr[i]);
		if (n > 0)
			bwrap_add(a, "--symlink", target, beside_usr[i], NULL);
		else if (S_ISDIR(st.st_mode))
			bwrap_add(a, "--ro-bind", from, beside_usr[i], NULL);
	}
	_cleanup_free_ char *from_usr = xasprintf("%s/usr", seen);
	_cleanup_free_ char *from_etc = xasprintf("%s/etc", seen);
	bwrap_add(a, "--ro-bind", from_usr, "/usr", "--ro-bind", from_etc, "/etc", NULL);
	int r = 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(made_up); i++)
		r = cover(a, l, etc, i, err);
	return r;
}

/* This host's. */
static int add_host(struct bwrap_args *a, struct launch *l, struct err *err)
{
	bwrap_add(a, "--ro-bind", "/usr", "/usr", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(beside_usr); i++)
		same(a, beside_usr[i]);
	bwrap_add_dir(a, "/etc");
	bwrap_add_dir(a, "/etc/ssl");
	const glob_t *paths = etc_paths();
	for (size_t i = 0; i < paths->gl_pathc; i++)
		same(a, paths->gl_pathv[i]);
	add_copied(a, l);
	return add_made_up(a, l, err);
}

int bwrap_add_system(struct bwrap_args *a, struct launch *l, const char *root, struct err *err)
{
	/* Some settings belong to a namespace of the sandbox (pid_max, net/…) and would let its
	 * code, which has the uid of that namespace's root, write them. */
	bwrap_add(a, "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", NULL);
	bwrap_add(a, "--dev", "/dev", NULL);
	bwrap_add_dir(a, "/run");
	bwrap_add_dir(a, "/var");
	bwrap_add(a, "--symlink", "../tmp", "/var/tmp", NULL);
	return root ? add_image(a, l, root, err) : add_host(a, l, err);
}
