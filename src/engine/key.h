/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory keys. A key is index << 8 | tag. The lkey's tag is even and the rkey's is the next odd
 * number, so a key of one kind is never valid as the other. An index that is given back rests in a
 * FIFO behind at least KEY_REST others and comes back with the next tag: a number recurs only after
 * KEY_REST * 128 registrations. In reuse mode it comes back at once and unchanged.
 *
 * A memory window keeps its index for life and has no lkey; every binding gives it another tag, or
 * the one that the consumer chose, and while it is not bound no rkey names it.
 */
#ifndef URXE_ENGINE_KEY_H
#define URXE_ENGINE_KEY_H

#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct urxe_mr;

enum {
	KEY_REST = 1024,
	KEY_TAG_MASK = 0xff,
	KEY_NO_TAG = 0x100, /* set: no key has this tag */
};

struct key_entry {
	struct urxe_mr *mr; /* NULL: free */
	uint16_t tag[2];    /* of the lkey, even; of the rkey */
	uint32_t next_free; /* index of the next in the FIFO, 0: last */
};

struct key_table {
	struct key_entry *entries; /* entries[1..n] */
	uint32_t n;
	uint32_t capacity;
	uint32_t max; /* entries in use at most */
	uint32_t in_use;
	uint32_t oldest_free; /* 0: none */
	uint32_t newest_free;
	bool reuse;
	struct rng rng;
};

void key_table_init(struct key_table *t, uint32_t max, bool reuse, uint64_t seed);
void key_table_fini(struct key_table *t);

/* Name mr by a fresh pair of keys. -ENOMEM: max in use, or out of memory. */
int key_take(struct key_table *t, struct urxe_mr *mr, uint32_t *ret_lkey, uint32_t *ret_rkey);
void key_give(struct key_table *t, uint32_t key);

/* The rkey's tag is another one from here on, or none at all: KEY_NO_TAG. */
static inline void key_set_tag(struct key_table *t, uint32_t key, uint16_t tag)
{
	t->entries[key >> 8].tag[1] = tag;
}

/* Take the lkey away: the entry is a window's. */
static inline void key_remote_only(struct key_table *t, uint32_t key)
{
	t->entries[key >> 8].tag[0] |= KEY_NO_TAG;
}

/* What the index of a key is in use for, whatever its tag; or NULL. */
static inline struct urxe_mr *key_find_index(const struct key_table *t, uint32_t key)
{
	uint32_t index = key >> 8;

	return index == 0 || index > t->n ? NULL : t->entries[index].mr;
}

/* The region that this lkey or rkey names, or NULL. */
static inline struct urxe_mr *key_find(const struct key_table *t, uint32_t key, bool remote)
{
	uint32_t index = key >> 8;
	const struct key_entry *entry;

	if (index == 0 || index > t->n)
		return NULL;
	entry = &t->entries[index];
	return (key & KEY_TAG_MASK) == entry->tag[remote] ? entry->mr : NULL;
}

#endif
