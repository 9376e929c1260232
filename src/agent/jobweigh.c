/* jobweigh.c: see jobweigh.h. */
#include "agent/jobweigh.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "agent/kernel.h"
#include "base/mem.h"
#include "wire/tlv.h"

/* Of what a command printed on stderr: its last words. */
#define LAST_WORDS (4 * KIB)
#define QUICK_US   USEC_PER_MSEC

static bool holds(const void *p, size_t n, const char *words)
{
	return n && memmem(p, n, words, strlen(words)) != NULL;
}

/* A shell's cell is a command that leaves something behind. */
static bool is_command(const struct job *j)
{
	return j->kind == JOB_KIND_COMMAND ||
	       (j->kernel && strcmp(j->kernel->language, "shell") == 0);
}

/* A program of many languages prints strerror(3): a command at the end of its stderr, a cell as the
 * message of its error (not the traceback, in which any text of the code may stand). */
static bool said(const struct job *j, const char *words)
{
	if (!is_command(j)) {
		struct tlv_reader r = tlv_reader(j->error.data, j->error.len);
		for (struct tlv t; tlv_next(&r, &t);)
			if (t.tag == TAG_ERROR_MESSAGE)
				return holds(t.p, t.n, words);
		return false;
	}
	char text[LAST_WORDS];
	uint64_t total = spool_total(j->spool, CHANNEL_STDERR);
	uint64_t from = total > sizeof(text) ? total - sizeof(text) : 0;
	return holds(text, spool_copy(j->spool, CHANNEL_STDERR, from, text, sizeof(text)), words);
}

static bool weigh_disk(struct job *j, const struct evidence *now, bool failed,
	enum wire_reason *reason, enum wire_evidence *evidence)
{
	if (!failed)
		return false;
	bool command = is_command(j);
	bool told = said(j, "No space left on device");
	bool filled = now->disk_full && !j->before.disk_full;
	if (told || filled || (now->disk_full && command))
		job_note(j, "disk_full");
	/* A cell says why it failed; a command may have kept it to itself. */
	if (!told && !(filled && command))
		return false;
	*reason = REASON_DISK_FULL;
	*evidence = told ? EVIDENCE_REPORTED : EVIDENCE_INFERRED;
	return true;
}

static void weigh_processes(struct job *j, const struct evidence *now, bool failed,
	enum wire_reason *reason, enum wire_evidence *evidence)
{
	bool moved = now->pids_max > j->before.pids_max;
	if (moved)
		job_note(j, "pids_max:%llu",
			(unsigned long long)(now->pids_max - j->before.pids_max));
	const size_t leader = 1;
	if (!failed || !(moved || evidence_at_process_limit(leader)))
		return;
	bool told = said(j, "Resource temporarily unavailable") ||
		    said(j, "can't start new thread") || said(j, "annot fork");
	if (!told && !(moved && is_command(j)))
		return;
	*reason = REASON_TOO_MANY_PROCESSES;
	*evidence = told ? EVIDENCE_REPORTED : EVIDENCE_INFERRED;
}

static void weigh_memory(struct job *j, const struct evidence *now, enum wire_reason *reason,
	enum wire_evidence *evidence)
{
	if (now->oom_kills <= j->before.oom_kills)
		return;
	if (j->signal == SIGKILL && j->cause == CAUSE_NONE) {
		*reason = REASON_OUT_OF_MEMORY;
		*evidence = EVIDENCE_MEASURED;
	} else {
		job_note(j, "oom_kill:%llu",
			(unsigned long long)(now->oom_kills - j->before.oom_kills));
	}
}

void job_weigh(struct job *j, enum wire_reason *reason, enum wire_evidence *evidence)
{
	struct evidence now;
	/* What a cell of less than a millisecond did that ended well needs no explanation, and the
	 * counters cost as much time as many a cell. */
	bool well = j->kind == JOB_KIND_CELL && *reason == REASON_EXIT && j->exit_code == 0;
	if (well && clock_monotonic_us() - j->started_us < QUICK_US)
		return;
	evidence_read(&now);
	bool failed = j->cause == CAUSE_NONE && j->has_exit_code && j->exit_code != 0 &&
		      *reason != REASON_TOO_MANY_PROCESSES;
	weigh_memory(j, &now, reason, evidence);
	if (weigh_disk(j, &now, failed, reason, evidence))
		failed = false;
	weigh_processes(j, &now, failed, reason, evidence);
}
