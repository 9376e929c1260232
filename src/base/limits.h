/* limits.h: every maximum that input can reach, each with its reason. */
#pragma once

#include <stdint.h>

#define KIB           (1024ULL)
#define MIB           (1024ULL * KIB)
#define GIB           (1024ULL * MIB)
#define USEC_PER_MSEC (1000ULL)
#define USEC_PER_SEC  (1000000ULL)

/* ---- the link ---- */
/* One frame: large enough that a PNG of 200 KB fits whole, small enough that one read buffer does.
 */
#define LIMIT_FRAME_PAYLOAD (256 * KIB)
/* Credit a receiver grants a stream at its start; with 256 KiB in flight 1 GB/s was reached. */
#define LIMIT_STREAM_WINDOW (256 * KIB)
/* Streams open at once on a link; each costs about 200 bytes on both sides. */
#define LIMIT_STREAMS 256
/* What may be queued for a peer that does not read, before the link counts as stuck. */
#define LIMIT_LINK_OUT_QUEUE (4 * MIB)
/* All MSG frames of one stream together: results of a cell, entries of a list. */
#define LIMIT_STREAM_MSG_BYTES (8 * MIB)
/* Changes inside a sandbox whose answers the agent remembers, each some 100 bytes: those in flight
 * when a broker dies (LIMIT_STREAMS at most) and not one more can be asked for again. */
#define LIMIT_DELIVERIES 256
/* From connect to an authenticated hello. A cold sandbox under load needs about 1 s. */
#define LIMIT_HELLO_US (20 * USEC_PER_SEC)

/* ---- MCP over stdio ---- */
/* One line in: the official SDKs close at 10 MiB. */
#define LIMIT_MCP_LINE (10 * MIB)
/* One message out: Claude Desktop refuses 1,048,576 bytes. */
#define LIMIT_MCP_RESULT (900 * 1000)
/* Nesting of a JSON text from a peer. jansson's own limit is 2,048 and recursive. */
#define LIMIT_JSON_DEPTH 64
/* Values of one: a large message is large for its texts. Each takes some 300 bytes, and 10 MiB
 * could be three millions of them. */
#define LIMIT_JSON_VALUES (200 * 1000)
/* Answers that a client has not read yet; above it no further request is taken from it. */
#define LIMIT_MCP_OUT_QUEUE (4 * MIB)
/* What a client calls a request, its progress, or a version: it is echoed, in errors as well, and
 * so must fit any answer. Clients use counters and UUIDs. */
#define LIMIT_MCP_ID 1024
/* Requests in flight per connection; a client that sends more is answered "too many". */
#define LIMIT_MCP_INFLIGHT 128
/* subscriptions/listen at once on a connection; a client needs one. */
#define LIMIT_MCP_LISTENS 16
/* How long an answer is waited for that a client was asked for in the middle of a call, and how
 * long what it was given to keep is worth something: time for a person to read a form and fill it
 * in. */
#define LIMIT_ASK_US (600 * USEC_PER_SEC)
/* Idempotency keys remembered at once, 24 hours each: three a minute. Each costs about 300 bytes
 * and a small file. */
#define LIMIT_IDEMPOTENCY_KEYS 4096

/* ---- HTTP ---- */
/* A message's first line and fields: Node's and nginx's limits are 16 and 32 KiB. */
#define LIMIT_HTTP_HEAD (32 * KIB)
/* Fields of one head; browsers behind proxies send some 30. */
#define LIMIT_HTTP_FIELDS 100
/* One request's body: a line of MCP over stdio may be as long. */
#define LIMIT_HTTP_BODY LIMIT_MCP_LINE
/* Bodies that are held at once, above which those of more than _SMALL are not taken; a body is held
 * until its request is parsed. */
#define LIMIT_HTTP_BODIES       (128 * MIB)
#define LIMIT_HTTP_BODIES_SMALL (64 * KIB)
/* Requests of a principal that are being worked on, and bytes of their bodies: as many as twice a
 * load test's connections, and what a front keeps. */
