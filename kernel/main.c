/*
 * kmain: from the first C instruction to pid 1. The order in which the parts of the kernel come to life, in one place;
 * each line may use what stands above it.
 */
#include "kernel/boot_info.h"
#include "kernel/console.h"
#include "kernel/futex.h"
#include "kernel/iommu.h"
#include "kernel/panic.h"
#include "kernel/pci.h"
#include "kernel/printk.h"
#include "kernel/process.h"
#include "kernel/race.h"
#include "kernel/rcu.h"
#include "kernel/sched.h"
#include "kernel/signal.h"
#include "kernel/smp.h"
#include "kernel/task.h"
#include "kernel/time.h"
#include "kernel/timer.h"
#include "kernel/trace.h"
#include "kernel/version.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/apic.h"
#include "kernel/x86/boot_info.h"
#include "kernel/x86/clock.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/fbcon.h"
#include "kernel/x86/features.h"
#include "kernel/x86/fpu.h"
#include "kernel/x86/gdt.h"
#include "kernel/x86/irq.h"
#include "kernel/x86/keyboard.h"
#include "kernel/x86/serial.h"
#include "kernel/x86/syscall_setup.h"
#include "kernel/x86/traps.h"
#include "fs/init.h"
#include "mm/debug.h"
#include "mm/fault.h"
#include "mm/frame.h"
#include "mm/hugetlb.h"
#include "mm/mapping.h"
#include "mm/mm.h"

void kmain(u32 magic, u32 info) __noreturn;

/* Stage 1 and 2: a voice, and what machine this is. Nothing here needs memory beyond the image. */
static void early_init(u32 magic, u32 info)
{
	clock_early_init();
	gdt_init_cpu(0);
	idt_init();
	idt_load();
	bool loader_known = boot_info_init(magic, info);
	serial_early_init();
	fbcon_early_init();
	boot_stage(1, "Faultline " KERNEL_VERSION ", " KERNEL_BUILD);
	if (!loader_known)
		halt_with_message("Started by a loader that speaks neither multiboot2 nor PVH (magic %08x).", magic);

	boot_stage(2, "processor and memory map");
	cpu_features_init();
	cpu_enable_features();
	cpu_features_log();
	boot_info_log();
	acpi_init();
	smp_count_cpus();
	fpu_init_boot();
	fpu_init_cpu();
	syscall_init_cpu();
}

static void memory_init(void)
{
	boot_stage(3, "memory");
	mm_init();
	fbcon_init();
	thread_init();
	address_space_init();
	fault_init();
	hugetlb_init();
}

static void machine_init(void)
{
	boot_stage(4, "interrupts and time");
	apic_init();
	apic_init_cpu();
	clock_init();
	irq_init();
	pci_init();
	iommu_init();
}

static void core_init(void)
{
	boot_stage(5, "scheduler and processes");
	timers_init_cpu(0);
	sched_init();
	process_init();
	rcu_init();			/* these two start threads */
	workqueue_init();
	writeback_init();
	futex_init();
	trace_init();
	race_init();
	local_irq_enable();
}

static void files_init(void)
{
	boot_stage(7, "file systems and devices");
	log_init();
	serial_init();
	fbcon_start();
	keyboard_init();
	fs_init();
	fault_inject_init();
	memory_debug_init();
}

void kmain(u32 magic, u32 info)
{
	early_init(magic, info);
	memory_init();
	machine_init();
	core_init();
	boot_stage(6, "other processors");
	smp_init();
	files_init();
	boot_stage(8, "first program");
	start_init();
	cpu_idle_loop();
}
