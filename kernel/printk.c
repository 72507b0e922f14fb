/*
 * The kernel log.
 *
 * Owns the ring of the last LOG_SIZE bytes, the list of consoles, and the order in which text reaches them.
 *
 * The rule that is easy to break: printk() may be called with any lock held, so it takes no lock but log_lock (the
 * innermost) and wakes nobody. Two steps:
 *	1. under log_lock, with interrupts off, the line is copied into the ring: short, always;
 *	2. whoever gets console_busy copies text from the ring to the consoles, without log_lock. A CPU that does not get
 *	   it returns at once: the owner looks again after letting go, so no line stays behind.
 * Sleeping readers (/dev/kmsg) are woken from an interrupt that printk sends to its own CPU (irq_work_raise).
 *
 * A panic breaks both locks, if it must: by then the other CPUs stand still.
 */
#include "kernel/printk.h"
#include "kernel/cmdline.h"
#include "kernel/console.h"
#include "kernel/spinlock.h"
#include "kernel/string.h"
#include "kernel/time.h"
#include "kernel/wait.h"
#include "kernel/x86/irq.h"

#define LOG_SIZE	(256 * 1024ul)	/* power of two */
#define LINE_MAX	512
#define PANIC_PATIENCE	1000000		/* polls before a panic breaks a lock */

static char log_ring[LOG_SIZE];
static u64 log_end;				/* log_lock: bytes logged since boot */
static struct spinlock log_lock = SPINLOCK_INIT(LOCK_CONSOLE);
static bool console_busy;			/* atomic: somebody is writing to the consoles */
static struct console *consoles;		/* constant after boot */
struct wait_queue log_wait = WAIT_QUEUE_INIT(log_wait);
bool panic_in_progress;

/* log_lock, or not, if this is a panic and the holder will never release it. */
static bool log_lock_get(unsigned long *flags)
{
	if (likely(!READ_ONCE(panic_in_progress))) {
		*flags = spin_lock_irqsave(&log_lock);
		return true;
	}
	*flags = local_irq_save();
	for (int i = 0; i < PANIC_PATIENCE; i++) {
		if (spin_trylock(&log_lock))
			return true;
		cpu_relax();
	}
	return false;
}

static void log_lock_put(bool held, unsigned long flags)
{
	if (held)
		spin_unlock_irqrestore(&log_lock, flags);
	else
		local_irq_restore(flags);
}

static void ring_append(const char *text, size_t n)
{
	while (n) {
		size_t at = log_end & (LOG_SIZE - 1);
		size_t part = min(n, LOG_SIZE - at);
		memcpy(log_ring + at, text, part);
		/* After the bytes: log_head() is read without the lock. */
		__atomic_store_n(&log_end, log_end + part, __ATOMIC_RELEASE);
		text += part;
		n -= part;
	}
}

u64 log_head(void)
{
	return __atomic_load_n(&log_end, __ATOMIC_ACQUIRE);
}

u64 log_tail(void)
{
	u64 end = log_head();
	return end > LOG_SIZE ? end - LOG_SIZE : 0;
}

size_t log_read(u64 *pos, char *buf, size_t n)
{
	unsigned long flags;
	bool held = log_lock_get(&flags);
	size_t done = 0;

	if (*pos < log_tail())
		*pos = log_tail();
	while (done < n && *pos < log_end) {
		size_t at = *pos & (LOG_SIZE - 1);
		size_t part = min(min(n - done, (size_t)(log_end - *pos)), LOG_SIZE - at);
		memcpy(buf + done, log_ring + at, part);
		*pos += part;
		done += part;
	}
	log_lock_put(held, flags);
	return done;
}

static bool console_try_own(void)
{
	for (int i = 0; __atomic_exchange_n(&console_busy, true, __ATOMIC_ACQUIRE); i++) {
		if (likely(!READ_ONCE(panic_in_progress)))
			return false;
		if (i == PANIC_PATIENCE)	/* the owner was stopped in the middle of a line */
			return true;
		cpu_relax();
	}
	return true;
}

static bool console_behind(void)
{
	for (struct console *con = consoles; con; con = con->next) {
		if ((con->flags & CON_ENABLED) && con->pos < log_head())
			return true;
	}
	return false;
}

static void consoles_flush(void)
{
	char chunk[128];

	preempt_disable();
	/* Looking again after letting go: a line added in between found console_busy set and relies on us. */
	while (console_behind() && console_try_own()) {
		for (struct console *con = consoles; con; con = con->next) {
			size_t n;
			while ((con->flags & CON_ENABLED) && (n = log_read(&con->pos, chunk, sizeof(chunk))))
				con->write(con, chunk, n);
		}
		__atomic_store_n(&console_busy, false, __ATOMIC_SEQ_CST);
	}
	preempt_enable_no_resched();	/* we may be deep inside the scheduler */
}

