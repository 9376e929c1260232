/* docker_spec.c: see docker_spec.h. */
#include "provider/docker_spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "provider/docker_engine.h"
#include "provider/record.h"
#include "seccomp_profile.h"

/* A root broker's containers have a uid each, so that none can use up what the kernel counts by
 * user (inotify, pipes, locked memory) for another. Nobody's uids; where a user namespace maps only
 * 65536, there are fewer. */
#define UID_FIRST   2000100000U
#define UID_COUNT   (1U << 24)
#define SMALL_FIRST 60864U
#define SMALL_COUNT 128U

/* Of the agent itself, and its supervisors. */
#define AGENT_RESERVE (48 * MIB)
#define PIDS_RESERVE  16
/* Of gVisor's own kernel, which is in the container's group with all that it keeps for code: 45
 * threads and 14 MiB at rest, 5 to 6 threads and 0.4 MiB more for each process (measured, release
 * 20221219 with ptrace). Where these do not suffice it ends, and all with it: so a storm of
 * processes that come and go can end it (8000 threads after 15 s of one of 256). */
#define GVISOR_MEMORY    (96 * MIB)
#define GVISOR_PIDS      256
#define GVISOR_PIDS_EACH 8
#define ULIMIT_MAX       1048576 /* as Docker's */
#define PODMAN_PROCESSES 32768

char *docker_name(const char *sandbox_id)
{
	return xasprintf("scb-%s", sandbox_id);
}

bool docker_gvisor(const struct docker_facts *f)
{
	const char *wish = docker_runtime_wish();
	return strcmp(wish, "runsc") == 0 || (strcmp(wish, "auto") == 0 && f->runsc);
}

/* Where its uid is nobody else's, RLIMIT_NPROC, which counts by uid, holds code, and the group's
 * limit is above that. An ordinary user's code has his uid: there only the group's holds. */
static bool has_own_uid(const struct docker_facts *f)
{
	return docker_gvisor(f) || geteuid() == 0;
}

void docker_capabilities(const struct docker_facts *f, struct capabilities *ret)
{
	const char *groups = f->cgroup == 2 ? "cgroup2" : "cgroup1";
	*ret = (struct capabilities){
		.isolation_level = docker_gvisor(f) ? "container+gvisor" : "container",
		.memory = f->memory ? groups : CAPABILITY_RLIMIT_MEMORY,
		/* gVisor's kernel counts by itself; the engine's group only keeps it in bounds. */
		.pids = docker_gvisor(f) ? "rlimit"
			: f->pids        ? groups
					 : "none",
		.cpu = f->cpu ? groups : "none",
		.disk = "tmpfs",
		.inodes = f->memory ? "memory" : "none",
		.kill_tree = "pid1",
		.egress = "none: no network device",
		.agent_apart = "not enforced",
		.seccomp = "allow-list",
		.read_only_root = "yes",
		.host_uid = geteuid() == 0 ? "dedicated" : "own",
	};
}

static json_t *bind_at(const char *source, const char *target)
{
	/* Not what is mounted below it: that would stay writable. */
	return json_pack("{s:s, s:s, s:s, s:b, s:{s:s, s:b}}", "Type", "bind", "Source", source,
		"Target", target, "ReadOnly", 1, "BindOptions", "Propagation", "rprivate",
		"NonRecursive", 1);
}

static json_t *binds(const struct sandbox_spec *spec, const char *door)
{
	json_t *list = json_array();
	CHECK(json_array_append_new(list, bind_at(spec->agent_path, DOCKER_AGENT)) == 0);
	CHECK(json_array_append_new(list, bind_at(spec->kernels_dir, DOCKER_KERNELS)) == 0);
	if (door)
		CHECK(json_array_append_new(list, bind_at(door, DOCKER_DOOR)) == 0);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		_cleanup_free_ char *target = xasprintf(DOCKER_MNT "/%s", spec->mounts[i].name);
		CHECK(json_array_append_new(list, bind_at(spec->mounts[i].source, target)) == 0);
	}
	return list;
}

