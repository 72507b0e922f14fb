/* QEMU's edu device (docs/specs/edu.rst), as much of it as the tests use. */
#ifndef TESTS_GUEST_EDU_H
#define TESTS_GUEST_EDU_H

#define EDU_ID		"PCI_ID=1234:11E8"
#define EDU_DMA_SRC	0x80
#define EDU_DMA_DST	0x88
#define EDU_DMA_COUNT	0x90
#define EDU_DMA_CMD	0x98
#define EDU_DMA_START	1u
#define EDU_DMA_TO_RAM	2u
#define EDU_DMA_BUFFER	0x40000ul	/* inside the device */
#define DMA_SIZE	2048ul		/* QEMU 7.2 takes the whole buffer for too much, and aborts */

#endif
