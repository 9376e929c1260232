/* turn.c: see turn.h. */
#include "agent/turn.h"

#include "base/clock.h"

static struct list queue = LIST_INIT(queue);

void turn_add(struct turn *t)
{
	if (list_empty(&t->node))
		list_append(&queue, &t->node);
}

void turn_remove(struct turn *t)
{
	list_remove(&t->node);
}

bool turn_pending(void)
{
	return !list_empty(&queue);
}

void turn_run(void)
{
	if (list_empty(&queue))
		return;
	struct turn *t = container_of(queue.next, struct turn, node);
	list_remove(&t->node);
	list_append(&queue, &t->node);
	t->step(t, clock_monotonic_us() + TURN_SLICE_US);
}