/* runc gives it the mode that the image's folder of that name has, whatever is asked for: so it is
 * the code's own. (Podman knows no owner here; there the folder must be writable by all.) */
static json_t *tmpfs(const struct docker_facts *f, uint64_t size, unsigned uid)
{
	_cleanup_free_ char *owner = f->podman ? NULL : xasprintf(",uid=%u,gid=%u", uid, uid);
	_cleanup_free_ char *options = xasprintf("rw,exec,nosuid,nodev,mode=1777,size=%llu%s",
		(unsigned long long)size, owner ? owner : "");
	return json_string(options);
}

/* Its own user where the broker is one, who can read what he mounts; else nobody's. */
static unsigned choose_uid(const struct docker_facts *f)
{
	uint32_t any;
	if (geteuid() != 0)
		return geteuid();
	id_random(&any, sizeof(any));
	return f->small_ids ? SMALL_FIRST + any % SMALL_COUNT : UID_FIRST + any % UID_COUNT;
}

/* Podman's own default is more than a service may give that is itself within limits. Its service
 * has lowered the second for itself. */
static json_t *own_limits(void)
{
	static const struct {
		const char *name;
		int which;
		rlim_t most;
	} all[] = {
		{"nofile", RLIMIT_NOFILE, ULIMIT_MAX}, {"nproc", RLIMIT_NPROC, PODMAN_PROCESSES}};
	json_t *list = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct rlimit r = {0};
		CHECK(getrlimit(all[i].which, &r) == 0);
		json_int_t most = (json_int_t)MIN(r.rlim_max, all[i].most);
		CHECK(json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "Name", all[i].name,
							  "Soft", most, "Hard", most)) == 0);
	}
	return list;
}

static json_t *host_config(const struct sandbox_spec *spec, const struct docker_facts *f,
	unsigned uid, const char *door)
{
	/* Podman takes the name of a file, as docker's client does; the API takes what is in it. */
	_cleanup_free_ char *file = xasprintf("%.*s/seccomp.json",
		(int)(strrchr(spec->agent_path, '/') - spec->agent_path), spec->agent_path);
	_cleanup_free_ char *seccomp = xasprintf("seccomp=%s", f->podman ? file : seccomp_profile);
	/* One group for agent and code; what jobs print is part of it. */
	bool gvisor = docker_gvisor(f);
	json_int_t memory =
		(json_int_t)(spec->memory_max + AGENT_RESERVE + (gvisor ? GVISOR_MEMORY : 0));
	json_int_t pids = spec->pids_max + (has_own_uid(f) ? PIDS_RESERVE : 0);
	if (gvisor)
		pids = GVISOR_PIDS + GVISOR_PIDS_EACH * pids;
	json_t *c = json_pack("{s:s, s:b, s:o, s:o, s:I, s:[s], s:[s,s], s:{s:s}, s:s, s:s}",
		"NetworkMode", "none", "ReadonlyRootfs", 1, "Mounts", binds(spec, door), "Tmpfs",
		json_pack("{s:o, s:o}", "/tmp", tmpfs(f, spec->tmp_size, uid), DOCKER_WORKSPACE,
			tmpfs(f, spec->workspace_size, uid)),
		"ShmSize", (json_int_t)spec->shm_size, "CapDrop", "ALL", "SecurityOpt",
		"no-new-privileges", seccomp, "LogConfig", "Type", "none", "IpcMode", "private",
		"CgroupnsMode", "private");
	CHECK(c);
	if (f->podman)
		CHECK(json_object_set_new(c, "Ulimits", own_limits()) == 0);
	if (f->memory) {
		CHECK(json_object_set_new(c, "Memory", json_integer(memory)) == 0);
		CHECK(json_object_set_new(c, "MemorySwap", json_integer(memory)) == 0);
	}
	if (f->pids)
		CHECK(json_object_set_new(c, "PidsLimit", json_integer(pids)) == 0);
	if (f->cpu)
		CHECK(json_object_set_new(c, "NanoCpus",
			      json_integer((json_int_t)spec->cpus * 1000000000)) == 0);
	if (gvisor)
		CHECK(json_object_set_new(c, "Runtime", json_string("runsc")) == 0);
	else if (strcmp(docker_runtime_wish(), "auto") != 0)
		CHECK(json_object_set_new(c, "Runtime", json_string(docker_runtime_wish())) == 0);
	return c;
}

