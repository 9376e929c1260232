/* test-secret-vault.c: who holds a value for how long, and which one a new session is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/limits.h"
#include "secret/vault.h"

static const struct vault_want wants[] = {
	{.name = "a",
		.source = VAULT_ENV,
		.place = "A",
		.exposure = VAULT_SESSION,
		.variable = "VA"},
	{.name = "b", .source = VAULT_ENV, .place = "B", .variable = "VB"},
};

static void give(struct vault_giver *g, const char *name, const char *text)
{
	_cleanup_secret_ struct secret_value *v = NULL;
	assert_int_equal(secret_value_new(name, text, strlen(text), &v, NULL), 0);
	vault_give(g, v);
}

static void assert_value(const struct vault_granted *one, const char *text)
{
	size_t n;
	assert_non_null(one->value);
	const uint8_t *p = secret_value_bytes(one->value, &n);
	assert_int_equal(n, strlen(text));
	assert_memory_equal(p, text, n);
	assert_string_equal(one->why, "");
}

static void test_given(void **state)
{
	(void)state;
	struct vault *v = vault_new();
	const struct vault_granted *list;
	vault_set_wants(v, "uid:1", wants, 2);
	assert_null(vault_grant_new(v, "uid:2")); /* another's: nothing */

	struct vault_giver *g = vault_giver_new(v, "uid:1");
	assert_false(vault_pending(v, "uid:1"));
	vault_giver_ask(g);
	assert_true(vault_pending(v, "uid:1"));
	assert_false(vault_pending(v, "uid:2"));
	give(g, "a", "the value of a");
	assert_true(vault_pending(v, "uid:1"));
	vault_give_nothing(g, "b", "not\nset");
	assert_false(vault_pending(v, "uid:1"));
	assert_false(vault_giver_open(g));
	give(g, "other", "nobody asked for it");

	struct vault_grant *s = vault_grant_new(v, "uid:1");
	assert_int_equal(vault_grant_list(s, &list), 2);
	assert_string_equal(list[0].variable, "VA");
	assert_value(&list[0], "the value of a");
	assert_null(list[1].value);
	assert_string_equal(list[1].why, "not?set");
	assert_true(vault_grant_complete(s, NULL));
	vault_grant_free(s);

	/* a placeholder is a text that tells nothing, and another one each time */
	char first[200] = "", second[200] = "";
	give(g, "b", "the value of b");
	for (int i = 0; i < 2; i++) {
		s = vault_grant_new(v, "uid:1");
		(void)vault_grant_list(s, &list);
		assert_null(list[1].value);
		(void)snprintf(i ? second : first, 200, "%s", list[1].placeholder);
		vault_grant_free(s);
	}
	assert_int_equal(strncmp(first, "scb-placeholder-b-", 18), 0);
	assert_string_not_equal(first, second);
	vault_giver_free(g);
	vault_free(v);
}

/* Two fronts, one name: the one that came last counts for new sessions, and what a session was
 * given is its own until it ends. */
static void test_two_fronts(void **state)
{
	(void)state;
	struct vault *v = vault_new();
	const struct vault_granted *list;
	vault_set_wants(v, "u", wants, 1);
	struct vault_giver *first = vault_giver_new(v, "u"), *second = vault_giver_new(v, "u");
	vault_giver_ask(first);
	vault_giver_ask(second);
	give(second, "a", "second value");
	assert_false(vault_pending(v, "u")); /* somebody has given it */
	give(first, "a", "first value");
	struct vault_grant *s = vault_grant_new(v, "u");
	(void)vault_grant_list(s, &list);
	assert_value(&list[0], "second value");

	vault_giver_free(second);
	assert_value(&list[0], "second value");
	struct vault_grant *t = vault_grant_new(v, "u");
	(void)vault_grant_list(t, &list);
	assert_value(&list[0], "first value");
	vault_giver_free(first);
	assert_value(&list[0], "first value");
	vault_grant_free(t);

	t = vault_grant_new(v, "u"); /* both fronts have gone, s has the second value still */
	(void)vault_grant_list(t, &list);
	assert_null(list[0].value);
	assert_non_null(strstr(list[0].why, "connected"));
	vault_grant_free(t);
	vault_grant_free(s);
	vault_free(v);
}

