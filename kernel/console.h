/*
 * Consoles: two views of the same hardware.
 *
 *	struct console		where the kernel log goes: polled output that works in any context, panic included
 *	struct chardev_port	what fs/tty.c makes a terminal of: interrupt-driven input, output that never waits
 *
 * The drivers (kernel/x86/serial.c, fbcon.c, keyboard.c) register both; fs/tty.c walks the ports in tty_init()
 * and attaches a terminal to each.
 */
#ifndef KERNEL_CONSOLE_H
#define KERNEL_CONSOLE_H

#include "kernel/types.h"

struct console {
	const char	*name;		/* "ttyS0", "tty1": matched against console= */
	/*
	 * Writes all of @buf; "\n" alone moves to the first column of the next line. Any context. Calls are serialised by
	 * kernel/printk.c, except in a panic, where the driver must not wait for a lock for ever.
	 */
	void		(*write)(struct console *con, const char *buf, size_t n);
	struct console	*next;		/* printk.c's list */
	u64		 pos;		/* printk.c: log position up to which this console has printed */
	u32		 flags;		/* CON_* */
};
#define CON_ENABLED	1u		/* gets the log */

/* From now on @con shows the log, beginning with everything logged so far. Boot CPU, before SMP. */
void console_register(struct console *con);
void consoles_enable_all(void);		/* console= no longer counts: for panic and halt messages */

/* A panic is being printed: drivers must not take locks that another, stopped CPU may hold. */
extern bool panic_in_progress;

struct winsize {			/* user ABI of TIOCGWINSZ */
	u16 ws_row, ws_col, ws_xpixel, ws_ypixel;
};

/*
 *   I  constant after registration     A  attached once by fs/tty.c before input is enabled, then constant
 */
struct chardev_port {
	const char	*name;		/* I  device name under /dev: "ttyS0".."ttyS3", "tty1" */
	u32		 major, minor;	/* I  Linux device number: 4,64+n serial; 4,n screen */
	struct winsize	 winsize;	/* I  initial size; rows 0: unknown (serial line) */
	bool		 is_screen;	/* I  TERM=linux rather than vt100 */

	/*
	 * Takes up to @n bytes for output and returns how many: fewer when the device is full, then ->write_wakeup will
	 * be called from an interrupt once there is room again. Never sleeps; interrupts on or off. Raw bytes: "\n" to
	 * "\r\n" is the line discipline's affair (OPOST).
	 */
	size_t		(*write)(struct chardev_port *port, const u8 *buf, size_t n);
	bool		(*can_write)(struct chardev_port *port);	/* room for at least one byte now */
	bool		(*drained)(struct chardev_port *port);		/* everything written is on its way (tcdrain) */

	/* A  set by port_attach; called from interrupts (interrupts off); must not sleep. */
	void		(*receive)(void *ctx, const u8 *buf, size_t n);
	void		(*write_wakeup)(void *ctx);
	void		(*hangup_break)(void *ctx);	/* a serial break arrived; may be NULL */
	void		*ctx;

	void		(*start_input)(struct chardev_port *port);	/* I  driver: unmask the receive interrupt */
	/*
	 * I  stop: leave input in the device until released, so that the sender waits. May be NULL. Interrupts off. One
	 * batch of up to 64 bytes may still arrive.
	 */
	void		(*throttle)(struct chardev_port *port, bool stop);
	void		*driver;	/* I  the driver's own */
};

#define MAX_PORTS	8
extern struct chardev_port *chardev_ports[MAX_PORTS];	/* NULL-free prefix of nr_chardev_ports entries */
extern unsigned int nr_chardev_ports;

void port_register(struct chardev_port *port);		/* drivers, at boot; silently dropped beyond MAX_PORTS */
/* fs/tty.c, once per port: connects the terminal and enables input. */
void port_attach(struct chardev_port *port, void (*receive)(void *ctx, const u8 *buf, size_t n),
		 void (*write_wakeup)(void *ctx), void (*hangup_break)(void *ctx), void *ctx);
/* The port behind /dev/console: the last console= of the command line, else the screen, else ttyS0; NULL if none. */
struct chardev_port *console_preferred_port(void);

/*
 * Reading the log, for /dev/kmsg, syslog(2) and dmesg. Positions are byte counts since boot.
 * log_read copies from *pos on (skipping ahead when the ring has overwritten it), advances *pos, returns bytes.
 */
struct wait_queue;
size_t log_read(u64 *pos, char *buf, size_t n);
u64 log_head(void);			/* position of the next byte to be logged */
u64 log_tail(void);			/* oldest byte still there */
void log_init(void);			/* once interrupts work */
extern struct wait_queue log_wait;	/* woken when text was added */

#endif
