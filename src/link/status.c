/* status.c: see status.h. */
#include "link/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Each sentence goes on after what was asked for. */
static const struct {
	enum err_code code;
	int errnum;
	const char *sentence;
} table[WIRE_STATUS_MAX_ + 1] = {
	[WIRE_BAD_REQUEST] = {ERR_INVALID_ARGUMENT, EINVAL, "the request makes no sense"},
	[WIRE_UNSUPPORTED] = {ERR_UNSUPPORTED, EOPNOTSUPP,
		"this sandbox cannot do that; scb-agent is of another build than scb"},
	[WIRE_NOT_FOUND] = {ERR_NO_SUCH_FILE, ENOENT,
		"there is no such file or directory; list the directory to see what there is"},
	[WIRE_EXISTS] = {ERR_CONFLICT, EEXIST,
		"it exists already; choose another name, or ask for it to be replaced"},
	[WIRE_OUTSIDE] = {ERR_FILE_REFUSED, EXDEV,
		"a link in the path leads out of the workspace or mount, and is not followed; "
		"where "
		"code can read what it names, copy that into the workspace (run_command: cp)"},
	[WIRE_NOT_REGULAR] = {ERR_FILE_REFUSED, EINVAL,
		"only regular files can be used here, and this is none"},
	[WIRE_IS_DIRECTORY] = {ERR_INVALID_ARGUMENT, EISDIR,
		"it is a directory; name a file in it"},
	[WIRE_NOT_DIRECTORY] = {ERR_INVALID_ARGUMENT, ENOTDIR,
		"a part of the path is no directory; check the path"},
	[WIRE_IS_LINK] = {ERR_FILE_REFUSED, ELOOP,
		"it is a symbolic link, and those are not followed here; name the file itself"},
	[WIRE_READ_ONLY] = {ERR_FILE_REFUSED, EROFS,
		"it is read-only; write to /workspace instead"},
	[WIRE_NO_SPACE] = {ERR_IO, ENOSPC,
		"the sandbox's disk is full; delete what is not needed in /workspace and /tmp"},
	[WIRE_CHANGED] = {ERR_CONFLICT, EBUSY,
		"the file changed while it was read; try again once nothing writes to it"},
	[WIRE_LIMIT] = {ERR_LIMIT_REACHED, EDQUOT, "a limit of the sandbox is reached"},
	[WIRE_PROCESS_LIMIT] = {ERR_LIMIT_REACHED, EAGAIN,
		"the sandbox has as many processes as it may have; end some (the job tool's "
		"signal) or restart the kernel"},
	[WIRE_NO_INTERPRETER] = {ERR_INTERPRETER_MISSING, ENOENT,
		"the program that should run it is not in the sandbox"},
	[WIRE_GONE] = {ERR_NO_SUCH_JOB, ESTALE, "it has ended, or is no longer kept"},
	[WIRE_CONFLICT] = {ERR_CONFLICT, EEXIST, "the same name was used for something else"},
	[WIRE_DENIED] = {ERR_IO, EACCES,
		"the sandbox's own file permissions forbid it; see its mode and owner"},
	[WIRE_IO] = {ERR_IO, EIO, "the sandbox's operating system refused it"},
	[WIRE_CANCELLED] = {ERR_CANCELLED, ECANCELED, "it was cancelled"},
};

/* Where the general sentence, which is about files, does not fit what was asked for. */
static const struct {
	const char *of; /* first word of what was asked for */
	enum wire_status status;
	enum err_code code;
	const char *sentence;
} special[] = {
	{"job", WIRE_NOT_FOUND, ERR_NO_SUCH_JOB,
		"there is no such job in this session; list its jobs to see what there is"},
	{"job", WIRE_NOT_DIRECTORY, ERR_NO_SUCH_FILE,
		"cwd names no directory of the sandbox; make it first, or leave cwd out"},
	{"job", WIRE_DENIED, ERR_IO, "the directory that cwd names may not be entered"},
	{"input", WIRE_NOT_FOUND, ERR_NO_SUCH_JOB,
		"there is no such job in this session; list its jobs to see what there is"},
	{"input", WIRE_GONE, ERR_INVALID_ARGUMENT,
		"the job takes no input: it has ended, closed its stdin, or was started without "
		"stdin_open"},
	{"cell", WIRE_NOT_FOUND, ERR_SANDBOX_LOST,
		"its interpreter is not there; run it again, which starts a new one"},
	{"fork", WIRE_NOT_FOUND, ERR_INVALID_ARGUMENT,
		"there is no such kernel in this session; running code in it starts it"},
	{"fork", WIRE_DENIED, ERR_CONFLICT, "it cannot be forked now"},
	{"fork", WIRE_EXISTS, ERR_CONFLICT, "choose another name for the twin"},
	{"fork", WIRE_GONE, ERR_CONFLICT, "it came to nothing"},
	{"kernel", WIRE_NOT_FOUND, ERR_INVALID_ARGUMENT,
		"there is no such kernel in this session; running code in it starts it"},
	{"kernel", WIRE_CONFLICT, ERR_CONFLICT,
		"an interpreter of this name was started by another build of scb; restart it"},
};

static bool first_word_is(const char *what, const char *word)
{
	size_t n = strlen(word);
	return strncmp(what, word, n) == 0 && (what[n] == ' ' || what[n] == '\0');
}

int link_status_error(
	enum wire_status status, const char *what, const char *agent_text, struct err *err)
{
	int what_n = (int)str_utf8_trim(what, strnlen(what, 120));
	int text_n = agent_text ? (int)str_utf8_trim(agent_text, strnlen(agent_text, 150)) : 0;
	if (status == WIRE_OK)
		return 0;
	if ((unsigned)status > WIRE_STATUS_MAX_)
		return err_set(err, ERR_PROTOCOL, EPROTO,
			"%.*s: the sandbox answered with a status that does not exist", what_n,
			what);
	enum err_code code = table[status].code;
	const char *sentence = table[status].sentence;
	for (size_t i = 0; i < ARRAY_SIZE(special); i++) {
		if (special[i].status != status || !first_word_is(what, special[i].of))
			continue;
		code = special[i].code;
		sentence = special[i].sentence;
	}
	return err_set(err, code, table[status].errnum, "%.*s: %s%s%.*s%s", what_n, what, sentence,
		text_n ? " (" : "", text_n, text_n ? agent_text : "", text_n ? ")" : "");
}

void link_status_text(struct tlv_reader end, char ret_text[static LINK_STATUS_TEXT])
{
	ret_text[0] = '\0';
	for (struct tlv t; tlv_next(&end, &t);) {
		if (t.tag != TAG_TEXT)
			continue;
		_cleanup_buf_ struct buf b = BUF_INIT(3 * LINK_STATUS_TEXT);
		size_t n = str_utf8_trim(t.p, MIN(t.n, LINK_STATUS_TEXT - 1));
		if (str_utf8_repair(&b, t.p, n, NULL) < 0)
			return;
		n = str_utf8_trim(b.data, MIN(b.len, LINK_STATUS_TEXT - 1));
		for (size_t i = 0; i < n; i++)
			ret_text[i] = b.data[i] < 0x20 || b.data[i] == 0x7f ? ' ' : (char)b.data[i];
		ret_text[n] = '\0';
		return;
	}
}
