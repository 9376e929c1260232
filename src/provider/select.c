/* select.c: which provider a broker uses. See provider.h. */
#include <errno.h>
#include <string.h>

#include "confine/cgroup.h"
#include "confine/uids.h"
#include "provider/bubblewrap.h"
#include "provider/docker_engine.h"
#include "provider/docker_facts.h"
#include "provider/provider.h"
#include "provider/record.h"

static const struct provider *const all[] = {
	&provider_docker, &provider_bubblewrap, &provider_local};

const struct provider *const provider_auto_order[] = {&provider_docker, &provider_bubblewrap, NULL};

const struct provider *provider_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	return NULL;
}

static bool is_auto(const char *value)
{
	return !value || !*value || strcmp(value, "auto") == 0;
}

bool provider_await(uv_loop_t *loop, const char *value, struct provider_wait *w)
{
	/* Of those that "auto" tries, it is the only one that has to be asked. */
	const struct provider *p = is_auto(value) ? &provider_docker : provider_by_name(value);
	return p && p->await && p->await(loop, w);
}

void provider_wait_cancel(struct provider_wait *w)
{
	if (w->waits)
		w->cancel(w);
}

static void on_known(void *user)
{
	(void)user;
}

void provider_await_now(const char *value)
{
	struct provider_wait w = {.done = on_known};
	uv_loop_t loop;
	CHECK(uv_loop_init(&loop) == 0);
	(void)provider_await(&loop, value, &w);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&loop) == 0);
}

int provider_select(const char *value, const struct provider **ret, struct err *err)
{
	if (!is_auto(value)) {
		*ret = provider_by_name(value);
		if (*ret)
			return 0;
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"unknown provider \"%.40s\" in BROKER_PROVIDER: docker, bubblewrap, local "
			"or auto",
			value);
	}
	/* An engine alone says nothing: who has the image wants it. */
	struct err why;
	if (docker_known_image(&why) == 0) {
		*ret = &provider_docker;
		return 0;
	}
	if (bubblewrap_program()) {
		*ret = &provider_bubblewrap;
		return 0;
	}
	return err_set(err, ERR_PROVIDER_UNUSABLE, ENOENT,
		"no sandbox can be made on this machine: install bubblewrap (sudo apt install "
		"bubblewrap), or Docker and its image; `scb doctor` tells more");
}

int provider_sweep(const char *runtime_dir)
{
	docker_may_block();
	return record_sweep(runtime_dir) + uids_sweep() + cgroup_sweep(cgroup_host());
}
