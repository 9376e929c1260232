/* page.c: see page.h. */
#include "mcp/page.h"

#include <string.h>

#include "audit/audit.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "mcp/conn.h"
#include "mcp/pagelook.h"
#include "mcp/redaction.h"
#include "mcp/webcookie.h"
#include "ui_host.h"

static const char type_html[] = "text/html; charset=utf-8",
		  type_text[] = "text/plain; charset=utf-8";

struct page {
	struct mcp_server *server;
	struct pagelooks *looks;
};

/* ---- documents ---- */

/* What every document of ours says of itself. */
#define COMMON                                                                                     \
	{"cache-control", "no-store"}, {"referrer-policy", "no-referrer"},                         \
		{"cross-origin-opener-policy", "same-origin"},                                     \
		{"cross-origin-resource-policy", "same-origin"},                                   \
	{                                                                                          \
		"permissions-policy", "camera=(), microphone=(), geolocation=()"                   \
	}
#define NOTHING "default-src 'none'; base-uri 'none'; form-action 'none'"

static const char plain_style[] =
	"<style>body{font:15px/1.6 system-ui,sans-serif;max-width:40em;margin:14vh auto "
	"0;padding:0 "
	"1.5em;color:#17181c;background:#fff}h1{font-size:1.25em}p{color:#5c5f69}code{font:.9em "
	"ui-monospace,monospace;color:#17181c}a{color:#3250d8}@media(prefers-color-scheme:dark){"
	"body{background:#111215;color:#eceef2}p{color:#a2a6b1}code{color:#eceef2}a{color:#8aa3ff}}"
	"</style>";

/* body: of a plain page without scripts. */
static void answer_plain(struct http_exchange *x, unsigned status, const struct http_field *more,
	const char *head, const char *body)
{
	_cleanup_free_ char *html =
		xasprintf("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
			  "name=\"viewport\" content=\"width=device-width\">%s<title>scb</title>%s"
			  "</head><body><main>%s</main></body></html>\n",
			head, plain_style, body);
	const struct http_field fields[] = {COMMON,
		{"content-security-policy",
			NOTHING "; style-src 'unsafe-inline'; frame-ancestors 'none'"},
		more ? *more : (struct http_field){0}};
	http_answer(x, status, type_html, fields, ARRAY_SIZE(fields) - !more, html, strlen(html));
}

void page_refuse(struct http_exchange *x)
{
	static const struct http_field bearer = {"www-authenticate", "Bearer realm=\"scb\""};
	answer_plain(x, 401, &bearer, "",
		"<h1>This page needs its token</h1><p>The address with the token stands in the "
		"file "
		"<code>http-url</code> of the broker’s state directory, which only its user can "
		"read:</p><p><code>cat ~/.local/state/scb/http-url</code></p><p>Open that address "
		"once in this browser; it is remembered for a week. <code>scb demo</code> prints "
		"its "
		"own.</p>");
}

/* Browsers say what they ask it for; in a frame or by a script it is nobody's page. */
static bool is_document(const struct http_exchange *x)
{
	const char *what = http_field(http_head(x), "sec-fetch-dest");
	return !what || strcmp(what, "document") == 0;
}

void page_answer(struct page *p, struct http_exchange *x, const char *principal)
{
	static const char refused[] = "Forbidden: this page stands in no frame of another\n";
	static const struct http_field fields[] = {COMMON, {"content-encoding", "gzip"},
		{"content-security-policy", NOTHING
			"; script-src '" UI_HOST_SCRIPT "'; style-src '" UI_HOST_STYLE
			"'; img-src data:; connect-src 'self'; frame-src 'self'; frame-ancestors "
			"'none'"}};
	(void)p;
	if (!is_document(x))
		http_answer(x, 403, type_text, NULL, 0, refused, sizeof(refused) - 1);
	else if (ui_host_size == 0)
		answer_plain(x, 200, NULL, "",
			"<h1>This scb was built without its page</h1><p>MCP is served at "
			"<code>/mcp</code>. The page and the dashboard’s App are made with Node "
			"and npm: "
			"install <code>nodejs</code> and <code>npm</code>, and build scb again "
			"(<code>make build</code>).</p>");
	else if (!principal)
		page_refuse(x);
	else /* every browser reads gzip, and nothing else is in this program */
		http_answer(
			x, 200, type_html, fields, ARRAY_SIZE(fields), ui_host_gz, ui_host_size);
}

static int put_on_record(struct page *p, const char *principal, struct err *err)
{
	const struct audit_event e = {
		.event = "page.open",
		.principal = principal,
		.redactor = redaction_of(p->server, principal),
	};
	return audit_event(p->server->config.audit, &e, err);
}

/* Not by a redirect: where the link stood on another site (a terminal in a browser, a chat) what a
 * redirect asks for is still asked by that site, and comes without the cookie. What this page asks
 * for is asked by itself. It takes the place of the address with the token. */
void page_enter(struct page *p, struct http_exchange *x, const char *principal, const char *cookie)
{
	_cleanup_free_ char *show = webcookie_query(http_head(x)->target, "show");
	struct err err;
	if (put_on_record(p, principal, &err) < 0) {
		_cleanup_free_ char *text = xasprintf("Service Unavailable: %s\n", err.text);
		http_answer(x, 503, type_text, NULL, 0, text, strlen(text));
		return;
	}
	const char *id = show && id_valid('d', show) ? show : "";
	_cleanup_free_ char *refresh = xasprintf(
		"<meta http-equiv=\"refresh\" content=\"0;url=/%s%s\">", *id ? "#" : "", id);
	_cleanup_free_ char *body =
		xasprintf("<p><a href=\"/%s%s\">To the page</a></p>", *id ? "#" : "", id);
	const struct http_field set = {"set-cookie", (char *)cookie};
	answer_plain(x, 200, &set, refresh, body);
}

/* The specification's default policy without 'self', which an opaque origin does not have, and with
 * what that leaves open: where forms go, and what the inner frame may be led to. */
void page_sandbox(struct http_exchange *x)
{
	static const struct http_field fields[] = {COMMON,
		{"content-security-policy", NOTHING
			"; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
			"media-src data:; connect-src 'none'; frame-src 'none'; frame-ancestors "
			"'self'; sandbox allow-scripts allow-forms"}};
	http_answer(x, 200, type_html, fields, ARRAY_SIZE(fields), ui_sandbox_html,
		strlen(ui_sandbox_html));
}

/* ---- state ---- */

static uint64_t number(const char *target, const char *name, uint64_t max)
{
	_cleanup_free_ char *text = webcookie_query(target, name);
	uint64_t n = 0;
	return text && str_to_u64(text, INT64_MAX, &n) == 0 ? MIN(n, max) : 0;
}

void page_state(struct page *p, struct http_exchange *x, const char *principal)
{
	const char *target = http_head(x)->target;
	const struct pagelook_wish wish = {
		.principal = principal,
		.after = number(target, "after", INT64_MAX),
		.wait_s = number(target, "wait", LIMIT_PAGE_WAIT_S),
	};
	pagelook(p->looks, x, &wish);
}

/* ---- life ---- */

struct page *page_new(uv_loop_t *loop, struct mcp_server *server)
{
	struct page *p = xcalloc(1, sizeof(*p));
	p->server = server;
	p->looks = pagelooks_new(loop, server);
	return p;
}

void page_close(struct page *p, void (*done)(void *user), void *user)
{
	pagelooks_close(p->looks, done, user);
	free(p);
}
