/* shell.h: the one shell that a shell kernel drives: bash, else sh.
 *
 * It reads one line a cell from its standard input; the cell itself it reads as a file, so that
 * what a cell leaves open (a quote, an `if`) ends with it. It talks back by a pipe (bash.sh,
 * sh.sh). All these are paths below /proc/PID/fd of this process: no descriptor of them is ever the
 * cells'.
 *
 * A shell that ends by itself (`exit`, `set -e`, SIGINT) writes its state first, and the next one
 * begins with it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the shell says. */
enum shell_event {
	SHELL_NOTHING,
	SHELL_READY,   /* text: its version */
	SHELL_DONE,    /* the cell has ended with that status */
	SHELL_LEAVING, /* it is about to end */
	SHELL_SAVED, /* … and its state is kept. text: what no other shell can take over, or "" */
};

struct shell_message {
	enum shell_event event;
	int status;
	char text[200];
};

struct shell {
	const char *program; /* "/bin/bash" */
	const char *name;    /* "bash" or "sh" */
	const char *folder;  /* of bash.sh and sh.sh */
	pid_t pid;           /* 0: none runs */
	int control;         /* its standard input */
	int say[2], cell, state;
	char cell_path[300]; /* what the cell is called in its error messages */
	char said[4096];     /* of a message that has not come whole */
	size_t n_said;
};

/* Chooses a program (NULL: the best there is) and makes the descriptors; starts nothing. */
int shell_init(struct shell *s, const char *program, const char *folder);
/* Starts it; SHELL_READY follows. fresh: without what an earlier one has left. 0, or a negative
 * errno. */
int shell_start(struct shell *s, bool fresh);
/* Runs a cell. status: its `$?`. input: a pipe's reading end, -1: empty. snapshot: keeps the state
 * before it, too. -EBADMSG: it has a syntax error, which stderr has been told, and none of it ran
 * (others come when bash gets there). */
int shell_run(struct shell *s, const void *code, size_t n, int status, int input, bool snapshot);
/* Reads what the shell has said; call when s->say[0] is readable. */
void shell_read(struct shell *s);
/* The next message; event SHELL_NOTHING where none is complete. */
struct shell_message shell_next(struct shell *s);
/* Takes the names away that it has made. */
void shell_done(struct shell *s);
