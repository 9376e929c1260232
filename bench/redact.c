/* redact.c: how fast texts are looked through for twenty secrets, one "NAME VALUE" a line. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "secret/redact.h"
#include "secret/value.h"

#define SECRETS 20
#define TEXT    (16 * MIB)

static uint32_t seed = 1;

static uint32_t any(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static struct redactor *any_secrets(size_t n)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_.";
	struct secret_value *values[SECRETS];
	struct redactor *r;
	struct err err;
	char p[40];
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < sizeof(p); k++)
			p[k] = letters[any(sizeof(letters) - 1)];
		CHECK(secret_value_new("TOKEN", p, sizeof(p), &values[i], &err) == 0);
	}
	CHECK(redactor_new(values, n, &r, &err) == 0);
	for (size_t i = 0; i < n; i++)
		secret_value_unref(values[i]);
	return r;
}

/* What programs print: dates, words, numbers, hexadecimal, paths, JSON. */
static size_t ordinary_line(char *p, size_t room)
{
	static const char *const words[] = {"the", "connection", "from", "was", "request", "INFO",
		"WARNING", "of", "file", "/usr/lib/python3/dist-packages/pandas", "and", "took",
		"bytes", "loaded", "GET", "200", "error", "retry", "session", "{\"id\": 17,"};
	int n = snprintf(p, room, "2026-11-%02u %02u:%02u:%02u.%03u ", 1 + any(28), any(24),
		any(60), any(60), any(1000));
	for (uint32_t k = 4 + any(12); k; k--)
		n += snprintf(p + n, room - (size_t)n, "%s ", words[any(ARRAY_SIZE(words))]);
	n += any(2) ? snprintf(p + n, room - (size_t)n, "%08x%08x\n", any(UINT32_MAX),
			      any(UINT32_MAX))
		    : snprintf(p + n, room - (size_t)n, "%u.%06u\n", any(100000), any(1000000));
	return (size_t)n;
}

/* The slowest that a program can print: one beginning of a form after the other. */
static size_t hostile_line(char *p, size_t room)
{
	char line[1024];
	size_t n = ordinary_line(line, sizeof(line)), at = 0;
	for (size_t i = 0; i < n && at + 8 < room; i++)
		at += (size_t)snprintf(
			p + at, room - at, "\\u00%02x", (unsigned char)line[i] & 0x7f);
	return at;
}

static void measure(const char *name, const struct redactor *r, size_t (*line)(char *, size_t))
{
	char *text = xmalloc(TEXT + KIB);
	for (size_t n = 0; n < TEXT;)
		n += line(text + n, KIB);
	uint64_t best_us = UINT64_MAX;
	for (int round = 0; round < 7; round++) {
		uint64_t before_us = clock_monotonic_us();
		redact_bytes(r, text, TEXT, NULL);
		best_us = MIN(best_us, clock_monotonic_us() - before_us);
	}
	printf("%s %.1f\n", name, (double)TEXT / (double)MAX(best_us, 1));
	free(text);
}

/* An answer of a warm call has some ten short texts. */
static void measure_short(const struct redactor *r)
{
	static const char *const texts[] = {"s-0123456789abcdef0123456789abcdef", "text", "done",
		"session s-0123456789abcdef0123456789abcdef\n2\n", "exit", "measured", "2",
		"j-0123456789abcdef0123456789abcdef", "", "python", "text/plain"};
	const unsigned rounds = 100000;
	char text[80];
	uint64_t before_us = clock_monotonic_us();
	for (unsigned i = 0; i < rounds; i++)
		for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
			size_t n = strlen(texts[k]);
			memcpy(text, texts[k], n);
			redact_bytes(r, text, n, NULL);
		}
	printf("answer_us %.3f\n", (double)(clock_monotonic_us() - before_us) / rounds);
}

int main(void)
{
	struct redactor *r = any_secrets(SECRETS), *one = any_secrets(1);
	printf("table_kib %.1f\n", (double)redactor_size(r) / 1024);
	measure("ordinary_mb_s", r, ordinary_line);
	measure("hostile_mb_s", r, hostile_line);
	measure_short(one);
	redactor_unref(r);
	redactor_unref(one);
	return 0;
}
