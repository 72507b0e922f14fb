/* lwIP's network interfaces: one for the card, if there is one, and loopback, which lwIP makes by itself. */
#ifndef NETD_ETHER_H
#define NETD_ETHER_H

#include <stdio.h>

#include "lwip/netif.h"
#include "nic.h"

#define STATE_DIRECTORY	"/run/netd"	/* ours to write: the launcher gave it to our user */

/* The interface of @nic, up, with DHCP running on it. False: no memory. */
bool ether_start(struct nic *nic);
/* How the loop drives the card. */
bool ether_poll(void);		/* frames in, within a budget; true: more are waiting */
void ether_flush(void);		/* what the stack has queued goes out; also what had to wait for room */
void write_file(const char *name, const char *text);	/* in STATE_DIRECTORY, at once */
void ether_state(FILE *f);	/* a line about the card, if there is one */
extern struct netif *ether_netif;	/* NULL: no card */

#endif
