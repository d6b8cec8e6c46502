/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive doubly linked list. A node that is on no list points at itself, so list_del() of a node
 * that is not linked is a no-op and list_linked() is a cheap test.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define list_for_each(pos, head)                                                                   \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* The body may unlink pos. */
#define list_for_each_safe(pos, head)                                                              \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head);              \
	     pos = pos##_next, pos##_next = pos->next)

static inline void list_init(struct list *node)
{
	node->next = node;
	node->prev = node;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline bool list_linked(const struct list *node)
{
	return node->next != node;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline struct list *list_pop(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_del(node);
	return node;
}

#endif
