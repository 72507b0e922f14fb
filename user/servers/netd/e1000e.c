/*
 * Intel 82574L (e1000e), in ring 3: "Intel 82574 GbE Controller Family Datasheet", revision 3.4; sections in brackets.
 *
 * Legacy descriptors [7.1.4, 7.2.3] in two rings, each entry with its own buffer, so nothing has to be allocated after the
 * start. Three MSI-X vectors [7.4.2, 10.2.4.9]: receive, transmit, other causes. Transmit interrupts stay off until there is no room.
 *
 * What the card says is checked, not believed: a length beyond the buffer is dropped and counted.
 */
#include "nic.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INTEL			0x8086
#define ID_82574L		0x10d3

/* Registers [10.2.2], as byte offsets in BAR 0 */
#define CTRL			0x0000
#define  CTRL_FD		(1u << 0)
#define  CTRL_ASDE		(1u << 5)
#define  CTRL_SLU		(1u << 6)
#define  CTRL_RST		(1u << 26)
#define STATUS			0x0008
#define  STATUS_LU		(1u << 1)
#define CTRL_EXT		0x0018
#define  CTRL_EXT_EIAME		(1u << 24)	/* cleared by the interrupt what the vector says */
#define  CTRL_EXT_PBA		(1u << 31)
#define ICR			0x00c0
#define IMS			0x00d0
#define IMC			0x00d8
#define  INT_RXQ0		(1u << 20)
#define  INT_TXQ0		(1u << 22)
#define  INT_OTHER		(1u << 24)
#define  INT_LSC		(1u << 2)
#define EIAC			0x00dc
#define IVAR			0x00e4
#define  IVAR_RXQ0(v)		((v) | 8u)		/* bit 3: valid */
#define  IVAR_TXQ0(v)		(((v) | 8u) << 8)
#define  IVAR_OTHER(v)		(((v) | 8u) << 16)
#define  IVAR_ON_WB		(1u << 31)
#define RCTL			0x0100
#define  RCTL_EN		(1u << 1)
#define  RCTL_MPE		(1u << 4)		/* all multicast: IPv6 needs some, and the stack sorts them */
#define  RCTL_BAM		(1u << 15)
#define  RCTL_SECRC		(1u << 26)
#define TCTL			0x0400
#define  TCTL_EN		(1u << 1)
#define  TCTL_PSP		(1u << 3)
#define  TCTL_CT(n)		((uint32_t)(n) << 4)
#define  TCTL_COLD(n)		((uint32_t)(n) << 12)
#define TIPG			0x0410
#define  TIPG_COPPER		(8u | 8u << 10 | 6u << 20)
#define RDBAL			0x2800
#define RDBAH			0x2804
#define RDLEN			0x2808
#define RDH			0x2810
#define RDT			0x2818
#define RDTR			0x2820
#define TDBAL			0x3800
#define TDBAH			0x3804
#define TDLEN			0x3808
#define TDH			0x3810
#define TDT			0x3818
#define MTA			0x5200
#define RAL0			0x5400
#define RAH0			0x5404
#define REGISTERS		0x6000u		/* as much of the window as is used */

#define RING			256u		/* entries; a multiple of 8 */

struct rx_desc { uint64_t addr; uint16_t length, checksum; uint8_t status, errors; uint16_t special; };
#define RX_DD			(1u << 0)
#define RX_EOP			(1u << 1)
struct tx_desc { uint64_t addr; uint16_t length; uint8_t cso, cmd, status, css; uint16_t special; };
#define TX_DD			(1u << 0)
#define TX_EOP			(1u << 0)
#define TX_IFCS			(1u << 1)
#define TX_RS			(1u << 3)
_Static_assert(sizeof(struct rx_desc) == 16 && sizeof(struct tx_desc) == 16, "7.1.4, 7.2.3");

enum { VECTOR_RX, VECTOR_TX, VECTOR_OTHER, NR_VECTORS };

