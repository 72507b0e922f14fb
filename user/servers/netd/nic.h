/*
 * A network card, whoever makes it. A driver owns its rings; frames are copied once on their way in and out. On the way in that
 * copy is also what makes a check final: a device that goes on writing cannot change what has been looked at.
 */
#ifndef NETD_NIC_H
#define NETD_NIC_H

#include "device.h"
#include "lwip/pbuf.h"

#define NIC_FRAME_MAX	1514u		/* without the checksum that the card appends */
#define NIC_BUFFER	2048u

struct nic;

struct nic_driver {
	const char	*name;
	uint16_t	 vendor, device[4];	/* 0 ends the list */
	bool		(*start)(struct nic *nic);
	/* Copies the frame; false: no room, try after the next interrupt. Told to the device by kick(). */
	bool		(*send)(struct nic *nic, const struct pbuf *p);
	void		(*kick)(struct nic *nic);	/* what was queued by send() may go out */
	/* After an interrupt or a poll: frames that came go to nic_input(), at most @budget. True: more are waiting. */
	bool		(*receive)(struct nic *nic, unsigned int budget);
	bool		(*room)(struct nic *nic);	/* can a frame be sent now? Looks at what the device has finished */
};

struct nic {
	const struct nic_driver *driver;
	struct device	 dev;
	uint8_t		 mac[6];
	bool		 link;
	bool		 unkicked;		/* frames that the device has not been told of */
	void		*state;			/* the driver's */
};

extern const struct nic_driver virtio_net_driver, e1000e_driver;

/* ether.c: a frame for the stack; it is copied. */
void nic_input(struct nic *nic, const void *frame, size_t len);
void nic_link_changed(struct nic *nic, bool up);

#endif
