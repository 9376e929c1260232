/* ocsf.h: a line of the audit log as an event of the Open Cybersecurity Schema Framework (OCSF 1.5,
 * schema.ocsf.io), for programs that collect such events. docs/audit.md says which event becomes
 * which class. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#define OCSF_VERSION "1.5.0"

/* line is a line of the log, without its newline; it stands whole in raw_data, so that its hash can
 * be checked wherever the event went. host: this machine's name. The caller's reference; NULL: it
 * is no line of a log. */
json_t *ocsf_event(const char *line, size_t n, const char *host, const char *version);
