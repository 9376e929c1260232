/* mime.c: see mime.h. */
#include "files/mime.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"

#define OCTETS "application/octet-stream"
#define PLAIN  "text/plain"
#define HTML   "text/html"
#define ZIP    "application/zip"
#define OLE    "application/x-ole-storage"

enum { TEXT = 1, RUNS = 2 };

struct known {
	const char *name; /* extension, or the first bytes */
	const char *type;
	unsigned flags;
	const char *container; /* extension: the type that its bytes have */
	unsigned n, offset;    /* first bytes */
};

static const struct known extensions[] = {
	{"txt", PLAIN, TEXT, 0, 0, 0},
	{"log", PLAIN, TEXT, 0, 0, 0},
	{"md", "text/markdown", TEXT, 0, 0, 0},
	{"csv", "text/csv", TEXT, 0, 0, 0},
	{"tsv", "text/tab-separated-values", TEXT, 0, 0, 0},
	{"json", "application/json", TEXT, 0, 0, 0},
	{"geojson", "application/geo+json", TEXT, 0, 0, 0},
	{"jsonl", "application/x-ndjson", TEXT, 0, 0, 0},
	{"ndjson", "application/x-ndjson", TEXT, 0, 0, 0},
	{"ipynb", "application/x-ipynb+json", TEXT, 0, 0, 0},
	{"xml", "application/xml", TEXT, 0, 0, 0},
	{"yaml", "application/yaml", TEXT, 0, 0, 0},
	{"yml", "application/yaml", TEXT, 0, 0, 0},
	{"toml", "application/toml", TEXT, 0, 0, 0},
	{"sql", "application/sql", TEXT, 0, 0, 0},
	{"css", "text/css", TEXT, 0, 0, 0},
	{"tex", "text/x-tex", TEXT, 0, 0, 0},
	{"diff", "text/x-diff", TEXT, 0, 0, 0},
	{"patch", "text/x-diff", TEXT, 0, 0, 0},
	{"c", "text/x-c", TEXT, 0, 0, 0},
	{"h", "text/x-c", TEXT, 0, 0, 0},
	{"html", HTML, TEXT | RUNS, 0, 0, 0},
	{"htm", HTML, TEXT | RUNS, 0, 0, 0},
	{"xhtml", "application/xhtml+xml", TEXT | RUNS, 0, 0, 0},
	{"mht", "multipart/related", TEXT | RUNS, 0, 0, 0},
	{"mhtml", "multipart/related", TEXT | RUNS, 0, 0, 0},
	{"svg", "image/svg+xml", TEXT | RUNS, 0, 0, 0},
	{"js", "text/javascript", TEXT | RUNS, 0, 0, 0},
	{"mjs", "text/javascript", TEXT | RUNS, 0, 0, 0},
	{"py", "text/x-python", TEXT | RUNS, 0, 0, 0},
	{"r", "text/x-r", TEXT | RUNS, 0, 0, 0},
	{"sh", "application/x-sh", TEXT | RUNS, 0, 0, 0},
	{"png", "image/png", 0, "image/png", 0, 0},
	{"jpg", "image/jpeg", 0, "image/jpeg", 0, 0},
	{"jpeg", "image/jpeg", 0, "image/jpeg", 0, 0},
	{"gif", "image/gif", 0, "image/gif", 0, 0},
	{"webp", "image/webp", 0, "image/webp", 0, 0},
	{"pdf", "application/pdf", 0, "application/pdf", 0, 0},
	{"zip", ZIP, 0, ZIP, 0, 0},
	{"gz", "application/gzip", 0, "application/gzip", 0, 0},
	{"tgz", "application/gzip", 0, "application/gzip", 0, 0},
	{"parquet", "application/vnd.apache.parquet", 0, "application/vnd.apache.parquet", 0, 0},
	{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", 0, ZIP, 0, 0},
	{"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", 0, ZIP,
		0, 0},
	{"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", 0,
		ZIP, 0, 0},
	{"ods", "application/vnd.oasis.opendocument.spreadsheet", 0, ZIP, 0, 0},
	{"odt", "application/vnd.oasis.opendocument.text", 0, ZIP, 0, 0},
	{"epub", "application/epub+zip", 0, ZIP, 0, 0},
	{"npz", "application/x-npz", 0, ZIP, 0, 0},
	{"xlsm", "application/vnd.ms-excel.sheet.macroEnabled.12", RUNS, ZIP, 0, 0},
	{"docm", "application/vnd.ms-word.document.macroEnabled.12", RUNS, ZIP, 0, 0},
	{"pptm", "application/vnd.ms-powerpoint.presentation.macroEnabled.12", RUNS, ZIP, 0, 0},
	{"jar", "application/java-archive", RUNS, ZIP, 0, 0},
	{"xls", "application/vnd.ms-excel", RUNS, OLE, 0, 0},
	{"doc", "application/msword", RUNS, OLE, 0, 0},
	{"ppt", "application/vnd.ms-powerpoint", RUNS, OLE, 0, 0},
	{"tar", "application/x-tar", 0, OCTETS, 0, 0},
	{"mp3", "audio/mpeg", 0, OCTETS, 0, 0},
	{"pkl", "application/x-python-pickle", RUNS, OCTETS, 0, 0},
};

/* Kinds that open as programs somewhere and have no other type here. */
static const char *const programs[] = {"exe", "com", "scr", "pif", "bat", "cmd", "ps1", "psm1",
	"vb", "vbs", "vbe", "jse", "wsf", "wsh", "hta", "msi", "msp", "msc", "cpl", "dll", "lnk",
	"url", "reg", "inf", "scf", "chm", "application", "gadget", "jnlp", "bash", "zsh", "ksh",
	"csh", "fish", "command", "tool", "workflow", "app", "dmg", "pkg", "deb", "rpm", "apk",
	"snap", "flatpakref", "appimage", "run", "desktop", "service", "pyw", "pyz", "pyc", "pl",
	"rb", "php", "lua", "ws", "xlam", "xltm", "xlsb", "dotm", "ppam", "ppsm", "potm", "sldm",
	"iso", "img", "vhd", "vhdx", "xht", "shtml", "ade", "adp", "mdb", "accdb", "so", "dylib",
	"htc", "xpi", "crx", "vsix", "rdp", "settingcontent-ms", "library-ms", "search-ms"};

#define MAGIC(bytes, at, mime, how)                                                                \
	{                                                                                          \
		bytes, mime, how, 0, sizeof(bytes) - 1, at                                         \
	}
static const struct known magics[] = {
	MAGIC("\x89PNG\r\n\x1A\n", 0, "image/png", 0),
	MAGIC("\xFF\xD8\xFF", 0, "image/jpeg", 0),
	MAGIC("GIF87a", 0, "image/gif", 0),
	MAGIC("GIF89a", 0, "image/gif", 0),
	MAGIC("WEBP", 8, "image/webp", 0),
	MAGIC("WAVE", 8, "audio/wav", 0),
	MAGIC("%PDF-", 0, "application/pdf", 0),
	MAGIC("PK\x03\x04", 0, ZIP, 0),
	MAGIC("PK\x05\x06", 0, ZIP, 0),
	MAGIC("\x1F\x8B", 0, "application/gzip", 0),
	MAGIC("BZh", 0, "application/x-bzip2", 0),
	MAGIC("\xFD"
	      "7zXZ\x00",
		0, "application/x-xz", 0),
	MAGIC("\x28\xB5\x2F\xFD", 0, "application/zstd", 0),
	MAGIC("7z\xBC\xAF\x27\x1C", 0, "application/x-7z-compressed", 0),
	MAGIC("ustar", 257, "application/x-tar", 0),
	MAGIC("PAR1", 0, "application/vnd.apache.parquet", 0),
	MAGIC("ARROW1", 0, "application/vnd.apache.arrow.file", 0),
	MAGIC("SQLite format 3\x00", 0, "application/vnd.sqlite3", 0),
	MAGIC("\x89HDF\r\n\x1A\n", 0, "application/x-hdf5", 0),
	MAGIC("\x93NUMPY", 0, "application/x-npy", 0),
	MAGIC("ID3", 0, "audio/mpeg", 0),
	MAGIC("OggS", 0, "application/ogg", 0),
	MAGIC("ftyp", 4, "video/mp4", 0),
	MAGIC("II*\x00", 0, "image/tiff", 0),
	MAGIC("MM\x00*", 0, "image/tiff", 0),
	MAGIC("\x00\x00\x01\x00", 0, "image/vnd.microsoft.icon", 0),
	MAGIC("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", 0, OLE, RUNS),
	MAGIC("\x7F"
	      "ELF",
		0, "application/x-executable", RUNS),
	MAGIC("MZ", 0, "application/vnd.microsoft.portable-executable", RUNS),
	MAGIC("\xFE\xED\xFA\xCE", 0, "application/x-mach-binary", RUNS),
	MAGIC("\xFE\xED\xFA\xCF", 0, "application/x-mach-binary", RUNS),
	MAGIC("\xCE\xFA\xED\xFE", 0, "application/x-mach-binary", RUNS),
	MAGIC("\xCF\xFA\xED\xFE", 0, "application/x-mach-binary", RUNS),
	MAGIC("\xCA\xFE\xBA\xBE", 0, "application/x-mach-binary", RUNS),
	MAGIC("\x00"
	      "asm",
		0, "application/wasm", RUNS),
	MAGIC("L\x00\x00\x00\x01\x14\x02\x00", 0, "application/x-ms-shortcut", RUNS),
};

static const struct known *by_extension(const char *ext)
{
	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++) {
		if (strcasecmp(ext, extensions[i].name) == 0)
			return &extensions[i];
	}
	return NULL;
}

