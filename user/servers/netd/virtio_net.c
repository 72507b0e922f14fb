/*
 * virtio-net over modern PCI, in ring 3: Virtual I/O Device Specification 1.2, sections 2.7 (split virtqueues), 3.1 (initialisation),
 * 4.1 (PCI) and 5.1 (network device).
 *
 * Two queues, each with a buffer for every descriptor, so descriptor i always names buffer i and nothing has to be allocated after
 * the start. Three MSI-X vectors: configuration, receive, transmit. Transmit interrupts stay off: whoever wants to send looks at
 * what is finished, and asks for one only when there is no room.
 *
 * What the device says is checked, not believed: an index beyond the queue or a length beyond the buffer is dropped and counted.
 */
#include "nic.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VIRTIO_VENDOR		0x1af4
#define VIRTIO_NET_MODERN	0x1041
#define VIRTIO_NET_TRANSITIONAL	0x1000

/* 4.1.4: capabilities that say where the structures lie */
#define PCI_CAP_POINTER		0x34
#define PCI_CAP_VENDOR		0x09
#define CAP_COMMON		1
#define CAP_NOTIFY		2
#define CAP_DEVICE		4

/* 2.1 */
#define STATUS_ACKNOWLEDGE	1
#define STATUS_DRIVER		2
#define STATUS_DRIVER_OK	4
#define STATUS_FEATURES_OK	8
#define STATUS_FAILED		128

#define F_NET_MAC		(1ull << 5)
#define F_NET_STATUS		(1ull << 16)
#define F_VERSION_1		(1ull << 32)
#define F_ACCESS_PLATFORM	(1ull << 33)	/* it goes through the IOMMU as others do; bus addresses are the kernel's anyway */
#define NET_STATUS_LINK_UP	1

#define NO_VECTOR		0xffff
enum { VECTOR_CONFIG, VECTOR_RX, VECTOR_TX, NR_VECTORS };
enum { QUEUE_RX, QUEUE_TX, NR_QUEUES };

#define QUEUE_MAX		256u

/* 4.1.4.3 */
struct common {
	uint32_t device_feature_select, device_feature, driver_feature_select, driver_feature;
	uint16_t config_msix_vector, num_queues;
	uint8_t  device_status, config_generation;
	uint16_t queue_select, queue_size, queue_msix_vector, queue_enable, queue_notify_off;
	uint32_t queue_desc[2], queue_driver[2], queue_device[2];
};
_Static_assert(sizeof(struct common) == 56, "virtio 4.1.4.3");

struct net_config { uint8_t mac[6]; uint16_t status; };

/* 2.7.5, 2.7.6, 2.7.8 */
struct desc { uint64_t addr; uint32_t len; uint16_t flags, next; };
#define DESC_WRITE		2		/* the device writes it */
struct avail { uint16_t flags, idx, ring[QUEUE_MAX], used_event; };
#define AVAIL_NO_INTERRUPT	1
struct used { uint16_t flags, idx; struct { uint32_t id, len; } ring[QUEUE_MAX]; };
#define USED_NO_NOTIFY		1

/* 5.1.6: before each frame; with VERSION_1 num_buffers is always there */
struct net_header { uint8_t flags, gso_type; uint16_t hdr_len, gso_size, csum_start, csum_offset, num_buffers; };
_Static_assert(sizeof(struct net_header) == 12, "virtio 5.1.6");

struct queue {
	volatile struct desc	*desc;
	volatile struct avail	*avail;
	volatile struct used	*used;
	volatile uint16_t	*notify;
	uint8_t			*buffers;	/* size of them, NIC_BUFFER each */
	uint64_t		 bus;
	uint16_t		 size, index;
	uint16_t		 next_avail;	/* what avail->idx will be told */
	uint16_t		 seen_used;
	uint16_t		 free[QUEUE_MAX], nr_free;	/* transmit: buffers that are ours */
};

struct virtio_net {
	volatile struct common	   *common;
	volatile struct net_config *config;
	volatile uint8_t	   *notify;
	uint32_t		    notify_multiplier;
	uint64_t		    features;
	struct queue		    queue[NR_QUEUES];
	unsigned long		    nonsense;	/* things that a device must not say */
};

/* -- finding the structures -- */

static volatile void *map_capability(struct nic *nic, unsigned int at, size_t at_least)
{
	uint32_t bar = device_config_read(&nic->dev, at + 4, 1), offset = device_config_read(&nic->dev, at + 8, 4);
	uint32_t length = device_config_read(&nic->dev, at + 12, 4);

	return length < at_least ? NULL : device_map(&nic->dev, bar, offset, length);
}