#define LIMIT_HTTP_CALLS       512
#define LIMIT_HTTP_CALLS_BYTES (64 * MIB)
/* Answers that a peer has not taken yet, above which it is cut off: nine of the largest. */
#define LIMIT_HTTP_OUT_QUEUE (8 * MIB)
/* Connections at once; each costs some 2 KiB when idle, and a descriptor. */
#define LIMIT_HTTP_CONNECTIONS 16384
/* Descriptors that are left for links, pipes and files of sandboxes; where the system gives few,
 * half of them. */
#define LIMIT_HTTP_OTHERS 4096
/* Absolute, from the first byte of a head to its last; of a body; of one write of 256 KiB that the
 * peer takes. */
#define LIMIT_HTTP_HEAD_MS  (10 * 1000)
#define LIMIT_HTTP_BODY_MS  (60 * 1000)
#define LIMIT_HTTP_STALL_MS (60 * 1000)
/* A connection on which nothing is asked; browsers and proxies keep theirs for a minute or two. */
#define LIMIT_HTTP_IDLE_MS (120 * 1000)

/* What a container engine answers at once: its description is the longest, with some 10 KiB. */
#define LIMIT_ENGINE_ANSWER (1 * MIB)
/* From connect to the end of TLS' handshake, absolute. */
#define LIMIT_HTTP_TLS_MS (10 * 1000)
/* Connections of one address, IPv6 of one network of 64 bits; of this machine itself, where a proxy
 * may be, no such limit. Browsers open six, a host some more. */
#define LIMIT_HTTP_CONNECTIONS_PEER 256
/* Wrong tokens of one address: so many at once, and one more every so often; above that nothing
 * that needs a token is answered to it. */
#define LIMIT_HTTP_FAILURES   20
#define LIMIT_HTTP_FAILURE_US (6 * USEC_PER_SEC)
/* Addresses without a connection whose wrong tokens are remembered; the oldest is forgotten. */
#define LIMIT_HTTP_PEERS 4096
/* Presented files on their way out at once; each holds two pieces of 128 KiB. */
#define LIMIT_HTTP_TRANSFERS 256
/* A link to a presented file: long enough that a person finds it in a conversation of the day. */
#define LIMIT_HTTP_LINK_S (24 * 3600)
/* The host page's cookie: a week of coming back to it, then the token is needed once more. */
#define LIMIT_HTTP_COOKIE_S (7 * 24 * 3600)
/* A code to come in with once: until a browser has started on a slow machine. */
#define LIMIT_HTTP_CODE_S 120
/* What the host page is told at once: the lines of the audit log's last bytes, some 600, of which
 * it shows so many; each asking holds those bytes for the moment of reading. */
#define LIMIT_PAGE_TAIL  (256 * KIB)
#define LIMIT_PAGE_LINES 200
/* Pages that wait for news at once, of all principals and of one; and how long one waits: proxies
 * cut answers that take a minute. */
#define LIMIT_PAGE_LOOKS           256
#define LIMIT_PAGE_LOOKS_PRINCIPAL 32
#define LIMIT_PAGE_WAIT_S          25

/* ---- fronts ---- */
/* Connections to one broker at once: every host of a user, and commands; each costs some 10 KiB. */
#define LIMIT_FRONTS 64
/* JSON of HELLO and CONTROL: 16 mounts of two paths, and names. */
#define LIMIT_FRONT_JSON (192 * KIB)
/* An answer to CONTROL: 10,000 sessions of 300 bytes. */
#define LIMIT_FRONT_CONTROL (4 * MIB)
/* A session's handle. */
#define LIMIT_FRONT_HANDLE 64
/* From connect to a whole HELLO: a front sends it at once. */
#define LIMIT_FRONT_HELLO_US (5 * USEC_PER_SEC)
/* Unanswered lines that a front keeps for a later broker; above it it reads no more of its host.
 * Six of the largest. */
#define LIMIT_FRONT_KEPT (64 * MIB)
/* Brokers that die, one after the other, without an answer in between: the front then gives its
 * unanswered requests up, since one of them may be the reason. One that died within
 * LIMIT_FRONT_YOUNG_US counts tenfold. */
