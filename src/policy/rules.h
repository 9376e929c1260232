/* rules.h: a policy as it is asked: what parse.c makes, policy.c answers from and show.c prints.
 * Inside policy only. */
#pragma once

#include "base/buf.h"
#include "policy/limits.h"
#include "policy/policy.h"

#define POLICY_TOOLS   8  /* rows of policy_tools */
#define POLICY_ACTIONS 12 /* of one tool */
/* One file: a hundred principals of some lines each. */
#define POLICY_FILE_MAX       (256 * 1024)
#define POLICY_PRINCIPALS_MAX 256
#define POLICY_MOUNTS_MAX     64
#define POLICY_REQUIRE_MAX    11

/* A tool with its actions; of run_code: the languages. NULL at the end. */
struct policy_tool {
	const char *name;
	const char *actions[POLICY_ACTIONS + 1];
};
extern const struct policy_tool policy_tools[POLICY_TOOLS];
/* The names that require.enforced takes; NULL at the end. */
extern const char *const policy_enforced[POLICY_REQUIRE_MAX + 1];
extern const char *const policy_fsync[];  /* by enum audit_fsync */
extern const char *const policy_levels[]; /* the weakest first; NULL at the end */

/* Texts are of the generation's pool, or static. */
struct mount_rule {
	const char *path; /* itself and what is below */
	const char *name; /* NULL: any */
	const char *rule;
};

/* All that holds for one principal. */
struct rules {
	struct policy_limits limits;
	limit_set given; /* of the file */
	/* The rule that allows it; NULL: none does. [0]: the tool with whatever action. */
	const char *allow[POLICY_TOOLS][POLICY_ACTIONS + 1];
	bool images;
	bool any_tool; /* also those that policy does not know: a server's with other tools */
	const char *tools_rule; /* what denies */
	bool any_mount;
	struct mount_rule *mounts; /* of the pool */
	size_t n_mounts;
	const char *mounts_rule;
	bool outputs_allowed;
	struct policy_outputs outputs;
	const char *outputs_rule;
	struct policy_secret *secrets; /* of the pool */
	size_t n_secrets;
	struct policy_rate rate;
};

struct named_rules {
	const char *name;
	struct rules rules;
};

/* What is exchanged by a reload. Never changed once it is in force. */
struct generation {
	unsigned refs;
	uint64_t number;
	char *path; /* NULL: built in */
	char sha256[65];
	struct policy_require require;
	struct audit_config audit;
	struct rules top;
	bool only_named; /* the file has principals: others than those are denied */
	struct named_rules *principals;
	size_t n_principals;
	const struct rules *others; /* those of "*" */
	void **pool;                /* freed with it */
	size_t n_pool;
};

struct generation *generation_new(void);
void generation_unref(struct generation *g);
/* Memory that lives as long as g: zeroed, and a copy of a text. */
void *generation_alloc(struct generation *g, size_t n);
const char *generation_text(struct generation *g, const char *text);
/* Those in force. */
const struct generation *policy_rules(const struct policy *p);
/* The built-in rules. */
void rules_default(struct rules *r);
/* -1: no such tool, or action. */
int policy_tool_find(const char *name, size_t n);
int policy_action_find(int tool, const char *name);

/* parse.c: a file's text into g. Limits are not looked at together yet. False: problems say why. */
bool policy_parse_text(
	struct generation *g, const char *text, size_t n, struct policy_problems *problems);
/* A problem at path (may be NULL); line and column are found in text. */
void policy_problem(struct policy_problems *all, const char *text, size_t n, const char *path,
	const char *fmt, ...) PRINTF_LIKE(5, 6);

/* The keys of each kind of object that a file can have, for its schema's test. */
struct policy_section {
	const char *name; /* in the schema's $defs; "": the whole */
	const char *const *keys;
};
extern const struct policy_section policy_sections[];

/* policyfile.c: the text of a file that is safe to trust. *ret is the caller's. -ENOENT where there
 * is none. */
int policy_file_read(const char *path, char **ret, size_t *ret_n, struct err *err) MUST_CHECK;
