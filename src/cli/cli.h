/* cli.h: the command line: one file a command. */
#pragma once

#include "base/err.h"

/* Returns the exit status of the process (documented in `scb --help`). */
int cli_main(int argc, char **argv);

/* The commands. argv[0] is the command's own name. */
int cli_serve(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_sessions(int argc, char **argv);
int cli_broker(int argc, char **argv);
int cli_policy(int argc, char **argv);
int cli_audit(int argc, char **argv);
int cli_image(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_demo(int argc, char **argv);

/* Prints the help, all of it, to stdout. */
int cli_help(void);
/* A peer that has gone is an error of write(), not the end of the process. */
void cli_ignore_sigpipe(void);
/* Prints "scb: text" to stderr and returns the exit status that belongs to the error. */
int cli_failed(const struct err *err);
