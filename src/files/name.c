/* name.c: see name.h. */
#include "files/name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/str.h"
#include "files/path.h"

/* Characters that show a name as another one: controls, line separators, direction marks and
 * overrides, the byte-order mark. c points at valid UTF-8. */
static const char *bad_character(const uint8_t *c)
{
	if (c[0] < 0x20 || c[0] == 0x7F || (c[0] == 0xC2 && c[1] < 0xA0))
		return "a control character";
	if (strchr("<>:\"\\|?*/", c[0]))
		return "one of < > : \" / \\ | ? *, which other systems refuse";
	if (c[0] == 0xE2 && c[1] == 0x80 && (c[2] == 0xA8 || c[2] == 0xA9))
		return "a line separator";
	bool mark = c[0] == 0xE2 && c[1] == 0x80 && (c[2] == 0x8E || c[2] == 0x8F);
	bool override = c[0] == 0xE2 && c[1] == 0x80 && c[2] >= 0xAA && c[2] <= 0xAE;
	bool isolate = c[0] == 0xE2 && c[1] == 0x81 && c[2] >= 0xA6 && c[2] <= 0xA9;
	if (mark || override || isolate || (c[0] == 0xD8 && c[1] == 0x9C))
		return "a character that turns the direction of the text";
	if (c[0] == 0xEF && c[1] == 0xBB && c[2] == 0xBF)
		return "a byte-order mark";
	return NULL;
}

/* Windows opens a device by these, whatever the extension. */
static bool is_device(const char *name)
{
	static const char *const devices[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"};
	size_t n = strcspn(name, ".");
	while (n && name[n - 1] == ' ')
		n--;
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		if (n == strlen(devices[i]) && strncasecmp(name, devices[i], n) == 0)
			return true;
	}
	if (n < 4 || (strncasecmp(name, "COM", 3) != 0 && strncasecmp(name, "LPT", 3) != 0))
		return false;
	bool digit = n == 4 && name[3] >= '0' && name[3] <= '9';
	/* ¹ ² ³ count too */
	return digit || (n == 5 && memchr("\xB9\xB2\xB3", name[4], 3) && (uint8_t)name[3] == 0xC2);
}

static const char *reason(const char *name)
{
	size_t n = strlen(name);
	if (n == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return "it is a directory";
	if (n > LIMIT_NAME)
		return "its name is longer than 255 bytes";
	if (!str_utf8_valid(name, n))
		return "its name is no UTF-8";
	if (name[0] == '-')
		return "its name begins with - and would be taken for an option";
	if (name[0] == '.')
		return "its name begins with a dot and would be hidden";
	if (name[n - 1] == '.' || name[n - 1] == ' ' || name[0] == ' ')
		return "its name begins or ends with a blank or ends with a dot, which other "
		       "systems "
		       "cut off";
	if (is_device(name))
		return "its name is that of a device on Windows";
	return NULL;
}

int name_check(const char *name, struct err *err)
{
	char shown[PATH_SHOWN];
	path_shown(name, shown);
	const char *why = reason(name);
	if (why)
		return err_set(err, ERR_FILE_REFUSED, EINVAL,
			"%s cannot be presented: %s; present a regular file with another name",
			shown, why);
	for (const uint8_t *c = (const uint8_t *)name; *c; c++) {
		why = bad_character(c);
		if (why)
			return err_set(err, ERR_FILE_REFUSED, EINVAL,
				"%s cannot be presented: its name holds %s; rename the file first",
				shown, why);
	}
	return 0;
}

char *name_encode(const char *name)
{
	static const char hex[] = "0123456789ABCDEF";
	char *out = xmalloc(3 * strlen(name) + 1), *to = out;
	for (const uint8_t *c = (const uint8_t *)name; *c; c++) {
		if ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z') {
			*to++ = (char)*c;
		} else if ((*c >= '0' && *c <= '9') || strchr("-._~", *c)) {
			*to++ = (char)*c;
		} else {
			*to++ = '%';
			*to++ = hex[*c >> 4];
			*to++ = hex[*c & 15];
		}
	}
	*to = '\0';
	return out;
}
