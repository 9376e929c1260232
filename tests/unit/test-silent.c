/* An agent that says who it is and then nothing more: whoever asks is answered in time all the
 * same. The peer is scripted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "exec/exec.h"
#include "link/link.h"
#include "wire/frame.h"

struct fixture {
	uv_loop_t loop;
	struct link *link;
	struct exec *exec;
	int peer;
	uint8_t key[AUTH_KEY];
	bool ready;
	/* the answer */
	unsigned answers;
	struct err err;
	enum wire_job_state state;
	bool unheard;
	char job[ID_TEXT_SIZE];
};

static void on_ready(void *user, const struct link_hello *hello)
{
	(void)hello;
	((struct fixture *)user)->ready = true;
}

static void send_frame(struct fixture *fx, uint8_t type, const void *p, size_t n)
{
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	assert_int_equal(frame_append(&b, type, 0, 0, p, n), 0);
	assert_int_equal(fd_write_full(fx->peer, b.data, b.len), 0);
}

/* The broker's next frame, whose payload has n bytes. */
static void receive_frame(struct fixture *fx, uint8_t *ret_payload, size_t n)
{
	uint8_t frame[FRAME_HEADER + 256];
	for (size_t have = 0; have < FRAME_HEADER + n;) {
		(void)uv_run(&fx->loop, UV_RUN_NOWAIT);
		ssize_t r = recv(fx->peer, frame + have, FRAME_HEADER + n - have, MSG_DONTWAIT);
		have += r > 0 ? (size_t)r : 0;
	}
	memcpy(ret_payload, frame + FRAME_HEADER, n);
}

static void say_hello(struct fixture *fx)
{
	static const uint8_t boot_id[16] = {7};
	uint8_t challenge[AUTH_CHALLENGE], confirm[SHA256_SIZE], proof[AUTH_PROOF] = {1, 2, 3};
	receive_frame(fx, challenge, sizeof(challenge));
	auth_agent_mac(fx->key, challenge + AUTH_SYNC, proof, proof + AUTH_NONCE);
	send_frame(fx, FRAME_PROOF, proof, sizeof(proof));
	receive_frame(fx, confirm, sizeof(confirm));
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	assert_int_equal(tlv_u64(&b, TAG_PROTOCOL_MIN, 1), 0);
	assert_int_equal(tlv_u64(&b, TAG_PROTOCOL_MAX, 3), 0);
	assert_int_equal(tlv_str(&b, TAG_BUILD, "silent"), 0);
	assert_int_equal(tlv_bytes(&b, TAG_BOOT_ID, boot_id, sizeof(boot_id)), 0);
	send_frame(fx, FRAME_HELLO, b.data, b.len);
	while (!fx->ready)
		(void)uv_run(&fx->loop, UV_RUN_ONCE);
}

static int setup(void **state)
{
	static const struct link_events events = {.ready = on_ready};
	struct fixture *fx = xcalloc(1, sizeof(*fx));
	int fds[2];
	assert_int_equal(uv_loop_init(&fx->loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	id_random(fx->key, sizeof(fx->key));
	fx->peer = fds[1];
	assert_int_equal(link_new(&fx->loop, fds[0], fx->key, &events, fx, &fx->link), 0);
	fx->exec = exec_new(fx->link, "/kernels", "/workspace");
	id_new('j', fx->job);
	*state = fx;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fx = *state;
	exec_free(fx->exec);
	link_close(fx->link);
	fd_closep(&fx->peer);
	(void)uv_run(&fx->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&fx->loop), 0);
	free(fx);
	return 0;
}

static void on_status(void *user, struct exec_status *status, const struct err *err)
{
	struct fixture *fx = user;
	fx->answers++;
	fx->err = err ? *err : (struct err){0};
	if (status) {
		fx->state = status->state;
		fx->unheard = status->unheard;
		assert_string_equal(status->job, fx->job);
	}
}

static void on_usage(void *user, const struct exec_usage *usage, const struct err *err)
{
	struct fixture *fx = user;
	(void)usage;
	fx->answers++;
	fx->err = err ? *err : (struct err){0};
}

/* Runs the loop until there are n answers; how long that took. */
static double seconds_until(struct fixture *fx, unsigned n)
{
	uint64_t start_us = clock_monotonic_us();
	while (fx->answers < n)
		(void)uv_run(&fx->loop, UV_RUN_ONCE);
	return (double)(clock_monotonic_us() - start_us) / (double)USEC_PER_SEC;
}

static void waits_end(void **state)
{
	struct fixture *fx = *state;
	say_hello(fx);
	const struct exec_request r = {.kind = JOB_KIND_COMMAND,
		.job = fx->job,
		.shell_text = "true",
		.wait_us = 200 * USEC_PER_MSEC};
	(void)exec_usage(fx->exec, on_usage, fx); /* its time comes later */
	(void)exec_run(fx->exec, &r, on_status, fx);
	double took = seconds_until(fx, 1);
	assert_true(took > 0.2 && took < 4);
	assert_int_equal(fx->err.code, ERR_NONE);
	assert_int_equal(fx->state, JOB_RUNNING);
	assert_true(fx->unheard);

	(void)exec_wait(fx->exec, fx->job, 0, on_status, fx);
	took = seconds_until(fx, 2);
	assert_true(took < 4);
	assert_true(fx->unheard);

	(void)seconds_until(fx, 3);
	assert_int_equal(fx->err.code, ERR_TIMEOUT);
	assert_non_null(strstr(fx->err.text, "does not answer"));
}

/* While the sandbox starts, nobody is told that the job runs. */
static void starting_takes_its_time(void **state)
{
	struct fixture *fx = *state;
	(void)exec_wait(fx->exec, fx->job, 0, on_status, fx);
	uint64_t end_us = clock_monotonic_us() + 3 * USEC_PER_SEC;
	while (clock_monotonic_us() < end_us) {
		(void)uv_run(&fx->loop, UV_RUN_NOWAIT);
		(void)usleep(10000);
	}
	assert_int_equal(fx->answers, 0);
	say_hello(fx);
	assert_true(seconds_until(fx, 1) < 4);
	assert_true(fx->unheard);
}

/* Whoever is answered late may free everything from inside. */
static void on_status_free(void *user, struct exec_status *status, const struct err *err)
{
	struct fixture *fx = user;
	on_status(user, status, err);
	exec_free(fx->exec);
	fx->exec = NULL;
}

static void freed_by_the_answer(void **state)
{
	struct fixture *fx = *state;
	say_hello(fx);
	(void)exec_wait(fx->exec, fx->job, 0, on_status_free, fx);
	(void)exec_wait(fx->exec, fx->job, 0, on_status_free, fx);
	(void)seconds_until(fx, 1);
	assert_true(fx->unheard);
}

/* A link that is lost may be kept for minutes; its socket is not. */
static void lost_lets_go(void **state)
{
	struct fixture *fx = *state;
	uint8_t bytes[256];
	ssize_t n = -1;
	link_answers_within(fx->link, 10);
	while (n != 0) {
		(void)uv_run(&fx->loop, UV_RUN_ONCE);
		while ((n = recv(fx->peer, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
			;
	}
	assert_false(link_ready(fx->link));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(waits_end, setup, teardown),
		cmocka_unit_test_setup_teardown(starting_takes_its_time, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_by_the_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(lost_lets_go, setup, teardown),
	};
	return cmocka_run_group_tests_name("silent", tests, NULL, NULL);
}
