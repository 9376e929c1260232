/* web.c: see web.h. */
#include "cli/web.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/paths.h"
#include "cli/webgive.h"
#include "http/peers.h"
#include "http/tls.h"
#include "mcp/http.h"
#include "mcp/webcookie.h"
#include "session/session.h"

/* The user's own: 256 bits in hex. */
#define OWN_TOKEN_BYTES 32
#define OWN_TOKEN_FILE  "http-token"
/* Of a token file. A short one could be guessed. */
#define TOKEN_MIN      16
#define TOKEN_MAX      256
#define TOKEN_FILE_MAX (WEB_TOKENS * (TOKEN_MAX + 80))
/* Of links to presented files: so that they outlive this process. */
#define LINK_KEY_FILE "link-key"
/* Of the page: with the token, as one opens it. */
#define URL_FILE "http-url"
#define URL_MAX  (4 * KIB)

struct web {
	struct mcp_http *http;
	struct webgive *give;
	struct session_profile profile;
	struct err no_provider;
	const struct web_settings *settings; /* borrowed */
	char *url_file;
	void (*done)(void *user);
	void *done_user;
};

/* ---- options ---- */

static int set_http(void *user, const char *value, struct err *err)
{
	struct web_settings *w = user;
	const char *colon = strrchr(value, ':');
	uint64_t port = 0;
	bool six = value[0] == '[';
	size_t n = colon ? (size_t)(colon - value) : 0;
	if (six && n > 2 && value[n - 1] == ']') {
		value++;
		n -= 2;
	}
	if (!colon || n == 0 || n >= sizeof(w->host) ||
		str_to_u64(colon + 1, UINT16_MAX, &port) < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --http takes ADDRESS:PORT, like 127.0.0.1:8931 or [::1]:8931");
	(void)snprintf(w->host, sizeof(w->host), "%.*s", (int)n, value);
	if (strcmp(w->host, "localhost") == 0)
		(void)snprintf(w->host, sizeof(w->host), "127.0.0.1");
	w->port = (uint16_t)port;
	return 0;
}

static int set_token_file(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct web_settings *)user)->token_file = value;
	return 0;
}

static int set_no_token(void *user, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	((struct web_settings *)user)->no_token = true;
	return 0;
}

static int set_insecure(void *user, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	((struct web_settings *)user)->insecure = true;
	return 0;
}

static int add(const char **list, size_t *n, const char *value, struct err *err)
{
	if (*n == WEB_ALLOWED)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"at most %d hosts, origins and proxies can be named", WEB_ALLOWED);
	list[(*n)++] = value;
	return 0;
}

static int set_url(void *user, const char *value, struct err *err)
{
	const char *host = str_starts(value, "https://")  ? value + 8
			   : str_starts(value, "http://") ? value + 7
							  : "";
	size_t n = strcspn(host, "?#\"\\<> \t\r\n");
	if (n == 0 || host[n] || host[0] == '/' || host[n - 1] == '/')
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --url takes what clients reach this server by, without a slash at "
			"the end, like https://scb.example.com");
	((struct web_settings *)user)->url = value;
	return 0;
}

static int add_host(void *user, const char *value, struct err *err)
{
	struct web_settings *w = user;
	return add(w->hosts, &w->n_hosts, value, err);
}

static int add_origin(void *user, const char *value, struct err *err)
{
	struct web_settings *w = user;
	return add(w->origins, &w->n_origins, value, err);
}

static int add_proxy(void *user, const char *value, struct err *err)
{
	struct web_settings *w = user;
	struct peer_address a;
	if (!peer_address_parse(value, &a))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --proxy takes a numeric address, like 127.0.0.1");
	return add(w->proxies, &w->n_proxies, value, err);
}

static int set_cert(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct web_settings *)user)->tls_cert = value;
	return 0;
}

static int set_key(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct web_settings *)user)->tls_key = value;
	return 0;
}

const struct option_def web_options[] = {
	{"--http", "ADDRESS:PORT", set_http},
	{"--token-file", "FILE", set_token_file},
	{"--no-token", NULL, set_no_token},
	{"--allow-host", "HOST", add_host},
	{"--allow-origin", "ORIGIN", add_origin},
	{"--insecure-http", NULL, set_insecure},
	{"--url", "URL", set_url},
	{"--proxy", "ADDRESS", add_proxy},
	{"--tls-cert", "FILE", set_cert},
	{"--tls-key", "FILE", set_key},
	{0},
};

static bool is_loopback(const char *host)
{
	return str_starts(host, "127.") || strcmp(host, "::1") == 0;
}

