/*
 * 16550 UARTs at the four PC addresses: ttyS0 to ttyS3, 115200 baud, 8N1.
 *
 * Log output is polled: the transmitter's FIFO is filled whenever it is empty. Terminal output does the same as long
 * as the device keeps up (an emulated one always does) and falls back to the transmit interrupt when it does not.
 * Input is by interrupt. National Semiconductor PC16550D data sheet, section 8.
 */
#include "kernel/x86/serial.h"
#include "kernel/cmdline.h"
#include "kernel/console.h"
#include "kernel/printk.h"
#include "kernel/spinlock.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/irq.h"

#define NR_UARTS	4
#define UART_FIFO	16

enum uart_reg { UART_DATA = 0, UART_IER = 1, UART_IIR = 2, UART_FCR = 2, UART_LCR = 3, UART_MCR = 4, UART_LSR = 5, UART_SCR = 7 };
#define IER_RX		0x01
#define IER_TX		0x02
#define IER_LINE	0x04
#define FCR_ENABLE	0x01
#define FCR_CLEAR	0x06
#define FCR_TRIGGER_8	0x80
#define IIR_NONE	0x01
#define IIR_FIFO	0xc0
#define LCR_8N1		0x03
#define LCR_DLAB	0x80
#define MCR_READY	0x0b		/* DTR, RTS, and OUT2, which gates the interrupt line on PCs */
#define MCR_LOOP	0x1e
#define LSR_RX		0x01
#define LSR_BREAK	0x10
#define LSR_TX_EMPTY	0x20		/* the FIFO takes 16 more */
#define LSR_TX_IDLE	0x40		/* the shifter too */
#define STUCK_POLLS	200000		/* a port that takes nothing for this long is skipped: some 0.2 s */

/*
 *   I  constant after probing    L  lock
 */
struct uart {
	u16			 base;		/* I */
	u8			 irq;		/* I */
	bool			 present;	/* I */
	u8			 fifo;		/* I  bytes that an empty transmitter takes */
	u8			 ier;		/* L  shadow */
	bool			 stuck;		/* L  gave up waiting; tried again when it is ready */
	bool			 throttled;	/* L */
	bool			 port_midline;	/* L  a program's output ended within a line: the log starts a new one */
	struct spinlock		 lock;		/* LOCK_CONSOLE: innermost, taken under any other */
	struct console		 console;
	struct chardev_port	 port;
	struct irq_action	 action;
};

static size_t uart_port_write(struct chardev_port *port, const u8 *buf, size_t n);
static bool uart_can_write(struct chardev_port *port);
static bool uart_drained(struct chardev_port *port);
static void uart_start_input(struct chardev_port *port);
static void uart_throttle(struct chardev_port *port, bool stop);
static void uart_console_write(struct console *con, const char *buf, size_t n);
static void uart_interrupt(void *arg);

