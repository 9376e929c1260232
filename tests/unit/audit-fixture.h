/* audit-fixture.h: a log in a folder of its own, and what every line of one must hold. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "audit/audit.h"
#include "audit/hash.h"

extern char al_dir[], al_path[64], al_key[64];

int al_setup(void **state);
int al_teardown(void **state);

/* The log as it is, gone on with. */
struct audit *al_opened(void);
struct audit *al_opened_with(const struct audit_config *config);
/* An empty folder. */
void al_start_anew(void);
void al_write_some(struct audit *a, unsigned n);

off_t al_size(void);
/* The next line; NULL: there is none. */
json_t *al_read_line(FILE *f);
json_t *al_last_line(void);
size_t al_lines_with(const char *event);
/* All lines are whole, numbered without a hole, and hold the hash of the one before. How many. */
size_t al_check_chain(const char *file, json_int_t *seq, char prev[static HASH_TEXT]);
size_t al_check(void);
