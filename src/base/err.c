/* err.c: see err.h. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Exit statuses follow sysexits.h where one fits. */
static const struct err_info infos[ERR_CODE_MAX_] = {
	[ERR_NONE] = {"none", 0, 200, 0},
	[ERR_INTERNAL] = {"internal", -32603, 500, 70},
	[ERR_INVALID_ARGUMENT] = {"invalid_argument", -32602, 400, 64},
	[ERR_NO_SUCH_SESSION] = {"no_such_session", -32602, 404, 66},
	[ERR_NO_SUCH_JOB] = {"no_such_job", -32602, 404, 66},
	[ERR_NO_SUCH_FILE] = {"no_such_file", -32602, 404, 66},
	[ERR_NO_SUCH_RESOURCE] = {"no_such_resource", -32602, 404, 66},
	[ERR_FILE_REFUSED] = {"file_refused", -32602, 403, 77},
	[ERR_IO] = {"io", -32603, 500, 74},
	[ERR_POLICY_DENIED] = {"policy_denied", -32602, 403, 77},
	[ERR_LIMIT_REACHED] = {"limit_reached", -32603, 429, 75},
	[ERR_PROVIDER_UNUSABLE] = {"provider_unusable", -32603, 503, 69},
	[ERR_INTERPRETER_MISSING] = {"interpreter_missing", -32603, 503, 69},
	[ERR_SANDBOX_LOST] = {"sandbox_lost", -32603, 410, 69},
	[ERR_PROTOCOL] = {"protocol", -32600, 400, 76},
	[ERR_CONFLICT] = {"conflict", -32602, 409, 65},
	[ERR_TIMEOUT] = {"timeout", -32603, 504, 75},
	[ERR_CANCELLED] = {"cancelled", -32603, 499, 75},
	[ERR_AUDIT_UNAVAILABLE] = {"audit_unavailable", -32603, 503, 74},
	[ERR_UNSUPPORTED] = {"unsupported", -32601, 501, 69},
	[ERR_SECRET_UNAVAILABLE] = {"secret_unavailable", -32603, 503, 75},
};

int err_set(struct err *e, enum err_code code, int errnum, const char *fmt, ...)
{
	if (e) {
		va_list ap;
		e->code = code;
		e->errnum = errnum;
		va_start(ap, fmt);
		(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
		va_end(ap);
		str_make_printable(e->text);
	}
	return errnum > 0 ? -errnum : -EINVAL;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	if (!e)
		return -EINVAL;
	char old[sizeof(e->text)];
	memcpy(old, e->text, sizeof(old));
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(e->text))
		(void)snprintf(e->text + n, sizeof(e->text) - (size_t)n, ": %.400s", old);
	str_make_printable(e->text);
	return e->errnum > 0 ? -e->errnum : -EINVAL;
}

const struct err_info *err_info(enum err_code code)
{
	if ((unsigned)code >= ERR_CODE_MAX_ || !infos[code].name)
		code = ERR_INTERNAL;
	return &infos[code];
}
