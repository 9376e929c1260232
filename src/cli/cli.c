/* cli.c: see cli.h. */
#include "cli/cli.h"
#include "mcp/build.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
	"scb: runs an AI agent's code in isolated sandboxes and speaks MCP.\n"
	"\n"
	"  scb serve [options]           the MCP server on stdin and stdout, for a host to start\n"
	"  scb run [options] FILE        runs a file in a fresh sandbox and prints its output\n"
	"  scb run [options] -c CODE     the same with code from the command line\n"
	"  scb demo [options]            a dashboard on real data, in the browser, until Ctrl-C\n"
	"  scb sessions list             the sessions of this user's broker\n"
	"  scb sessions close HANDLE     ends one of them, or with --all instead of HANDLE every "
	"one;\n"
	"                                --principal P (list, close): only those of P, say "
	"uid:1000\n"
	"  scb audit verify [FILE…]      is the log what brokers wrote? Exit status 1: it is not\n"
	"                                (docs/audit.md); --anchor SEQ:HASH: and is that line "
	"there?\n"
	"  scb audit tail [-n N] [-f]    its last lines; --event E (session.*), --session, "
	"--tool,\n"
	"                                --principal, --since TIME choose, --json: as they are\n"
	"  scb audit export --ocsf       its lines as events of OCSF, one a line\n"
	"  scb policy show               the rules that hold, as a policy file (docs/policy.md)\n"
	"  scb policy check [FILE]       what is wrong with it, by line, column and key\n"
	"  scb policy explain TOOL       may it be called, and which rule says so; or "
	"TOOL.ACTION;\n"
	"                                --principal P: by P instead of oneself\n"
	"  scb image build|import|verify|list   root file systems for sandboxes "
	"(sandbox-image/README.md)\n"
	"  scb doctor                    what can make sandboxes here, and what to do where it "
	"cannot\n"
	"  scb --help | --version\n"
	"\n"
	"Options of serve, run and demo:\n"
	"  --mount NAME=DIR       shows a folder in the sandbox at /mnt/NAME, read-only "
	"(repeatable)\n"
	"  --limit NAME=VALUE     (repeatable) of a sandbox: memory=1G, workspace=512M, tmp=128M,\n"
	"                         shm=64M, cpus=2, pids=256; of a call: timeout_s=120,\n"
	"                         max_timeout_s=3600, wait_s=25;\n"
	"                         of sessions: idle_ttl_s=900, absolute_ttl_s=86400, sessions=32,\n"
	"                         sessions_principal=8; of presented files: outputs=1G;\n"
	"                         kept ready, with a kernel: pool=1 (0: none)\n"
	"  --policy FILE          what may be done (of policy, too); default:\n"
	"                         $XDG_CONFIG_HOME/scb/policy.json, else "
	"~/.config/scb/policy.json,\n"
	"                         else all tools; --limit may then only narrow what it gives\n"
	"  --provider NAME        auto, docker, bubblewrap or local; default: $BROKER_PROVIDER, "
	"else auto\n"
	"  --image NAME           the system that sandboxes see, instead of this host's: one of\n"
	"                         `scb image list`; default: $BROKER_IMAGE\n"
	"  --state DIR            audit log, sessions, and one broker that all hosts share; "
	"default:\n"
	"                         $XDG_STATE_HOME/scb, else ~/.local/state/scb (of sessions, too)\n"
	"  --outputs DIR          where presented files go; default: ~/scb-outputs\n"
	"  --log-level LEVEL      error, warning, info or debug, on stderr; default: warning\n"
	"  --name NAME            of the host: its idempotency keys are its own\n"
	"  --solo                 everything in one process, without a broker; ends with it\n"
	"Options of serve:\n"
	"  --http ADDRESS:PORT    MCP over HTTP, at /mcp, instead of stdin and stdout; the "
	"process\n"
	"                         stays in the foreground and is the broker of its state "
	"directory\n"
	"  --token-file FILE      lines of NAME TOKEN: further principals (token:NAME), beside "
	"the\n"
	"                         user's own token, which is in http-token of the state directory\n"
	"  --no-token             whoever reaches the address may ask\n"
	"  --allow-host HOST      (repeatable) a Host beside localhost that requests may name\n"
	"  --allow-origin ORIGIN  (repeatable) pages of which other origin a browser may ask for\n"
	"  --url URL              what links to presented files begin with; default: as the "
	"client\n"
	"                         calls this server, with http://\n"
	"  --tls-cert FILE        with --tls-key FILE: TLS 1.2 and 1.3; PEM, the certificate with "
	"its\n"
	"                         chain; read again on SIGHUP\n"
	"  --proxy ADDRESS        (repeatable) a proxy in front, whose X-Forwarded-For tells who "
	"asks\n"
	"  --insecure-http        listen on an address that others can reach, without TLS\n"
	"Options of run:\n"
	"  --language LANGUAGE    python or shell; default: by the file's name, else python\n"
	"  --timeout SECONDS      ends the program after so long; default: --limit timeout_s, "
	"else\n"
	"                         3600\n"
	"Options of demo, beside those of serve and run:\n"
	"  --port PORT            where it listens, on 127.0.0.1; default: one that is free\n"
	"  --no-open              starts no browser; without a terminal and a screen it never "
	"does\n"
	"Without --state all that it made goes when it ends.\n"
	"The program of run gets no arguments and an empty stdin; FILE may be - to read it from "
	"stdin.\n"
	"\n"
	"Exit status: of `run`, the program's own, or 128 and the signal's number where one ended "
	"it;\n"
	"124 where it ran out of time. Else 0 success, 1 failure, 64 wrong usage, 65 conflict,\n"
	"66 no such thing, 69 no sandbox can be made (see scb doctor), 70 a fault of scb or the "
	"host,\n"
	"74 input or output failed, 75 a limit was reached, 76 broken protocol, 77 not allowed.\n";

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"serve", cli_serve},
	{"run", cli_run},
	{"demo", cli_demo},
	{"sessions", cli_sessions},
	{"broker", cli_broker}, /* for start.c alone: not in the help */
	{"policy", cli_policy},
	{"audit", cli_audit},
	{"image", cli_image},
	{"doctor", cli_doctor},
};

void cli_ignore_sigpipe(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ignore, NULL);
}

int cli_help(void)
{
	return fputs(help, stdout) < 0 || fflush(stdout) != 0 ? err_info(ERR_IO)->exit_status : 0;
}

int cli_failed(const struct err *err)
{
	(void)fprintf(stderr, "scb: %s\n", err->text);
	return err_info(err->code)->exit_status;
}

static int usage(const char *what, const char *given)
{
	(void)fprintf(stderr, "scb: %s%s%s%s; `scb --help` tells what there is\n", what,
		given ? " \"" : "", given ? given : "", given ? "\"" : "");
	return err_info(ERR_INVALID_ARGUMENT)->exit_status;
}

/* Nothing that is opened later shall become somebody's stdin, stdout or stderr. */
static void fill_standard_descriptors(void)
{
	struct stat st;
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fstat(fd, &st) == 0)
			continue;
		int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free number: fd */
		if (null >= 0)
			(void)fcntl(null, F_SETFD, 0);
	}
}

int cli_main(int argc, char **argv)
{
	fill_standard_descriptors();
	if (argc < 2)
		return usage("no command given", NULL);
	const char *name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return cli_help();
	if (strcmp(name, "--version") == 0)
		return printf("scb %s\n", build.version) < 0 || fflush(stdout) != 0 ? 74 : 0;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return usage("unknown command", name);
}
