/* Dashboards on record: found by a later broker, listed without what they showed being read,
 * whatever a power cut has left of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "dashboard/dashboard.h"
#include "provider/record.h"
#include "store/store.h"

#define TREE_SIZE (230 * 1000)
#define WHO       "uid:1"

/* ---- a store that counts what is read of it ---- */

static struct store *files;
static size_t bytes_read;

static int counting_put(
	struct store *s, const char *key, const void *value, size_t n, struct err *err)
{
	(void)s;
	return files->ops->put(files, key, value, n, err);
}

static int counting_get(struct store *s, const char *key, struct buf *ret, struct err *err)
{
	size_t before = ret->len;
	(void)s;
	int r = files->ops->get(files, key, ret, err);
	bytes_read += ret->len - before;
	return r;
}

static int counting_remove(struct store *s, const char *key, struct err *err)
{
	(void)s;
	return files->ops->remove(files, key, err);
}

static int counting_each(struct store *s, const char *prefix,
	int (*fn)(void *user, const char *key), void *user, struct err *err)
{
	(void)s;
	return files->ops->each(files, prefix, fn, user, err);
}

static const struct store_ops counting_ops = {
	.name = "counting",
	.put = counting_put,
	.get = counting_get,
	.remove = counting_remove,
	.each = counting_each,
};
static struct store counting = {.ops = &counting_ops};

static char dir[] = "/tmp/test-dashboard-XXXXXX";
static uv_loop_t loop;
static struct dashboards *all;

static int setup(void **state)
{
	struct err err;
	(void)state;
	memcpy(strrchr(dir, '-') + 1, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	assert_int_equal(0, store_file_open(dir, &files, &err));
	assert_int_equal(0, uv_loop_init(&loop));
	const struct dashboards_config config = {.loop = &loop, .store = &counting};
	all = dashboards_new(&config);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dashboards_free(all);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(0, uv_loop_close(&loop));
	files->ops->close(files);
	return record_remove_tree(dir);
}

/* ---- records ---- */

static void put(const char *key, const char *value)
{
	struct err err;
	assert_int_equal(0, files->ops->put(files, key, value, strlen(value), &err));
}

static const char *id_of(unsigned n)
{
	static char id[64];
	(void)snprintf(id, sizeof(id), "d-%032x", n);
	return id;
}

/* As large as they come, of the kind that takes longest to read: many numbers. */
static char *a_tree(void)
{
	json_t *v = json_array();
	for (unsigned i = 0; i < TREE_SIZE / 7; i++)
		json_array_append_new(v, json_integer(100000 + i));
	json_t *o = json_pack("{s:i, s:i, s:s, s:s, s:[{s:s, s:s, s:o}]}", "v", 1, "rev", 3,
		"title", "Orders", "status", "ok", "tree", "id", "1.0", "t", "chart", "v", v);
	char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	assert_in_range(strlen(text), TREE_SIZE - 10, TREE_SIZE + 1000);
	return text;
}

#define HEAD                                                                                       \
	"\"session\":\"s-00000000000000000000000000000001\",\"principal\":\"" WHO "\",\"code\":"   \
	"\"\""

static void put_head(unsigned n)
{
	_cleanup_free_ char *key = xasprintf("dashboard/%s", id_of(n));
	put(key, "{" HEAD ",\"title\":\"Orders\",\"status\":\"ok\",\"shown\":true}");
}

static void put_tree(unsigned n, const char *tree)
{
	_cleanup_free_ char *key = xasprintf("dashboard-tree/%s", id_of(n));
	put(key, tree);
}

struct seen {
	unsigned n, titled;
};

static void see(void *user, const struct dashboard *d)
{
	struct seen *s = user;
	s->n++;
	s->titled += dashboard_title(d) && strcmp(dashboard_title(d), "Orders") == 0;
}

static void a_listing_reads_no_trees(void **state)
{
	_cleanup_free_ char *tree = a_tree();
	struct seen s = {0};
	(void)state;
	for (unsigned i = 0; i < LIMIT_DASHBOARDS; i++) {
		put_head(i);
		put_tree(i, tree);
	}
	bytes_read = 0;
	uint64_t began_us = clock_monotonic_us();
	dashboards_each(all, WHO, see, &s);
	print_message("# %u dashboards listed in %.1f ms, %zu bytes read\n", s.n,
		(double)(clock_monotonic_us() - began_us) / 1000, bytes_read);
	assert_int_equal(LIMIT_DASHBOARDS, s.n);
	assert_int_equal(LIMIT_DASHBOARDS, s.titled);
	assert_in_range(bytes_read, 1, LIMIT_DASHBOARDS * 1000);
}

static struct dashboard *found(unsigned n)
{
	struct dashboard *d = NULL;
	struct err err;
	assert_int_equal(0, dashboards_find(all, WHO, id_of(n), &d, &err));
	return d;
}

static void what_was_shown_is_read_when_it_is_asked_for(void **state)
{
	_cleanup_free_ char *tree = a_tree();
	(void)state;
	put_head(1);
	put_tree(1, tree);
	struct dashboard *d = found(1);
	assert_string_equal("ok", dashboard_status(d));
	assert_true(dashboard_has_tree(d));
	json_t *got = dashboard_tree(d);
	_cleanup_free_ char *text = json_dumps(got, JSON_COMPACT);
	json_decref(got);
	assert_string_equal(tree, text);
}

/* A power cut may leave an empty or a short record. */
static void a_tree_that_cannot_be_read_is_none(void **state)
{
	static const char *const bad[] = {"", "{\"v\":1,\"tree\":[{\"id\":", "[]"};
	(void)state;
	put_head(0); /* and no tree at all */
	assert_null(dashboard_tree(found(0)));
	for (unsigned i = 1; i <= ARRAY_SIZE(bad); i++) {
		put_head(i);
		put_tree(i, bad[i - 1]);
		assert_null(dashboard_tree(found(i)));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_listing_reads_no_trees, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_was_shown_is_read_when_it_is_asked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_tree_that_cannot_be_read_is_none, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