#define LIMIT_FRONT_DEATHS   100
#define LIMIT_FRONT_YOUNG_US (2 * USEC_PER_SEC)
/* A broker's start, up to its socket: 10 ms, on a machine that swaps some seconds. */
#define LIMIT_BROKER_START_US (10 * USEC_PER_SEC)
/* What a broker writes to its log file before it begins a new one; one older is kept. */
#define LIMIT_BROKER_LOG (1 * MIB)

/* ---- the audit log ---- */
/* So much of its end is read after a broker's death, to see what the dead one wrote: some 20,000
 * lines, in less than a tenth of a second. Requests that come again are a minute old at most. */
#define LIMIT_AUDIT_TAIL (8 * MIB)
/* The lines of one write, and so one line: an event has some 20 members, of which a path of 4 KiB
 * in six bytes a character is the longest. */
#define LIMIT_AUDIT_LINE (128 * KIB)
/* Files of one log: the most that a policy may keep, and those that tampering left over. */
#define LIMIT_AUDIT_FILES 16384

/* ---- secrets ---- */
/* A value: keys in PEM are below 4 KiB. It fits two pages with its name. */
#define LIMIT_SECRET_BYTES (4 * KIB)
/* A shorter value would mask words that are none. */
#define LIMIT_SECRET_MIN_BYTES 8
/* Of a secret, and of the variable that holds it. */
#define LIMIT_SECRET_NAME 64
/* Of one principal. Each is locked memory, of which an ordinary user has 8 MiB, and patterns. */
#define LIMIT_SECRETS 64
/* Values of one secret that are masked at once: the present one and older ones that somebody holds.
 */
#define LIMIT_SECRET_VALUES 8
/* A program that prints a secret: password managers ask a daemon or the network. */
#define LIMIT_SECRET_EXEC_S    10
#define LIMIT_SECRET_EXEC_ARGS 32
/* From being asked for secrets to a front's last answer; above it those are not available. */
#define LIMIT_FRONT_SECRETS_US ((LIMIT_SECRET_EXEC_S + 2) * USEC_PER_SEC)

/* What is looked for in every text that leaves for a principal: LIMIT_SECRETS, with all their
 * values. */
#define LIMIT_REDACT_VALUES (LIMIT_SECRETS * LIMIT_SECRET_VALUES)
/* The table for that, locked where the system allows it: some 19 KiB of secrets in all forms. */
#define LIMIT_REDACT_TABLE (4 * MIB)

/* ---- what the model is given ---- */
/* stdout and stderr of one answer; a model's tool result is cut near 25,000 tokens. */
#define LIMIT_ANSWER_TEXT (24 * KIB)
/* Raw bytes of each stream that a finished job's status carries (head and tail, each). */
#define LIMIT_INLINE_OUTPUT (32 * KIB)
/* Binary pieces of job read and files read in base64. */
#define LIMIT_READ_BASE64 (64 * KIB)
/* Text of job read and files read in one call. */
#define LIMIT_READ_TEXT (256 * KIB)
/* A figure larger than this is not given to the model as an image block. */
#define LIMIT_IMAGE_BLOCK (200 * 1000)

/* ---- running things ---- */
/* One cell. It travels in one frame beside its names; what is larger is data, and data go in files.
 */
#define LIMIT_CODE         (240 * KIB)
#define LIMIT_ARGS         1024        /* elements of argv, and of env */
#define LIMIT_ARG_BYTES    (128 * KIB) /* Linux' MAX_ARG_STRLEN for one of them */
#define LIMIT_STDIN        (8 * MIB)   /* given with a call: fits a line of LIMIT_MCP_LINE */
#define LIMIT_WAIT_S       50          /* MCP clients cut calls at 60 s */
#define LIMIT_TIMEOUT_S    3600
#define DEFAULT_WAIT_S     25
#define DEFAULT_TIMEOUT_S  120
#define LIMIT_JOBS         256 /* kept per session, oldest finished dropped first */
#define LIMIT_JOBS_RUNNING 64  /* at once per session */
#define LIMIT_KERNELS      16
#define LIMIT_KERNEL_QUEUE 16
/* Dashboards: the whole tree, so that it fits the store and an answer many times over; a patch or a
 * page, so that it fits one; what the model is told, which costs it tokens. */