int web_check(const struct web_settings *w, struct err *err)
{
	bool others = w->url || w->token_file || w->no_token || w->n_hosts || w->n_origins ||
		      w->insecure || w->tls_cert || w->tls_key || w->n_proxies;
	if (!w->host[0])
		return others ? err_set(err, ERR_INVALID_ARGUMENT, 0,
					"options of --http are given, but not --http itself")
			      : 0;
	if (w->no_token && w->token_file)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"--no-token and --token-file contradict each other");
	if (!w->tls_cert != !w->tls_key)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"--tls-cert and --tls-key are given together");
	if (!is_loopback(w->host) && !w->insecure && !w->tls_cert)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"%s can be reached by others, who could read tokens and data on the way: "
			"give --tls-cert and --tls-key, listen on 127.0.0.1 behind a proxy with "
			"TLS, or say --insecure-http",
			w->host);
	return 0;
}

/* ---- tokens ---- */

struct tokens {
	struct mcp_http_token v[WEB_TOKENS + 1];
	size_t n;
	char *texts[2]; /* what they point into; wiped */
	char *names[WEB_TOKENS + 1];
};

static void tokens_done(struct tokens *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->texts); i++) {
		if (t->texts[i])
			explicit_bzero(t->texts[i], strlen(t->texts[i]));
		free(t->texts[i]);
	}
	for (size_t i = 0; i < t->n; i++)
		free(t->names[i]);
}

/* Text of a file that is the user's (or root's) alone. */
static int read_private(const char *path, size_t max, char **ret, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "%.300s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
		(st.st_mode & 0077))
		return err_set(err, ERR_IO, EPERM,
			"%.300s holds secrets: it must be a file of yours that nobody else may "
			"read "
			"(chmod 600)",
			path);
	if ((size_t)st.st_size > max)
		return err_set(err, ERR_IO, EFBIG, "%.300s is larger than %zu bytes", path, max);
	char *text = xcalloc(1, (size_t)st.st_size + 1);
	if (fd_read_full(fd, text, (size_t)st.st_size) < 0) {
		free(text);
		return err_set(err, ERR_IO, EIO, "%.300s cannot be read", path);
	}
	*ret = text;
	return 0;
}

/* The first line of a file of the state directory, made with 256 bits in hex where there is none.
 */
static int own_secret(const char *state, const char *name, char **ret, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", state, name);
	if (access(path, F_OK) < 0) {
		uint8_t bytes[OWN_TOKEN_BYTES];
		char text[2 * OWN_TOKEN_BYTES + 1];
		id_random(bytes, sizeof(bytes));
		id_hex(bytes, sizeof(bytes), text);
		int r = paths_write(state, name, text, strlen(text), err);
		if (r < 0)
			return r;
	}
	int r = read_private(path, TOKEN_MAX, ret, err);
	if (r == 0)
		(*ret)[strcspn(*ret, "\r\n")] = '\0';
	return r;
}

static int own_token(struct tokens *t, const char *state, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/" OWN_TOKEN_FILE, state);
	int r = own_secret(state, OWN_TOKEN_FILE, &t->texts[0], err);
	if (r < 0)
		return r;
	if (strlen(t->texts[0]) < TOKEN_MIN)
		return err_set(err, ERR_IO, EINVAL, "%.300s: a token has at least %d characters",
			path, TOKEN_MIN);
	t->names[t->n] = xasprintf("uid:%u", geteuid());
	t->v[t->n] = (struct mcp_http_token){t->texts[0], t->names[t->n]};
	t->n++;
	return 0;
}

/* NAME TOKEN, one a line; empty lines and those that begin with # do not count. */
static int file_tokens(struct tokens *t, const char *path, struct err *err)
{
	int r = read_private(path, TOKEN_FILE_MAX, &t->texts[1], err);
	unsigned number = 0;
	char *next = r == 0 ? t->texts[1] : NULL;
	for (char *line; (line = strsep(&next, "\n"));) {
		number++;
		line[strcspn(line, "\r")] = '\0';
		if (!*line || *line == '#')
			continue;
		char *name = strsep(&line, " \t");
		size_t n = line ? strlen(line) : 0;
		if (!front_mount_name_valid(name, strlen(name)) || n < TOKEN_MIN || n > TOKEN_MAX ||
			strpbrk(line, " \t") || t->n > WEB_TOKENS)
			return err_set(err, ERR_INVALID_ARGUMENT, 0,
				"%.200s:%u: a line is NAME TOKEN, with %d to %d characters in the "
				"token, "
				"and there are at most %d",
				path, number, TOKEN_MIN, TOKEN_MAX, WEB_TOKENS);
		t->names[t->n] = xasprintf("token:%s", name);
		t->v[t->n] = (struct mcp_http_token){line, t->names[t->n]};
		t->n++;
	}
	return r;
}

