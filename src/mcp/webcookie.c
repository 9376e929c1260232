/* webcookie.c: see webcookie.h. */
#include "mcp/webcookie.h"

#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"

static void sign(const uint8_t *key, const struct webcookie_of *of, uint64_t until_s,
	uint8_t ret_mac[static SHA256_SIZE])
{
	const char *what = of->once ? "scb host page, once" : "scb host page";
	char until[24];
	(void)snprintf(until, sizeof(until), "%llu", (unsigned long long)until_s);
	/* each with its NUL, or of one length: no text can be moved from one to the next */
	const struct hmac_part parts[] = {{what, strlen(what) + 1},
		{of->principal, strlen(of->principal) + 1}, {of->token, SHA256_SIZE},
		{until, strlen(until) + 1}};
	sha256_hmac(key, WEBLINK_KEY, parts, ARRAY_SIZE(parts), ret_mac);
}

void webcookie_make(const uint8_t key[static WEBLINK_KEY], const struct webcookie_of *of,
	uint64_t until_s, char ret[static WEBCOOKIE_VALUE])
{
	uint8_t mac[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];
	sign(key, of, until_s, mac);
	id_hex(mac, sizeof(mac), hex);
	(void)snprintf(ret, WEBCOOKIE_VALUE, "%llu.%s", (unsigned long long)until_s, hex);
}

bool webcookie_holds(const uint8_t key[static WEBLINK_KEY], const struct webcookie_of *of,
	const char *value, size_t n, uint64_t now_s, uint64_t *ret_until_s)
{
	char text[WEBCOOKIE_VALUE];
	uint8_t mac[SHA256_SIZE], given[SHA256_SIZE];
	uint64_t until_s;
	if (n >= sizeof(text))
		return false;
	memcpy(text, value, n);
	text[n] = '\0';
	char *dot = strchr(text, '.');
	if (!dot)
		return false;
	*dot = '\0';
	if (str_to_u64(text, INT64_MAX, &until_s) < 0 ||
		id_unhex(dot + 1, given, sizeof(given)) < 0)
		return false;
	sign(key, of, until_s, mac);
	if (ret_until_s)
		*ret_until_s = until_s;
	return id_equal(mac, given, sizeof(mac)) && until_s > now_s;
}

const char *webcookie_find(const char *field, const char *name, size_t *ret_n)
{
	size_t length = strlen(name);
	const char *found = NULL;
	for (const char *p = field; p && *p;) {
		p += strspn(p, " \t;");
		size_t n = strcspn(p, ";");
		if (n > length && p[length] == '=' && strncmp(p, name, length) == 0) {
			if (found)
				return NULL;
			found = p + length + 1;
			*ret_n = n - length - 1;
			while (*ret_n && (found[*ret_n - 1] == ' ' || found[*ret_n - 1] == '\t'))
				--*ret_n;
		}
		p += n;
	}
	return found;
}

char *webcookie_query(const char *target, const char *name)
{
	size_t length = strlen(name);
	const char *q = strchr(target, '?'), *found = NULL;
	size_t found_n = 0;
	for (const char *p = q ? q + 1 : NULL; p && *p;) {
		size_t n = strcspn(p, "&");
		if (n > length && p[length] == '=' && strncmp(p, name, length) == 0) {
			if (found)
				return NULL;
			found = p + length + 1;
			found_n = n - length - 1;
		}
		p += n + (p[n] == '&');
	}
	return found ? weblink_decode(found, found_n) : NULL;
}
