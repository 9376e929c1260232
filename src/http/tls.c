/* tls.c: see tls.h. */
#include "http/tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define LIBRARY "libssl.so.3" /* the ABI of the headers that this was built with: OpenSSL 3 */

static struct {
	void *library;
	__typeof__(TLS_server_method) *server_method;
	__typeof__(TLS_client_method) *client_method;
	__typeof__(SSL_CTX_load_verify_file) *load_verify;
	__typeof__(SSL_CTX_set_verify) *set_verify;
	__typeof__(SSL_set_connect_state) *set_connect;
	__typeof__(SSL_set1_host) *set_host;
	__typeof__(SSL_ctrl) *ctrl;
	__typeof__(SSL_get_verify_result) *verify_result;
	__typeof__(SSL_CTX_new) *ctx_new;
	__typeof__(SSL_CTX_free) *ctx_free;
	__typeof__(SSL_CTX_ctrl) *ctx_ctrl;
	__typeof__(SSL_CTX_set_options) *ctx_set_options;
	__typeof__(SSL_CTX_use_certificate_chain_file) *use_chain;
	__typeof__(SSL_CTX_use_PrivateKey_file) *use_key;
	__typeof__(SSL_CTX_check_private_key) *check_key;
	__typeof__(SSL_CTX_set_alpn_select_cb) *set_alpn;
	__typeof__(SSL_CTX_set_default_passwd_cb) *set_password;
	__typeof__(SSL_new) *new;
	__typeof__(SSL_free) *free;
	__typeof__(SSL_set_accept_state) *set_accept;
	__typeof__(SSL_set_bio) *set_bio;
	__typeof__(SSL_do_handshake) *handshake;
	__typeof__(SSL_read) *read;
	__typeof__(SSL_write) *write;
	__typeof__(SSL_shutdown) *shutdown;
	__typeof__(SSL_get_error) *get_error;
	__typeof__(BIO_new) *bio_new;
	__typeof__(BIO_s_mem) *bio_mem;
	__typeof__(BIO_read) *bio_read;
	__typeof__(BIO_write) *bio_write;
	__typeof__(X509_verify_cert_error_string) *verify_reason;
	__typeof__(ERR_get_error) *error;
	__typeof__(ERR_reason_error_string) *reason;
	__typeof__(ERR_clear_error) *clear;
} ssl;

struct tls_context {
	SSL_CTX *ctx;
};

struct tls {
	SSL *ssl;
	BIO *from_peer, *to_peer; /* its own */
	bool established, broken;
	char why[120];
};

/* ---- the library ---- */

/* For the life of the process. */
static int load(struct err *err)
{
	if (ssl.library)
		return 0;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_set(err, ERR_UNSUPPORTED, 0,
			"TLS needs OpenSSL 3, which cannot be loaded: %.200s", dlerror());
	const struct {
		const char *name;
		void *to;
	} all[] = {
		{"TLS_server_method", &ssl.server_method},
		{"TLS_client_method", &ssl.client_method},
		{"SSL_CTX_load_verify_file", &ssl.load_verify},
		{"SSL_CTX_set_verify", &ssl.set_verify},
		{"SSL_set_connect_state", &ssl.set_connect},
		{"SSL_set1_host", &ssl.set_host},
		{"SSL_ctrl", &ssl.ctrl},
		{"SSL_get_verify_result", &ssl.verify_result},
		{"SSL_CTX_new", &ssl.ctx_new},
		{"SSL_CTX_free", &ssl.ctx_free},
		{"SSL_CTX_ctrl", &ssl.ctx_ctrl},
		{"SSL_CTX_set_options", &ssl.ctx_set_options},
		{"SSL_CTX_use_certificate_chain_file", &ssl.use_chain},
		{"SSL_CTX_use_PrivateKey_file", &ssl.use_key},
		{"SSL_CTX_check_private_key", &ssl.check_key},
		{"SSL_CTX_set_alpn_select_cb", &ssl.set_alpn},
		{"SSL_CTX_set_default_passwd_cb", &ssl.set_password},
		{"SSL_new", &ssl.new},
		{"SSL_free", &ssl.free},
		{"SSL_set_accept_state", &ssl.set_accept},
		{"SSL_set_bio", &ssl.set_bio},
		{"SSL_do_handshake", &ssl.handshake},
		{"SSL_read", &ssl.read},
		{"SSL_write", &ssl.write},
		{"SSL_shutdown", &ssl.shutdown},
		{"SSL_get_error", &ssl.get_error},
		{"BIO_new", &ssl.bio_new},
		{"BIO_s_mem", &ssl.bio_mem},
		{"BIO_read", &ssl.bio_read},
		{"BIO_write", &ssl.bio_write},
		{"X509_verify_cert_error_string", &ssl.verify_reason},
		{"ERR_get_error", &ssl.error},
		{"ERR_reason_error_string", &ssl.reason},
		{"ERR_clear_error", &ssl.clear},
	};
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		void *symbol = dlsym(library, all[i].name);
		if (!symbol) {
			(void)dlclose(library);
			return err_set(
				err, ERR_UNSUPPORTED, 0, "%s has no %s", LIBRARY, all[i].name);
		}
		*(void **)all[i].to = symbol; /* dlsym(3): POSIX' way to a function */
	}
	ssl.library = library;
	return 0;
}

