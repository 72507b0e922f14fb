/*
 * Offsets and selectors for assembly. Each is checked against the C structure in kernel/x86/thread.c, kernel/percpu.h
 * or kernel/task.h, so a wrong one does not compile.
 */
#ifndef KERNEL_X86_ENTRY_OFFSETS_H
#define KERNEL_X86_ENTRY_OFFSETS_H

#define KERNEL_BASE_ASM		0xffffffff80000000
#define BOOT_STACK_SIZE		16384

/* struct cpu_local, by GS */
#define CPUL_SELF		0
#define CPUL_PERCPU_OFFSET	8
#define CPUL_CURRENT		16
#define CPUL_KERNEL_RSP		24
#define CPUL_USER_RSP		32
#define CPUL_NEED_RESCHED	48

/* struct task */
#define TASK_WORK_OFFSET	8

/* struct trap_frame */
#define FRAME_R15	0
#define FRAME_R14	8
#define FRAME_R13	16
#define FRAME_R12	24
#define FRAME_RBP	32
#define FRAME_RBX	40
#define FRAME_R11	48
#define FRAME_R10	56
#define FRAME_R9	64
#define FRAME_R8	72
#define FRAME_RAX	80
#define FRAME_RCX	88
#define FRAME_RDX	96
#define FRAME_RSI	104
#define FRAME_RDI	112
#define FRAME_ORIG_RAX	120
#define FRAME_RIP	128
#define FRAME_CS	136
#define FRAME_RFLAGS	144
#define FRAME_RSP	152
#define FRAME_SS	160
#define FRAME_SIZE	168

/* GDT. The order of the user ones is what SYSRET demands: base, base+8 = SS, base+16 = CS. */
#define SEL_KERNEL_CS32	0x08		/* boot only */
#define SEL_KERNEL_CS	0x10
#define SEL_KERNEL_DS	0x18
#define SEL_USER_BASE	0x23		/* an empty slot: there is no 32-bit user code */
#define SEL_USER_DS	0x2b
#define SEL_USER_CS	0x33
#define SEL_TSS		0x40

#endif