#define LIMIT_DASHBOARD_TREE    (256 * KIB)
#define LIMIT_DASHBOARD_ANSWER  (800 * 1000)
#define LIMIT_DASHBOARD_OUTLINE (16 * KIB)
#define LIMIT_DASHBOARD_TEXT    (24 * KIB)
#define LIMIT_DASHBOARD_META                                                                       \
	(64 * KIB)                    /* a tree with the model's answer: some hosts read it to it */
#define LIMIT_DASHBOARD_TITLE    1000 /* bytes of what a listing says of one */
#define LIMIT_DASHBOARD_KEPT     (1000 * 1000) /* answers of one, kept as text for who asks later */
#define LIMIT_DASHBOARD_HELD     16            /* events of one that wait for the one that runs */
#define LIMIT_DASHBOARDS         64 /* of a principal: each up to _TREE and _KEPT in memory */
#define LIMIT_RESULTS            64 /* MIME bundles of one cell */
#define LIMIT_RESULT_BYTES       (4 * MIB)  /* all bundles of one cell, kept by the agent */
#define LIMIT_SPOOL_HEAD         (8 * MIB)  /* of each stream of a job: the first … */
#define LIMIT_SPOOL_TAIL         (56 * MIB) /* … and the last bytes are kept */
#define LIMIT_SPOOL_SESSION      (256 * MIB)
#define LIMIT_INTERRUPT_GRACE_US (2 * USEC_PER_SEC) /* SIGINT, then SIGINT again … */
#define LIMIT_KILL_GRACE_US      (3 * USEC_PER_SEC) /* … then the kernel is killed */

/* ---- files ---- */
#define LIMIT_PATH          4096
#define LIMIT_NAME          255
#define LIMIT_LIST_ENTRIES  1000
#define LIMIT_SEARCH_HITS   200
#define LIMIT_PATTERN       1024        /* text or name to search for */
#define LIMIT_EDIT_BYTES    (4 * MIB)   /* of a file whose text is replaced; it passes the broker */
#define LIMIT_PRESENT_BYTES (256 * MIB) /* one presented file */
#define LIMIT_OUTPUTS_BYTES (1 * GIB)   /* a principal's presented files together */
#define LIMIT_OUTPUTS       4096 /* of a principal: a directory each, read through for each new one */
#define LIMIT_OUTPUTS_AGE_S (7 * 24 * 3600)
#define LIMIT_MOUNTS        16

/* ---- sandboxes ---- */
#define DEFAULT_MEMORY    (1 * GIB)
#define DEFAULT_CPUS      2
#define DEFAULT_PIDS      256
#define DEFAULT_WORKSPACE (512 * MIB)
#define DEFAULT_TMP       (128 * MIB)
#define DEFAULT_SHM       (64 * MIB)
#define LIMIT_AGENT_MEMORY                                                                         \
	(LIMIT_SPOOL_SESSION + 48 * MIB) /* the agent's own group, beside a workspace of files */
#define LIMIT_SESSIONS           32
#define LIMIT_SESSIONS_PRINCIPAL 8
#define DEFAULT_POOL             1  /* sandboxes kept ready, with a kernel: 12 MiB each */
#define LIMIT_POOL               16 /* a refill takes 20 ms */
#define DEFAULT_IDLE_TTL_S       (15 * 60)
#define DEFAULT_ABSOLUTE_TTL_S   (24 * 3600)

/* ---- images ---- */
/* A root file system's entries and bytes, unpacked: the sandbox image should have 20,000 and 0.8
 * GB, and distributions' desktops ten times that. */
#define LIMIT_IMAGE_ENTRIES 400000ULL
#define LIMIT_IMAGE_BYTES   (16 * GIB)
/* Folders within folders, each an open descriptor while they are gone through; Debian has some 15.
 */
#define LIMIT_IMAGE_DEPTH 64
/* Its archive, with heads and padding. */
#define LIMIT_IMAGE_ARCHIVE (LIMIT_IMAGE_BYTES + 1 * GIB)
/* JSON of LIMIT_IMAGE_ENTRIES, some 250 bytes each. */
#define LIMIT_IMAGE_MANIFEST (128 * MIB)