/* ---- certificate and key ---- */

static int check_key_file(const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "the TLS key %.300s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
		(st.st_mode & 0037))
		return err_set(err, ERR_IO, EPERM,
			"the TLS key %.300s must be a file of yours that others cannot read "
			"(chmod 600)",
			path);
	return 0;
}

static int failed(const char *what, const char *path, struct err *err)
{
	const char *why = ssl.reason(ssl.error());
	ssl.clear();
	return err_set(err, ERR_INVALID_ARGUMENT, EINVAL, "the TLS %s %.300s: %.100s", what, path,
		why ? why : "not accepted");
}

/* A key with a password is not asked for on some terminal. */
static int no_password(char *p, int size, int writing, void *user)
{
	(void)p;
	(void)size;
	(void)writing;
	(void)user;
	return -1;
}

static int on_alpn(SSL *s, const unsigned char **ret, unsigned char *ret_n, const unsigned char *in,
	unsigned n, void *user)
{
	static const unsigned char http[] = "http/1.1";
	(void)s;
	(void)user;
	for (unsigned i = 0; i < n; i += 1U + in[i])
		if (in[i] == sizeof(http) - 1 && i + in[i] < n &&
			memcmp(in + i + 1, http, sizeof(http) - 1) == 0) {
			*ret = in + i + 1;
			*ret_n = in[i];
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_ALERT_FATAL; /* it would speak something else */
}

static void restrict_to(SSL_CTX *ctx, uint64_t more_options)
{
	(void)ssl.ctx_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
	(void)ssl.ctx_ctrl(ctx, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, NULL);
	(void)ssl.ctx_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	(void)ssl.ctx_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					       SSL_OP_IGNORE_UNEXPECTED_EOF | more_options);
	ssl.set_password(ctx, no_password);
}

static int show(SSL_CTX *ctx, const char *cert, const char *key, struct err *err)
{
	if (ssl.use_chain(ctx, cert) != 1)
		return failed("certificate", cert, err);
	if (ssl.use_key(ctx, key, SSL_FILETYPE_PEM) != 1)
		return failed("key", key, err);
	return ssl.check_key(ctx) == 1 ? 0 : failed("key does not belong to", cert, err);
}

static int take_context(SSL_CTX *ctx, int r, struct tls_context **ret)
{
	if (r < 0) {
		ssl.ctx_free(ctx);
		return r;
	}
	struct tls_context *c = xcalloc(1, sizeof(*c));
	c->ctx = ctx;
	*ret = c;
	return 0;
}