struct e1000e {
	volatile uint8_t	*reg;
	volatile struct rx_desc	*rx;
	volatile struct tx_desc	*tx;
	uint8_t			*rx_buffers, *tx_buffers;
	unsigned int		 rx_next;		/* the next that the card will fill */
	unsigned int		 tx_next, tx_oldest, tx_used;
	bool			 tx_irq;
	unsigned long		 nonsense;
};

static uint32_t get(const struct e1000e *e, unsigned int at) { return *(volatile uint32_t *)(e->reg + at); }
static void put(struct e1000e *e, unsigned int at, uint32_t v) { *(volatile uint32_t *)(e->reg + at) = v; }

static void wait_ms(unsigned int ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000l };

	nanosleep(&t, NULL);
}

/* [4.6.2] interrupts off, reset, off again: the reset turns nothing on, but may leave causes. */
static bool reset(struct e1000e *e)
{
	put(e, IMC, ~0u);
	put(e, RCTL, 0);
	put(e, TCTL, 0);
	put(e, CTRL, get(e, CTRL) | CTRL_RST);
	for (int i = 0; i < 100; i++) {
		wait_ms(1);
		if (!(get(e, CTRL) & CTRL_RST))
			break;
	}
	put(e, IMC, ~0u);
	(void)get(e, ICR);
	return !(get(e, CTRL) & CTRL_RST);
}

static bool make_rings(struct nic *nic, struct e1000e *e)
{
	struct dma rings, rx, tx;

	if (!device_dma(&nic->dev, &rings, RING * (sizeof(*e->rx) + sizeof(*e->tx))) || !device_dma(&nic->dev, &rx, RING * NIC_BUFFER) ||
	    !device_dma(&nic->dev, &tx, RING * NIC_BUFFER))
		return false;
	e->rx = rings.mem;
	e->tx = (void *)((char *)rings.mem + RING * sizeof(*e->rx));
	e->rx_buffers = rx.mem;
	e->tx_buffers = tx.mem;
	for (unsigned int i = 0; i < RING; i++) {
		e->rx[i].addr = rx.bus + (uint64_t)i * NIC_BUFFER;
		e->tx[i].addr = tx.bus + (uint64_t)i * NIC_BUFFER;
	}
	put(e, RDBAL, (uint32_t)rings.bus);
	put(e, RDBAH, (uint32_t)(rings.bus >> 32));
	put(e, RDLEN, RING * sizeof(*e->rx));
	put(e, RDH, 0);
	put(e, TDBAL, (uint32_t)(rings.bus + RING * sizeof(*e->rx)));
	put(e, TDBAH, (uint32_t)((rings.bus + RING * sizeof(*e->rx)) >> 32));
	put(e, TDLEN, RING * sizeof(*e->tx));
	put(e, TDH, 0);
	put(e, TDT, 0);
	return true;
}

static bool start(struct nic *nic)
{
	struct e1000e *e = calloc(1, sizeof(*e));

	if (!e)
		return false;
	nic->state = e;
	device_enable(&nic->dev);
	e->reg = device_map(&nic->dev, 0, 0, REGISTERS);
	if (!e->reg || !reset(e))
		return false;
	uint32_t low = get(e, RAL0), high = get(e, RAH0);	/* from the EEPROM, by the reset */

	memcpy(nic->mac, &low, 4);
	memcpy(nic->mac + 4, &high, 2);
	for (unsigned int i = 0; i < 128; i++)
		put(e, MTA + i * 4, 0);
	if (!make_rings(nic, e) || !device_irqs(&nic->dev, NR_VECTORS))
		return false;
	put(e, IVAR, IVAR_RXQ0(VECTOR_RX) | IVAR_TXQ0(VECTOR_TX) | IVAR_OTHER(VECTOR_OTHER) | IVAR_ON_WB);
	put(e, EIAC, INT_RXQ0 | INT_TXQ0 | INT_OTHER);
	put(e, CTRL_EXT, get(e, CTRL_EXT) | CTRL_EXT_EIAME | CTRL_EXT_PBA);
	put(e, RDTR, 0);
	put(e, TIPG, TIPG_COPPER);
	put(e, TCTL, TCTL_EN | TCTL_PSP | TCTL_CT(15) | TCTL_COLD(63));
	put(e, CTRL, get(e, CTRL) | CTRL_FD | CTRL_ASDE | CTRL_SLU);
	put(e, RCTL, RCTL_EN | RCTL_MPE | RCTL_BAM | RCTL_SECRC);		/* buffers of 2048 bytes: size bits 0 */
	put(e, RDT, RING - 1);							/* one is always kept: head == tail means empty */
	put(e, IMS, INT_RXQ0 | INT_OTHER | INT_LSC);
	nic->link = get(e, STATUS) & STATUS_LU;
	return true;
}

