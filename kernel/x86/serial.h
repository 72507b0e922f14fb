/* 16550 serial ports. */
#ifndef KERNEL_X86_SERIAL_H
#define KERNEL_X86_SERIAL_H

/* First thing of all: finds the ports and makes ttyS0 a console (polled). */
void serial_early_init(void);
/* After interrupts work: registers the ports for fs/tty.c. */
void serial_init(void);

#endif
