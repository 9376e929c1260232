/* proto.h: the numbers of the agent protocol (docs/agent-protocol.md): operations, statuses, tags.
 * Numbers are never given a new meaning; unknown tags are skipped, unknown operations answer
 * WIRE_UNSUPPORTED. */
#pragma once

#define WIRE_PROTOCOL 1

/* Operation of an OPEN frame. Every stream is one operation and ends with END (agent) or RESET
 * (broker). Arrows: what the agent answers. */
enum wire_op {
	/* JOB, JOB_KIND, …: open until the job is done or WAIT_MS has passed → MSG a result, END
	 * status. A RESET ends the waiting, not the job. The same JOB again is the same job. */
	OP_JOB_START = 1,
	/* JOB, WAIT_MS, INLINE → as JOB_START */
	OP_JOB_WAIT = 2,
	/* JOB, CHANNEL, OFFSET, LENGTH → DATA (MSGs for CHANNEL_BOTH), END: OFFSET, TOTAL, STATE */
	OP_JOB_READ = 3,
	/* JOB, CLOSE (1: end of file behind it); DATA until FIN → END: LENGTH written */
	OP_JOB_INPUT = 4,
	/* JOB, SIGNAL (0: cancel: interrupt a cell by the ladder, kill a command's tree) → END */
	OP_JOB_SIGNAL = 5,
	/* → MSG a job (status without output), END */
	OP_JOB_LIST = 6,
	/* JOB, CHANNEL, PATTERN (literal bytes), OFFSET, LIMIT → MSG a hit, END: COUNT, MORE */
	OP_JOB_SEARCH = 7,

	/* KERNEL, ARGV…, ENV…, CWD → END: GENERATION, CREATED, PID */
	OP_KERNEL_START = 16,
	/* KERNEL → END */
	OP_KERNEL_INTERRUPT = 17,
	/* KERNEL: kills its tree → END once it is gone */
	OP_KERNEL_STOP = 18,
	/* → MSG a kernel, END */
	OP_KERNEL_LIST = 19,
	/* as KERNEL_START, for a kernel that already runs in the sandbox, forked there from a
	 * template; four descriptors come with the frame (SCM_RIGHTS): its supervisor's socket, its
	 * control socket, the reading ends of its stdout and stderr → END: GENERATION, CREATED */
	OP_KERNEL_ADOPT = 20,
	/* KERNEL, TARGET (name of the twin; else one is chosen): a second kernel with the same
	 * variables → END: KERNEL, GENERATION, NOTE…; WIRE_DENIED with TEXT where it cannot be
	 * forked now */
	OP_KERNEL_FORK = 21,

	/* PATH → END: KIND, SIZE, MODE, MTIME_US */
	OP_FILE_STAT = 32,
	/* PATH, DEPTH, LIMIT → MSG an entry, END: COUNT, MORE */
	OP_FILE_LIST = 33,
	/* PATH, OFFSET, LENGTH, STABLE → DATA, END: SIZE, LENGTH, MODE, MTIME_US */
	OP_FILE_READ = 34,
	/* PATH, OFFSET or APPEND or neither (replace), MODE, PARENTS, COUNT; DATA until FIN → END:
	 * SIZE, COUNT as it was given */
	OP_FILE_WRITE = 35,
	/* PATH, PARENTS → END */
	OP_FILE_MKDIR = 36,
	/* PATH, TARGET, REPLACE → END */
	OP_FILE_MOVE = 37,
	/* PATH, RECURSIVE → END: COUNT */
	OP_FILE_DELETE = 38,
	/* PATH, PATTERN (literal, in contents) or NAME_PATTERN (base/glob.h), LIMIT → MSG a hit,
	 * END */
	OP_FILE_SEARCH = 39,
	/* PATH → END: SIZE, SHA256 */
	OP_FILE_HASH = 40,

	/* → END: MEMORY, PIDS, DISK_TOTAL, DISK_FREE, SPOOL, …: what the agent can see */
	OP_USAGE = 48,
	/* LEASE_MS (from now; 0: until told otherwise) → END */
	OP_LEASE = 49,
	/* → END, then every process ends, then the agent */
	OP_SHUTDOWN = 50,
	/* DELIVERY → END as that delivery's was, WIRE_NOT_FOUND where it is not known */
	OP_RECALL = 51,
	/* ENV…: from now on in every job and kernel → END: COUNT of them that had another value */
	OP_ENV = 52,
};

