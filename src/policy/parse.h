/* parse.h: what rules are made of: typed values of a policy file, each problem with its key and
 * place. Inside policy only: parse.c has it, sections.c uses it. */
#pragma once

#include <jansson.h>

#include "policy/rules.h"

struct parse {
	struct generation *g;
	const char *text;
	size_t n;
	struct buf path; /* of the value that is looked at */
	struct policy_problems *problems;
};

/* One key of an object, by its name's place in a list of names. */
typedef void (*parse_fn)(struct parse *p, const json_t *v, struct rules *r);
struct parse_key {
	parse_fn parse; /* NULL: somebody else looks at it */
	bool required;
};

/* root into p->g, goes on after a problem. sections.c */
void parse_file(struct parse *p, const json_t *root);

/* A problem at the present path. */
void parse_problem(struct parse *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* To a member or element, and back: with what entering gave. */
size_t parse_enter_key(struct parse *p, const char *key);
size_t parse_enter_index(struct parse *p, size_t index);
void parse_leave(struct parse *p, size_t before);
/* The present path as a rule's name, for as long as the rules live. */
const char *parse_rule(struct parse *p);

/* False (NULL, -1): it is none, which is a problem now. */
bool parse_is(struct parse *p, const json_t *v, bool right, const char *wanted);
bool parse_bool(struct parse *p, const json_t *v, bool *ret);
bool parse_integer(struct parse *p, const json_t *v, uint64_t min, uint64_t max, uint64_t *ret);
bool parse_size(struct parse *p, const json_t *v, uint64_t min, uint64_t max, uint64_t *ret);
const char *parse_text(struct parse *p, const json_t *v); /* not empty */
int parse_choice(struct parse *p, const json_t *v, const char *const *names);
bool parse_array(struct parse *p, const json_t *v, size_t min, size_t max);
/* Absolute, and the one way to write it. */
bool parse_is_path(const char *path);

bool parse_is_name(const char *const *names, const char *key);
void parse_unknown_key(struct parse *p, const char *key, const char *const *names);
/* Its members in the order of the names, whatever the file's. */
void parse_object(struct parse *p, const json_t *v, const char *const *names,
	const struct parse_key *keys, struct rules *r);
