/* docker_engine.c: see docker_engine.h. */
#include "provider/docker_engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/tls.h"

#define ENDPOINT_DEFAULT "unix:///var/run/docker.sock"
#define IMAGE_DEFAULT    "mcp-sandbox:latest"
#define ASK_US           (2 * USEC_PER_SEC)
#define REMOVE_US        (10 * USEC_PER_SEC)
/* All of a sweep's blocking questions, and of what is found again after it. */
#define BLOCKED_US (4 * USEC_PER_SEC)

static const char *setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);
	return value && *value ? value : otherwise;
}

const char *docker_endpoint(void)
{
	return setting("DOCKER_HOST", ENDPOINT_DEFAULT);
}

const char *docker_image(void)
{
	return setting("BROKER_IMAGE", IMAGE_DEFAULT);
}

const char *docker_runtime_wish(void)
{
	return setting("BROKER_RUNTIME", "auto");
}

/* ---- requests ---- */

struct place {
	struct http_place place;
	struct tls_context *tls;
	char *text; /* what it points into */
};

static void place_done(struct place *p)
{
	tls_context_free(p->tls);
	free(p->text);
}

static bool wants_tls(void)
{
	return *setting("DOCKER_TLS_VERIFY", "") != '\0';
}

static char *cert_path(void)
{
	const char *set = setting("DOCKER_CERT_PATH", NULL), *home = getenv("HOME");
	return set ? xstrdup(set) : xasprintf("%s/.docker", home ? home : "");
}

/* As docker's own client takes them: ca.pem, and cert.pem with key.pem where they are there. */
static int open_tls(struct tls_context **ret, struct err *err)
{
	struct err why;
	_cleanup_free_ char *dir = cert_path();
	_cleanup_free_ char *ca = xasprintf("%s/ca.pem", dir);
	_cleanup_free_ char *cert = xasprintf("%s/cert.pem", dir);
	_cleanup_free_ char *key = xasprintf("%s/key.pem", dir);
	bool own = access(cert, F_OK) == 0 || access(key, F_OK) == 0;
	int r = tls_client_context_new(ca, own ? cert : NULL, own ? key : NULL, ret, &why);
	return r == 0 ? 0
		      : err_set(err, ERR_PROVIDER_UNUSABLE, -r,
				"no TLS with the Docker Engine: %.300s; DOCKER_CERT_PATH (else "
				"~/.docker) must hold ca.pem, and cert.pem and key.pem",
				why.text);
}

/* Only of this machine may it be without TLS: who reaches it is root there. */
static bool is_here(const char *host)
{
	return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
	       (str_starts(host, "127.") && !host[strspn(host, "0123456789.")]);
}

static int parse_tcp(struct place *p, struct err *err)
{
	char *host = p->text + strlen("tcp://"), *port = strrchr(host, ':');
	if (port && strchr(port, ']'))
		port = NULL;
	if (port)
		*port++ = '\0';
	if (!*host || strpbrk(host, "/ \r\n") || (port && !*port))
		return -EINVAL;
	p->place = (struct http_place){.host = host,
		.port = port          ? port
			: wants_tls() ? "2376"
				      : "2375"};
	if (wants_tls())
		return open_tls(&p->tls, err);
	if (is_here(host))
		return 0;
	return err_set(err, ERR_PROVIDER_UNUSABLE, EPERM,
		"the Docker Engine at %.100s is not on this machine, and without TLS whoever is on "
		"the way becomes root there: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH",
		host);
}

static int parse_endpoint(const char *endpoint, struct place *ret, struct err *err)
{
	int r = -EINVAL;
	struct err none = {0};
	*ret = (struct place){.text = xstrdup(endpoint)};
	*err = none;
	if (str_starts(endpoint, "unix:///")) {
		ret->place = (struct http_place){
			.socket = ret->text + strlen("unix://"), .host = "docker"};
		return 0;
	}
	if (str_starts(endpoint, "tcp://"))
		r = parse_tcp(ret, err);
	if (r == 0)
		return 0;
	place_done(ret);
	if (err->code)
		return r;
	return err_set(err, ERR_PROVIDER_UNUSABLE, EINVAL,
		"DOCKER_HOST is \"%.100s\"; it must be unix:///PATH or tcp://HOST:PORT (an engine "
		"behind ssh: forward its socket with ssh -L)",
		endpoint);
}

/* Which version of the API, and with whom; with others, their own. */
static char *spoken_with, spoken[16];

void docker_speaks(const char *endpoint, const char *api)
{
	free(spoken_with);
	spoken_with = xstrdup(endpoint);
	str_copy(spoken, sizeof(spoken), api);
}

struct http_client *docker_send(uv_loop_t *loop, const char *endpoint,
	const struct docker_request *req, http_client_fn done, void *user, struct err *err)
{
	struct place p;
	if (parse_endpoint(endpoint, &p, err) < 0)
		return NULL;
	const char *api = req->api;
	if (!api)
		api = spoken_with && strcmp(spoken_with, endpoint) == 0 ? spoken : "";
	_cleanup_free_ char *target = xasprintf("%s%s%s", *api ? "/v" : "", api, req->path);
	_cleanup_free_ char *body = req->body ? json_dumps(req->body, JSON_COMPACT) : NULL;
	const struct http_client_request r = {
		.place = p.place,
		.tls = p.tls,
		.method = req->method,
		.target = target,
		.body = body,
		.body_n = body ? strlen(body) : 0,
		.upgrade = req->upgrade,
		.timeout_us = req->timeout_us,
		.answer_max = LIMIT_ENGINE_ANSWER,
	};
	struct http_client *c = http_client_start(loop, &r, done, user);
	place_done(&p);
	return c;
}

