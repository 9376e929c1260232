/* glob.c: see glob.h. */
#include "base/glob.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static const struct {
	char name[9];
	int (*is)(int);
} classes[] = {
	{"alnum:]", isalnum},
	{"alpha:]", isalpha},
	{"blank:]", isblank},
	{"cntrl:]", iscntrl},
	{"digit:]", isdigit},
	{"graph:]", isgraph},
	{"lower:]", islower},
	{"print:]", isprint},
	{"punct:]", ispunct},
	{"space:]", isspace},
	{"upper:]", isupper},
	{"xdigit:]", isxdigit},
};

/* The next character; its bytes as a number, which is ordered as code points are. */
static uint32_t take(const char **s)
{
	uint32_t c = 0;
	for (size_t n = str_utf8_first(*s); n; n--)
		c = c << 8 | (uint8_t) * (*s)++;
	return c;
}

/* The same, in a pattern where it may stand behind a "\". */
static uint32_t take_literal(const char **p)
{
	if (**p == '\\' && (*p)[1])
		(*p)++;
	return take(p);
}

/* Of "[:name:]", if one stands at *p: is c in it? It is passed over. */
static bool in_class(const char **p, uint32_t c, bool *ret_in)
{
	if (!str_starts(*p, "[:"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		if (str_starts(*p + 2, classes[i].name)) {
			*p += 2 + strlen(classes[i].name);
			*ret_in = c < 0x80 && classes[i].is((int)c);
			return true;
		}
	}
	return false;
}

/* Of "[set]", whose "[" has been passed: 1 where c is in it, 0 where not, and *p stands behind it;
 * -1 where no set stands there. */
static int in_set(const char **p, uint32_t c, bool path)
{
	const char *s = *p;
	bool negated = *s == '!' || *s == '^', found = false;
	s += negated;
	const char *first = s;
	while (*s != ']' || s == first) {
		bool in;
		if (!*s || (path && *s == '/'))
			return -1;
		if (!in_class(&s, c, &in)) {
			uint32_t low = take_literal(&s), high = low;
			if (s[0] == '-' && s[1] && s[1] != ']') {
				s++;
				high = take_literal(&s);
			}
			in = low <= c && c <= high;
		}
		found |= in;
	}
	*p = s + 1;
	return found != negated;
}

/* Does the first of the pattern, which is no "*", stand for the first character of the text? Passes
 * over both. */
static bool match_one(const char **p, const char **s, bool path)
{
	uint32_t c = take(s);
	if (**p == '?') {
		(*p)++;
		return !path || c != '/';
	}
	if (**p == '[') {
		const char *set = *p + 1;
		int in = in_set(&set, c, path);
		if (in >= 0) {
			*p = set;
			return in && (!path || c != '/');
		}
	}
	return take_literal(p) == c;
}

bool glob_match(const char *p, const char *s, bool path)
{
	/* Behind the last "*", and behind what it stands for. Those before it need not be tried
	 * again: where they stand for as little as they can, the most is left for the rest. */
	const char *star = NULL, *rest = NULL;
	for (;;) {
		if (*p == '*') {
			star = ++p;
			rest = s;
			continue;
		}
		if (!*s)
			return !*p;
		if (*p && match_one(&p, &s, path))
			continue;
		if (!star || (path && *rest == '/'))
			return false;
		(void)take(&rest);
		p = star;
		s = rest;
	}
}