bool docker_has_door(const struct docker_facts *f, const char *endpoint)
{
	return str_starts(endpoint, "unix://") && f->same_kernel && !docker_gvisor(f);
}

json_t *docker_container(
	const struct sandbox_spec *spec, const struct docker_facts *f, const char *door)
{
	unsigned uid = choose_uid(f);
	_cleanup_free_ char *user = xasprintf("%u:%u", uid, uid);
	_cleanup_free_ char *owner = xasprintf("uid:%u", (unsigned)geteuid());
	bool stdio = !door;
	json_t *c = json_pack("{s:s, s:s, s:s, s:[s,s], s:[], s:[], s:s, s:b, s:b, s:b, s:b, s:b, "
			      "s:b, s:{s:[s]}, s:{s:s, s:s, s:s, s:s}, s:o}",
		"Image", docker_image(), "Hostname", "sandbox", "User", user, "Entrypoint",
		DOCKER_AGENT, stdio ? "stdio" : "fetch:" DOCKER_DOOR, "Cmd", "Env", "WorkingDir",
		"/", "NetworkDisabled", 1, "OpenStdin", stdio,
		/* Where it is to end with its maker: the engine then closes stdin with the
		 * connection, and the agent ends with that. */
		"StdinOnce", stdio && spec->orphan_ms == 0, "AttachStdin", stdio, "AttachStdout", 1,
		"AttachStderr", 1, "Healthcheck", "Test", "NONE", "Labels", DOCKER_LABEL_SANDBOX,
		spec->id, DOCKER_LABEL_BROKER, spec->runtime_dir, DOCKER_LABEL_BOOT,
		record_boot_id(), DOCKER_LABEL_OWNER, owner, "HostConfig",
		host_config(spec, f, uid, door));
	CHECK(c);
	return c;
}

/* The container's own control group, as it sees it: v1, v2; gVisor shows none. */
static const char *const groups[][4] = {
	{"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
		"/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids/pids.current"},
	{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.current",
		"/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids.current"},
	{NULL, NULL, NULL, NULL},
};

int docker_boot(const struct sandbox_spec *spec, const struct docker_facts *f, const uint8_t *key,
	struct buf *ret)
{
	bool gvisor = docker_gvisor(f);
	const char *const *group = groups[gvisor ? 2 : f->cgroup == 2];
	/* Code meets this limit before that of the group, and the agent still has processes for the
	 * next job. It counts, too. */
	bool own_uid = has_own_uid(f);
	const struct boot b = {
		.spec = spec,
		.key = key,
		.workspace = DOCKER_WORKSPACE,
		.tmp = "/tmp",
		.mnt = DOCKER_MNT,
		.confine = CONFINE_SECCOMP | CONFINE_NO_NEW_PRIVS | CONFINE_WRITES,
		.rlimit_data = f->memory ? 0 : spec->memory_max,
		.rlimit_nproc = own_uid ? spec->pids_max + 1 : 0,
		.hold_fds = {-1, -1},
		.lifeline_fd = -1,
		.oom_fd = -1,
		.pids_events_fd = -1,
		.memory_fd = -1,
		.pids_fd = -1,
		.oom_path = group[0],
		.memory_path = group[1],
		/* Where RLIMIT_NPROC comes first, the agent counts by itself. */
		.pids_events_path = own_uid ? NULL : group[2],
		.pids_path = group[3],
		.memory_max = f->memory ? spec->memory_max : 0,
		.pids_max = f->pids || gvisor ? spec->pids_max : 0,
	};
	return boot_config_bytes(&b, ret);
}
