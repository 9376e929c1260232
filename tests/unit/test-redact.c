/* Secrets in all their forms: found wherever they stand, however the text is cut, and masked by as
 * many stars; compared with a search that looks for each form at each place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "../fuzz/naive.h"

#define TOKEN "ghp_aB3/x+9?Zq\"k"

static struct secret_value *value(const char *name, const void *p, size_t n)
{
	struct secret_value *v;
	struct err err;
	assert_int_equal(secret_value_new(name, p, n, &v, &err), 0);
	return v;
}

static struct redactor *redactor_of(const char *text)
{
	struct secret_value *v = value("TOKEN", text, strlen(text));
	struct redactor *r;
	struct err err;
	assert_int_equal(redactor_new(&v, 1, &r, &err), 0);
	secret_value_unref(v);
	return r;
}

/* ---- forms ---- */

struct wanted {
	const char *text;
	bool seen;
};

static void look(void *user, const uint8_t *p, size_t n)
{
	struct wanted *w = user;
	w->seen |= n == strlen(w->text) && memcmp(p, w->text, n) == 0;
}

static void has_form(const char *value_text, const char *form)
{
	struct wanted w = {form, false};
	forms_each((const uint8_t *)value_text, strlen(value_text), look, &w);
	if (!w.seen)
		fail_msg("%s is no form of %s", form, value_text);
}

static void forms_are_those_of_encoders(void **state)
{
	(void)state;
	has_form("pass word", "pass word");
	has_form("pass word", "7061737320776f7264");
	has_form("pass word", "7061737320776F7264");
	/* base64 of it alone, with a newline, and after one and two bytes: each without what its
	 * neighbours decide */
	has_form("pass word", "cGFzcyB3b3Jk");
	has_form("pass word", "cGFzcyB3b3JkCg");
	has_form("pass word", "Bhc3Mgd29yZ");
	has_form("pass word", "wYXNzIHdvcm");
	has_form("ab>?cd>?", "YWI+P2NkPj8");
	has_form("ab>?cd>?", "YWI-P2NkPj8");
	has_form("pass word", "%70%61%73%73%20%77%6f%72%64");
	has_form("pass word", "pass%20word");
	has_form("pass word", "pass+word");
	has_form("a/b?c=d e~f", "a%2fb%3fc%3dd%20e~f");
	has_form("a/b?c=d e~f", "a/b%3Fc%3Dd%20e~f");
	has_form("a/b?c=d e~f", "a/b?c=d%20e~f");
	has_form("a/b?c=d e~f", "a%2Fb%3Fc%3Dd+e%7Ef");
	has_form("q\"b\\s/\n\x01x", "q\\\"b\\\\s/\\n\\u0001x");
	has_form("q\"b\\s/\n\x01x", "q\\\"b\\\\s\\/\\n\\u0001x");
	has_form("caf\xC3\xA9 \xF0\x9F\x98\x80!", "caf\\u00e9 \\ud83d\\ude00!");
	has_form("caf\xC3\xA9 \xF0\x9F\x98\x80!", "caf\\u00E9 \\uD83D\\uDE00!");
	has_form("a<b>&c'd", "a\\u003cb\\u003e\\u0026c'd");
	has_form("a<b>&c'd", "a\\u003Cb\\u003E\\u0026c\\u0027d");
	has_form("a<b>&c'd\"", "a&lt;b&gt;&amp;c'd\"");
	has_form("a<b>&c'd\"", "a&lt;b&gt;&amp;c&#x27;d&quot;");
	has_form("0123456789012345678901234567890123456789012345678901234567",
		"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2\nNw");
	has_form("012345678901234567890123456789012",
		"303132333435363738393031323334353637383930313233343536373839\n303132");
	has_form("password", "\\u0070\\u0061\\u0073\\u0073\\u0077\\u006f\\u0072\\u0064");
	has_form("password", "\\u0070\\u0061\\u0073\\u0073\\u0077\\u006F\\u0072\\u0064");
}

static void check_length(void *user, const uint8_t *p, size_t n)
{
	(void)p;
	assert_true(n >= *(const size_t *)user);
}

static void no_form_is_shorter_than_the_value(void **state)
{
	(void)state;
	uint8_t bytes[40];
	for (size_t n = LIMIT_SECRET_MIN_BYTES; n < sizeof(bytes); n++) {
		memset(bytes, (int)(n * 37), n);
		forms_each(bytes, n, check_length, &n);
	}
}

