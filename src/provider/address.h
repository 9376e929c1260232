/* address.h: unix socket addresses for paths of any length. */
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include "base/mem.h"

/* The address of path, for bind or connect at once: one longer than the 107 bytes that an address
 * has room for goes through its directory's descriptor, which *ret_dir then is (caller's; -1:
 * none). 0 or a negative errno. */
int address_of(const char *path, struct sockaddr_un *ret, int *ret_dir) MUST_CHECK;
/* A stream socket that listens at path, which is made with that mode. The descriptor (blocking), or
 * a negative errno. */
int address_listen(const char *path, mode_t mode, int backlog) MUST_CHECK;
/* A non-blocking one of that type (SOCK_STREAM, SOCK_SEQPACKET) that is connected to path:
 * -ECONNREFUSED where nobody listens (any more). */
int address_connect(const char *path, int type) MUST_CHECK;
