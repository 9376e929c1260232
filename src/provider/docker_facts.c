/* docker_facts.c: see docker_facts.h. */
#include "provider/docker_facts.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "provider/docker_engine.h"

#define API_MINOR 41
/* A ping is answered at once by whoever answers at all. For its /info Podman looks up its packages:
 * a second, and many times that on a busy machine. */
#define PING_US       (5 * USEC_PER_SEC)
#define LEARN_US      (15 * USEC_PER_SEC)
#define FACTS_AGE_US  (60 * USEC_PER_SEC)
#define FAILED_AGE_US (2 * USEC_PER_SEC)
/* Who has kept everybody waiting does not do so again at once. */
#define HUNG_AGE_US (60 * USEC_PER_SEC)

enum question { ASK_PING, ASK_VERSION, ASK_INFO, ASK_IMAGE, ASK_NOTHING };

struct learning {
	uv_loop_t *loop;
	struct list waiters;
	enum question question;
	struct http_client *call;
	uint64_t due_us;
	struct docker_facts facts;
	struct err why; /* what the engine is not asked for after this */
};

/* Of one engine: that of this process' environment. */
static struct {
	bool asked;
	uint64_t at_us;
	struct docker_facts facts;
	struct err why; /* code other than 0: there are none */
	struct learning *learning;
} known;

/* ---- reading its answers ---- */