/* Each call is one line (or several); a missing "\n" at the end is added. */
static void log_line(const char *prefix, const char *fmt, va_list ap)
{
	char line[LINE_MAX];
	u64 now = ktime_get_ns();
	int head = scnprintf(line, sizeof(line), "[%5lu.%06lu] %s", now / NSEC_PER_SEC, now % NSEC_PER_SEC / 1000, prefix);
	int n = head + vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, ap);

	n = min(n, LINE_MAX - 2);
	if (line[n - 1] != '\n')
		line[n++] = '\n';

	unsigned long flags;
	bool held = log_lock_get(&flags);
	ring_append(line, (size_t)n);
	log_lock_put(held, flags);

	consoles_flush();
	if (wait_queue_active(&log_wait))
		irq_work_raise(IRQ_WORK_LOG);
}

void printk(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line("", fmt, ap);
	va_end(ap);
}

/* A line without time, for panic(): the test harness and people look for its first word. */
void printk_bare(const char *fmt, ...)
{
	char line[LINE_MAX];
	va_list ap;

	va_start(ap, fmt);
	int n = min(vsnprintf(line, sizeof(line) - 1, fmt, ap), LINE_MAX - 2);
	va_end(ap);
	line[n++] = '\n';

	unsigned long flags;
	bool held = log_lock_get(&flags);
	ring_append(line, (size_t)n);
	log_lock_put(held, flags);
	consoles_flush();
}

static void wake_log_readers(void)
{
	wake_up_all(&log_wait);
}

void log_init(void)
{
	irq_work_set(IRQ_WORK_LOG, wake_log_readers);
}

void boot_stage(int number, const char *what)
{
	printk("[stage %d] %s", number, what);
}

/*
 * Without console= every console shows the log; with it, those that it names.
 */
void console_register(struct console *con)
{
	char any[8];

	if (!cmdline_get("console", any, sizeof(any)) || cmdline_rank("console", con->name) ||
	    (strcmp(con->name, "tty1") == 0 && (cmdline_rank("console", "tty0") || cmdline_rank("console", "tty"))))
		con->flags |= CON_ENABLED;
	con->pos = log_tail();
	con->next = consoles;
	consoles = con;
	consoles_flush();
}

/* For halt_with_message(): what must be seen is seen on every console, console= or not. */
void consoles_enable_all(void)
{
	for (struct console *con = consoles; con; con = con->next) {
		if (!(con->flags & CON_ENABLED)) {
			con->pos = log_head();
			con->flags |= CON_ENABLED;
		}
	}
}

/* --- ports: the other view, for terminals ------------------------------------------------------------------------ */

struct chardev_port *chardev_ports[MAX_PORTS];
unsigned int nr_chardev_ports;

void port_register(struct chardev_port *port)
{
	if (nr_chardev_ports < MAX_PORTS)
		chardev_ports[nr_chardev_ports++] = port;
}

void port_attach(struct chardev_port *port, void (*receive)(void *ctx, const u8 *buf, size_t n),
		 void (*write_wakeup)(void *ctx), void (*hangup_break)(void *ctx), void *ctx)
{
	port->ctx = ctx;
	port->write_wakeup = write_wakeup;
	port->hangup_break = hangup_break;
	/* Last, and before the interrupt is unmasked: the driver tests it. */
	__atomic_store_n(&port->receive, receive, __ATOMIC_RELEASE);
	if (port->start_input)
		port->start_input(port);
}

static int port_rank(const struct chardev_port *port)
{
	int rank = cmdline_rank("console", port->name);

	if (!rank && port->is_screen)
		rank = max(cmdline_rank("console", "tty0"), cmdline_rank("console", "tty"));
	return rank;
}

struct chardev_port *console_preferred_port(void)
{
	struct chardev_port *best = NULL;
	int best_rank = 0;

	for (unsigned int i = 0; i < nr_chardev_ports; i++) {
		int rank = port_rank(chardev_ports[i]);
		if (rank > best_rank) {
			best = chardev_ports[i];
			best_rank = rank;
		}
	}
	for (unsigned int i = 0; !best && i < nr_chardev_ports; i++) {
		if (chardev_ports[i]->is_screen)
			best = chardev_ports[i];
	}
	return best ? best : nr_chardev_ports ? chardev_ports[0] : NULL;
}
