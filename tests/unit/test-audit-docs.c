/* test-audit-docs.c: docs/audit.md has the table of ids that the program has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "audit/owasp.h"
#include "base/buf.h"

static char *page(void)
{
	static char text[64 * 1024];
	FILE *f = fopen(AUDIT_PAGE, "re");
	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

static void the_table_is_the_same(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf b = BUF_INIT(16 * 1024);
	assert_int_equal(buf_append_str(&b, "| event | ids |\n| --- | --- |\n"), 0);
	for (size_t i = 0; i < owasp_n_rows; i++) {
		assert_int_equal(buf_printf(&b, "| `%s` | ", owasp_rows[i].event), 0);
		for (size_t k = 0; owasp_rows[i].ids[k]; k++)
			assert_int_equal(
				buf_printf(&b, "%s%s", k ? ", " : "", owasp_rows[i].ids[k]), 0);
		assert_int_equal(buf_append_str(&b, " |\n"), 0);
	}
	assert_int_equal(buf_append(&b, "\n", 2), 0); /* the end of the table, and of the text */
	if (!strstr(page(), (const char *)b.data))
		fail_msg("docs/audit.md has not this table:\n%s", (const char *)b.data);
}

static void limits_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; owasp_limit_reasons[i]; i++)
		if (!strstr(page(), owasp_limit_reasons[i]))
			fail_msg("%s", owasp_limit_reasons[i]);
	/* ids that exist */
	for (size_t i = 0; i < owasp_n_rows; i++)
		for (size_t k = 0; owasp_rows[i].ids[k]; k++) {
			unsigned n = 0;
			const char *id = owasp_rows[i].ids[k];
			bool asi = sscanf(id, "ASI%2u", &n) == 1;
			assert_true(asi || sscanf(id, "T%2u", &n) == 1);
			assert_in_range(n, 1, asi ? 10 : 17);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_is_the_same),
		cmocka_unit_test(limits_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
