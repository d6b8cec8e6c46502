/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture in pcapng: what crosses the links, each packet as the Ethernet frame that RoCEv2 makes
 * of it. Packets of shared memory never had IP and UDP headers: they get those that they stand for.
 * ICRCs are right; Ethernet addresses are made of the GIDs; Identifications are 0.
 *
 * One file per process, an interface in it per NIC, nanoseconds. Any thread may write; a file, or a
 * pipe that is read while we write. What is buffered is written by urxe_pcap_flush().
 */
#ifndef URXE_LINK_PCAPNG_H
#define URXE_LINK_PCAPNG_H

#include "wire/frame.h"

struct urxe_pcap;

/*
 * %p in the name is the process number. A pipe is opened when its reader is there. -EBUSY: another
 * process is writing to this file.
 */
int urxe_pcap_open(const char *pattern, struct urxe_pcap **ret_pcap);
void urxe_pcap_close(struct urxe_pcap *pcap);

/* Add an interface; returns its number. */
unsigned urxe_pcap_add(struct urxe_pcap *pcap, const char *name, const char *description);

/* A frame that is sent, valid as for a link. */
void urxe_pcap_tx(struct urxe_pcap *pcap, unsigned interface, const struct urxe_frame *frame);

/* A packet that was received; path: where rx has none. */
void urxe_pcap_rx(struct urxe_pcap *pcap, unsigned interface, const struct urxe_rx *rx,
		  const struct urxe_path *path);

/* A failure ends the capture, and is logged once. */
void urxe_pcap_flush(struct urxe_pcap *pcap);

#endif