static void test_too_many(void **state)
{
	(void)state;
	struct vault *v = vault_new();
	const struct vault_granted *list;
	struct vault_grant *s[LIMIT_SECRET_VALUES + 1];
	vault_set_wants(v, "u", wants, 1);
	struct vault_giver *g = vault_giver_new(v, "u");
	vault_giver_ask(g);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		char text[] = "value number 0";
		text[13] = (char)('0' + i);
		give(g, "a", text);
		s[i] = vault_grant_new(v, "u");
		(void)vault_grant_list(s[i], &list);
		assert_int_equal(list[0].value != NULL, i < LIMIT_SECRET_VALUES);
	}
	assert_non_null(strstr(list[0].why, "too many"));
	vault_grant_free(s[0]);
	give(g, "a", "one more value");
	vault_grant_free(s[1]);
	s[0] = vault_grant_new(v, "u");
	(void)vault_grant_list(s[0], &list);
	assert_value(&list[0], "one more value");
	vault_free(v); /* takes grants and givers along */
}

/* A session of an earlier broker: complete once all is known by name. */
static void test_found(void **state)
{
	(void)state;
	struct vault *v = vault_new();
	struct err err = {0};
	struct vault_grant *s = vault_grant_found(v, "u");
	vault_grant_found_add(s, "a", "VA", VAULT_SESSION);
	vault_grant_found_add(s, "b", "VB", VAULT_PLACEHOLDER); /* nothing to be known */
	assert_false(vault_grant_complete(s, &err));
	assert_int_equal(err.code, ERR_SECRET_UNAVAILABLE);
	assert_non_null(strstr(err.text, "\"a\""));
	vault_set_wants(v, "u", wants, 2);
	assert_false(vault_grant_complete(s, &err));
	struct vault_giver *g = vault_giver_new(v, "u");
	vault_giver_ask(g);
	vault_give_nothing(g, "a", "its variable is not set");
	assert_false(vault_grant_complete(s, &err));
	assert_non_null(strstr(err.text, "its variable is not set"));
	give(g, "a", "it is back");
	assert_true(vault_grant_complete(s, &err));
	vault_giver_free(g);
	assert_true(vault_grant_complete(s, &err)); /* it holds the value now */
	vault_grant_other(s);
	assert_false(vault_grant_complete(s, &err));
	vault_grant_free(s);
	vault_free(v);
}

/* A reload: what is no longer wanted is forgotten, the rest stays until it is answered anew. */
static void test_reload(void **state)
{
	(void)state;
	struct vault *v = vault_new();
	const struct vault_granted *list;
	const struct vault_want *now;
	vault_set_wants(v, "u", wants, 2);
	struct vault_giver *g = vault_giver_new(v, "u");
	vault_giver_ask(g);
	give(g, "a", "the value of a");
	give(g, "b", "the value of b");
	vault_set_wants(v, "u", wants + 1, 1);
	vault_giver_ask(g);
	assert_int_equal(vault_wants(v, "u", &now), 1);
	assert_false(vault_pending(v, "u")); /* the old value counts meanwhile */
	assert_true(vault_giver_open(g));
	struct vault_grant *s = vault_grant_new(v, "u");
	assert_int_equal(vault_grant_list(s, &list), 1);
	assert_int_equal(strncmp(list[0].placeholder, "scb-placeholder-", 16), 0);
	vault_grant_free(s);
	vault_giver_late(g);
	assert_false(vault_giver_open(g));
	s = vault_grant_new(v, "u");
	(void)vault_grant_list(s, &list);
	assert_non_null(strstr(list[0].why, "in time"));
	vault_set_wants(v, "u", NULL, 0);
	assert_null(vault_grant_new(v, "u"));
	vault_free(v);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	(void)unlink(path);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(fd_write_full(fd, text, strlen(text)), 0);
}

/* A file is read again for each new session. */
static void test_file(void **state)
{
	(void)state;
	char dir[] = "/tmp/scb-test-XXXXXX";
	assert_non_null(mkdtemp(dir));
	_cleanup_free_ char *path = xasprintf("%s/token", dir);
	const struct vault_want w = {.name = "f",
		.source = VAULT_FILE,
		.place = path,
		.exposure = VAULT_SESSION,
		.variable = "F"};
	static const char *const texts[] = {"first token\n", "second token"};
	struct vault *v = vault_new();
	const struct vault_granted *list;
	vault_set_wants(v, "u", &w, 1);
	assert_false(vault_pending(v, "u"));
	for (int i = 0; i < 2; i++) {
		write_file(path, texts[i], 0600);
		struct vault_grant *s = vault_grant_new(v, "u");
		(void)vault_grant_list(s, &list);
		assert_value(&list[0], i ? "second token" : "first token");
		vault_grant_free(s);
	}
	write_file(path, texts[0], 0640);
	struct vault_grant *s = vault_grant_new(v, "u");
	(void)vault_grant_list(s, &list);
	assert_null(list[0].value);
	assert_non_null(strstr(list[0].why, "chmod 600"));
	vault_free(v);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given),
		cmocka_unit_test(test_two_fronts),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
