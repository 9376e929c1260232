/* fuzz-policy.c: a policy file, and a path in it. Whatever it is: it is rules or it has problems;
 * what is shown of rules are the same rules again; what is not named is not allowed; every
 * problem's place lies in the text. */
#include "fuzz.h"

#include <stdlib.h>

#include "policy/place.h"
#include "policy/policy.h"

static void check_problems(const struct policy_problems *all, const uint8_t *text, size_t n)
{
	unsigned lines = 1;
	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	for (size_t i = 0; i < all->n; i++) {
		const struct policy_problem *p = &all->v[i];
		CHECK(p->line <= lines + 1 && p->text[0]);
	}
}

static void decide(const struct policy *p)
{
	static const char *const principals[] = {NULL, "uid:1", "*", "a"};
	for (size_t i = 1; i < ARRAY_SIZE(principals); i++) {
		struct policy_decision d;
		const struct policy_secret *s;
		policy_decide(p, &(struct policy_request){principals[i], "none", "x"}, &d);
		CHECK(!d.allowed && d.rule && d.reason[0]);
		policy_decide_mount(p, principals[i], "n", "/some/where", &d);
		policy_decide_outputs(p, principals[i], &d);
		size_t n = policy_secrets(p, principals[i], &s);
		for (size_t j = 0; j < n; j++)
			CHECK(s[j].name && s[j].source && s[j].variable &&
				!s[j].value == !!s[j].argv);
		CHECK(policy_limits(p, principals[i])->memory > 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct policy_source src = {0};
	struct policy_problems problems;
	struct policy *p = NULL;
	struct err err;
	struct input in = {data, size};
	size_t n_path;
	const uint8_t *raw = input_bytes(&in, input_u8(&in), &n_path);
	char path[256] = "";
	if (n_path)
		memcpy(path, raw, n_path);
	struct place place;
	if (place_find((const char *)in.p, in.n, path, &place))
		CHECK(place.line >= 1 && place.column >= 1 && place.line <= in.n + 1);

	int r = policy_parse(&src, "f", (const char *)in.p, in.n, &p, &problems, &err);
	CHECK((r == 0) == (problems.n == 0));
	check_problems(&problems, in.p, in.n);
	if (r < 0) {
		CHECK(err.text[0]);
		return 0;
	}
	decide(p);
	char *shown = policy_text(p), *again;
	struct policy *q = NULL;
	CHECK(policy_parse(&src, "f", shown, strlen(shown), &q, &problems, &err) == 0);
	again = policy_text(q);
	CHECK(strcmp(shown, again) == 0);
	free(shown);
	free(again);
	policy_free(p);
	policy_free(q);
	return 0;
}
