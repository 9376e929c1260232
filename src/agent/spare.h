/* spare.h: the memory of the last thing of its kind that was freed, for the next one. Calls come
 * one after the other, and the allocator would touch more memory than what it gives out. */
#pragma once

#include <string.h>

#include "base/mem.h"

/* size bytes of 0. *spare is of that size, or NULL. */
static inline void *spare_take(void **spare, size_t size)
{
	void *p = TAKE_PTR(*spare);
	return p ? memset(p, 0, size) : xcalloc(1, size);
}

static inline void spare_give(void **spare, void *p)
{
	if (*spare)
		free(p);
	else
		*spare = p;
}