static uint64_t blocked_us;

void docker_may_block(void)
{
	blocked_us = 0;
}

struct asking {
	unsigned status;
	json_t *json;
	struct err err;
};

static void on_asked(void *user, struct http_client_answer *a, const struct err *err)
{
	struct asking *asking = user;
	if (err) {
		asking->err = *err;
		return;
	}
	asking->status = a->status;
	asking->json = json_loadb(a->body, a->n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
}

/* The same as docker_send(), blocking, on a loop of its own; *ret_json may be NULL. 0 where any
 * answer came. */
static int ask(const char *endpoint, const struct docker_request *req, unsigned *ret_status,
	json_t **ret_json, struct err *err)
{
	struct asking asking = {0};
	uv_loop_t loop;
	uint64_t begin_us = clock_monotonic_us();
	if (blocked_us >= BLOCKED_US)
		return -ETIMEDOUT;
	CHECK(uv_loop_init(&loop) == 0);
	if (docker_send(&loop, endpoint, req, on_asked, &asking, err))
		(void)uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&loop) == 0);
	blocked_us += clock_monotonic_us() - begin_us;
	if (asking.status == 0) {
		json_decref(asking.json);
		return asking.err.code ? docker_unreachable(endpoint, &asking.err, err) : -EINVAL;
	}
	*ret_status = asking.status;
	if (ret_json)
		*ret_json = asking.json;
	else
		json_decref(asking.json);
	return 0;
}

/* ---- words ---- */

int docker_unreachable(const char *endpoint, const struct err *why, struct err *err)
{
	const char *place = endpoint;
	int e = why->errnum;
	if (str_starts(place, "unix://"))
		place += strlen("unix://");
	if (e == EACCES || e == EPERM)
		return err_set(err, ERR_PROVIDER_UNUSABLE, e,
			"permission denied on the Docker Engine's socket %.120s: add yourself to "
			"the docker group (sudo usermod -aG docker $USER, then log in again; its "
			"members are root on this machine), or use a rootless engine and name its "
			"socket in DOCKER_HOST",
			place);
	if (e == ENOENT)
		return err_set(err, ERR_PROVIDER_UNUSABLE, e,
			"no Docker Engine: there is no %.120s. Install and start one (sudo apt "
			"install docker.io), or name another engine's socket in DOCKER_HOST",
			place);
	if (e == ECONNREFUSED)
		return err_set(err, ERR_PROVIDER_UNUSABLE, e,
			"the Docker Engine does not run (nobody listens on %.120s): sudo systemctl "
			"start docker",
			place);
	if (str_starts(why->text, "TLS: ")) {
		_cleanup_free_ char *dir = cert_path();
		return err_set(err, ERR_PROVIDER_UNUSABLE, EPROTO,
			"no TLS with the Docker Engine at %.120s (%.120s): its certificate must be "
			"for that name and from %.100s/ca.pem, and it must know cert.pem there; an "
			"engine without TLS wants DOCKER_TLS_VERIFY unset",
			place, why->text + strlen("TLS: "), dir);
	}
	return err_set(err, ERR_PROVIDER_UNUSABLE, e ? e : EPROTO,
		"the Docker Engine at %.120s does not answer as one (%.120s): see DOCKER_HOST, and "
		"docker info",
		place, why->text);
}

int docker_refused(const struct http_client_answer *a, const char *what, struct err *err)
{
	json_t *json = json_loadb(a->body, a->n, 0, NULL);
	const char *message = json_string_value(json_object_get(json, "message"));
	_cleanup_free_ char *text = xstrdup(message ? message : "without a reason");
	json_decref(json);
	str_make_printable(text);
	return err_set(err, ERR_PROVIDER_UNUSABLE, a->status == 404 ? ENOENT : EREMOTEIO,
		"the Docker Engine refused to %s (%u): %.300s", what, a->status, text);
}

/* ---- containers of brokers that are gone ---- */

int docker_remove_ended(const char *endpoint, const char *name, bool force)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s/json", name);
	_cleanup_free_ char *remove = xasprintf("/containers/%s?force=1&v=1", name);
	struct docker_request req = {.method = "GET", .path = path, .timeout_us = ASK_US};
	unsigned status = 0;
	json_t *o = NULL;
	struct err err;
	int r = ask(endpoint, &req, &status, &o, &err);
	if (r < 0)
		return r;
	bool ended = json_is_false(json_object_get(json_object_get(o, "State"), "Running"));
	json_decref(o);
	if (status != 200 || !(ended || force))
		return status == 404 ? -ENOENT : -EBUSY;
	req = (struct docker_request){.method = "DELETE", .path = remove, .timeout_us = REMOVE_US};
	r = ask(endpoint, &req, &status, NULL, &err);
	return r < 0 ? r : status == 204 || status == 404 ? 0 : -EBUSY;
}
