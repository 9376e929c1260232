/* digest.c: see digest.h. */
#include "files/digest.h"

#include <dlfcn.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/mem.h"

#define LIBRARY "libcrypto.so.3" /* the ABI of the headers that this was built with: OpenSSL 3 */

static struct {
	void *library;
	__typeof__(EVP_MD_CTX_new) *ctx_new;
	__typeof__(EVP_MD_CTX_free) *ctx_free;
	__typeof__(EVP_sha256) *sha256;
	__typeof__(EVP_DigestInit_ex) *init;
	__typeof__(EVP_DigestUpdate) *update;
	__typeof__(EVP_DigestFinal_ex) *final;
} ssl;

struct digest {
	EVP_MD_CTX *ctx;
};

/* For the life of the process. */
static int load(struct err *err)
{
	if (ssl.library)
		return 0;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_set(err, ERR_INTERNAL, 0, "OpenSSL cannot be loaded: %.200s", dlerror());
	const struct {
		const char *name;
		void *to;
	} all[] = {
		{"EVP_MD_CTX_new", &ssl.ctx_new},
		{"EVP_MD_CTX_free", &ssl.ctx_free},
		{"EVP_sha256", &ssl.sha256},
		{"EVP_DigestInit_ex", &ssl.init},
		{"EVP_DigestUpdate", &ssl.update},
		{"EVP_DigestFinal_ex", &ssl.final},
	};
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		void *symbol = dlsym(library, all[i].name);
		if (!symbol) {
			(void)dlclose(library);
			return err_set(err, ERR_INTERNAL, 0, "%s has no %s", LIBRARY, all[i].name);
		}
		*(void **)all[i].to = symbol; /* dlsym(3): POSIX' way to a function */
	}
	ssl.library = library;
	return 0;
}

static int failed(struct err *err)
{
	return err_set(err, ERR_INTERNAL, 0, "OpenSSL could not hash");
}

int digest_new(struct digest **ret, struct err *err)
{
	int r = load(err);
	if (r < 0)
		return r;
	EVP_MD_CTX *ctx = ssl.ctx_new();
	if (!ctx || ssl.init(ctx, ssl.sha256(), NULL) != 1) {
		ssl.ctx_free(ctx);
		return failed(err);
	}
	struct digest *d = xcalloc(1, sizeof(*d));
	d->ctx = ctx;
	*ret = d;
	return 0;
}

int digest_update(struct digest *d, const void *p, size_t n, struct err *err)
{
	return ssl.update(d->ctx, p, n) == 1 ? 0 : failed(err);
}

int digest_final(struct digest *d, uint8_t ret_hash[static SHA256_SIZE], struct err *err)
{
	uint8_t hash[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	if (ssl.final(d->ctx, hash, &n) != 1 || n != SHA256_SIZE)
		return failed(err);
	memcpy(ret_hash, hash, SHA256_SIZE);
	return 0;
}

void digest_free(struct digest *d)
{
	if (!d)
		return;
	ssl.ctx_free(d->ctx);
	free(d);
}