#define UART(n, io, line) {								\
	.base = (io), .irq = (line), .lock = SPINLOCK_INIT(LOCK_CONSOLE),		\
	.console = { .name = "ttyS" #n, .write = uart_console_write },			\
	.port = { .name = "ttyS" #n, .major = 4, .minor = 64 + (n),			\
		  .write = uart_port_write, .can_write = uart_can_write,		\
		  .drained = uart_drained, .start_input = uart_start_input,		\
		  .throttle = uart_throttle, .driver = &uarts[n] },			\
	.action = { .handler = uart_interrupt, .arg = &uarts[n], .name = "ttyS" #n } }

static struct uart uarts[NR_UARTS] = {
	UART(0, 0x3f8, 4), UART(1, 0x2f8, 3), UART(2, 0x3e8, 4), UART(3, 0x2e8, 3),
};

static u8 uart_in(const struct uart *u, enum uart_reg reg) { return inb(u->base + reg); }
static void uart_out(const struct uart *u, enum uart_reg reg, u8 v) { outb(u->base + reg, v); }

/* A port that is not there reads as all ones, or does not keep a byte in its scratch register. */
static bool uart_probe(struct uart *u)
{
	uart_out(u, UART_SCR, 0x5a);
	if (uart_in(u, UART_SCR) != 0x5a)
		return false;
	uart_out(u, UART_SCR, 0xa5);
	if (uart_in(u, UART_SCR) != 0xa5)
		return false;

	uart_out(u, UART_IER, 0);
	uart_out(u, UART_LCR, LCR_DLAB);
	uart_out(u, UART_DATA, 1);		/* divisor 1: 115200 */
	uart_out(u, UART_IER, 0);
	uart_out(u, UART_LCR, LCR_8N1);
	uart_out(u, UART_FCR, FCR_ENABLE | FCR_CLEAR | FCR_TRIGGER_8);
	u->fifo = (uart_in(u, UART_IIR) & IIR_FIFO) == IIR_FIFO ? UART_FIFO : 1;

	/* In loop mode what is sent must come back. */
	uart_out(u, UART_MCR, MCR_LOOP);
	uart_out(u, UART_DATA, 0xae);
	bool echoed = false;
	for (int i = 0; i < 10000 && !echoed; i++)
		echoed = (uart_in(u, UART_LSR) & LSR_RX) && uart_in(u, UART_DATA) == 0xae;
	uart_out(u, UART_MCR, MCR_READY);
	return echoed;
}

void serial_early_init(void)
{
	for (struct uart *u = uarts; u < uarts + NR_UARTS; u++)
		u->present = uart_probe(u);
	/* The log goes to ttyS0 unless console= says otherwise; the other ports must be asked for. */
	for (struct uart *u = uarts; u < uarts + NR_UARTS; u++) {
		if (u->present && (u == uarts || cmdline_rank("console", u->console.name)))
			console_register(&u->console);
	}
}

void serial_init(void)
{
	for (struct uart *u = uarts; u < uarts + NR_UARTS; u++) {
		if (!u->present)
			continue;
		pr_info("%s: 16550 at port 0x%x, interrupt %u", u->port.name, u->base, u->irq);
		port_register(&u->port);
	}
}

/* --- output ------------------------------------------------------------------------------------------------------- */

/* In a panic the holder may be a stopped CPU: then we go on without. */
static bool uart_lock(struct uart *u, unsigned long *flags)
{
	if (likely(!READ_ONCE(panic_in_progress))) {
		*flags = spin_lock_irqsave(&u->lock);
		return true;
	}
	*flags = local_irq_save();
	return spin_trylock(&u->lock);
}

static void uart_unlock(struct uart *u, bool held, unsigned long flags)
{
	if (held)
		spin_unlock_irqrestore(&u->lock, flags);
	else
		local_irq_restore(flags);
}

/* Fills the empty FIFO from @buf; how many bytes it took. */
static size_t uart_fill(struct uart *u, const u8 *buf, size_t n)
{
	if (!(uart_in(u, UART_LSR) & LSR_TX_EMPTY))
		return 0;
	u->stuck = false;
	size_t part = min(n, (size_t)u->fifo);
	size_t count = part;
	__asm__ volatile("rep outsb" : "+S"(buf), "+c"(count) : "d"(u->base + UART_DATA) : "memory");
	return part;
}

static bool uart_wait_room(struct uart *u)
{
	for (int i = 0; i < STUCK_POLLS; i++) {
		if (uart_in(u, UART_LSR) & LSR_TX_EMPTY)
			return true;
		cpu_relax();
	}
	u->stuck = true;
	return false;
}

static void uart_console_write(struct console *con, const char *buf, size_t n)
{
	struct uart *u = container_of(con, struct uart, console);
	u8 fifo[UART_FIFO];
	bool fresh_line = __atomic_exchange_n(&u->port_midline, false, __ATOMIC_RELAXED);

	while (n) {
		/* One FIFO's worth, with "\n" as "\r\n"; the lock is held only that long. */
		size_t filled = 0;
		if (fresh_line && u->fifo > 1) {
			fifo[filled++] = '\r';
			fifo[filled++] = '\n';
			fresh_line = false;
		}
		while (n && filled < u->fifo) {
			if (*buf == '\n') {
				if (u->fifo > 1 && filled + 2 > u->fifo)
					break;
				fifo[filled++] = '\r';
			}
			fifo[filled++] = (u8)*buf++;
			n--;
		}
		unsigned long flags;
		bool held = uart_lock(u, &flags);
		for (size_t done = 0; done < filled; ) {
			if (u->stuck ? !(uart_in(u, UART_LSR) & LSR_TX_EMPTY) : !uart_wait_room(u))
				break;
			done += uart_fill(u, fifo + done, filled - done);
		}
		uart_unlock(u, held, flags);
	}
}

static size_t uart_port_write(struct chardev_port *port, const u8 *buf, size_t n)
{
	struct uart *u = port->driver;
	size_t done = 0;

	while (done < n) {
		unsigned long flags;
		bool held = uart_lock(u, &flags);
		size_t part = uart_fill(u, buf + done, n - done);
		if (!part) {
			/* Full: the interrupt will say when it is not. Raised at once if it emptied just now. */
			u->ier |= IER_TX;
			uart_out(u, UART_IER, u->ier);
		} else {
			u->port_midline = buf[done + part - 1] != '\n';
		}
		uart_unlock(u, held, flags);
		if (!part)
			break;
		done += part;
	}
	return done;
}

static bool uart_can_write(struct chardev_port *port)
{
	struct uart *u = port->driver;
	return uart_in(u, UART_LSR) & LSR_TX_EMPTY;
}

static bool uart_drained(struct chardev_port *port)
{
	struct uart *u = port->driver;
	return uart_in(u, UART_LSR) & LSR_TX_IDLE;
}

/* --- input -------------------------------------------------------------------------------------------------------- */

static void uart_start_input(struct chardev_port *port)
{
	struct uart *u = port->driver;

	int err = irq_request_isa(u->irq, &u->action);
	if (err) {
		pr_warn("%s: no interrupt %u, output only", port->name, u->irq);
		return;
	}
	unsigned long flags = spin_lock_irqsave(&u->lock);
	u->ier |= IER_RX | IER_LINE;
	uart_out(u, UART_IER, u->ier);
	spin_unlock_irqrestore(&u->lock, flags);
}

static void uart_throttle(struct chardev_port *port, bool stop)
{
	struct uart *u = port->driver;
	unsigned long flags = spin_lock_irqsave(&u->lock);

	u->throttled = stop;
	if (stop)
		u->ier &= (u8)~IER_RX;
	else
		u->ier |= IER_RX;
	uart_out(u, UART_IER, u->ier);
	/* RTS tells a real peer to wait; an emulator stops when the FIFO is full. */
	uart_out(u, UART_MCR, stop ? MCR_READY & ~0x02 : MCR_READY);
	spin_unlock_irqrestore(&u->lock, flags);
}

/* Takes what the receiver has, in batches, without the lock while the terminal works on it. */
static void uart_receive(struct uart *u)
{
	u8 batch[64];
	size_t n;

	do {
		bool got_break = false;
		u8 lsr;
		unsigned long flags = spin_lock_irqsave(&u->lock);
		for (n = 0; n < sizeof(batch) && !u->throttled && ((lsr = uart_in(u, UART_LSR)) & LSR_RX); ) {
			u8 c = uart_in(u, UART_DATA);
			if (lsr & LSR_BREAK)
				got_break = true;	/* the NUL that comes with it is no input */
			else
				batch[n++] = c;
		}
		spin_unlock_irqrestore(&u->lock, flags);
		if (n)
			u->port.receive(u->port.ctx, batch, n);
		if (got_break && u->port.hangup_break)
			u->port.hangup_break(u->port.ctx);
	} while (n == sizeof(batch));
}

static void uart_interrupt(void *arg)
{
	struct uart *u = arg;

	if (!u->port.receive)
		return;
	/* The line is edge-triggered and shared: stay until the port asks for nothing. Bounded, in case it is broken. */
	for (int i = 0; i < 64; i++) {
		if (uart_in(u, UART_IIR) & IIR_NONE)
			return;
		uart_receive(u);
		unsigned long flags = spin_lock_irqsave(&u->lock);
		bool ready = (u->ier & IER_TX) && (uart_in(u, UART_LSR) & LSR_TX_EMPTY);
		if (ready) {
			u->ier &= (u8)~IER_TX;
			uart_out(u, UART_IER, u->ier);
		}
		spin_unlock_irqrestore(&u->lock, flags);
		if (ready && u->port.write_wakeup)
			u->port.write_wakeup(u->port.ctx);
	}
}