static void copy_text(char *ret, size_t size, const char *text)
{
	str_copy(ret, size, text ? text : "?");
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
static int negotiate(
	const char *newest, const char *oldest, struct docker_facts *f, struct err *err)
{
	uint64_t highest, lowest;
	if (!minor_of(newest, &highest) || highest < API_MINOR)
		return err_set(err, ERR_PROVIDER_UNUSABLE, EPROTONOSUPPORT,
			"%s is too old: its API ends before 1.%d; install Docker 20.10 or later",
			f->version, API_MINOR);
	if (!minor_of(oldest, &lowest) || lowest < API_MINOR)
		lowest = API_MINOR;
	(void)snprintf(f->api, sizeof(f->api), "1.%u", (unsigned)lowest);
	return 0;
}

static void name_engine(struct docker_facts *f, const char *version)
{
	_cleanup_free_ char *full =
		xasprintf("%s %s", f->podman ? "Podman" : "Docker", version ? version : "?");
	copy_text(f->version, sizeof(f->version), full);
}

static int read_version(json_t *o, struct docker_facts *f, struct err *err)
{
	name_engine(f, text_of(o, "Version"));
	return negotiate(text_of(o, "ApiVersion"), text_of(o, "MinAPIVersion"), f, err);
}

/* Podman is known by its ping, and is not asked for its versions, which takes it long. */
static bool read_podman(const struct http_client_answer *a, struct docker_facts *f, struct err *err)
{
	static const char libpod[] = "Libpod/";
	if (!str_starts(a->server, libpod))
		return false;
	_cleanup_free_ char *version = xstrdup(a->server + strlen(libpod));
	version[strcspn(version, " ")] = '\0';
	f->podman = true;
	name_engine(f, version);
	return negotiate(a->api, NULL, f, err) == 0;
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
	const char *wish = docker_runtime_wish();
	json_t *runtimes = json_object_get(o, "Runtimes");
	json_t *runsc = json_object_get(runtimes, "runsc");
	json_t *security = json_object_get(o, "SecurityOptions");
	if (!os || strcmp(os, "linux") != 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, ENOTSUP,
			"%s runs no Linux containers; switch it to them", f->version);
	f->cgroup = cgroup && strcmp(cgroup, "2") == 0 ? 2 : 1;
	struct utsname self;
	const char *kernel = text_of(o, "KernelVersion"), *name = text_of(o, "OperatingSystem");
	f->same_kernel = uname(&self) == 0 && kernel && strcmp(kernel, self.release) == 0 &&
			 !(name && strcmp(name, "Docker Desktop") == 0);
	f->live_restore = json_is_true(json_object_get(o, "LiveRestoreEnabled"));
	f->memory = json_is_true(json_object_get(o, "MemoryLimit"));
	f->pids = json_is_true(json_object_get(o, "PidsLimit"));
	f->cpu = json_is_true(json_object_get(o, "CpuCfsQuota"));
	bool rootless = list_has(security, "name=rootless") ||
			json_is_true(json_object_get(o, "Rootless")); /* Podman's word */
	f->small_ids = rootless || list_has(security, "name=userns");
	/* Podman says that it has them, warns its log, and starts containers without. */
	if (rootless && f->cgroup == 1)
		f->memory = f->pids = f->cpu = false;
	/* Podman lists all that it has heard of, and runs its own default. */
	f->runsc = json_is_object(runsc) && !f->podman;
	f->runsc_no_net = list_has(json_object_get(runsc, "runtimeArgs"), "--network=none");
	/* One with a dot or slash is no registered name: containerd's, or a path. */
	if (f->podman && strcmp(wish, "auto") != 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, ENOTSUP,
			"Podman takes its runtime from containers.conf and leaves out what it is "
			"asked for: unset BROKER_RUNTIME (%.40s)",
			wish);
	if (strcmp(wish, "auto") != 0 && !strpbrk(wish, "./") && !json_object_get(runtimes, wish))
		return err_set(err, ERR_PROVIDER_UNUSABLE, ENOENT,
			"%s has no runtime %.40s, which BROKER_RUNTIME asks for: register it under "
			"\"runtimes\" in /etc/docker/daemon.json and restart the engine, or unset "
			"BROKER_RUNTIME",
			f->version, wish);
	return 0;
}

int docker_no_image(struct err *err)
{
	return err_set(err, ERR_PROVIDER_UNUSABLE, ENOENT,
		"the Docker Engine has no image %.80s: `scb image build` and `scb image "
		"import` make it, or name another in BROKER_IMAGE",
		docker_image());
}

/* Of an image that cannot be used the rest of the facts is true all the same. */
static void read_image(unsigned status, json_t *o, struct docker_facts *f)
{
	if (status == 404)
		(void)docker_no_image(&f->image);
	else if (status != 200 || !json_is_object(o))
		(void)err_set(&f->image, ERR_PROVIDER_UNUSABLE, EPROTO,
			"the Docker Engine does not tell of its image %.80s (%u)", docker_image(),
			status);
	/* Each would be a place without a size that code can write to. */
	else if (json_object_size(json_object_get(json_object_get(o, "Config"), "Volumes")))
		(void)err_set(&f->image, ERR_PROVIDER_UNUSABLE, EINVAL,
			"the image %.80s declares volumes, which no limit would hold: name another "
			"in BROKER_IMAGE",
			docker_image());
}

/* ---- asking ---- */

static void learnt(struct learning *l)
{
	known.learning = NULL;
	known.asked = true;
	known.at_us = clock_monotonic_us();
	known.facts = l->facts;
	known.why = l->why;
	docker_speaks(docker_endpoint(), l->why.code ? "" : l->facts.api);
	while (!list_empty(&l->waiters)) {
		struct provider_wait *w = container_of(l->waiters.next, struct provider_wait, link);
		list_remove(&w->link);
		w->waits = false;
		w->done(w->user);
	}
	free(l);
}

static void ask_next(struct learning *l);

static void on_answer(void *user, struct http_client_answer *a, const struct err *err)
{
	struct learning *l = user;
	static const char *const names[] = {"/_ping", "/version", "/info", "its image"};
	l->call = NULL;
	json_t *o = a ? json_loadb(a->body, a->n, JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (!a)
		(void)docker_unreachable(docker_endpoint(), err, &l->why);
	else if (l->question == ASK_IMAGE)
		read_image(a->status, o, &l->facts);
	else if (a->status == 400 && memmem(a->body, a->n, "HTTPS server", 12))
		(void)err_set(&l->why, ERR_PROVIDER_UNUSABLE, EPROTO,
			"the Docker Engine at %.120s wants TLS: set DOCKER_TLS_VERIFY=1, and "
			"DOCKER_CERT_PATH to where ca.pem, cert.pem and key.pem are",
			docker_endpoint());
	else if (a->status != 200 || (l->question != ASK_PING && !json_is_object(o)))
		(void)err_set(&l->why, ERR_PROVIDER_UNUSABLE, EPROTO,
			"what answers at %.120s is no Docker Engine of version 20.10 or later (%s: "
			"%u): see DOCKER_HOST",
			docker_endpoint(), names[l->question], a->status);
	else if (l->question == ASK_PING)
		l->question += read_podman(a, &l->facts, &l->why);
	else if (l->question == ASK_VERSION)
		(void)!read_version(o, &l->facts, &l->why);
	else
		(void)!read_info(o, &l->facts, &l->why);
	json_decref(o);
	l->question++;
	if (l->why.code || l->question == ASK_NOTHING)
		learnt(l);
	else
		ask_next(l);
}

static bool image_named(struct learning *l)
{
	const char *image = docker_image();
	if (image[strspn(image, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				"-._:/@")] == '\0')
		return true;
	(void)err_set(&l->facts.image, ERR_PROVIDER_UNUSABLE, EINVAL,
		"BROKER_IMAGE is \"%.80s\", which is no image's name", image);
	return false;
}

/* From inside await(), too: then it may not call back, and returns false. */
static bool begin_asking(struct learning *l)
{
	uint64_t now = clock_monotonic_us(), left_us = l->due_us - MIN(now, l->due_us);
	_cleanup_free_ char *image = xasprintf("/images/%s/json", docker_image());
	const char *const paths[] = {"/_ping", "/version", "/info", image};
	const struct docker_request req = {.method = "GET",
		.path = paths[l->question],
		/* an engine without the oldest version that is known here still tells of itself */
		.api = l->question <= ASK_VERSION ? "" : l->facts.api,
		.timeout_us = l->question == ASK_PING ? PING_US : left_us};
	l->call = docker_send(l->loop, docker_endpoint(), &req, on_answer, l, &l->why);
	return l->call;
}

static void ask_next(struct learning *l)
{
	if ((l->question == ASK_IMAGE && !image_named(l)) || !begin_asking(l))
		learnt(l);
}

/* ---- what others see ---- */

static void cancel(struct provider_wait *w)
{
	struct learning *l = known.learning;
	list_remove(&w->link);
	w->waits = false;
	if (l && list_empty(&l->waiters)) { /* nothing of it stays on the loop */
		http_client_cancel(l->call);
		known.learning = NULL;
		free(l);
	}
}

bool docker_await(uv_loop_t *loop, struct provider_wait *w)
{
	uint64_t now = clock_monotonic_us();
	uint64_t fresh_us = !known.why.code                 ? FACTS_AGE_US
			    : known.why.errnum == ETIMEDOUT ? HUNG_AGE_US
							    : FAILED_AGE_US;
	if (known.asked && now - known.at_us < fresh_us)
		return false;
	if (!known.learning) {
		struct learning *l = xcalloc(1, sizeof(*l));
		l->loop = loop;
		l->due_us = now + LEARN_US;
		list_init(&l->waiters);
		known.learning = l;
		if (!begin_asking(l)) {
			learnt(l);
			return false;
		}
	}
	w->waits = true;
	w->cancel = cancel;
	list_append(&known.learning->waiters, &w->link);
	return true;
}

void docker_doubt(void)
{
	known.at_us = 0;
}

int docker_known(const struct docker_facts **ret, struct err *err)
{
	*ret = &known.facts;
	if (!known.asked)
		return err_set(err, ERR_PROVIDER_UNUSABLE, EAGAIN,
			"the Docker Engine at %.120s has not been asked yet", docker_endpoint());
	if (known.why.code)
		*err = known.why;
	return known.why.code ? -MAX(known.why.errnum, 1) : 0;
}

int docker_known_image(struct err *err)
{
	const struct docker_facts *f;
	int r = docker_known(&f, err);
	if (r == 0 && f->image.code) {
		*err = f->image;
		r = -MAX(f->image.errnum, 1);
	}
	return r;
}
