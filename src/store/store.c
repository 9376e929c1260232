/* store.c: what all back-ends have in common; see store.h. */
#include "store/store.h"

#include <errno.h>
#include <string.h>

bool store_key_valid(const char *key)
{
	size_t n = strlen(key), slashes = 0;
	if (n > STORE_KEY_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = key[i];
		bool slash = c == '/';
		if (!slash && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' &&
			c != '-')
			return false;
		if (slash && (i == 0 || i == n - 1 || key[i - 1] == '/'))
			return false;
		slashes += slash;
	}
	return slashes == 1;
}

int store_bad_key(const char *key, struct err *err)
{
	return err_set(err, ERR_INVALID_ARGUMENT, EINVAL, "\"%.40s\" is no key of the store", key);
}

int store_check_put(const char *key, size_t n, struct err *err)
{
	if (!store_key_valid(key))
		return store_bad_key(key, err);
	if (n > STORE_VALUE_MAX)
		return err_set(err, ERR_INVALID_ARGUMENT, EMSGSIZE,
			"a record of %zu bytes is larger than the store takes (%d)", n,
			STORE_VALUE_MAX);
	return 0;
}