int tls_context_new(const char *cert, const char *key, struct tls_context **ret, struct err *err)
{
	int r = check_key_file(key, err);
	if (r == 0)
		r = load(err);
	if (r < 0)
		return r;
	SSL_CTX *ctx = ssl.ctx_new(ssl.server_method());
	if (ctx) {
		restrict_to(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
		ssl.set_alpn(ctx, on_alpn, NULL);
	}
	r = ctx ? show(ctx, cert, key, err) : failed("library", LIBRARY, err);
	return take_context(ctx, r, ret);
}

int tls_client_context_new(const char *ca, const char *cert, const char *key,
	struct tls_context **ret, struct err *err)
{
	int r = key ? check_key_file(key, err) : 0;
	if (r == 0)
		r = load(err);
	if (r < 0)
		return r;
	SSL_CTX *ctx = ssl.ctx_new(ssl.client_method());
	r = ctx ? 0 : failed("library", LIBRARY, err);
	if (ctx) {
		restrict_to(ctx, 0);
		ssl.set_verify(ctx, SSL_VERIFY_PEER, NULL);
	}
	if (r == 0 && ssl.load_verify(ctx, ca) != 1)
		r = failed("authority", ca, err);
	if (r == 0 && cert)
		r = show(ctx, cert, key, err);
	return take_context(ctx, r, ret);
}

void tls_context_free(struct tls_context *c)
{
	if (!c)
		return;
	ssl.ctx_free(c->ctx);
	free(c);
}

/* ---- a connection ---- */

static struct tls *new_tls(struct tls_context *c)
{
	struct tls *t = xcalloc(1, sizeof(*t));
	t->ssl = ssl.new(c->ctx);
	t->from_peer = ssl.bio_new(ssl.bio_mem());
	t->to_peer = ssl.bio_new(ssl.bio_mem());
	CHECK(t->ssl && t->from_peer && t->to_peer); /* memory is gone */
	ssl.set_bio(t->ssl, t->from_peer, t->to_peer);
	return t;
}

struct tls *tls_new(struct tls_context *c)
{
	struct tls *t = new_tls(c);
	ssl.set_accept(t->ssl);
	return t;
}

struct tls *tls_new_client(struct tls_context *c, const char *host)
{
	struct tls *t = new_tls(c);
	struct in6_addr address;
	bool name =
		inet_pton(AF_INET, host, &address) != 1 && inet_pton(AF_INET6, host, &address) != 1;
	ssl.set_connect(t->ssl);
	if (name)
		(void)ssl.ctrl(t->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
			(void *)host);
	/* Without it any certificate of that authority would do. */
	t->broken = ssl.set_host(t->ssl, host) != 1;
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	ssl.free(t->ssl);
	free(t);
}

bool tls_established(const struct tls *t)
{
	return t->established;
}

const char *tls_why(const struct tls *t)
{
	return t->why;
}

/* What is to go to the peer. */
static int take_out(struct tls *t, struct buf *out)
{
	char piece[16 * KIB];
	for (int n; (n = ssl.bio_read(t->to_peer, piece, sizeof(piece))) > 0;)
		if (buf_append(out, piece, (size_t)n) < 0)
			return -ENOBUFS;
	return 0;
}

/* 0: it goes on when more has come. */
static int judge(struct tls *t, int result)
{
	int e = ssl.get_error(t->ssl, result);
	const char *why = ssl.reason(ssl.error());
	ssl.clear();
	if (e == SSL_ERROR_WANT_READ)
		return 0;
	t->broken = true;
	long verified = ssl.verify_result(t->ssl);
	if (verified != X509_V_OK)
		why = ssl.verify_reason(verified);
	str_copy(t->why, sizeof(t->why), why);
	return e == SSL_ERROR_ZERO_RETURN ? -EPIPE : -EPROTO;
}

static int read_plain(struct tls *t, struct buf *in)
{
	char piece[16 * KIB];
	int n;
	while ((n = ssl.read(t->ssl, piece, sizeof(piece))) > 0)
		if (buf_append(in, piece, (size_t)n) < 0)
			return -ENOBUFS;
	return judge(t, n);
}

int tls_open(struct tls *t, const void *p, size_t n, struct buf *in, struct buf *out)
{
	if (t->broken)
		return -EPROTO;
	if (ssl.bio_write(t->from_peer, p, (int)n) != (int)n)
		return -ENOBUFS;
	int r = 0;
	if (!t->established) {
		int done = ssl.handshake(t->ssl);
		t->established = done == 1;
		r = t->established ? 0 : judge(t, done);
	}
	if (r == 0 && t->established)
		r = read_plain(t, in);
	int sent = take_out(t, out);
	return r < 0 ? r : sent;
}

int tls_seal(struct tls *t, const void *p, size_t n, struct buf *out)
{
	CHECK(t->established);
	if (t->broken)
		return -EPROTO;
	if (n > 0 && ssl.write(t->ssl, p, (int)n) != (int)n) {
		t->broken = true;
		ssl.clear();
		return -EPROTO;
	}
	return take_out(t, out);
}

void tls_goodbye(struct tls *t, struct buf *out)
{
	if (!t->established || t->broken)
		return;
	(void)ssl.shutdown(t->ssl);
	ssl.clear();
	(void)!take_out(t, out);
}
