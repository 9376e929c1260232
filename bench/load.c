/* load.c: a load generator for HTTP/1.1 servers on the loopback address, small enough not to be
 * what is measured: one thread, epoll, answers only counted, never copied or parsed beyond their
 * framing.
 *
 *   load run PORT CONNECTIONS MS    each connection asks, waits for the whole answer, and asks
 * again load hold PORT CONNECTIONS      each connection asks once (or nothing at all) and stays
 *
 * stdin: requests as they are sent, each after its length as a decimal line; connection i sends
 * number i modulo their count. run prints one line of JSON and then a binary float for each answer,
 * how many ms it took. hold prints a line once all are connected and the head of every answer is
 * there, another number whenever all answers have got more bytes (a stream that lives), and ends
 * with stdin (after an empty request). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS_MAX 1024
#define SAMPLES_MAX  (8U << 20)
#define HEAD_MAX     8192

enum framing { HEAD, LENGTH, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER };

struct conn {
	int fd;
	const struct request *request;
	size_t sent;
	uint64_t began_ns;
	enum framing at;
	char head[HEAD_MAX]; /* as much of it as has come; of a chunk: its first line */
	size_t n_head;
	uint64_t left;
	bool last, heard;
};

struct request {
	char *bytes;
	size_t n;
};

static struct request requests[REQUESTS_MAX];
static size_t n_requests;
static struct conn *conns;
static size_t n_conns;
static int poller;
static float *samples;
static size_t n_samples, n_heard;
static bool holding;

static _Noreturn void stop(const char *what)
{
	perror(what);
	exit(1);
}

static _Noreturn void refuse(const char *what, const char *bytes, size_t n)
{
	(void)fprintf(stderr, "load: %s: %.*s\n", what, (int)n, bytes);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* Line by line with read(2): what comes after the requests is not for stdio's buffer. */
static size_t read_length(void)
{
	char line[16];
	size_t n = 0;
	while (n < sizeof(line) - 1 && read(STDIN_FILENO, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	return strtoul(line, NULL, 10);
}

static void read_requests(void)
{
	for (size_t length; n_requests < REQUESTS_MAX && (length = read_length()) > 0;) {
		struct request *r = &requests[n_requests++];
		r->bytes = malloc(length);
		if (!r->bytes)
			stop("malloc");
		for (ssize_t got; r->n < length; r->n += (size_t)got) {
			got = read(STDIN_FILENO, r->bytes + r->n, length - r->n);
			if (got <= 0)
				stop("requests");
		}
	}
}

static void dial(struct conn *c, uint16_t port, size_t number)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
	const int on = 1;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		stop("connect");
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->request = n_requests ? &requests[number % n_requests] : NULL;
	if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e) < 0)
		stop("epoll");
}

/* Requests are small: one that does not fit the socket at once says that something is wrong. */
static void ask(struct conn *c)
{
	c->began_ns = now_ns();
	c->at = HEAD;
	c->n_head = 0;
	c->last = false;
	if (write(c->fd, c->request->bytes, c->request->n) != (ssize_t)c->request->n)
		stop("write");
}

static const char *field(const struct conn *c, const char *name)
{
	const char *found = strcasestr(c->head, name);
	return found ? found + strlen(name) : NULL;
}

/* Up to the end of the line or head that is being gathered: the bytes taken. */
static size_t gather(struct conn *c, const char *p, size_t n, const char *end, bool *ret_whole)
{
	size_t length = strlen(end);
	for (size_t i = 0; i < n; i++) {
		if (c->n_head == HEAD_MAX - 1)
			refuse("a long head", c->head, c->n_head);
		c->head[c->n_head++] = p[i];
		if (c->n_head >= length && memcmp(c->head + c->n_head - length, end, length) == 0) {
			c->head[c->n_head] = '\0';
			*ret_whole = true;
			return i + 1;
		}
	}
	*ret_whole = false;
	return n;
}

static void on_head(struct conn *c)
{
	const char *length = field(c, "\r\ncontent-length:");
	if (strncmp(c->head, "HTTP/1.1 200 ", 13) != 0)
		refuse("answered", c->head, c->n_head);
	if (field(c, "\r\ntransfer-encoding: chunked")) {
		c->at = CHUNK_SIZE;
	} else if (length) {
		c->at = LENGTH;
		c->left = strtoull(length, NULL, 10);
	} else {
		refuse("no framing", c->head, c->n_head);
	}
	c->n_head = 0;
}

