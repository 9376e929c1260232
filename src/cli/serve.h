/* serve.h: the two ways of `scb serve`. Both take stdin, and the descriptor that leads to the
 * host's end of stdout, and return the exit status. */
#pragma once

#include "cli/settings.h"

/* front.c */
int front_serve(const struct settings *settings, enum front_kind kind, int fd_out);
/* broker.c: the broker itself, in the foreground, with HTTP; takes the state directory over from
 * one that runs. 0 once it has ended by a signal. */
struct web_settings;
int broker_serve_http(const struct settings *settings, const struct web_settings *web,
	struct err *err) MUST_CHECK;
/* solo.c */
int solo_serve(const struct settings *settings, int fd_out);

/* For every process that holds what is somebody's own: nobody else may read its memory or the files
 * that it makes, and what its parent left open from descriptor low on is closed. */
int serve_harden(int low);
