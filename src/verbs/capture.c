/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/capture.h"

#include "base/be.h"
#include "base/log.h"
#include "verbs/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The process's capture. It stays open to the end: contexts come and go. */
static struct {
	pthread_mutex_t lock;
	struct urxe_pcap *pcap;
	unsigned generation; /* a child has a file of its own */
} capture = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int get_pcap(struct urxe_pcap **ret_pcap)
{
	const char *name = urxe_settings()->pcap;
	int ret = 0;

	pthread_mutex_lock(&capture.lock);
	if (!capture.pcap || capture.generation != urxe_fork_generation) {
		ret = urxe_pcap_open(name, &capture.pcap);
		capture.generation = urxe_fork_generation;
	}
	*ret_pcap = capture.pcap;
	pthread_mutex_unlock(&capture.lock);
	if (ret == -EBUSY)
		log_error("URXE_PCAP=%s: another process is writing to that file: put %%p into the "
			  "name, for example URXE_PCAP=/tmp/urxe-%%p.pcapng",
			  name);
	else if (ret)
		log_error("URXE_PCAP=%s: %s", name, strerror(-ret));
	return ret;
}

int urxe_capture_open(struct urxe_context *ctx)
{
	char description[64];
	int ret;

	if (!urxe_settings()->pcap)
		return 0;
	ret = get_pcap(&ctx->pcap);
	if (ret)
		return ret;
	snprintf(description, sizeof(description), "%s of process %d", ctx->dev->netdev, getpid());
	ctx->pcap_interface = urxe_pcap_add(ctx->pcap, ctx->dev->ibv.name, description);
	return 0;
}

void urxe_capture_rx(struct urxe_context *ctx, const struct urxe_rx *rx)
{
	static const struct urxe_path unknown;
	const struct urxe_path *out = NULL;
	struct urxe_path path = unknown;

	if (!rx->path && rx->len >= BTH_LEN)
		out = urxe_engine_path(ctx->engine, get_be24(rx->data + BTH_DQPN));
	if (out) {
		path = *out;
		path.sgid = out->dgid;
		path.dgid = out->sgid;
	}
	urxe_pcap_rx(ctx->pcap, ctx->pcap_interface, rx, &path);
}