static bool find_structures(struct nic *nic, struct virtio_net *v)
{
	unsigned int left = 48;		/* a list that goes round ends too */

	for (uint32_t at = device_config_read(&nic->dev, PCI_CAP_POINTER, 1) & 0xfc; at && left--;
	     at = device_config_read(&nic->dev, at + 1, 1) & 0xfc) {
		if (device_config_read(&nic->dev, at, 1) != PCI_CAP_VENDOR)
			continue;
		switch (device_config_read(&nic->dev, at + 3, 1)) {
		case CAP_COMMON:
			if (!v->common)		/* the first of a kind is the one that counts */
				v->common = map_capability(nic, at, sizeof(struct common));
			break;
		case CAP_NOTIFY:
			if (!v->notify) {
				v->notify = map_capability(nic, at, 2);
				v->notify_multiplier = device_config_read(&nic->dev, at + 16, 4);
			}
			break;
		case CAP_DEVICE:
			if (!v->config)
				v->config = map_capability(nic, at, sizeof(struct net_config));
			break;
		}
	}
	return v->common && v->notify && v->config;
}

/* -- starting -- */

static bool reset(struct virtio_net *v)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	v->common->device_status = 0;
	for (int i = 0; i < 1000; i++) {
		if (v->common->device_status == 0)
			return true;
		nanosleep(&ms, NULL);
	}
	return false;
}

static bool negotiate(struct virtio_net *v)
{
	uint64_t offered = 0;

	for (uint32_t half = 0; half < 2; half++) {
		v->common->device_feature_select = half;
		offered |= (uint64_t)v->common->device_feature << (32 * half);
	}
	v->features = offered & (F_VERSION_1 | F_ACCESS_PLATFORM | F_NET_MAC | F_NET_STATUS);
	if (!(v->features & F_VERSION_1))
		return false;
	for (uint32_t half = 0; half < 2; half++) {
		v->common->driver_feature_select = half;
		v->common->driver_feature = (uint32_t)(v->features >> (32 * half));
	}
	v->common->device_status |= STATUS_FEATURES_OK;
	return v->common->device_status & STATUS_FEATURES_OK;
}

static void put_address(volatile uint32_t at[2], uint64_t address)
{
	at[0] = (uint32_t)address;
	at[1] = (uint32_t)(address >> 32);
}

/* Rings and buffers in two pieces of memory; every descriptor gets its buffer for good. */
static bool start_queue(struct nic *nic, struct virtio_net *v, unsigned int index, uint16_t vector)
{
	struct queue *q = &v->queue[index];
	struct dma rings, buffers;
	size_t desc_bytes, avail_bytes;

	v->common->queue_select = (uint16_t)index;
	q->index = (uint16_t)index;
	q->size = v->common->queue_size < QUEUE_MAX ? v->common->queue_size : QUEUE_MAX;
	if (!q->size || (q->size & (q->size - 1)))
		return false;
	v->common->queue_size = q->size;
	desc_bytes = sizeof(struct desc) * QUEUE_MAX;
	avail_bytes = 1024;
	_Static_assert(sizeof(struct avail) <= 1024, "room for it");
	if (!device_dma(&nic->dev, &rings, desc_bytes + avail_bytes + sizeof(struct used)) ||
	    !device_dma(&nic->dev, &buffers, (size_t)q->size * NIC_BUFFER))
		return false;
	q->desc = rings.mem;
	q->avail = (void *)((char *)rings.mem + desc_bytes);
	q->used = (void *)((char *)rings.mem + desc_bytes + avail_bytes);
	q->buffers = buffers.mem;
	q->bus = buffers.bus;
	q->avail->flags = index == QUEUE_TX ? AVAIL_NO_INTERRUPT : 0;
	for (uint16_t i = 0; i < q->size; i++) {
		q->desc[i].addr = q->bus + (uint64_t)i * NIC_BUFFER;
		q->desc[i].len = NIC_BUFFER;
		q->desc[i].flags = index == QUEUE_RX ? DESC_WRITE : 0;
		q->free[q->nr_free++] = (uint16_t)(q->size - 1 - i);
	}
	put_address(v->common->queue_desc, rings.bus);
	put_address(v->common->queue_driver, rings.bus + desc_bytes);
	put_address(v->common->queue_device, rings.bus + desc_bytes + avail_bytes);
	v->common->queue_msix_vector = vector;
	if (v->common->queue_msix_vector == NO_VECTOR)
		return false;
	q->notify = (volatile uint16_t *)(v->notify + v->common->queue_notify_off * v->notify_multiplier);
	v->common->queue_enable = 1;
	return true;
}

/* Buffer @id is the device's from the next publish() on. */
static void offer(struct queue *q, uint16_t id)
{
	q->avail->ring[q->next_avail++ % q->size] = id;
}

static void publish(struct queue *q)
{
	device_barrier();		/* ring entries and descriptors before the index that covers them */
	q->avail->idx = q->next_avail;
	device_barrier();		/* the index before we ask whether the device wants to be told */
	if (!(q->used->flags & USED_NO_NOTIFY))
		*q->notify = q->index;
}

