/* remedy.c: see remedy.h. */
#include "mcp/remedy.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"

#define PUT(...) (void)!buf_printf(out, __VA_ARGS__)

const char remedy_no_network[] =
	"This sandbox has no network: nothing can be downloaded, and no outside host be reached "
	"(localhost works). Use what is installed, or ask the person to mount the data.";

static bool is_cell(const struct exec_status *s)
{
	return s->kind == JOB_KIND_CELL;
}

static void put_size(struct buf *out, uint64_t bytes)
{
	if (bytes % GIB == 0)
		PUT("%llu GiB", (unsigned long long)(bytes / GIB));
	else
		PUT("%llu MiB", (unsigned long long)(bytes / MIB));
}

void remedy_ending(const struct exec_status *s, const struct render_context *ctx, struct buf *out)
{
	char name[16];
	switch (s->reason) {
	case REASON_EXIT:
		if (is_cell(s) && s->error_name)
			PUT("failed with %s", s->error_name);
		else if (is_cell(s) && s->exit_code == 0)
			PUT("done");
		else
			PUT("exit code %d", s->exit_code);
		return;
	case REASON_SIGNAL:
		render_signal(s->signal, name, sizeof(name));
		PUT("killed by %s", name);
		return;
	case REASON_TIMEOUT:
		if (ctx->timeout_us)
			PUT("stopped: it ran longer than timeout_s=%.3g",
				(double)ctx->timeout_us / (double)USEC_PER_SEC);
		else
			PUT("stopped: it ran longer than its timeout_s");
		return;
	case REASON_CANCELLED:
		PUT("cancelled");
		return;
	case REASON_OUT_OF_MEMORY:
		PUT("out of memory: the sandbox's limit is ");
		put_size(out, ctx->limits->memory);
		return;
	case REASON_DISK_FULL:
		PUT("disk full: the workspace holds ");
		put_size(out, ctx->limits->workspace);
		return;
	case REASON_TOO_MANY_PROCESSES:
		PUT("too many processes: the sandbox's limit is %u", ctx->limits->pids);
		return;
	case REASON_OUTPUT_LIMIT:
		PUT("stopped: it printed more than is kept");
		return;
	case REASON_INTERPRETER_DIED:
		if (s->signal) {
			render_signal(s->signal, name, sizeof(name));
			PUT("the interpreter died (%s)", name);
		} else if (s->has_exit_code) {
			PUT("the interpreter died (exit code %d)", s->exit_code);
		} else {
			PUT("the interpreter died");
		}
		return;
	case REASON_SANDBOX_LOST:
		PUT("the sandbox was lost");
		return;
	case REASON_POLICY_DENIED:
		PUT("denied by policy");
		return;
	}
	PUT("ended");
}

static bool has_note(const struct exec_status *s, const char *note)
{
	for (size_t i = 0; i < s->n_notes; i++)
		if (strcmp(s->notes[i], note) == 0)
			return true;
	return false;
}

void remedy_advice(const struct exec_status *s, const struct render_context *ctx, struct buf *out)
{
	switch (s->reason) {
	case REASON_EXIT:
	case REASON_CANCELLED:
		return;
	case REASON_SIGNAL:
		if (s->signal == 9)
			PUT("Something killed it with SIGKILL; if the sandbox did for want of "
			    "memory, "
			    "the notes say so.");
		return;
	case REASON_TIMEOUT:
		if (has_note(s, "kernel_killed"))
			PUT("It did not stop when interrupted, so its interpreter was ended: all "
			    "variables are lost, files are kept. ");
		else if (is_cell(s))
			PUT("Variables are kept. ");
		else
			PUT("Its whole process tree was killed. ");
		PUT("Do less in one call, or pass a larger timeout_s (at most %u) and a small "
		    "wait_s, "
		    "then fetch the result with the job tool, action wait.",
			ctx->limits->max_timeout_s);
		return;
	case REASON_OUT_OF_MEMORY:
		PUT("Work on less at a time (read files in chunks, drop what is no longer needed). "
		    "Files in /workspace and /tmp count as memory, too.%s",
			is_cell(s) ? " If the interpreter died, its variables are gone." : "");
		return;
	case REASON_DISK_FULL:
		PUT("Delete files from /workspace or /tmp (the files tool, action delete), then "
		    "run it again.");
		return;
	case REASON_TOO_MANY_PROCESSES:
		PUT("Start fewer processes or threads at once; end those left over: job with "
		    "action signal for the one that started them, run_command `exec pkill NAME`, "
		    "or close the session.");
		return;
	case REASON_OUTPUT_LIMIT:
		PUT("Write bulk output to a file in /workspace instead of printing it.");
		return;
	case REASON_INTERPRETER_DIED:
		PUT("The next run_code starts a new interpreter: imports, variables and functions "
		    "must be made again; files are kept.");
		return;
	case REASON_SANDBOX_LOST:
		PUT("Call session with action open for a new one; files and variables of this one "
		    "are gone.");
		return;
	case REASON_POLICY_DENIED:
		PUT("The person's policy does not allow it.");
		return;
	}
}

