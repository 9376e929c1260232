/* floor.c: what this machine takes for a message of a call's size to pass through four processes
 * and back when they do nothing with it: as many as there are between a client of scb and its code
 * (front, broker, agent, kernel), over the same kind of socket. No answer can come sooner.
 *
 * Reads lines "CALLS GAP_US" from stdin and answers each with CALLS numbers, the µs of each round
 * trip without the processor time of this process itself (as clock.py measures). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 4
#define MESSAGE   200
#define CALLS_MAX 100000U

static void stop(const char *what)
{
	perror(what);
	_exit(1);
}

/* False at the end of file. */
static int receive(int fd, char *message)
{
	for (ssize_t at = 0, n; at < MESSAGE; at += n) {
		n = read(fd, message + at, (size_t)(MESSAGE - at));
		if (n <= 0)
			return 0;
	}
	return 1;
}

static void pass(int fd, const char *message)
{
	if (write(fd, message, MESSAGE) != MESSAGE)
		stop("write");
}

/* A process that hands on what comes from left, and back what comes from right. right < 0: it is
 * the last one. */
static void stage(int left, int right)
{
	char message[MESSAGE];
	while (receive(left, message)) {
		if (right >= 0) {
			pass(right, message);
			if (!receive(right, message))
				break;
		}
		pass(left, message);
	}
	_exit(0);
}

/* The last process first, so that each is given the end of the next. */
static int make_chain(void)
{
	int right = -1;
	for (int i = 0; i < PROCESSES; i++) {
		int pair[2];
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
			stop("socketpair");
		pid_t pid = fork();
		if (pid < 0)
			stop("fork");
		if (pid == 0) {
			(void)close(pair[0]);
			stage(pair[1], right);
		}
		(void)close(pair[1]);
		if (right >= 0)
			(void)close(right);
		right = pair[0];
	}
	return right;
}

static double now_us(clockid_t clock)
{
	struct timespec t;
	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(void)
{
	char message[MESSAGE] = {0};
	unsigned calls, gap_us;
	int chain = make_chain();
	while (scanf("%u %u", &calls, &gap_us) == 2 && calls <= CALLS_MAX) {
		for (unsigned i = 0; i < calls; i++) {
			if (gap_us)
				(void)usleep(gap_us);
			double cpu = now_us(CLOCK_PROCESS_CPUTIME_ID);
			double began = now_us(CLOCK_MONOTONIC);
			pass(chain, message);
			if (!receive(chain, message))
				stop("read");
			double took = now_us(CLOCK_MONOTONIC) - began;
			(void)printf("%.1f ", took - (now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu));
		}
		(void)printf("\n");
		(void)fflush(stdout);
	}
	return 0;
}
