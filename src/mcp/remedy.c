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

static bool output_says(const struct exec_output *o, const char *words)
{
	size_t n = strlen(words);
	return (o->head.len > 0 && memmem(o->head.data, o->head.len, words, n)) ||
	       (o->tail.len > 0 && memmem(o->tail.data, o->tail.len, words, n));
}

static bool failed(const struct exec_status *s)
{
	return s->error_name || (s->reason == REASON_EXIT && s->exit_code != 0);
}

static bool ran_out_of_memory(const struct exec_status *s)
{
	if (s->error_name)
		return strcmp(s->error_name, "MemoryError") == 0 ||
		       strcmp(s->error_name, "_ArrayMemoryError") == 0 ||
		       strcmp(s->error_name, "numpy.core._exceptions._ArrayMemoryError") == 0;
	return failed(s) && output_says(&s->err, "MemoryError");
}

void remedy_advice(const struct exec_status *s, const struct render_context *ctx, struct buf *out)
{
	switch (s->reason) {
	case REASON_EXIT:
		if (ran_out_of_memory(s))
			PUT("The memory of the sandbox did not suffice. Work on less at a time "
			    "(read "
			    "files in chunks, drop what is no longer needed); files in /workspace "
			    "and "
			    "/tmp count as memory, too.");
		return;
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
	if (s->error_message && holds_network_word(s->error_message, strlen(s->error_message)))
		return true;
	if (s->traceback && holds_network_word(s->traceback, strlen(s->traceback)))
		return true;
	/* stdout may well quote such words, as when a log is read */
	return output_holds(&s->err) || (failed(s) && output_holds(&s->out));
}

/* ---- what is not installed ---- */

/* The name that stands in p[0..n) behind the words, without quotes; "" where there is none. */
static void name_behind(const void *p, size_t n, const char *words, char *ret_name, size_t size)
{
	const char *at = n > 0 ? memmem(p, n, words, strlen(words)) : NULL;
	const char *end = (const char *)p + n;
	size_t len = 0;
	ret_name[0] = '\0';
	if (!at)
		return;
	for (at += strlen(words); at < end && (*at == ' ' || *at == '\'' || *at == '"'); at++)
		;
	for (; at < end && len + 1 < size; at++) {
		bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
			      (*at >= '0' && *at <= '9') || *at == '_' || *at == '-';
		if (!letter)
			break;
		ret_name[len++] = *at;
	}
	ret_name[len] = '\0';
}

/* Debian's packages are named after the module, but for a few. */
static void print_package(const char *module, struct buf *out)
{
	static const char *const others[][2] = {{"cv2", "opencv"}, {"Crypto", "pycryptodome"},
		{"dateutil", "dateutil"}, {"scikit-learn", "sklearn"}, {"beautifulsoup4", "bs4"},
		{"pyyaml", "yaml"}, {"pillow", "pil"}};
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(others[i][0], module) == 0)
			module = others[i][1];
	PUT("python3-");
	for (const char *p = module; *p; p++)
		PUT("%c", *p == '_' ? '-' : *p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
}

/* The module or package that a run wanted in vain; false where none is named. */
static bool find_package(const struct exec_status *s, char *ret_name, size_t size)
{
	static const char *const words[] = {
		"No module named ", "No matching distribution found for "};
	const char *message = s->error_message;
	ret_name[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(words) && !ret_name[0]; i++) {
		if (message)
			name_behind(message, strlen(message), words[i], ret_name, size);
		const struct buf *const places[] = {
			&s->err.tail, &s->err.head, &s->out.tail, &s->out.head};
		for (size_t k = 0; k < ARRAY_SIZE(places) && !ret_name[0]; k++)
			name_behind(places[k]->data, places[k]->len, words[i], ret_name, size);
	}
	return ret_name[0];
}

/* Who can put it there, and how. module: of Python, "" where its name is not known; NULL: none. */
static void print_who_installs(
	const char *module, const struct render_context *ctx, struct buf *out)
{
	PUT("Do without it, or ask the person ");
	if (ctx->image)
		PUT("for an image that has it");
	else
		PUT("to install it on the host");
	if (!module)
		return;
	PUT(ctx->image ? " (Debian's package " : " (sudo apt install ");
	if (module[0])
		print_package(module, out);
	else
		PUT("python3-NAME");
	PUT(")");
}

void remedy_missing(const struct exec_status *s, const struct render_context *ctx, struct buf *out)
{
	char name[64];
	bool package, pip, program;
	if (s->state != JOB_DONE || !failed(s))
		return;
	package = find_package(s, name, sizeof(name));
	pip = !package && (output_says(&s->err, "externally-managed-environment") ||
				  output_says(&s->out, "externally-managed-environment"));
	program = output_says(&s->err, "command not found") ||
		  (s->exit_code == 127 && output_says(&s->err, ": not found"));
	if (package)
		PUT("The output looks as if the Python package %s were missing", name);
	else if (pip)
		PUT("The output looks as if pip was to install something");
	else if (program)
		PUT("The output looks as if a program were missing");
	else
		return;
	PUT(": nothing can be installed from inside (this sandbox has no network; what there is "
	    "is what the %s). ",
		ctx->image ? "image has" : "host has under /usr");
	print_who_installs(package || pip ? name : NULL, ctx, out);
	PUT("%s.", package ? " and run this again" : "");
}
