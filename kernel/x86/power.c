/*
 * Power-off by ACPI's S5 state, restart by ACPI's reset register, the keyboard controller or a triple fault, in this order.
 * ACPI Specification 6.4, 4.8.3.2.1 (PM1 control), 4.8.3.6 (reset register).
 */
#include "kernel/x86/power.h"
#include "kernel/console.h"
#include "kernel/printk.h"
#include "kernel/smp.h"
#include "kernel/time.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/cpu.h"

#define PM1_SCI_EN	BIT(0)
#define PM1_SLP_TYP(t)	((u16)((t) << 10))
#define PM1_SLP_EN	((u16)BIT(13))
#define I8042_COMMAND	0x64
#define I8042_RESET	0xfe
#define RESET_CONTROL	0xcf9		/* PCI chip sets: 2 = prepare, 6 = hard reset */

static void __noreturn stop(void)
{
	for (;;)
		__asm__ volatile("cli; hlt" ::: "memory");
}

static void stop_this_cpu(void *unused)
{
	(void)unused;
	stop();
}

/* The others stop first, so that nothing runs while the machine dies. */
static void stop_other_cpus(void)
{
	local_irq_enable();
	smp_call_function(cpu_online_mask & ~BIT(smp_processor_id()), stop_this_cpu, NULL, false);
	local_irq_disable();
}

/* ACPI mode must be on for the sleep registers to mean anything; under a firmware that did not, ask by SMI. */
static void enable_acpi_mode(void)
{
	if (!acpi.smi_cmd || !acpi.acpi_enable || (inw(acpi.pm1a_cnt) & PM1_SCI_EN))
		return;
	outb(acpi.smi_cmd, acpi.acpi_enable);
	for (int i = 0; i < 300 && !(inw(acpi.pm1a_cnt) & PM1_SCI_EN); i++)
		udelay(1000);
}

static void enter_s5(void)
{
	enable_acpi_mode();
	u16 a = (u16)(inw(acpi.pm1a_cnt) & ~(7u << 10)) | PM1_SLP_TYP(acpi.s5_typ_a) | PM1_SLP_EN;
	outw(acpi.pm1a_cnt, a);
	if (acpi.pm1b_cnt) {
		u16 b = (u16)(inw(acpi.pm1b_cnt) & ~(7u << 10)) | PM1_SLP_TYP(acpi.s5_typ_b) | PM1_SLP_EN;
		outw(acpi.pm1b_cnt, b);
	}
	udelay(100000);
}

void machine_power_off(void)
{
	stop_other_cpus();
	printk("power off");
	if (acpi.has_s5 && acpi.pm1a_cnt)
		enter_s5();
	/* What QEMU's machines listen to without ACPI: q35 and pc, then old Bochs. */
	outw(0x604, 0x2000);
	outw(0xb004, 0x2000);
	udelay(100000);
	printk_bare("This machine cannot switch itself off; it may be switched off now.");
	stop();
}

void machine_restart(void)
{
	stop_other_cpus();
	printk("restart");
	if (acpi.reset_addr && acpi.reset_space == 1)
		outb((u16)acpi.reset_addr, acpi.reset_value);
	udelay(50000);

	u8 control = (u8)(inb(RESET_CONTROL) & ~6);
	outb(RESET_CONTROL, control | 2);
	outb(RESET_CONTROL, control | 6);
	udelay(50000);

	for (int i = 0; i < 1000 && (inb(I8042_COMMAND) & 2); i++)
		udelay(10);
	outb(I8042_COMMAND, I8042_RESET);
	udelay(50000);

	/* Last: an exception without an IDT. */
	struct { u16 limit; u64 base; } __packed none = { 0, 0 };
	__asm__ volatile("lidt %0; int3" : : "m"(none));
	stop();
}

void machine_halt(void)
{
	stop_other_cpus();
	printk_bare("System halted. The machine may be switched off.");
	stop();
}