static bool is_program(const char *ext)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		if (strcasecmp(ext, programs[i]) == 0)
			return true;
	}
	return false;
}

/* "MZ" and "BZh" begin sentences, too: of what is text, only bytes that no text has count. */
static const struct known *by_magic(const uint8_t *head, size_t n, bool utf8)
{
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++) {
		const struct known *m = &magics[i];
		if (m->offset + m->n > n || memcmp(head + m->offset, m->name, m->n) != 0)
			continue;
		if (!utf8 || strcmp(m->type, "application/pdf") == 0)
			return m;
	}
	return NULL;
}

/* Case does not matter; needle is in lower case. */
static bool contains(const uint8_t *p, size_t n, const char *needle, bool at_start)
{
	size_t len = strlen(needle);
	for (size_t i = 0; i + len <= n; i++) {
		if (strncasecmp((const char *)p + i, needle, len) == 0)
			return true;
		if (at_start)
			break;
	}
	return false;
}

/* What a browser would take for a page (WHATWG MIME Sniffing, 7.1, in short). */
static bool looks_like_page(const uint8_t *p, size_t n)
{
	static const char *const starts[] = {"<!doctype html", "<html", "<head", "<body", "<script",
		"<iframe", "<svg", "<style", "<title", "<table", "<div", "<h1", "<a ", "<br",
		"<p>"};
	if (n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) {
		p += 3;
		n -= 3;
	}
	for (; n && memchr(" \t\r\n\f", p[0], 5); p++)
		n--;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		if (contains(p, n, starts[i], true))
			return true;
	}
	return false;
}

