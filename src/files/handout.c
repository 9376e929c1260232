/* handout.c: see handout.h. */
#include "files/handout.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "files/digest.h"
#include "secret/redact.h"

/* Files whose check is remembered. */
#define CHECKED 64

/* A file as it was, and what it was looked through for. */
struct identity {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
	uint64_t redactor;
};

struct handouts {
	uv_loop_t *loop;
	struct outputs *outputs;
	struct identity checked[CHECKED];
	size_t n_checked, next_checked; /* a ring */
	size_t open;
	bool closed;
};

struct handout {
	struct handouts *all;
	uv_work_t work;
	bool working;
	atomic_bool closed; /* the worker looks, too */
	char *principal, *uri;
	struct redactor *redactor;
	struct digest *digest;
	struct output out;
	int fd;
	struct identity id;
	handout_open_fn opened;
	handout_read_fn read;
	void *user;
	uint64_t offset;
	size_t n;
	uint8_t *piece;
	struct err err;
};

/* ---- identity ---- */

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_file(const struct identity *a, const struct identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       same_time(&a->modified, &b->modified) && same_time(&a->changed, &b->changed);
}

static int identify(struct handout *h, struct identity *ret)
{
	struct stat st;
	if (fstat(h->fd, &st) < 0)
		return err_set(&h->err, ERR_IO, errno, "cannot look at the presented file: %s",
			strerror(errno));
	*ret = (struct identity){st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim,
		redactor_serial(h->redactor)};
	return 0;
}

static int changed(struct err *err)
{
	return err_set(err, ERR_CONFLICT, ESTALE,
		"this file was changed after it was presented, and is not given out; present it "
		"again");
}

/* ---- in a worker ---- */

