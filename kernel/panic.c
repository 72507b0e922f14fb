/* The milder ends: a sentence and a halt, and warnings that let the kernel go on. panic() is in kernel/x86/backtrace.c. */
#include "kernel/panic.h"
#include "kernel/console.h"
#include "kernel/printk.h"
#include "kernel/x86/backtrace.h"
#include "kernel/x86/cpu.h"

void halt_with_message(const char *fmt, ...)
{
	char text[384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	consoles_enable_all();
	printk_bare("HALT: %s", text);
	for (;;)
		__asm__ volatile("cli; hlt" ::: "memory");
}

void warn_at(const char *cond, const char *file, int line)
{
	printk("WARNING: %s at %s:%d", cond, file, line);
	show_backtrace_here();
}