/* Of END and RESET. */
enum wire_status {
	WIRE_OK = 0,
	WIRE_BAD_REQUEST = 1, /* a tag is missing or has no sense; TEXT */
	WIRE_UNSUPPORTED = 2,
	WIRE_NOT_FOUND = 3,
	WIRE_EXISTS = 4,
	WIRE_OUTSIDE = 5,     /* the path leads out of workspace and mounts */
	WIRE_NOT_REGULAR = 6, /* a device, FIFO, socket, … where a file was needed; KIND */
	WIRE_IS_DIRECTORY = 7,
	WIRE_NOT_DIRECTORY = 8,
	WIRE_IS_LINK = 9, /* a symbolic link where none may be followed */
	WIRE_READ_ONLY = 10,
	WIRE_NO_SPACE = 11,
	WIRE_CHANGED = 12,        /* the file changed while it was read (STABLE) */
	WIRE_LIMIT = 13,          /* a maximum of this agent; TEXT */
	WIRE_PROCESS_LIMIT = 14,  /* no process can be started now */
	WIRE_NO_INTERPRETER = 15, /* exec failed; TEXT names the program */
	WIRE_GONE = 16,           /* the job's output is no longer kept; the kernel is gone */
	WIRE_CONFLICT = 17,       /* same JOB, other content */
	WIRE_DENIED = 18,         /* the sandbox's own permissions */
	WIRE_IO = 19,             /* anything else from the operating system; ERRNO, TEXT */
	WIRE_CANCELLED = 20,
	WIRE_STATUS_MAX_ = WIRE_CANCELLED
};

enum wire_event {
	EVENT_AUTH_FAILED = 1, /* a peer connected and could not show the key; COUNT so far */
	EVENT_KERNEL_EXIT = 2, /* KERNEL, GENERATION, EXIT_CODE or SIGNAL */
	EVENT_JOB_DONE = 3,    /* JOB: for jobs that nobody waits for */
};

enum wire_job_kind { JOB_KIND_COMMAND = 1, JOB_KIND_CELL = 2 };
enum wire_job_state { JOB_QUEUED = 1, JOB_RUNNING = 2, JOB_DONE = 3 };
enum wire_channel { CHANNEL_STDOUT = 1, CHANNEL_STDERR = 2, CHANNEL_BOTH = 3 };
enum wire_stdin { STDIN_EMPTY = 0, STDIN_OPEN = 1 };
enum wire_file_kind {
	FILE_REGULAR = 1,
	FILE_DIRECTORY = 2,
	FILE_LINK = 3,
	FILE_FIFO = 4,
	FILE_SOCKET = 5,
	FILE_DEVICE = 6
};

/* exit.reason of a finished job. The last two are the broker's to say, never an agent's. */
enum wire_reason {
	REASON_EXIT = 1,
	REASON_SIGNAL = 2,
	REASON_TIMEOUT = 3,
	REASON_CANCELLED = 4,
	REASON_OUT_OF_MEMORY = 5,
	REASON_DISK_FULL = 6,
	REASON_TOO_MANY_PROCESSES = 7,
	REASON_OUTPUT_LIMIT = 8,
	REASON_INTERPRETER_DIED = 9,
	REASON_SANDBOX_LOST = 10,
	REASON_POLICY_DENIED = 11,
};
enum wire_evidence { EVIDENCE_MEASURED = 1, EVIDENCE_REPORTED = 2, EVIDENCE_INFERRED = 3 };
/* How a cell ended, as its kernel says. */
enum wire_cell { CELL_OK = 0, CELL_ERROR = 1, CELL_EXIT = 2, CELL_INTERRUPTED = 3 };