struct mime mime_of(const char *name, const void *data, size_t n, bool utf8, mode_t mode)
{
	const uint8_t *head = data;
	n = MIN(n, MIME_HEAD);
	const char *dot = strrchr(name, '.');
	const char *ext = dot ? dot + 1 : "";
	const struct known *e = by_extension(ext), *m = by_magic(head, n, utf8);
	bool page = utf8 && looks_like_page(head, n);
	struct mime r = {.type = OCTETS};
	r.runs = (e && e->flags & RUNS) || (m && m->flags & RUNS) || is_program(ext) || page ||
		 (mode & 0111) || (n >= 2 && memcmp(head, "#!", 2) == 0) ||
		 (utf8 && contains(head, n, "<script", false));
	if (m) {
		r.type =
			e && e->container && strcmp(e->container, m->type) == 0 ? e->type : m->type;
	} else if (utf8) {
		r.type = e && e->flags & TEXT ? e->type : page ? HTML : PLAIN;
		r.text = true;
	} else if (e && e->container && strcmp(e->container, OCTETS) == 0) {
		r.type = e->type; /* a kind that cannot be told from its bytes */
	}
	return r;
}

const char *mime_intern(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(extensions); i++) {
		if (strcmp(type, extensions[i].type) == 0)
			return extensions[i].type;
	}
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++) {
		if (strcmp(type, magics[i].type) == 0)
			return magics[i].type;
	}
	return OCTETS;
}

const char *mime_packed(const uint8_t *head, size_t n)
{
	static const struct {
		const char *begins;
		size_t n;
		const char *name;
	} table[] = {
		{"PK\003\004", 4, "zip"}, /* and office files, jar, npz */
		{"PK\005\006", 4, "zip"},
		{"\x1f\x8b", 2, "gzip"},
		{"BZh", 3, "bzip2"},
		{"\xfd"
		 "7zXZ",
			5, "xz"},
		{"\x28\xb5\x2f\xfd", 4, "zstd"},
		{"\x04\x22\x4d\x18", 4, "lz4"},
		{"7z\xbc\xaf\x27\x1c", 6, "7z"},
		{"Rar!\x1a\x07", 6, "rar"},
		{"PAR1", 4, "parquet"},
		{"ARROW1", 6, "arrow"},
		{"ORC", 3, "orc"},
		{"\x89HDF\r\n\x1a\n", 8, "hdf5"},
		{"Obj\x01", 4, "avro"},
		{"%PDF-", 5, "pdf"},
		{"\x89PNG\r\n\x1a\n", 8, "png"},
		{"wOF2", 4, "woff2"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (n >= table[i].n && memcmp(head, table[i].begins, table[i].n) == 0)
			return table[i].name;
	return NULL;
}