/* ---- life ---- */

static int link_key(const char *state, uint8_t ret[static WEBLINK_KEY], struct err *err)
{
	char *text = NULL;
	int r = own_secret(state, LINK_KEY_FILE, &text, err);
	if (r == 0 && id_unhex(text, ret, WEBLINK_KEY) < 0)
		r = err_set(err, ERR_IO, EINVAL,
			"%.300s/" LINK_KEY_FILE " holds no key: remove it, and another one is made",
			state);
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
	return r;
}

static int open_http(struct web *web, struct parts *parts, const struct web_settings *w,
	const struct tokens *tokens, struct err *err)
{
	char anyone[32];
	uint8_t key[WEBLINK_KEY];
	int r = link_key(parts->state, key, err);
	if (r < 0)
		return r;
	struct peer_address proxies[WEB_ALLOWED];
	for (size_t i = 0; i < w->n_proxies; i++)
		CHECK(peer_address_parse(w->proxies[i], &proxies[i]));
	struct tls_context *tls = NULL;
	if (w->tls_cert)
		r = tls_context_new(w->tls_cert, w->tls_key, &tls, err);
	if (r < 0)
		return r;
	(void)snprintf(anyone, sizeof(anyone), "uid:%u", geteuid());
	const struct mcp_http_config config = {
		.loop = &parts->loop,
		.server = parts->server,
		.profile = &web->profile,
		.no_provider = web->profile.provider ? NULL : &web->no_provider,
		.host = w->host,
		.port = w->port,
		.tokens = tokens->v,
		.n_tokens = tokens->n,
		.anyone = anyone,
		.allowed = {w->hosts, w->n_hosts, w->origins, w->n_origins},
		.proxies = proxies,
		.n_proxies = w->n_proxies,
		.tls = tls,
		.link_key = key,
		.url = w->url,
	};
	r = mcp_http_new(&config, &web->http, err);
	explicit_bzero(key, sizeof(key));
	return r;
}

/* What the page is reached by from here, without a slash at its end. */
static char *base_url(const struct web *web, const struct web_settings *w)
{
	const char *host = strcmp(w->host, "0.0.0.0") == 0 ? "127.0.0.1"
			   : strcmp(w->host, "::") == 0    ? "::1"
							   : w->host;
	bool six = strchr(host, ':');
	if (w->url)
		return xstrdup(w->url);
	return xasprintf("http%s://%s%s%s:%u", w->tls_cert ? "s" : "", six ? "[" : "", host,
		six ? "]" : "", mcp_http_port(web->http));
}

/* Writes the page's address where its user finds it, and says on stderr what is where: the token
 * itself only to a terminal. */
static int say_where(struct web *web, const struct parts *parts, const struct web_settings *w,
	const struct tokens *tokens, struct err *err)
{
	bool six = strchr(w->host, ':');
	_cleanup_free_ char *base = base_url(web, w);
	_cleanup_free_ char *url = w->no_token
					   ? xasprintf("%s/\n", base)
					   : xasprintf("%s/?token=%s\n", base, tokens->v[0].token);
	int r = paths_write(parts->state, URL_FILE, url, strlen(url), err);
	if (r < 0)
		return r;
	web->url_file = xasprintf("%s/" URL_FILE, parts->state);
	(void)fprintf(stderr, "scb: MCP at http%s://%s%s%s:%u/mcp, ", w->tls_cert ? "s" : "",
		six ? "[" : "", w->host, six ? "]" : "", mcp_http_port(web->http));
	if (w->no_token)
		(void)fprintf(stderr, "for whoever reaches it\n");
	else
		(void)fprintf(stderr, "with a token: the one in %s/" OWN_TOKEN_FILE "%s%s\n",
			parts->state, w->token_file ? ", or one of " : "",
			w->token_file ? w->token_file : "");
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr, "scb: a page for your browser: %s", url);
	else
		(void)fprintf(
			stderr, "scb: a page for browsers: its address is in %s\n", web->url_file);
	explicit_bzero(url, strlen(url));
	return 0;
}

