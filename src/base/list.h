/* list.h: intrusive doubly linked lists. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(name)                                                                            \
	{                                                                                          \
		&(name), &(name)                                                                   \
	}

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* At the end of the list head. */
static inline void list_append(struct list *head, struct list *item)
{
	item->prev = head->prev;
	item->next = head;
	head->prev->next = item;
	head->prev = item;
}

/* Harmless when done twice. */
static inline void list_remove(struct list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	list_init(item);
}

/* The body may remove the current item (through the second variable, which holds the next). */
#define list_for_each(item, next_, head, type, member)                                             \
	for (type *item = container_of((head)->next, type, member),                                \
		  *next_ = container_of(item->member.next, type, member);                          \
		&item->member != (head);                                                           \
		item = next_, next_ = container_of(item->member.next, type, member))