static bool receive(struct nic *nic, unsigned int budget)
{
	struct e1000e *e = nic->state;
	unsigned int done = 0;
	bool up = get(e, STATUS) & STATUS_LU;

	if (up != nic->link) {
		nic->link = up;
		nic_link_changed(nic, up);
	}
	/*
	 * The causes that a vector stands for are masked while it is being served only if EIAM says so, and it does not: an
	 * interrupt during the loop costs one turn more of it, and none is lost.
	 */
	for (; done < budget; done++) {
		volatile struct rx_desc *d = &e->rx[e->rx_next];

		if (!(d->status & RX_DD))
			break;
		device_barrier();	/* the status before what it vouches for */
		uint16_t length = d->length;

		/* A frame of more than one buffer is longer than we ever said we take. */
		if ((d->status & RX_EOP) && !d->errors && length <= NIC_BUFFER)
			nic_input(nic, e->rx_buffers + (size_t)e->rx_next * NIC_BUFFER, length);
		else
			e->nonsense++;
		d->status = 0;
		e->rx_next = (e->rx_next + 1) % RING;
	}
	if (done) {
		device_barrier();
		put(e, RDT, (e->rx_next + RING - 1) % RING);
	}
	return done == budget;
}

static bool room(struct nic *nic)
{
	struct e1000e *e = nic->state;

	while (e->tx_used && (e->tx[e->tx_oldest].status & TX_DD)) {
		e->tx_oldest = (e->tx_oldest + 1) % RING;
		e->tx_used--;
	}
	return e->tx_used < RING - 1;
}

static bool send(struct nic *nic, const struct pbuf *p)
{
	struct e1000e *e = nic->state;

	if (p->tot_len > NIC_FRAME_MAX)
		return true;			/* cannot be sent, ever */
	if (e->tx_used >= RING - 1 && !room(nic)) {
		if (!e->tx_irq)
			put(e, IMS, INT_TXQ0);	/* tell us when there is room */
		e->tx_irq = true;
		return false;
	}
	if (e->tx_irq)
		put(e, IMC, INT_TXQ0);
	e->tx_irq = false;
	volatile struct tx_desc *d = &e->tx[e->tx_next];

	pbuf_copy_partial(p, e->tx_buffers + (size_t)e->tx_next * NIC_BUFFER, p->tot_len, 0);
	d->length = p->tot_len;
	d->cso = d->css = 0;
	d->special = 0;
	d->status = 0;
	d->cmd = TX_EOP | TX_IFCS | TX_RS;
	e->tx_next = (e->tx_next + 1) % RING;
	e->tx_used++;
	nic->unkicked = true;
	return true;
}

static void kick(struct nic *nic)
{
	struct e1000e *e = nic->state;

	nic->unkicked = false;
	device_barrier();
	put(e, TDT, e->tx_next);
}

const struct nic_driver e1000e_driver = {
	.name = "e1000e", .vendor = INTEL, .device = { ID_82574L }, .start = start, .send = send, .kick = kick, .receive = receive, .room = room,
};
