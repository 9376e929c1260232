/* fd.h: descriptors: closed with their scope, close-on-exec from birth, paths from outside
 * confined. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/mem.h"

/* Closes and sets to -1; negative descriptors are left alone; errno stays. */
void fd_closep(int *fd);
#define _cleanup_close_ CLEANUP(fd_closep)

/* All of n bytes, across EINTR and short counts. 0, or a negative errno (-EPIPE: end of file came
 * first). */
int fd_read_full(int fd, void *p, size_t n) MUST_CHECK;
int fd_write_full(int fd, const void *p, size_t n) MUST_CHECK;
/* Sends what the socket takes of out without waiting, and removes it there. 0, or a negative errno
 * where it takes nothing any more. */
int fd_send(int fd, struct buf *out) MUST_CHECK;
int fd_set_nonblock(int fd, bool on) MUST_CHECK;
int fd_set_cloexec(int fd, bool on) MUST_CHECK;
/* Closes every descriptor ≥ low. */
int fd_close_from(int low);
/* A memfd holding n bytes, position 0, CLOEXEC. The descriptor, or a negative errno. */
int fd_memfd(const char *name, const void *p, size_t n) MUST_CHECK;

/* Opens path beneath the directory dirfd and never elsewhere: no "..", absolute path, or link leads
 * out; no magic link is followed; with O_NOFOLLOW in flags no link as last part either. Adds
 * O_CLOEXEC and O_NOCTTY. Uses openat2(RESOLVE_BENEATH|RESOLVE_NO_MAGICLINKS) and, where the kernel
 * has none (gVisor), a walk by components that follows no link at all. path "" or "." opens dirfd
 * anew. The descriptor, or a negative errno: -EXDEV for a way out, -ELOOP for a link. */
int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode) MUST_CHECK;
/* The same, following no symbolic link at all, in no part of the path: -ELOOP. */
int fd_open_beneath_no_links(int dirfd, const char *path, int flags, mode_t mode) MUST_CHECK;
/* Opens the directory that holds path's last component (beneath dirfd), and points *ret_name at
 * that component in path. -EINVAL where the last component is "", "." or "..". */
int fd_open_parent_beneath(int dirfd, const char *path, const char **ret_name) MUST_CHECK;