/* ---- masks ---- */

static void masks(const struct redactor *r, const char *in, const char *out)
{
	char *text = xstrdup(in);
	redact_text(r, text, strlen(text), false, false, NULL);
	assert_string_equal(text, out);
	free(text);
}

static void masks_are_as_long_as_what_they_hide(void **state)
{
	(void)state;
	struct redactor *r = redactor_of("s3cr3t-t0ken");
	masks(r, "", "");
	masks(r, "nothing here", "nothing here");
	masks(r, "s3cr3t-t0ken", "************");
	masks(r, "x=s3cr3t-t0ken;", "x=************;");
	masks(r, "s3cr3t-t0kens3cr3t-t0ken", "************************");
	masks(r, "s3cr3t-s3cr3t-t0ken", "s3cr3t-************");
	masks(r, "s3cr3t-t0ke", "s3cr3t-t0ke");
	masks(r, "czNjcjN0LXQwa2Vu", "****************");
	masks(r, "{\"k\":\"s3cr3t-t0ken\"}", "{\"k\":\"************\"}");
	redactor_unref(r);
}

static void the_union_of_what_overlaps_is_masked(void **state)
{
	(void)state;
	struct secret_value *v[] = {value("A", "abcdefgh", 8), value("B", "efghijkl", 8),
		value("C", "ghijkl12", 8), value("D", "xxabcdefghyy", 12)};
	struct redactor *r;
	struct err err;
	assert_int_equal(redactor_new(v, 4, &r, &err), 0);
	masks(r, ".abcdefghijkl12.", ".**************.");
	masks(r, "xxabcdefghy", "xx********y");
	masks(r, "xxabcdefghyy", "************");
	char text[] = "abcdefgh xxabcdefghyy ghijkl12";
	struct redact_hits hits = {0};
	assert_int_equal(redact_bytes(r, text, strlen(text), &hits), 4);
	assert_int_equal(hits.n, 3);
	assert_string_equal(hits.counts[0].name, "A");
	assert_int_equal(hits.counts[0].count, 2);
	assert_string_equal(hits.counts[1].name, "D");
	assert_int_equal(hits.counts[1].count, 1);
	assert_string_equal(hits.counts[2].name, "C");
	redact_hits_done(&hits);
	redactor_unref(r);
	for (size_t i = 0; i < 4; i++)
		secret_value_unref(v[i]);
}

static void no_redactor_changes_nothing(void **state)
{
	(void)state;
	struct redactor *r = (struct redactor *)1;
	struct err err;
	char text[] = "abcdefgh";
	assert_int_equal(redactor_new(NULL, 0, &r, &err), 0);
	assert_null(r);
	assert_int_equal(redact_bytes(r, text, 8, NULL), 0);
	assert_int_equal(redact_piece(r, text, 8, true, true, NULL), 0);
	assert_int_equal(redact_pending(r, text, 8), 0);
	assert_int_equal(redactor_reach(r), 0);
	assert_null(redact_find(r, text, 8));
	assert_string_equal(text, "abcdefgh");
}

static void a_text_stays_utf8(void **state)
{
	(void)state;
	/* begins and ends within a character of the text */
	struct secret_value *v = value("BIN", "\xA9 token \xC3", 9);
	struct redactor *r;
	struct err err;
	assert_int_equal(redactor_new(&v, 1, &r, &err), 0);
	masks(r, "caf\xC3\xA9 token \xC3\xBC!", "caf***********!");
	redactor_unref(r);
	secret_value_unref(v);
}

/* ---- parts ---- */

static void piece(
	const struct redactor *r, const char *in, bool before, bool after, const char *out)
{
	char *text = xstrdup(in);
	redact_piece(r, text, strlen(text), before, after, NULL);
	assert_string_equal(text, out);
	free(text);
}

static void what_a_cut_leaves_of_a_secret_is_masked(void **state)
{
	(void)state;
	struct redactor *r = redactor_of("s3cr3t-t0ken");
	piece(r, "say s3cr3t-", false, true, "say *******");
	piece(r, "say s3cr3t-", true, false, "say s3cr3t-");
	piece(r, "-t0ken it is", true, false, "****** it is");
	piece(r, "-t0ken it is", false, true, "-t0ken it is");
	piece(r, "cr3t-t0", true, true, "*******");
	piece(r, "ken s3cr3t-t0ken s3c", true, true, "ken ************ s3c");
	piece(r, "t0ken s3cr3t-t0ken s3cr", true, true, "***** ************ ****");
	/* the beginning of one within another */
	piece(r, "s3cr3t-s3cr", false, true, "s3cr3t-****");
	redactor_unref(r);
}