static void read_link(struct nic *nic, struct virtio_net *v)
{
	nic->link = !(v->features & F_NET_STATUS) || (v->config->status & NET_STATUS_LINK_UP);
}

static bool start(struct nic *nic)
{
	struct virtio_net *v = calloc(1, sizeof(*v));

	if (!v)
		return false;
	nic->state = v;
	device_enable(&nic->dev);
	if (!find_structures(nic, v) || !reset(v))
		return false;
	v->common->device_status = STATUS_ACKNOWLEDGE;
	v->common->device_status |= STATUS_DRIVER;
	if (!negotiate(v) || !device_irqs(&nic->dev, NR_VECTORS))
		goto fail;
	v->common->config_msix_vector = VECTOR_CONFIG;
	if (v->common->config_msix_vector == NO_VECTOR || !start_queue(nic, v, QUEUE_RX, VECTOR_RX) || !start_queue(nic, v, QUEUE_TX, VECTOR_TX))
		goto fail;
	for (int i = 0; i < 6; i++)
		nic->mac[i] = v->config->mac[i];
	read_link(nic, v);
	v->common->device_status |= STATUS_DRIVER_OK;
	for (uint16_t i = 0; i < v->queue[QUEUE_RX].size; i++)
		offer(&v->queue[QUEUE_RX], i);
	publish(&v->queue[QUEUE_RX]);
	return true;
fail:
	v->common->device_status |= STATUS_FAILED;
	return false;
}

/* -- working -- */

/* The next buffer that the device has finished with; false: none. A length or id that cannot be is counted and skipped. */
static bool take_used(struct virtio_net *v, struct queue *q, uint16_t *id, uint32_t *len)
{
	while (q->seen_used != q->used->idx) {
		device_barrier();	/* the index before the entries that it covers */
		uint32_t got = q->used->ring[q->seen_used % q->size].id;

		*len = q->used->ring[q->seen_used % q->size].len;
		q->seen_used++;
		if (got < q->size && *len <= NIC_BUFFER) {
			*id = (uint16_t)got;
			return true;
		}
		v->nonsense++;
	}
	return false;
}

static bool receive(struct nic *nic, unsigned int budget)
{
	struct virtio_net *v = nic->state;
	struct queue *q = &v->queue[QUEUE_RX];
	unsigned int done = 0;
	uint32_t len;
	uint16_t id;
	bool was = nic->link;

	read_link(nic, v);
	if (nic->link != was)
		nic_link_changed(nic, nic->link);
	q->avail->flags = AVAIL_NO_INTERRUPT;
	while (done < budget && take_used(v, q, &id, &len)) {
		if (len > sizeof(struct net_header))
			nic_input(nic, q->buffers + (size_t)id * NIC_BUFFER + sizeof(struct net_header), len - sizeof(struct net_header));
		offer(q, id);
		done++;
	}
	if (done)
		publish(q);
	if (done == budget)
		return true;
	q->avail->flags = 0;
	device_barrier();		/* interrupts on before the last look, or a frame in between would wait for the next one */
	return q->seen_used != q->used->idx;
}

static bool room(struct nic *nic)
{
	struct virtio_net *v = nic->state;
	struct queue *q = &v->queue[QUEUE_TX];
	uint32_t len;
	uint16_t id;

	while (take_used(v, q, &id, &len))
		if (q->nr_free < q->size)
			q->free[q->nr_free++] = id;
	return q->nr_free > 0;
}

static bool send(struct nic *nic, const struct pbuf *p)
{
	struct virtio_net *v = nic->state;
	struct queue *q = &v->queue[QUEUE_TX];

	if (p->tot_len > NIC_FRAME_MAX)
		return true;		/* cannot be sent, ever */
	if (!q->nr_free && !room(nic)) {
		q->avail->flags = 0;	/* tell us when there is room */
		device_barrier();
		if (!room(nic))
			return false;
	}
	q->avail->flags = AVAIL_NO_INTERRUPT;
	uint16_t id = q->free[--q->nr_free];
	uint8_t *buffer = q->buffers + (size_t)id * NIC_BUFFER;

	memset(buffer, 0, sizeof(struct net_header));
	pbuf_copy_partial(p, buffer + sizeof(struct net_header), p->tot_len, 0);
	q->desc[id].len = (uint32_t)sizeof(struct net_header) + p->tot_len;
	offer(q, id);
	nic->unkicked = true;
	return true;
}

static void kick(struct nic *nic)
{
	struct virtio_net *v = nic->state;

	nic->unkicked = false;
	publish(&v->queue[QUEUE_TX]);
}

const struct nic_driver virtio_net_driver = {
	.name = "virtio-net", .vendor = VIRTIO_VENDOR, .device = { VIRTIO_NET_MODERN, VIRTIO_NET_TRANSITIONAL },
	.start = start, .send = send, .kick = kick, .receive = receive, .room = room,
};
