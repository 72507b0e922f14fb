/* Circular doubly linked list, intrusive, in the Linux manner. The caller supplies all locking. */
#ifndef KERNEL_LIST_H
#define KERNEL_LIST_H

#include "kernel/types.h"

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline void __list_insert(struct list_head *entry, struct list_head *prev, struct list_head *next)
{
	next->prev = entry;
	entry->next = next;
	entry->prev = prev;
	prev->next = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	__list_insert(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	__list_insert(entry, head->prev, head);
}

static inline void __list_unlink(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

/* Leaves @entry pointing nowhere useful; list_del_init() leaves it an empty list. */
static inline void list_del(struct list_head *entry)
{
	__list_unlink(entry);
	entry->next = NULL;
	entry->prev = NULL;
}

static inline void list_del_init(struct list_head *entry)
{
	__list_unlink(entry);
	INIT_LIST_HEAD(entry);
}

static inline bool list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	__list_unlink(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	__list_unlink(entry);
	list_add_tail(entry, head);
}

/* Moves all of @list to the front of @head; @list is empty afterwards. */
static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list->next->prev = head;
	list->prev->next = head->next;
	head->next->prev = list->prev;
	head->next = list->next;
	INIT_LIST_HEAD(list);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	list->next->prev = head->prev;
	list->prev->next = head;
	head->prev->next = list->next;
	head->prev = list->prev;
	INIT_LIST_HEAD(list);
}

#define list_entry(ptr, type, member)		container_of(ptr, type, member)
#define list_first_entry(head, type, member)	list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)	list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(pos, member)	list_entry((pos)->member.next, typeof(*(pos)), member)
#define list_prev_entry(pos, member)	list_entry((pos)->member.prev, typeof(*(pos)), member)

#define list_for_each_entry(pos, head, member)						\
	for (pos = list_first_entry(head, typeof(*pos), member); &pos->member != (head);	\
	     pos = list_next_entry(pos, member))

#define list_for_each_entry_reverse(pos, head, member)					\
	for (pos = list_last_entry(head, typeof(*pos), member); &pos->member != (head);	\
	     pos = list_prev_entry(pos, member))

#define list_for_each_entry_safe(pos, tmp, head, member)				\
	for (pos = list_first_entry(head, typeof(*pos), member),			\
	     tmp = list_next_entry(pos, member); &pos->member != (head);		\
	     pos = tmp, tmp = list_next_entry(tmp, member))

#endif