static void shortened(const struct redactor *r, const char *in, const char *out)
{
	char *text = xstrdup(in);
	redact_shortened(r, text, strlen(text));
	assert_string_equal(text, out);
	free(text);
}

static void what_was_shortened_shows_no_part(void **state)
{
	(void)state;
	struct redactor *r = redactor_of("s3cr3t-t0ken-of-thirty-letters");
	shortened(r, "0  s3cr3t-t0ken-of...", "0  ***************...");
	shortened(r, "'s3cr3t-t0ken' \xE2\x80\xA6 'ty-letters'\n(length 30)",
		"'************' \xE2\x80\xA6 '**********'\n(length 30)");
	shortened(r, "xs3cr3t-t0\n\xE2\x80\xA6 9 characters left out \xE2\x80\xA6\nirty-letters.",
		"x*********\n\xE2\x80\xA6 9 characters left out \xE2\x80\xA6\n************.");
	shortened(r, "wait...", "wait...");
	shortened(r, "s3cr3t-...", "s3cr3t-...");
	shortened(r, "...", "...");
	redactor_unref(r);
}

static void what_may_go_on_is_pending(void **state)
{
	(void)state;
	struct redactor *r = redactor_of("s3cr3t-t0ken");
	assert_int_equal(redact_pending(r, "say s3cr3t-", 11), 7);
	assert_int_equal(redact_pending(r, "say s3c", 7), 0);
	assert_int_equal(redact_pending(r, "s3cr3t-t0ken", 12), 0);
	assert_int_equal(redact_pending(r, "czNjcjN0", 8), 8);
	redactor_unref(r);
}

/* ---- against the slow way ---- */

static uint32_t seed = 1;

static uint32_t any(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static struct secret_value *any_value(void)
{
	static const char letters[] = "aab/+ \"\xC3\xA9";
	uint8_t p[24];
	size_t n = LIMIT_SECRET_MIN_BYTES + any(sizeof(p) - LIMIT_SECRET_MIN_BYTES);
	bool few = any(2);
	for (size_t i = 0; i < n; i++)
		p[i] = few ? (uint8_t)letters[any(sizeof(letters) - 1)] : (uint8_t)(1 + any(255));
	return value("ANY", p, n);
}

/* Forms, parts of them and other bytes, one after the other. */
static size_t any_text(const struct naive_forms *f, uint8_t *p, size_t room)
{
	size_t n = 0;
	while (n < room) {
		size_t i = any((uint32_t)f->n), from = any(3) ? 0 : any((uint32_t)f->forms[i].n);
		size_t len =
			any(3) ? f->forms[i].n - from : any((uint32_t)(f->forms[i].n - from) + 1);
		len = MIN(len, room - n);
		memcpy(p + n, f->forms[i].p + from, len);
		n += len;
		for (uint32_t k = any(4) ? 0 : any(20); k && n < room; k--)
			p[n++] = (uint8_t)any(256);
	}
	return n;
}

static void stream_in_pieces(
	const struct redactor *r, const uint8_t *p, size_t n, uint32_t most, struct buf *out)
{
	struct redact_stream s;
	redact_stream_init(&s, r, NULL);
	for (size_t at = 0, len; at < n; at += len) {
		len = 1 + any(most);
		len = MIN(n - at, len);
		assert_int_equal(redact_stream_feed(&s, p + at, len, out), 0);
		assert_true(at + len - out->len <= redactor_reach(r));
	}
	assert_int_equal(redact_stream_end(&s, out), 0);
	redact_stream_done(&s);
}

/* Each byte as a range of its own, with what is around it. */
static void ranges(const struct redactor *r, const uint8_t *p, size_t n, const uint8_t *want)
{
	size_t reach = redactor_reach(r);
	for (int round = 0; round < 30; round++) {
		size_t at = any((uint32_t)n), len = any(2) ? 1 : 1 + any((uint32_t)(n - at));
		size_t from = at - MIN(at, reach), to = MIN(n, at + len + reach);
		uint8_t *part = xmemdup(p + from, to - from);
		redact_bytes(r, part, to - from, NULL);
		assert_memory_equal(part + (at - from), want + at, len);
		free(part);
	}
}

static void search_in_pieces(const struct redactor *r, const uint8_t *p, size_t n, size_t want)
{
	struct redact_search s = {.redactor = r};
	bool found = false;
	for (size_t at = 0, len; at < n && !found; at += len) {
		len = 1 + any(50);
		len = MIN(n - at, len);
		found = redact_search_feed(&s, p + at, len);
	}
	assert_int_equal(found, want < n);
	if (found)
		assert_int_equal(s.offset, want);
}

static void as_the_slow_way(size_t n_values)
{
	struct secret_value *v[4];
	struct redactor *r;
	struct err err;
	uint8_t text[2500], want[sizeof(text)], whole[sizeof(text)];
	for (size_t i = 0; i < n_values; i++)
		v[i] = any_value();
	struct naive_forms *f = naive_new(v, n_values);
	assert_int_equal(redactor_new(v, n_values, &r, &err), 0);
	assert_int_equal(redactor_reach(r), f->longest - 1);

	size_t n = any_text(f, text, 1 + any(sizeof(text)));
	size_t places = naive_mask(f, text, n, want);
	memcpy(whole, text, n);
	assert_int_equal(redact_bytes(r, whole, n, NULL), places);
	assert_memory_equal(whole, want, n);
	for (uint32_t most = 1; most < 10000; most *= 7) {
		_cleanup_buf_ struct buf out = BUF_INIT(n);
		stream_in_pieces(r, text, n, most, &out);
		assert_int_equal(out.len, n);
		assert_memory_equal(out.data, want, n);
	}
	ranges(r, text, n, want);
	search_in_pieces(r, text, n, naive_find(f, text, n));

	naive_free(f);
	redactor_unref(r);
	for (size_t i = 0; i < n_values; i++)
		secret_value_unref(v[i]);
}

static void any_split_is_as_the_slow_way(void **state)
{
	(void)state;
	for (seed = 1; seed < 150;) {
		uint32_t start = seed;
		as_the_slow_way(1 + start % 4);
		seed = start + 1;
	}
}

/* ---- size ---- */

/* Of letters, digits and signs, as tokens are. */
static void any_token(char *p, size_t n)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_.";
	for (size_t i = 0; i < n; i++)
		p[i] = letters[any(sizeof(letters) - 1)];
}

