/* cli.h: the command line: one file a command. */
#pragma once

/* Returns the exit status of the process (documented in `scb --help`). */
int cli_main(int argc, char **argv);
