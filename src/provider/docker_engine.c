/* docker_engine.c: see docker_engine.h. */
#include "provider/docker_engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"

#define ENDPOINT_DEFAULT "unix:///var/run/docker.sock"
#define IMAGE_DEFAULT    "mcp-sandbox:latest"
#define API_MINOR        41
#define ASK_US           (2 * USEC_PER_SEC)
#define REMOVE_US        (10 * USEC_PER_SEC)
#define FACTS_AGE_US     (60 * USEC_PER_SEC)

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
	char *text; /* what it points into */
};

static int parse_endpoint(const char *endpoint, struct place *ret, struct err *err)
{
	*ret = (struct place){.text = xstrdup(endpoint)};
	if (str_starts(endpoint, "unix:///")) {
		ret->place = (struct http_place){
			.socket = ret->text + strlen("unix://"), .host = "docker"};
		return 0;
	}
	if (str_starts(endpoint, "tcp://")) {
		char *host = ret->text + strlen("tcp://"), *port = strrchr(host, ':');
		if (port && port > host && !strpbrk(host, "/ \r\n")) {
			*port++ = '\0';
			ret->place = (struct http_place){.host = host, .port = port};
			return 0;
		}
	}
	free(TAKE_PTR(ret->text));
	return err_set(err, ERR_PROVIDER_UNUSABLE, EINVAL,
		"DOCKER_HOST is \"%.100s\"; it must be unix:///PATH or tcp://HOST:PORT", endpoint);
}

static struct docker_facts cached;
static char *cached_endpoint;
static uint64_t cached_us;

static bool is_cached(const char *endpoint)
{
	return cached_endpoint && strcmp(cached_endpoint, endpoint) == 0;
}

struct http_client *docker_send(uv_loop_t *loop, const char *endpoint,
	const struct docker_request *req, http_client_fn done, void *user, struct err *err)
{
	struct place p;
	if (parse_endpoint(endpoint, &p, err) < 0)
		return NULL;
	const char *api = is_cached(endpoint) ? cached.api : "1.41";
	_cleanup_free_ char *target = xasprintf("/v%s%s", api, req->path);
	_cleanup_free_ char *body = req->body ? json_dumps(req->body, JSON_COMPACT) : NULL;
	const struct http_client_request r = {
		.place = p.place,
		.method = req->method,
		.target = target,
		.body = body,
		.body_n = body ? strlen(body) : 0,
		.upgrade = req->upgrade,
		.timeout_us = req->timeout_us,
		.answer_max = LIMIT_ENGINE_ANSWER,
	};
	struct http_client *c = http_client_start(loop, &r, done, user);
	free(p.text);
	return c;
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

int docker_ask(const char *endpoint, const struct docker_request *req, unsigned *ret_status,
	json_t **ret_json, struct err *err)
{
	struct asking asking = {0};
	uv_loop_t loop;
	CHECK(uv_loop_init(&loop) == 0);
	if (docker_send(&loop, endpoint, req, on_asked, &asking, err))
		(void)uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&loop) == 0);
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

/* ---- facts ---- */

static void copy_text(char *ret, size_t size, const char *text)
{
	(void)snprintf(ret, size, "%s", text ? text : "?");
	str_make_printable(ret);
}

