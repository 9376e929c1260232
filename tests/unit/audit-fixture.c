/* audit-fixture.c: see audit-fixture.h. */
#include "audit-fixture.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "provider/record.h"

char al_dir[] = "/tmp/test-audit-XXXXXX";
char al_path[64], al_key[64];

struct audit *al_opened_with(const struct audit_config *config)
{
	struct audit *a = NULL;
	struct err err = {0};
	if (audit_open(al_path, al_key, config, &a, &err) < 0)
		fail_msg("%s", err.text);
	return a;
}

struct audit *al_opened(void)
{
	return al_opened_with(NULL);
}

void al_start_anew(void)
{
	assert_int_equal(record_remove_tree(al_dir), 0);
	assert_int_equal(mkdir(al_dir, 0700), 0);
}

int al_setup(void **state)
{
	(void)state;
	if (!mkdtemp(al_dir))
		return -1;
	(void)snprintf(al_path, sizeof(al_path), "%s/audit.jsonl", al_dir);
	(void)snprintf(al_key, sizeof(al_key), "%s/audit.key", al_dir);
	return 0;
}

int al_teardown(void **state)
{
	(void)state;
	return record_remove_tree(al_dir);
}

json_t *al_read_line(FILE *f)
{
	static char line[256 * 1024];
	if (!fgets(line, sizeof(line), f))
		return NULL;
	return json_loads(line, JSON_REJECT_DUPLICATES, NULL);
}

off_t al_size(void)
{
	struct stat st;
	assert_int_equal(stat(al_path, &st), 0);
	return st.st_size;
}

size_t al_lines_with(const char *event)
{
	size_t n = 0;
	FILE *f = fopen(al_path, "re");
	for (json_t *line; (line = al_read_line(f)); json_decref(line))
		n += strcmp(json_string_value(json_object_get(line, "event")), event) == 0;
	fclose(f);
	return n;
}

json_t *al_last_line(void)
{
	json_t *last = NULL;
	FILE *f = fopen(al_path, "re");
	for (json_t *o; (o = al_read_line(f)); last = o)
		json_decref(last);
	fclose(f);
	return last;
}

size_t al_check_chain(const char *file, json_int_t *seq, char prev[static HASH_TEXT])
{
	static char line[256 * 1024];
	size_t n = 0;
	FILE *f = fopen(file, "re");
	assert_non_null(f);
	for (; fgets(line, sizeof(line), f); n++) {
		uint8_t hash[HASH_SIZE];
		size_t len = strcspn(line, "\n");
		assert_int_equal(line[len], '\n');
		json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(o);
		if (*seq)
			assert_string_equal(json_string_value(json_object_get(o, "prev")), prev);
		assert_true(!*seq || json_integer_value(json_object_get(o, "seq")) == *seq + 1);
		*seq = json_integer_value(json_object_get(o, "seq"));
		json_decref(o);
		hash_bytes(line, len, hash);
		id_hex(hash, sizeof(hash), prev);
	}
	fclose(f);
	return n;
}

size_t al_check(void)
{
	char prev[HASH_TEXT] = "";
	json_int_t seq = 0;
	return al_check_chain(al_path, &seq, prev);
}

void al_write_some(struct audit *a, unsigned n)
{
	struct err err = {0};
	const struct audit_event e = {
		.event = "tool.call", .tool = "files", .detail = "one of many"};
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(audit_event(a, &e, &err), 0);
}