static void twenty_secrets_fit(void **state)
{
	(void)state;
	static const size_t sizes[] = {8, 40, 200, 900};
	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		struct secret_value *v[20];
		struct redactor *r;
		struct err err;
		char p[900];
		for (size_t i = 0; i < 20; i++) {
			any_token(p, sizes[k]);
			v[i] = value("S", p, sizes[k]);
		}
		assert_int_equal(redactor_new(v, 20, &r, &err), 0);
		assert_true(redactor_size(r) <= LIMIT_REDACT_TABLE);
		print_message("# 20 secrets of %zu bytes: a table of %zu KiB\n", sizes[k],
			redactor_size(r) / 1024);
		redactor_unref(r);
		for (size_t i = 0; i < 20; i++)
			secret_value_unref(v[i]);
	}
}

static void what_is_too_much_is_refused(void **state)
{
	(void)state;
	struct secret_value *v[20];
	struct redactor *r;
	struct err err;
	char p[LIMIT_SECRET_BYTES];
	for (size_t i = 0; i < 20; i++) {
		any_token(p, sizeof(p));
		v[i] = value("S", p, sizeof(p));
	}
	assert_true(redactor_new(v, 20, &r, &err) < 0);
	assert_int_equal(err.code, ERR_LIMIT_REACHED);
	assert_non_null(strstr(err.text, "fewer or shorter"));
	for (size_t i = 0; i < 20; i++)
		secret_value_unref(v[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_are_those_of_encoders),
		cmocka_unit_test(no_form_is_shorter_than_the_value),
		cmocka_unit_test(masks_are_as_long_as_what_they_hide),
		cmocka_unit_test(the_union_of_what_overlaps_is_masked),
		cmocka_unit_test(no_redactor_changes_nothing),
		cmocka_unit_test(a_text_stays_utf8),
		cmocka_unit_test(what_a_cut_leaves_of_a_secret_is_masked),
		cmocka_unit_test(what_was_shortened_shows_no_part),
		cmocka_unit_test(what_may_go_on_is_pending),
		cmocka_unit_test(any_split_is_as_the_slow_way),
		cmocka_unit_test(twenty_secrets_fit),
		cmocka_unit_test(what_is_too_much_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