char *web_url(const char *state)
{
	_cleanup_free_ char *path = xasprintf("%s/" URL_FILE, state);
	char *text = NULL;
	struct err err;
	if (read_private(path, URL_MAX, &text, &err) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

char *web_once(const char *state, const char *show, struct err *err)
{
	char principal[32], code[WEBCOOKIE_VALUE];
	uint8_t key[WEBLINK_KEY], digest[SHA256_SIZE];
	char *token = NULL;
	struct sha256 s;
	int r = link_key(state, key, err);
	if (r == 0)
		r = own_secret(state, OWN_TOKEN_FILE, &token, err);
	_cleanup_free_ char *url = r == 0 ? web_url(state) : NULL;
	if (!url)
		return NULL;
	sha256_init(&s);
	sha256_update(&s, token, strlen(token));
	sha256_final(&s, digest);
	(void)snprintf(principal, sizeof(principal), "uid:%u", geteuid());
	const struct webcookie_of of = {principal, digest, true};
	webcookie_make(key, &of, clock_realtime_us() / USEC_PER_SEC + LIMIT_HTTP_CODE_S / 2, code);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(token, strlen(token));
	free(token);
	return xasprintf("%.*s?code=%s%s%s", (int)strcspn(url, "?"), url, code,
		show ? "&show=" : "", show ? show : "");
}

/* The usual 1,024 would end long before the connections do. */
static void want_descriptors(void)
{
	const rlim_t want = LIMIT_HTTP_CONNECTIONS + LIMIT_HTTP_OTHERS;
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= want)
		return;
	r.rlim_cur = MIN(r.rlim_max, want);
	if (setrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur < want)
		log_warning("only %llu descriptors may be open here, so that fewer than %d clients "
			    "can be connected (see `ulimit -Hn`)",
			(unsigned long long)r.rlim_cur, LIMIT_HTTP_CONNECTIONS);
}

int web_open(struct parts *parts, const struct web_settings *w, struct web **ret, struct err *err)
{
	CLEANUP(tokens_done) struct tokens tokens = {.n = 0};
	struct web *web = xcalloc(1, sizeof(*web));
	const struct settings *s = parts->settings;
	const char *name = s->provider ? s->provider : getenv("BROKER_PROVIDER");
	web->settings = w;
	web->profile.mounts = s->mounts;
	web->profile.n_mounts = s->n_mounts;
	web->profile.root = s->root;
	provider_await_now(name);
	int r = provider_select(name, &web->profile.provider, &web->no_provider);
	if (r < 0 && web->no_provider.code != ERR_INVALID_ARGUMENT) {
		log_warning("%s", web->no_provider.text); /* tools say why */
		r = 0;
	} else if (r < 0) {
		*err = web->no_provider;
	}
	if (r == 0 && !w->no_token)
		r = own_token(&tokens, parts->state, err);
	if (r == 0 && w->token_file)
		r = file_tokens(&tokens, w->token_file, err);
	want_descriptors();
	if (r == 0)
		r = open_http(web, parts, w, &tokens, err);
	if (r == 0)
		r = say_where(web, parts, w, &tokens, err);
	if (r < 0 && web->http)
		mcp_http_close(web->http, NULL, NULL);
	if (r < 0) {
		free(web);
		return r;
	}
	char anyone[32];
	(void)snprintf(anyone, sizeof(anyone), "uid:%u", geteuid());
	const char *principals[WEB_TOKENS + 1] = {anyone};
	for (size_t i = 0; i < tokens.n; i++)
		principals[i] = tokens.names[i];
	web->give = webgive_new(parts, principals, w->no_token ? 1 : tokens.n);
	*ret = web;
	return 0;
}

void web_secrets_reload(struct web *w)
{
	webgive_reload(w->give);
}

void web_reload(struct web *w)
{
	struct tls_context *tls;
	struct err err;
	if (!w->settings->tls_cert)
		return;
	if (tls_context_new(w->settings->tls_cert, w->settings->tls_key, &tls, &err) < 0)
		log_error("the certificate stays as it was: %s", err.text);
	else
		mcp_http_set_tls(w->http, tls);
}

static void on_closed(void *user)
{
	struct web *w = user;
	void (*done)(void *) = w->done;
	void *done_user = w->done_user;
	free(w->url_file);
	free(w);
	done(done_user);
}

void web_close(struct web *w, void (*done)(void *user), void *user)
{
	if (!w) {
		done(user);
		return;
	}
	w->done = done;
	w->done_user = user;
	(void)unlink(w->url_file);
	webgive_close(TAKE_PTR(w->give));
	mcp_http_close(w->http, on_closed, w);
}