static int read_piece(struct handout *h)
{
	size_t done = 0;
	while (done < h->n) {
		ssize_t n = pread(h->fd, h->piece + done, h->n - done, (off_t)(h->offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(&h->err, ERR_IO, errno, "cannot read the presented file: %s",
				strerror(errno));
		if (n == 0)
			return changed(&h->err);
		done += (size_t)n;
	}
	return 0;
}

/* All of it, against what is on record. */
static int check(struct handout *h)
{
	struct redact_search search = {.redactor = h->redactor};
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];
	int r = 0;
	for (uint64_t at = 0; r == 0 && at < h->out.size; at += h->n) {
		if (atomic_load(&h->closed))
			return -ECANCELED;
		h->offset = at;
		h->n = (size_t)MIN(h->out.size - at, HANDOUT_PIECE);
		r = read_piece(h);
		if (r == 0)
			r = digest_update(h->digest, h->piece, h->n, &h->err);
		if (r == 0 && redact_search_feed(&search, h->piece, h->n))
			r = err_set(&h->err, ERR_FILE_REFUSED, EACCES,
				"the secret %s stands in this file, which became known after it "
				"was presented",
				search.name);
	}
	if (r == 0)
		r = digest_final(h->digest, hash, &h->err);
	if (r < 0)
		return r;
	id_hex(hash, sizeof(hash), hex);
	return strcmp(hex, h->out.sha256) == 0 ? 0 : changed(&h->err);
}

static void open_work(uv_work_t *w)
{
	struct handout *h = container_of(w, struct handout, work);
	if (outputs_open_file(h->all->outputs, h->principal, h->uri, &h->out, &h->fd, &h->err) == 0)
		(void)!identify(h, &h->id);
}

static void check_work(uv_work_t *w)
{
	struct handout *h = container_of(w, struct handout, work);
	struct identity now;
	if (check(h) == 0 && identify(h, &now) == 0 && !same_file(&h->id, &now))
		(void)changed(&h->err);
}

static void read_work(uv_work_t *w)
{
	struct handout *h = container_of(w, struct handout, work);
	struct identity now;
	if (read_piece(h) == 0 && identify(h, &now) == 0 && !same_file(&h->id, &now))
		(void)changed(&h->err);
}

/* ---- on the loop ---- */

static void handouts_drop(struct handouts *all)
{
	if (all->closed && all->open == 0)
		free(all);
}

static void handout_free(struct handout *h)
{
	struct handouts *all = h->all;
	redactor_unref(h->redactor);
	digest_free(h->digest);
	output_done(&h->out);
	fd_closep(&h->fd);
	free(h->principal);
	free(h->uri);
	free(h->piece);
	free(h);
	all->open--;
	handouts_drop(all);
}

static void work(struct handout *h, uv_work_cb fn, uv_after_work_cb after)
{
	h->working = true;
	CHECK(uv_queue_work(h->all->loop, &h->work, fn, after) == 0);
}

/* True where it was closed meanwhile, and is gone. */
static bool work_ended(struct handout *h)
{
	h->working = false;
	if (!atomic_load(&h->closed))
		return false;
	handout_free(h);
	return true;
}

static void opened(struct handout *h)
{
	if (h->err.code) {
		h->opened(h->user, NULL, &h->err);
		handout_free(h);
	} else {
		h->opened(h->user, &h->out, NULL);
	}
}

static bool was_checked(const struct handouts *all, const struct identity *id)
{
	for (size_t i = 0; i < all->n_checked; i++)
		if (same_file(&all->checked[i], id) && all->checked[i].redactor == id->redactor)
			return true;
	return false;
}

static void remember(struct handouts *all, const struct identity *id)
{
	all->checked[all->next_checked] = *id;
	all->next_checked = (all->next_checked + 1) % CHECKED;
	all->n_checked = MIN(all->n_checked + 1, CHECKED);
}

static void after_check(uv_work_t *w, int status)
{
	struct handout *h = container_of(w, struct handout, work);
	(void)status; /* nothing cancels work */
	if (work_ended(h))
		return;
	if (!h->err.code)
		remember(h->all, &h->id);
	opened(h);
}

static void after_open(uv_work_t *w, int status)
{
	struct handout *h = container_of(w, struct handout, work);
	(void)status;
	if (work_ended(h))
		return;
	if (h->err.code || was_checked(h->all, &h->id) || digest_new(&h->digest, &h->err) < 0)
		opened(h);
	else
		work(h, check_work, after_check);
}

static void after_read(uv_work_t *w, int status)
{
	struct handout *h = container_of(w, struct handout, work);
	(void)status;
	if (work_ended(h))
		return;
	bool failed = h->err.code;
	h->read(h->user, failed ? NULL : h->piece, failed ? 0 : h->n, failed ? &h->err : NULL);
}

struct handout *handout_open(struct handouts *all, const char *principal, const char *uri,
	const struct redactor *redactor, handout_open_fn done, void *user)
{
	struct handout *h = xcalloc(1, sizeof(*h));
	h->all = all;
	h->principal = xstrdup(principal);
	h->uri = xstrdup(uri);
	h->redactor = redactor_ref(redactor);
	h->fd = -1;
	h->opened = done;
	h->user = user;
	h->piece = xmalloc(HANDOUT_PIECE);
	all->open++;
	work(h, open_work, after_open);
	return h;
}

void handout_read(struct handout *h, uint64_t offset, size_t n, handout_read_fn done, void *user)
{
	CHECK(!h->working && n <= HANDOUT_PIECE && offset + n <= h->out.size);
	h->offset = offset;
	h->n = n;
	h->read = done;
	h->user = user;
	work(h, read_work, after_read);
}

void handout_close(struct handout *h)
{
	if (!h)
		return;
	atomic_store(&h->closed, true);
	if (!h->working)
		handout_free(h);
}

struct handouts *handouts_new(uv_loop_t *loop, struct outputs *outputs)
{
	struct handouts *all = xcalloc(1, sizeof(*all));
	all->loop = loop;
	all->outputs = outputs;
	return all;
}

void handouts_free(struct handouts *all)
{
	if (!all)
		return;
	all->closed = true;
	handouts_drop(all);
}