/* True at the end of the answer. */
static bool take(struct conn *c, const char *p, size_t n)
{
	while (n > 0 || (c->at == LENGTH && c->left == 0)) {
		bool whole = false;
		size_t took = 0;
		switch (c->at) {
		case HEAD:
			took = gather(c, p, n, "\r\n\r\n", &whole);
			if (whole)
				on_head(c);
			break;
		case LENGTH:
		case CHUNK:
			took = n < c->left ? n : c->left;
			c->left -= took;
			if (c->left == 0 && c->at == LENGTH)
				return true;
			if (c->left == 0)
				c->at = CHUNK_END;
			break;
		case CHUNK_SIZE:
			took = gather(c, p, n, "\r\n", &whole);
			if (whole) {
				c->left = strtoull(c->head, NULL, 16);
				c->at = c->left ? CHUNK : TRAILER;
				c->n_head = 0;
			}
			break;
		case CHUNK_END:
		case TRAILER:
			took = gather(c, p, n, "\r\n", &whole);
			if (whole && c->at == TRAILER)
				return true;
			if (whole) {
				c->at = CHUNK_SIZE;
				c->n_head = 0;
			}
			break;
		}
		p += took;
		n -= took;
	}
	return false;
}

static void on_readable(struct conn *c, bool more)
{
	static char bytes[256 * 1024];
	ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		refuse("a connection was closed", c->head, c->n_head);
	bool whole = take(c, bytes, (size_t)n);
	if (holding) {
		if (!c->heard && c->at != HEAD) {
			c->heard = true;
			n_heard++;
		}
		return;
	}
	if (!whole)
		return;
	if (n_samples < SAMPLES_MAX)
		samples[n_samples++] = (float)(now_ns() - c->began_ns) / 1e6F;
	if (more)
		ask(c);
}

static double cpu_s(void)
{
	struct rusage u;
	(void)getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void connect_all(uint16_t port)
{
	conns = calloc(n_conns, sizeof(*conns));
	poller = epoll_create1(EPOLL_CLOEXEC);
	if (!conns || poller < 0)
		stop("epoll");
	for (size_t i = 0; i < n_conns; i++)
		dial(&conns[i], port, i);
}

static void run(uint64_t ms)
{
	struct epoll_event events[256];
	double cpu = cpu_s();
	uint64_t began = now_ns(), end = began + ms * 1000000U, now = began;
	samples = malloc(SAMPLES_MAX * sizeof(*samples));
	if (!samples || n_requests == 0)
		stop("nothing to ask");
	for (size_t i = 0; i < n_conns; i++)
		ask(&conns[i]);
	for (; now < end; now = now_ns()) {
		int n = epoll_wait(poller, events, 256, 1000);
		for (int i = 0; i < n; i++)
			on_readable(events[i].data.ptr, true);
	}
	printf("{\"requests\": %zu, \"seconds\": %.6f, \"cpu\": %.6f}\n", n_samples,
		(double)(now - began) / 1e9, cpu_s() - cpu);
	(void)fwrite(samples, sizeof(*samples), n_samples, stdout);
}

static void tell_when_all_heard(void)
{
	static unsigned times;
	if (n_heard < n_conns)
		return;
	printf("%u\n", ++times);
	(void)fflush(stdout);
	n_heard = 0;
	for (size_t i = 0; i < n_conns; i++)
		conns[i].heard = false;
}

static void hold(void)
{
	struct epoll_event events[256], e = {.events = EPOLLIN};
	holding = true;
	if (epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &e) < 0)
		stop("epoll");
	for (size_t i = 0; i < n_conns && n_requests; i++)
		ask(&conns[i]);
	if (n_requests == 0)
		n_heard = n_conns;
	for (;;) {
		tell_when_all_heard();
		int n = epoll_wait(poller, events, 256, -1);
		for (int i = 0; i < n; i++) {
			if (!events[i].data.ptr)
				return;
			on_readable(events[i].data.ptr, false);
		}
	}
}

int main(int argc, char **argv)
{
	struct rlimit r;
	if (argc < 4 || (strcmp(argv[1], "run") == 0) != (argc == 5))
		refuse("usage", "run PORT CONNECTIONS MS, hold PORT CONNECTIONS", 46);
	(void)getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
	n_conns = strtoul(argv[3], NULL, 10);
	read_requests();
	connect_all((uint16_t)strtoul(argv[2], NULL, 10));
	if (argc == 5)
		run(strtoull(argv[4], NULL, 10));
	else
		hold();
	return 0;
}
