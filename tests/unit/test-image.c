/* test-image.c: archives that want out of the folder they are unpacked in, and trees that are not
 * what their manifest says. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "image/manifest.h"
#include "image/tree.h"
#include "image/unpack.h"

/* Members that an entry does without. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* One entry of a tar archive, as POSIX.1-1988 (ustar) has it. */
struct entry {
	const char *name;
	char type; /* '0' file, '1' hard link, '2' symbolic link, '3' device, '5' folder, '6' FIFO
		    */
	unsigned mode;
	const char *data; /* of a file */
	const char *link;
	size_t says; /* its size, where that is a lie; 0: the truth */
};

static char top[] = "/tmp/scb-test-image-XXXXXX";
static int top_fd = -1;

static void put_entry(FILE *f, const struct entry *e)
{
	char block[512] = {0};
	size_t n = e->data ? strlen(e->data) : 0;
	unsigned sum = 0;
	(void)snprintf(block, 100, "%s", e->name);
	(void)snprintf(block + 100, 8, "%07o", e->mode);
	(void)snprintf(block + 108, 8, "%07o", 0);
	(void)snprintf(block + 116, 8, "%07o", 0);
	(void)snprintf(block + 124, 12, "%011zo", e->says ? e->says : n);
	(void)snprintf(block + 136, 12, "%011o", 1700000000U);
	memset(block + 148, ' ', 8);
	block[156] = e->type;
	if (e->link)
		(void)snprintf(block + 157, 100, "%s", e->link);
	memcpy(block + 257,
		"ustar\0"
		"00",
		8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += (unsigned char)block[i];
	(void)snprintf(block + 148, 8, "%06o", sum);
	assert_int_equal(fwrite(block, sizeof(block), 1, f), 1);
	memset(block, 0, sizeof(block));
	if (n) {
		assert_true(n <= sizeof(block));
		memcpy(block, e->data, n);
		assert_int_equal(fwrite(block, sizeof(block), 1, f), 1);
	}
}

/* A descriptor of an archive with these entries, the last of which has no name. */
static int archive(const struct entry *e)
{
	FILE *f = tmpfile();
	static const char end[1024];
	assert_non_null(f);
	for (; e->name; e++)
		put_entry(f, e);
	assert_int_equal(fwrite(end, sizeof(end), 1, f), 1);
	assert_int_equal(fflush(f), 0);
	int fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 3);
	(void)fclose(f); /* moves the position that both have */
	assert_true(fd >= 0 && lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static int new_root(void)
{
	struct err err;
	if (faccessat(top_fd, "root", F_OK, 0) == 0)
		assert_int_equal(tree_remove(top_fd, "root", &err), 0);
	assert_int_equal(mkdirat(top_fd, "root", 0755), 0);
	int fd = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static int try(const struct entry *e, struct manifest *m, struct unpack_told *told, struct err *err)
{
	_cleanup_close_ int fd = archive(e), root = new_root();
	*err = (struct err){0};
	return unpack(fd, root, m, told, err);
}

static void refuses(const struct entry *e, const char *why)
{
	struct manifest m;
	struct unpack_told told;
	struct err err;
	assert_true(try(e, &m, &told, &err) < 0);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", e[0].name, err.text);
	/* nothing beside the root */
	assert_int_equal(faccessat(top_fd, "evil", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(access("/tmp/scb-test-image-evil", F_OK), -1);
}

#define ARCHIVE(...) ((const struct entry[]){__VA_ARGS__, {0}})

static void test_paths(void **state)
{
	(void)state;
	refuses(ARCHIVE({"../evil", '0', 0644, "x"}), "leads elsewhere");
	refuses(ARCHIVE({"a", '5', 0755}, {"a/../../evil", '0', 0644, "x"}), "leads elsewhere");
	refuses(ARCHIVE({"/tmp/scb-test-image-evil", '0', 0644, "x"}), "leads elsewhere");
	refuses(ARCHIVE({"a//b", '0', 0644, "x"}), "leads elsewhere");
	refuses(ARCHIVE({"a\nb", '0', 0644, "x"}), "leads elsewhere");
	refuses(ARCHIVE({"missing/b", '0', 0644, "x"}), "no folder");
}

static void test_links(void **state)
{
	(void)state;
	/* through a link, out of the root and within it */
	refuses(ARCHIVE({"l", '2', 0777, NULL, "/tmp"}, {"l/scb-test-image-evil", '0', 0644, "x"}),
		"no folder");
	refuses(ARCHIVE({"l", '2', 0777, NULL, ".."}, {"l/evil", '0', 0644, "x"}), "no folder");
	refuses(ARCHIVE({"d", '5', 0755}, {"l", '2', 0777, NULL, "d"}, {"l/x", '0', 0644, "x"}),
		"no folder");
	/* onto a link */
	refuses(ARCHIVE({"l", '2', 0777, NULL, "/tmp/scb-test-image-evil"}, {"l", '0', 0644, "x"}),
		"twice");
	refuses(ARCHIVE({"f", '0', 0644, "x"}, {"./f", '0', 0644, "y"}), "twice");
	/* hard links */
	refuses(ARCHIVE({"h", '1', 0644, NULL, "/etc/passwd"}), "outside");
	refuses(ARCHIVE({"h", '1', 0644, NULL, "../../etc/passwd"}), "outside");
	refuses(ARCHIVE({"h", '1', 0644, NULL, "later"}), "no file");
	refuses(ARCHIVE({"l", '2', 0777, NULL, "/etc/passwd"}, {"h", '1', 0644, NULL, "l"}),
		"no file");
	refuses(ARCHIVE({"l", '2', 0777, NULL, "/etc"}, {"h", '1', 0644, NULL, "l/passwd"}),
		"no file");
}

static void test_sizes(void **state)
{
	(void)state;
	refuses(ARCHIVE({"f", '0', 0644, "x", NULL, 5000000}), "");
	refuses(ARCHIVE({"f", '0', 0644, "x", NULL, 07777777777}), "");
}

static void test_what_is_left_out(void **state)
{
	(void)state;
	struct manifest m;
	struct unpack_told told;
	struct err err;
	struct stat st;
	assert_int_equal(
		try(ARCHIVE({"./", '5', 0700}, {"./bin", '5', 0555}, {"./bin/su", '0', 06755, "x"},
			    {"./null", '3', 0666}, {"./fifo", '6', 0666},
			    {"./l", '2', 0777, NULL, "/etc/shadow"}),
			&m, &told, &err),
		0);
	assert_int_equal(told.left_out, 2);
	assert_int_equal(told.setid, 1);
	assert_int_equal(m.n, 3);
	assert_int_equal(fstatat(top_fd, "root/bin/su", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0755);
	assert_int_equal(fstatat(top_fd, "root/bin", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(fstatat(top_fd, "root/null", &st, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(fstatat(top_fd, "root/fifo", &st, AT_SYMLINK_NOFOLLOW), -1);
	manifest_done(&m);
}

static char last[512];

static void note(void *user, const char *fault)
{
	(void)user;
	(void)snprintf(last, sizeof(last), "%s", fault);
}

static void finds(int root, const struct manifest *m, const char *what)
{
	struct err err;
	last[0] = '\0';
	int r = tree_verify(root, m, note, NULL, &err);
	assert_int_equal(r < 0, what != NULL);
	if (what && !strstr(last, what))
		fail_msg("\"%s\", not %s", last, what);
}

static void test_verify(void **state)
{
	(void)state;
	struct manifest m, again;
	struct unpack_told told;
	struct err err;
	assert_int_equal(
		try(ARCHIVE({"d", '5', 0755}, {"d/f", '0', 0644, "abc"},
			    {"d/h", '1', 0644, NULL, "d/f"}, {"l", '2', 0777, NULL, "d/f"}),
			&m, &told, &err),
		0);
	_cleanup_close_ int root = openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	finds(root, &m, NULL);
	/* SHA-256 of "abc" (FIPS 180-2, B.1) */
	assert_string_equal(manifest_find(&m, "d/f")->sha256,
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");

	(void)unlinkat(top_fd, "manifest", 0);
	assert_int_equal(manifest_write(top_fd, "manifest", &m, &err), 0);
	assert_int_equal(manifest_read(top_fd, "manifest", &again, &err), 0);
	assert_int_equal(manifest_compare(&m, &again, &err), 0);
	again.entries[1].mode ^= 0100;
	assert_true(manifest_compare(&m, &again, &err) < 0);
	manifest_done(&again);

	assert_int_equal(fchmodat(root, "d/f", 0666, 0), 0);
	finds(root, &m, "another mode");
	assert_int_equal(fchmodat(root, "d/f", 0644, 0), 0);
	int fd = openat(root, "d/f", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	finds(root, &m, "other contents");
	assert_int_equal(pwrite(fd, "a", 1, 0), 1);
	(void)close(fd);
	finds(root, &m, NULL);
	assert_int_equal(symlinkat("x", root, "d/more"), 0);
	finds(root, &m, "not in the manifest");
	assert_int_equal(unlinkat(root, "d/more", 0), 0);
	assert_int_equal(unlinkat(root, "l", 0), 0);
	finds(root, &m, "is missing");
	assert_int_equal(symlinkat("/etc/passwd", root, "l"), 0);
	finds(root, &m, "not the link");
	assert_int_equal(unlinkat(root, "d/h", 0), 0);
	assert_int_equal(symlinkat("f", root, "d/h"), 0);
	finds(root, &m, "");
	manifest_done(&m);
}

static void test_hostile_manifest(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "[]", "{}", "{\"version\": 2, \"entries\": []}",
		"{\"version\": 1, \"entries\": []}",
		"{\"version\": 1, \"sha256\": \"zz\", \"entries\": []}",
		"{\"version\": 1, \"sha256\": "
		"\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\", "
		"\"entries\": [{\"path\": \"../x\", \"type\": \"directory\", \"mode\": \"0755\"}]}",
		"{\"version\": 1, \"sha256\": "
		"\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\", "
		"\"entries\": [{\"path\": \"x\", \"type\": \"symlink\", \"mode\": \"0777\"}]}"};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct manifest m;
		struct err err;
		(void)unlinkat(top_fd, "bad", 0);
		int fd = openat(top_fd, "bad", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_int_equal(fd_write_full(fd, texts[i], strlen(texts[i])), 0);
		(void)close(fd);
		if (manifest_read(top_fd, "bad", &m, &err) == 0)
			fail_msg("accepted: %s", texts[i]);
	}
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(top))
		return -1;
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top_fd < 0;
}

static int tear_down(void **state)
{
	(void)state;
	struct err err;
	fd_closep(&top_fd);
	return tree_remove(AT_FDCWD, top, &err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_what_is_left_out),
		cmocka_unit_test(test_verify),
		cmocka_unit_test(test_hostile_manifest),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
