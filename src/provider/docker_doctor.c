/* docker_doctor.c: see docker_doctor.h. */
#include "provider/docker_doctor.h"

#include <stdio.h>

#include "provider/docker_engine.h"
#include "provider/docker_spec.h"

#define RUNSC_LINE                                                                                 \
	"\"runtimes\": {\"runsc\": {\"path\": \"/usr/bin/runsc\", \"runtimeArgs\": "               \
	"[\"--network=none\"]}}"

/* What becomes of sessions when the engine is restarted. */
static const char *restarts(const struct docker_facts *f)
{
	if (f->podman)
		return "What a restart of Podman's service does to sandboxes has not been tried.";
	if (!docker_has_door(f, docker_endpoint()))
		return "A restart of the engine ends its sandboxes, with live-restore too: their "
		       "link goes through it.";
	return f->live_restore ? "Sandboxes go on while the engine is restarted (live-restore)."
			       : "A restart of the engine ends its sandboxes. With "
				 "\"live-restore\": true in "
				 "/etc/docker/daemon.json they go on.";
}

void docker_doctor(const struct docker_facts *f, struct provider_probe *ret)
{
	const char *gvisor = "";
	if (!f->runsc && !f->podman)
		gvisor = " Stronger with gVisor: install runsc, put " RUNSC_LINE
			 " into /etc/docker/daemon.json and restart the engine.";
	else if (f->runsc && !f->runsc_no_net)
		gvisor = " In /etc/docker/daemon.json runsc needs its own "
			 "--network=none: " RUNSC_LINE;
	(void)snprintf(ret->reason, sizeof(ret->reason), "%s (API %s), image %.80s, %s. %s%s",
		f->version, f->api, docker_image(), docker_gvisor(f) ? "gVisor" : "no gVisor",
		restarts(f), gvisor);
}
