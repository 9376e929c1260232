/* value.c: see value.h. */
#include "secret/value.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"

struct secret_value {
	unsigned refs;
	size_t size; /* of the mapping */
	size_t n;
	char name[LIMIT_SECRET_NAME + 1];
	uint8_t bytes[];
};

static int unavailable(struct err *err, int errnum, const char *name, const char *why)
{
	return err_set(err, ERR_SECRET_UNAVAILABLE, errnum, "the secret \"%s\" cannot be used: %s",
		name, why);
}

static int check(const char *name, const void *p, size_t n, struct err *err)
{
	if (n == 0)
		return unavailable(err, EINVAL, name, "its value is empty");
	if (n < LIMIT_SECRET_MIN_BYTES)
		return unavailable(err, EINVAL, name,
			"its value has fewer than 8 characters; so short a text cannot be told "
			"from "
			"others where it has to be masked");
	if (n > LIMIT_SECRET_BYTES)
		return unavailable(err, EFBIG, name, "its value is larger than 4 KiB");
	if (memchr(p, 0, n))
		return unavailable(err, EINVAL, name,
			"its value has a NUL byte, which no environment variable can hold; use a "
			"text "
			"form of it, base64 for example");
	return 0;
}

int secret_value_new(
	const char *name, const void *p, size_t n, struct secret_value **ret, struct err *err)
{
	CHECK(secret_name_valid(name));
	int r = check(name, p, n, err);
	if (r < 0)
		return r;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = (sizeof(struct secret_value) + n + page - 1) & ~(page - 1);
	struct secret_value *v =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (v == MAP_FAILED)
		return unavailable(err, errno, name, "there is no memory");
	if (mlock(v, size) < 0 || madvise(v, size, MADV_DONTDUMP) < 0 ||
		madvise(v, size, MADV_DONTFORK) < 0) {
		int e = errno;
		(void)munmap(v, size);
		return unavailable(err, e, name,
			"no memory can be locked for it, so that it could get into swap; raise the "
			"limit "
			"of locked memory (ulimit -l)");
	}
	v->refs = 1;
	v->size = size;
	v->n = n;
	str_copy(v->name, sizeof(v->name), name);
	memcpy(v->bytes, p, n);
	*ret = v;
	return 0;
}

struct secret_value *secret_value_ref(struct secret_value *v)
{
	v->refs++;
	return v;
}

void secret_value_unref(struct secret_value *v)
{
	if (!v || --v->refs > 0)
		return;
	size_t size = v->size;
	explicit_bzero(v, size);
	(void)munmap(v, size);
}

const char *secret_value_name(const struct secret_value *v)
{
	return v->name;
}

const uint8_t *secret_value_bytes(const struct secret_value *v, size_t *ret_n)
{
	*ret_n = v->n;
	return v->bytes;
}

bool secret_value_equal(const struct secret_value *a, const struct secret_value *b)
{
	return strcmp(a->name, b->name) == 0 && a->n == b->n && id_equal(a->bytes, b->bytes, a->n);
}

/* ---- names ---- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool secret_name_valid(const char *name)
{
	size_t n = strlen(name);
	if (n == 0 || n > LIMIT_SECRET_NAME || name[0] == '.' || name[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_letter(name[i]) && !is_digit(name[i]) && !strchr("_-.", name[i]))
			return false;
	return true;
}

bool secret_variable_valid(const char *name)
{
	/* what programs obey rather than use, and what the sandbox sets itself */
	static const char *const families[] = {
		"LD_", "PYTHON", "BASH_", "SCB_", "GCONV_", "MALLOC_", "GLIBC_"};
	static const char *const taken[] = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "ENV",
		"IFS", "PWD", "OLDPWD", "TMPDIR", "TERM", "LANG", "LC_ALL", "TZ", "SHELLOPTS",
		"BASHOPTS", "PS4", "PROMPT_COMMAND", "PERL5LIB", "PERL5OPT", "NODE_OPTIONS",
		"RUBYOPT"};
	size_t n = strlen(name);
	if (n == 0 || n > LIMIT_SECRET_NAME || is_digit(name[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_letter(name[i]) && !is_digit(name[i]) && name[i] != '_')
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		if (strncasecmp(name, families[i], strlen(families[i])) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (strcmp(name, taken[i]) == 0)
			return false;
	return true;
}
