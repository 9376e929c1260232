/* sessions.c: `scb sessions list|close`: what the broker of this state directory keeps alive. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/paths.h"
#include "cli/reach.h"

struct command {
	struct settings settings;
	const char *verb, *handle, *principal;
	bool all;
};

static int set_all(void *user, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	((struct command *)user)->all = true;
	return 0;
}

static int set_principal(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct command *)user)->principal = value;
	return 0;
}

static int set_word(void *user, const char *value, struct err *err)
{
	struct command *c = user;
	return options_word(value, (const char **[]){&c->verb, &c->handle}, 2, err);
}

static const struct option_def own_options[] = {
	{"--all", NULL, set_all},
	{"--principal", "P", set_principal},
	{0},
};

static int check_words(const struct command *c, struct err *err)
{
	bool list = c->verb && strcmp(c->verb, "list") == 0;
	bool close = c->verb && strcmp(c->verb, "close") == 0;
	if (!list && !close)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"say `scb sessions list` or `scb sessions close`");
	if (list && (c->handle || c->all))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"`scb sessions list` takes --principal and --state only");
	if (close && !c->handle == !c->all)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"`scb sessions close` takes a session's handle, or --all");
	return 0;
}

static json_t *make_request(const struct command *c)
{
	bool list = strcmp(c->verb, "list") == 0;
	return json_pack("{s:s,s:s*,s:s*,s:b}", "op", list ? "sessions.list" : "sessions.close",
		"session", c->handle, "principal", c->principal, "all", c->all);
}

/* What a broker says is shown on a terminal. */
static const char *text_of(const json_t *o, const char *name, char ret[static 64])
{
	const char *text = json_string_value(json_object_get(o, name));
	str_copy(ret, 64, text ? text : "?");
	str_make_printable(ret);
	return ret;
}

static void print_list(const json_t *sessions)
{
	size_t i;
	json_t *o;
	if (json_array_size(sessions) == 0)
		(void)printf("no sessions\n");
	json_array_foreach (sessions, i, o) {
		char handle[64], principal[64], provider[64], created[64], expires[64];
		(void)printf("%s  %s  %s  from %.19sZ  %s %.19sZ\n", text_of(o, "session", handle),
			text_of(o, "principal", principal), text_of(o, "provider", provider),
			text_of(o, "created", created),
			json_is_true(json_object_get(o, "lost")) ? "lost; forgotten"
								 : "if unused until",
			text_of(o, "expires", expires));
	}
}

static int print_answer(const json_t *answer, struct err *err)
{
	const char *error = json_string_value(json_object_get(answer, "error"));
	const json_t *sessions = json_object_get(answer, "sessions");
	const json_t *closed = json_object_get(answer, "closed");
	size_t i;
	json_t *left;
	if (error) {
		const char *text = json_string_value(json_object_get(answer, "text"));
		enum err_code code = strcmp(error, err_info(ERR_NO_SUCH_SESSION)->name) == 0
					     ? ERR_NO_SUCH_SESSION
					     : ERR_PROTOCOL;
		return err_set(err, code, 0, "%.300s", text ? text : error);
	}
	if (sessions)
		print_list(sessions);
	if (closed)
		(void)printf("closed %d session%s\n", (int)json_integer_value(closed),
			str_plural((uint64_t)json_integer_value(closed)));
	json_array_foreach (json_object_get(answer, "leftovers"), i, left)
		(void)fprintf(stderr, "scb: left behind: %s\n", json_string_value(left));
	return 0;
}

static int ask(const struct command *c, struct err *err)
{
	struct front_hello hello;
	_cleanup_free_ char *state = NULL;
	_cleanup_close_ int fd = -1;
	json_t *answer = NULL;
	int r = paths_state(c->settings.state, &state, err);
	if (r < 0)
		return r;
	reach_fill_hello(&hello, FRONT_CONTROL_ONLY);
	/* One is started where there is none: sandboxes of a dead one may live. */
	r = reach_broker(state, &c->settings, &hello, &fd, err);
	if (r < 0)
		return r;
	json_t *request = make_request(c);
	r = request ? reach_control(fd, request, &answer, NULL, err)
		    : err_set(err, ERR_INVALID_ARGUMENT, 0, "an argument is not UTF-8 text");
	json_decref(request);
	if (r == 0)
		r = print_answer(answer, err);
	json_decref(answer);
	return r;
}

int cli_sessions(int argc, char **argv)
{
	struct command c = {0};
	struct err err = {0};
	const struct option_table tables[] = {
		{own_options, &c}, {settings_options, &c.settings}, {0}};
	if (options_want_help(argc, argv, tables))
		return cli_help();
	settings_init(&c.settings);
	int r = options_parse(argc, argv, tables, set_word, &err);
	if (r == 0)
		r = check_words(&c, &err);
	if (r == 0)
		r = ask(&c, &err);
	settings_done(&c.settings);
	if (r == 0 && fflush(stdout) != 0)
		return err_info(ERR_IO)->exit_status;
	return r < 0 ? cli_failed(&err) : 0;
}
