/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events on their way to the application. No memory is allocated for one: it is a count or a bit
 * in the object it is about, and the object is on a queue while it has any.
 *
 * The descriptor a program reads, polls or makes non-blocking is an eventfd in semaphore mode: one
 * unit per event. Events that were withdrawn with a dying object may leave a unit behind for a
 * moment: a reader that finds the queue empty reads again.
 */
#ifndef URXE_VERBS_EVENT_PRIV_H
#define URXE_VERBS_EVENT_PRIV_H

#include "base/list.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct urxe_context;
struct vcq;

/* Completion events of one CQ on its channel; under the channel's lock. */
struct urxe_cq_firing {
	struct list node;
	unsigned queued;    /* not yet fetched */
	unsigned delivered; /* fetched, ever */
};

struct urxe_channel {
	struct ibv_comp_channel ibv;
	pthread_mutex_t lock;
	struct list fired;   /* CQs with events */
	atomic_uint n_fired; /* events in all of them: read without the lock as a hint */
};

/* Asynchronous events of one object; under the async queue's lock. */
struct urxe_event_source {
	struct list node;
	uint32_t pending;   /* bit per ibv_event_type */
	unsigned delivered; /* fetched, ever */
};

enum urxe_port_event {
	URXE_PORT_ACTIVE,
	URXE_PORT_ERR,
	URXE_GID_CHANGE,
	URXE_PORT_EVENTS,
};

struct urxe_async_queue {
	pthread_mutex_t lock;
	struct list sources;
	struct urxe_event_source port[URXE_PORT_EVENTS]; /* one each: they are told in order */
	int fd;
};

/* Queue whatever the engine has to report. Context's lock held. */
void urxe_events_collect(struct urxe_context *ctx);

/* Of the port: one of the three that enum urxe_port_event names. Any lock may be held. */
void urxe_events_put_port(struct urxe_context *ctx, enum ibv_event_type type);

void urxe_event_source_init(struct urxe_event_source *source);
void urxe_cq_firing_init(struct urxe_cq_firing *firing);

/*
 * Withdraw the object's events and wait, as ibv_destroy_* must, until those already fetched are
 * acknowledged. The object is no longer in the engine and no lock is held.
 */
void urxe_event_source_fini(struct urxe_context *ctx, struct urxe_event_source *source,
			    pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *acked);
void urxe_cq_firing_fini(struct vcq *vcq);

int urxe_async_queue_init(struct urxe_async_queue *queue);
void urxe_async_queue_fini(struct urxe_async_queue *queue);

#endif
