/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/key.h"

#include <errno.h>
#include <stdlib.h>

enum { KEY_INDEX_MAX = (1 << 24) - 1 };

void key_table_init(struct key_table *t, uint32_t max, bool reuse, uint64_t seed)
{
	*t = (struct key_table){
		.max = max < KEY_INDEX_MAX - KEY_REST ? max : KEY_INDEX_MAX - KEY_REST,
		.reuse = reuse,
		.rng = {.state = seed},
	};
}

void key_table_fini(struct key_table *t)
{
	free(t->entries);
}

static int grow(struct key_table *t)
{
	uint32_t capacity = t->capacity ? t->capacity * 2 : 64;
	struct key_entry *entries = realloc(t->entries, (capacity + 1) * sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	if (!t->entries)
		entries[0] = (struct key_entry){0};
	t->entries = entries;
	t->capacity = capacity;
	return 0;
}

static uint32_t pop_free(struct key_table *t)
{
	uint32_t index = t->oldest_free;

	t->oldest_free = t->entries[index].next_free;
	if (!t->oldest_free)
		t->newest_free = 0;
	return index;
}

int key_take(struct key_table *t, struct urxe_mr *mr, uint32_t *ret_lkey, uint32_t *ret_rkey)
{
	uint32_t n_free = t->n - t->in_use;
	struct key_entry *entry;
	uint32_t index;

	if (t->in_use >= t->max)
		return -ENOMEM;
	if (n_free > 0 && (t->reuse || n_free > KEY_REST)) {
		index = pop_free(t);
	} else {
		if (t->n == t->capacity && grow(t) < 0)
			return -ENOMEM;
		index = ++t->n;
		t->entries[index].tag[0] = rng_next(&t->rng) & 0xfe;
	}
	entry = &t->entries[index];
	entry->mr = mr;
	entry->tag[1] = entry->tag[0] | 1;
	t->in_use++;
	*ret_lkey = index << 8 | entry->tag[0];
	*ret_rkey = *ret_lkey | 1;
	return 0;
}

void key_give(struct key_table *t, uint32_t key)
{
	uint32_t index = key >> 8;
	struct key_entry *entry = &t->entries[index];

	entry->mr = NULL;
	entry->tag[0] &= KEY_TAG_MASK;
	t->in_use--;
	if (t->reuse) {
		entry->next_free = t->oldest_free;
		t->oldest_free = index;
		if (!t->newest_free)
			t->newest_free = index;
		return;
	}
	entry->tag[0] = (entry->tag[0] + 2) & KEY_TAG_MASK;
	entry->next_free = 0;
	if (t->newest_free)
		t->entries[t->newest_free].next_free = index;
	else
		t->oldest_free = index;
	t->newest_free = index;
}