static const char *text_of(json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

static bool minor_of(const char *version, uint64_t *ret)
{
	return version && str_starts(version, "1.") && str_to_u64(version + 2, 999, ret) == 0;
}

/* The oldest version that both speak, and 1.41 at least: what is used here is in all of them. */
static int negotiate(json_t *o, struct docker_facts *f, struct err *err)
{
	uint64_t highest, lowest;
	const char *version = text_of(o, "Version");
	json_t *components = json_object_get(o, "Components"), *c;
	size_t i;
	json_array_foreach (components, i, c) {
		const char *name = text_of(c, "Name");
		f->podman |= name && strcmp(name, "Podman Engine") == 0;
	}
	_cleanup_free_ char *full =
		xasprintf("%s %s", f->podman ? "Podman" : "Docker", version ? version : "?");
	copy_text(f->version, sizeof(f->version), full);
	if (!minor_of(text_of(o, "ApiVersion"), &highest) || highest < API_MINOR)
		return err_set(err, ERR_PROVIDER_UNUSABLE, EPROTONOSUPPORT,
			"%s is too old: its API ends before 1.%d; install Docker 20.10 or later",
			f->version, API_MINOR);
	if (!minor_of(text_of(o, "MinAPIVersion"), &lowest) || lowest < API_MINOR)
		lowest = API_MINOR;
	(void)snprintf(f->api, sizeof(f->api), "1.%u", (unsigned)lowest);
	return 0;
}

static bool list_has(json_t *list, const char *prefix)
{
	json_t *item;
	size_t i;
	json_array_foreach (list, i, item) {
		const char *text = json_string_value(item);
		if (text && str_starts(text, prefix))
			return true;
	}
	return false;
}

static int read_info(json_t *o, struct docker_facts *f, struct err *err)
{
	const char *os = text_of(o, "OSType"), *cgroup = text_of(o, "CgroupVersion");
	json_t *runsc = json_object_get(json_object_get(o, "Runtimes"), "runsc");
	json_t *security = json_object_get(o, "SecurityOptions");
	if (!os || strcmp(os, "linux") != 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, ENOTSUP,
			"%s runs no Linux containers; switch it to them", f->version);
	f->cgroup = cgroup && strcmp(cgroup, "2") == 0 ? 2 : 1;
	f->live_restore = json_is_true(json_object_get(o, "LiveRestoreEnabled"));
	f->memory = json_is_true(json_object_get(o, "MemoryLimit"));
	f->pids = json_is_true(json_object_get(o, "PidsLimit"));
	f->cpu = json_is_true(json_object_get(o, "CpuCfsQuota"));
	f->small_ids = list_has(security, "name=userns") || list_has(security, "name=rootless");
	f->runsc = json_is_object(runsc);
	f->runsc_no_net = list_has(json_object_get(runsc, "runtimeArgs"), "--network=none");
	return 0;
}

static int ask(const char *endpoint, const char *path, json_t **ret, struct err *err)
{
	const struct docker_request req = {.method = "GET", .path = path, .timeout_us = ASK_US};
	unsigned status = 0;
	int r = docker_ask(endpoint, &req, &status, ret, err);
	if (r == 0 && (status != 200 || !json_is_object(*ret))) {
		json_decref(TAKE_PTR(*ret));
		r = err_set(err, ERR_PROVIDER_UNUSABLE, EPROTO,
			"what answers at %.120s is no Docker Engine of version 20.10 or later (%s: "
			"%u)",
			endpoint, path, status);
	}
	return r;
}

int docker_facts(const char *endpoint, const struct docker_facts **ret, struct err *err)
{
	struct docker_facts f = {0};
	json_t *version = NULL, *info = NULL;
	*ret = &cached;
	if (is_cached(endpoint) && clock_monotonic_us() - cached_us < FACTS_AGE_US)
		return 0;
	/* Not with the version of what was there before. */
	free(TAKE_PTR(cached_endpoint));
	int r = ask(endpoint, "/version", &version, err);
	if (r == 0)
		r = negotiate(version, &f, err);
	if (r == 0)
		r = ask(endpoint, "/info", &info, err);
	if (r == 0)
		r = read_info(info, &f, err);
	json_decref(version);
	json_decref(info);
	if (r < 0)
		return r;
	cached = f;
	cached_endpoint = xstrdup(endpoint);
	cached_us = clock_monotonic_us();
	return 0;
}

int docker_image_check(const char *endpoint, const char *image, struct err *err)
{
	if (image[strspn(image, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				"-._:/@")])
		return err_set(err, ERR_PROVIDER_UNUSABLE, EINVAL,
			"BROKER_IMAGE is \"%.80s\", which is no image's name", image);
	_cleanup_free_ char *path = xasprintf("/images/%s/json", image);
	const struct docker_request req = {.method = "GET", .path = path, .timeout_us = ASK_US};
	unsigned status = 0;
	json_t *o = NULL;
	int r = docker_ask(endpoint, &req, &status, &o, err);
	if (r == 0 && status == 404)
		r = err_set(err, ERR_PROVIDER_UNUSABLE, ENOENT,
			"the Docker Engine has no image %.80s: `scb image build` and `scb image "
			"import` make it, or name another in BROKER_IMAGE",
			image);
	else if (r == 0 && (status != 200 || !json_is_object(o)))
		r = err_set(err, ERR_PROVIDER_UNUSABLE, EPROTO,
			"the Docker Engine does not tell of its image %.80s (%u)", image, status);
	/* Each would be a place without a size that code can write to. */
	else if (r == 0 &&
		 json_object_size(json_object_get(json_object_get(o, "Config"), "Volumes")))
		r = err_set(err, ERR_PROVIDER_UNUSABLE, EINVAL,
			"the image %.80s declares volumes, which no limit would hold: name another "
			"in BROKER_IMAGE",
			image);
	json_decref(o);
	return r;
}

int docker_remove_ended(const char *endpoint, const char *name, bool force)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s/json", name);
	_cleanup_free_ char *remove = xasprintf("/containers/%s?force=1&v=1", name);
	struct docker_request req = {.method = "GET", .path = path, .timeout_us = ASK_US};
	unsigned status = 0;
	json_t *o = NULL;
	struct err err;
	int r = docker_ask(endpoint, &req, &status, &o, &err);
	if (r < 0)
		return r;
	bool ended = json_is_false(json_object_get(json_object_get(o, "State"), "Running"));
	json_decref(o);
	if (status != 200 || !(ended || force))
		return status == 404 ? -ENOENT : -EBUSY;
	req = (struct docker_request){.method = "DELETE", .path = remove, .timeout_us = REMOVE_US};
	r = docker_ask(endpoint, &req, &status, NULL, &err);
	return r < 0 ? r : status == 204 || status == 404 ? 0 : -EBUSY;
}
