/* name.h: names that a presented file may have: those that every system, shell, browser and person
 * takes for the same thing. Pure. */
#pragma once

#include "base/err.h"

/* ERR_FILE_REFUSED with the reason where name (one component of a path) is none of them. Names are
 * never changed: the caller is told to rename the file. */
int name_check(const char *name, struct err *err) MUST_CHECK;
/* As it stands in a URI (RFC 3986: all but the unreserved characters encoded); owned by the caller.
 */
char *name_encode(const char *name);