enum wire_tag {
	/* HELLO, READY */
	TAG_PROTOCOL_MIN = 1,
	TAG_PROTOCOL_MAX = 2,
	TAG_BUILD = 3,
	TAG_BOOT_ID = 4,
	TAG_UPTIME_MS = 5,
	/* repeats: "nested_userns", "seccomp", "landlock", "openat2", … what is really on */
	TAG_FEATURE = 6,
	/* common */
	TAG_TEXT = 16, /* a sentence for people, from the agent */
	TAG_ERRNO = 17,
	TAG_PATH = 18,
	TAG_TARGET = 19,
	TAG_OFFSET = 20,
	TAG_LENGTH = 21,
	TAG_SIZE = 22,
	TAG_MODE = 23,
	TAG_MTIME_US = 24,
	TAG_KIND = 25, /* wire_file_kind */
	TAG_NAME = 26,
	TAG_DEPTH = 27,
	TAG_LIMIT = 28,
	TAG_COUNT = 29,
	TAG_MORE = 30, /* 1: the list was cut */
	TAG_PATTERN = 31,
	TAG_NAME_PATTERN = 32,
	TAG_LINE = 33, /* number, from 1 */
	TAG_LINE_TEXT = 34,
	TAG_SHA256 = 35,
	TAG_APPEND = 36,
	TAG_PARENTS = 37,
	TAG_REPLACE = 38,
	TAG_RECURSIVE = 39,
	TAG_STABLE = 40,
	TAG_CLOSE = 41,
	/* 16 bytes, in a request that changes something: the same operation with the same DELIVERY
	 * is done once, and asked again answers what it answered then */
	TAG_DELIVERY = 42,
	/* jobs: requests */
	TAG_JOB = 64, /* 16 bytes */
	TAG_JOB_KIND = 65,
	TAG_ARGV = 66,       /* repeats */
	TAG_SHELL_TEXT = 67, /* instead of ARGV: run by the sandbox's bash, else sh */
	TAG_ENV = 68,        /* NAME=value, repeats */
	TAG_CWD = 69,
	TAG_STDIN = 70,      /* wire_stdin */
	TAG_TIMEOUT_MS = 71, /* 0: none */
	TAG_WAIT_MS = 72,
	/* bytes of head, and of tail, of each stream to put into the status */
	TAG_INLINE = 73,
	TAG_KERNEL = 74, /* name */
	TAG_CODE = 75,
	TAG_SIGNAL = 76,
	TAG_CHANNEL = 77,
	/* jobs: status */
	TAG_STATE = 96,
	TAG_REASON = 97,
	TAG_EVIDENCE = 98,
	TAG_EXIT_CODE = 99,
	/* repeats: "oom_kill:3", "disk_full", "pids_max:12", "children_left:2", … */
	TAG_NOTE = 100,
	TAG_STARTED_US = 101, /* CLOCK_REALTIME */
	TAG_DURATION_US = 102,
	TAG_QUEUE_POSITION = 103,
	TAG_STDOUT_TOTAL = 104,
	TAG_STDOUT_HEAD = 105,
	TAG_STDOUT_TAIL = 106,
	TAG_STDOUT_LOST = 107,
	TAG_STDERR_TOTAL = 108,
	TAG_STDERR_HEAD = 109,
	TAG_STDERR_TAIL = 110,
	TAG_STDERR_LOST = 111,
	/* with TAG_LENGTH: bytes no longer kept, in JOB_READ's END */
	TAG_LOST_OFFSET = 112,
	TAG_TOTAL = 113,
	TAG_TIME_US = 114, /* since the job's start */
	TAG_BYTES = 115,
	TAG_COMMAND = 116, /* for lists: the first bytes of what runs */
	/* kernels */
	TAG_GENERATION = 128, /* 1, 2, …: how often this kernel was started */
	TAG_CREATED = 129,
	TAG_PID = 130,
	TAG_BUSY = 131,
	TAG_LANGUAGE = 132,
	TAG_ENGINE = 133, /* "ipython" or "plain" */
	TAG_VERSION = 134,
	/* cells: DISPLAY and DONE */
	TAG_CELL_STATUS = 144,
	TAG_MIME = 145, /* followed by its MIME_DATA */
	TAG_MIME_DATA = 146,
	/* 1: the value of the last expression; 0: a display call */
	TAG_IS_RESULT = 147,
	TAG_MIME_SKIPPED = 148, /* "type bytes": too large to send */
	TAG_ERROR_NAME = 149,
	TAG_ERROR_MESSAGE = 150,
	TAG_TRACEBACK = 151,
	TAG_STDIN_MODE = 152, /* to the kernel: wire_stdin of the cell */
	/* lease, usage */
	TAG_LEASE_MS = 160,
	TAG_MEMORY = 161,
	TAG_MEMORY_MAX = 162,
	TAG_PIDS = 163,
	TAG_PIDS_MAX = 164,
	TAG_DISK_TOTAL = 165,
	TAG_DISK_FREE = 166,
	TAG_SPOOL = 167,
};