/* ---- notes ---- */

static const struct {
	const char *name;
	const char *one, *many; /* many follows the number; NULL: the count says nothing */
} notes[] = {
	{"oom_kill", "one process was killed because the memory limit was reached",
		"processes were killed because the memory limit was reached"},
	{"pids_max", "the process limit refused a new process or thread",
		"times the process limit refused a new process or thread"},
	{"disk_full", "a file system of the sandbox is full", NULL},
	{"children_left", "one background process it started goes on running",
		"background processes it started go on running"},
	{"result_dropped", "a result was too large to keep", NULL},
	{"results_dropped", "one result was dropped: there were too many",
		"results were dropped: there were too many"},
	{"exit_status_lost", "its exit status could not be learnt", NULL},
	{"kernel_killed", "the interpreter had to be killed: its state is lost", NULL},
	{"kernel_stopped", "the interpreter was stopped meanwhile: its state is lost", NULL},
	{"kernel_start_timeout", "the interpreter did not start in time", NULL},
	{"kernel_broke_protocol",
		"the interpreter's own program was disturbed by the code, so that "
		"it had to be ended: its state is lost",
		NULL},
};

void remedy_note(const char *note, struct buf *out)
{
	size_t n = strcspn(note, ":");
	uint64_t count = 0;
	bool counted = note[n] == ':' && str_to_u64(note + n + 1, UINT64_MAX, &count) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		if (strlen(notes[i].name) != n || strncmp(notes[i].name, note, n) != 0)
			continue;
		if (counted && count != 1 && notes[i].many)
			PUT("%llu %s", (unsigned long long)count, notes[i].many);
		else
			PUT("%s", notes[i].one);
		return;
	}
	PUT("%s", note);
}

/* ---- network ---- */

static const char *const network_words[] = {
	"Could not resolve host",
	"Temporary failure in name resolution",
	"Name or service not known",
	"Network is unreachable",
	"unable to resolve host",
	"No address associated with hostname",
	"getaddrinfo EAI_AGAIN",
	"getaddrinfo ENOTFOUND",
	"Temporary failure resolving",
	"NameResolutionError",
	"Failed to establish a new connection",
	"No route to host",
};

static bool holds_network_word(const void *p, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(network_words); i++)
		if (n > 0 && memmem(p, n, network_words[i], strlen(network_words[i])))
			return true;
	return false;
}

static bool output_holds(const struct exec_output *o)
{
	return holds_network_word(o->head.data, o->head.len) ||
	       holds_network_word(o->tail.data, o->tail.len);
}

bool remedy_wants_network(const struct exec_status *s)
{
	bool failed = s->error_name || (s->reason == REASON_EXIT && s->exit_code != 0);
	if (s->error_message && holds_network_word(s->error_message, strlen(s->error_message)))
		return true;
	if (s->traceback && holds_network_word(s->traceback, strlen(s->traceback)))
		return true;
	/* stdout may well quote such words, as when a log is read */
	return output_holds(&s->err) || (failed && output_holds(&s->out));
}