/* What the agent reads to the end from its configuration descriptor at boot. TLVs. */
enum wire_boot {
	BOOT_KEY = 1,        /* AUTH_KEY bytes */
	BOOT_ID = 2,         /* 16 random bytes, back in HELLO */
	BOOT_WORKSPACE = 3,  /* path of the workspace as the agent sees it */
	BOOT_MOUNT_NAME = 4, /* then BOOT_MOUNT_PATH; repeats */
	BOOT_MOUNT_PATH = 5,
	BOOT_ENV = 6, /* base environment of every job; repeats */
	/* a descriptor: a child writes "0" there to join the code's cgroup; repeats */
	BOOT_JOIN_FD = 7,
	/* memory.oom_control or memory.events of the code's group: "oom_kill N" */
	BOOT_OOM_FD = 8,         /* this and the next three: or its path inside the sandbox */
	BOOT_PIDS_EVENTS_FD = 9, /* pids.events of the code's group: "max N" */
	BOOT_MEMORY_FD = 10,     /* memory.usage_in_bytes or memory.current */
	BOOT_PIDS_FD = 11,       /* pids.current */
	BOOT_MEMORY_MAX = 12,
	BOOT_PIDS_MAX = 13,
	BOOT_CONFINE = 14, /* bits of enum boot_confine */
	BOOT_RLIMIT_NPROC = 15,
	BOOT_RLIMIT_DATA = 16, /* set in each child when present */
	BOOT_LEASE_MS = 17,    /* first lease */
	/* 0: the agent ends with its link; else it goes on without one, with leases of so long
	 * where it must give itself one (docs/agent-protocol.md) */
	BOOT_ORPHAN_MS = 18,
	BOOT_SPOOL_HEAD = 19,
	BOOT_SPOOL_TAIL = 20,
	BOOT_SPOOL_SESSION = 21,
	BOOT_TMP = 22, /* path of the temporary directory, "/tmp" but for local */
	/* a descriptor to keep open, never to use: a lock on the host that says the sandbox lives;
	 * repeats */
	BOOT_HOLD_FD = 23,
	/* an empty directory: with it, children of CONFINE_NESTED_USERNS see mounts without the
	 * host's sockets and FIFOs */
	BOOT_EMPTY = 24,
	/* the reading end of a pipe whose other end only the creator holds: at its end of file an
	 * agent with BOOT_ORPHAN_MS 0 ends, although no link may ever have come */
	BOOT_LIFELINE_FD = 25,
};

enum boot_confine {
	CONFINE_NESTED_USERNS = 1, /* each child: its own user namespace, uid 1000, no capability */
	CONFINE_SECCOMP = 2,
	CONFINE_LANDLOCK = 4, /* scope signals and abstract sockets where the kernel has it */
	CONFINE_NO_NEW_PRIVS = 8,
	CONFINE_WRITES = 16, /* each child opens files for writing in workspace, BOOT_TMP and /dev
				only (Landlock, where the kernel has it) */
};

/* Between broker and kernel template (docs/agent-protocol.md, "The template"): datagrams of TLVs on
 * a SOCK_SEQPACKET socket, one request a connection. */
enum wire_template {
	/* → READY once it can fork; the template lives at least as long as the connection */
	TEMPLATE_HOLD = 1,
	/* the kernel's configuration (enum wire_boot without key and id; BOOT_JOIN_FD as it is
	 * numbered there: TEMPLATE_FIRST_FD for the first descriptor of the message, and on) →
	 * DONE, or ERROR. With it come: the far ends of the supervisor's and the
	 * control socket, of stdout and stderr; NAMESPACES; JOINS; those of BOOT_JOIN_FD */
	TEMPLATE_FORK = 2,
	TEMPLATE_NAMESPACES = 3,  /* how many to enter; that of users first */
	TEMPLATE_JOINS = 4,       /* how many groups the supervisor joins ("0" is written) */
	TEMPLATE_KERNELS_DIR = 5, /* kernels/ as the kernel will see it */
	TEMPLATE_AGENT = 6,       /* scb-agent, the same: the supervisor executes it */
	TEMPLATE_TOUCH = 7,       /* 1: nobody waits; what makes the first cell fast is done now */
	TEMPLATE_READY = 16,
	TEMPLATE_DONE = 18, /* the kernel is confined */
	TEMPLATE_ERROR = 19,
};
#define TEMPLATE_FIRST_FD 64
#define TEMPLATE_DATAGRAM (64 * 1024)
#define TEMPLATE_FDS      64
