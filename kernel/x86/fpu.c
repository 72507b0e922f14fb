/*
 * x87, SSE and AVX state: eager. It is saved when a task is switched out and loaded when it is switched in, whether it
 * was used or not: no lazy traps, nothing of another program ever in the registers. The kernel itself uses none.
 *
 * XSAVE where there is one, in the standard (not compacted) format, because signal frames have it so; else FXSAVE.
 * Intel SDM vol. 1, chapter 13.
 */
#include "kernel/x86/fpu.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/task.h"
#include "kernel/x86/cpu.h"
#include "kernel/x86/features.h"
#include "kernel/x86/sigcontext.h"
#include "mm/uaccess.h"

#define XSTATE_X87	BIT(0)
#define XSTATE_SSE	BIT(1)
#define XSTATE_AVX	BIT(2)
#define XSTATE_AVX512	(BIT(5) | BIT(6) | BIT(7))
/* What we let programs use. The rest (MPX, PKRU, AMX) needs support that is not there. */
#define XSTATE_WANTED	(XSTATE_X87 | XSTATE_SSE | XSTATE_AVX | XSTATE_AVX512)

#define XSAVE_HEADER	64
#define FCW_DEFAULT	0x37f
#define MXCSR_DEFAULT	0x1f80

unsigned int fpu_state_size = FXSAVE_SIZE;
u64 fpu_xcr0;

static void xsetbv(u64 v)
{
	__asm__ volatile("xsetbv" : : "c"(0), "a"((u32)v), "d"((u32)(v >> 32)));
}

/* AVX-512 only as a whole, and only with AVX. */
static u64 usable_components(u64 supported)
{
	u64 v = supported & XSTATE_WANTED;

	if (!(v & XSTATE_AVX) || (v & XSTATE_AVX512) != XSTATE_AVX512)
		v &= ~XSTATE_AVX512;
	return v;
}

void fpu_init_boot(void)
{
	u32 a, size, c, d;

	if (cpu_features.xsave) {
		fpu_xcr0 = usable_components(cpu_features.xcr0_lo);
		xsetbv(fpu_xcr0);
		cpuid(0xd, 0, &a, &size, &c, &d);	/* ebx: size for what XCR0 now has */
		fpu_state_size = size;
	}
	pr_info("FPU: %s, %u bytes per task%s%s", fpu_xcr0 ? "XSAVE" : "FXSAVE", fpu_state_size, fpu_xcr0 & XSTATE_AVX ? ", AVX" : "",
		fpu_xcr0 & XSTATE_AVX512 ? ", AVX-512" : "");
}

void fpu_init_cpu(void)
{
	u32 mxcsr = MXCSR_DEFAULT;

	if (fpu_xcr0)
		xsetbv(fpu_xcr0);
	__asm__ volatile("fninit; ldmxcsr %0" : : "m"(mxcsr));
}

void fpu_init_area(void *area)
{
	u8 *a = area;

	memset(a, 0, fpu_state_size);
	*(u16 *)a = FCW_DEFAULT;
	*(u32 *)(a + 24) = MXCSR_DEFAULT;
	/* XSTATE_BV = 0 in the header: XRSTOR takes the initial configuration of each component, whatever the bytes say. */
}

int fpu_exception_code(bool simd)
{
	u32 mxcsr, pending;
	u16 cwd, swd;

	if (simd) {
		__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
		pending = mxcsr & ~(mxcsr >> 7);
	} else {
		__asm__ volatile("fnstcw %0; fnstsw %1" : "=m"(cwd), "=m"(swd));
		pending = swd & ~cwd;
	}
	if (pending & 0x01)
		return 7;		/* FPE_FLTINV */
	if (pending & 0x04)
		return 3;		/* FPE_FLTDIV */
	if (pending & 0x08)
		return 4;		/* FPE_FLTOVF */
	if (pending & 0x12)
		return 5;		/* FPE_FLTUND: underflow or denormal operand */
	if (pending & 0x20)
		return 6;		/* FPE_FLTRES */
	return 0;
}

/* --- signal frames ---------------------------------------------------------------------------------------------------------- */

size_t fpu_sigframe_size(void)
{
	return fpu_state_size + (fpu_xcr0 ? sizeof(u32) : 0);	/* and FP_XSTATE_MAGIC2 */
}

/*
 * The current registers to @uaddr (64-byte aligned), with the "software" bytes that tell a program, and ourselves at
 * sigreturn, how much there is. May sleep.
 */
int fpu_save_to_user(void *uaddr)
{
	u8 *area = current->thread.fpu;
	struct fpx_sw_bytes sw = {
		.magic1 = FP_XSTATE_MAGIC1, .extended_size = (u32)fpu_sigframe_size(), .xfeatures = fpu_xcr0, .xstate_size = fpu_state_size,
	};
	u32 magic2 = FP_XSTATE_MAGIC2;

	/* The area is ours while we run; a switch in between writes the same registers to it again. */
	preempt_disable();
	fpu_save_whole(area);
	preempt_enable();
	if (copy_out(uaddr, area, fpu_state_size))
		return -EFAULT;
	if (!fpu_xcr0)
		return 0;
	if (copy_out((u8 *)uaddr + FPX_SW_OFFSET, &sw, sizeof(sw)) ||
	    copy_out((u8 *)uaddr + fpu_state_size, &magic2, sizeof(magic2)))
		return -EFAULT;
	return 0;
}

static void fpu_reset(void)
{
	preempt_disable();
	fpu_init_area(current->thread.fpu);
	fpu_restore(current->thread.fpu);
	preempt_enable();
}

/* The components that the user's frame at @uaddr carries; 0: only the 512 bytes of FXSAVE. */
static u64 frame_components(const u8 *uaddr)
{
	struct fpx_sw_bytes sw;
	u32 magic2;

	if (!fpu_xcr0 || copy_in(&sw, uaddr + FPX_SW_OFFSET, sizeof(sw)) || sw.magic1 != FP_XSTATE_MAGIC1 ||
	    sw.xstate_size < FXSAVE_SIZE + XSAVE_HEADER || sw.xstate_size > fpu_state_size || sw.xstate_size > sw.extended_size)
		return 0;
	if (copy_in(&magic2, uaddr + sw.xstate_size, sizeof(magic2)) || magic2 != FP_XSTATE_MAGIC2)
		return 0;
	return sw.xfeatures & fpu_xcr0;
}

/*
 * Loads the registers straight from user memory: another thread may scribble there meanwhile, and the CPU's own checks
 * cannot be raced. A fault in the middle is served and the instruction starts over; a bad header or reserved bit is #GP,
 * which the exception table turns into an error.
 */
static int load_from_user(const u8 *uaddr, u64 components)
{
	int err = 0;

	stac();
	if (components)
		__asm__ volatile("1: xrstor64 (%1)\n2:\n"
				 ".pushsection .text.fixup, \"ax\"\n3: movl %4, %0\n jmp 2b\n.popsection\n" EX_TABLE(1b, 3b)
				 : "+r"(err) : "r"(uaddr), "a"((u32)components), "d"((u32)(components >> 32)), "i"(-EINVAL) : "memory");
	else
		__asm__ volatile("1: fxrstor64 (%1)\n2:\n"
				 ".pushsection .text.fixup, \"ax\"\n3: movl %2, %0\n jmp 2b\n.popsection\n" EX_TABLE(1b, 3b)
				 : "+r"(err) : "r"(uaddr), "i"(-EINVAL) : "memory");
	clac();
	return err;
}

int fpu_restore_from_user(const void *uaddr)
{
	fpu_reset();		/* components that the frame does not carry, and the state after an error */
	if (!uaddr)
		return 0;

	u64 components = frame_components(uaddr);
	if (!access_ok(uaddr, components ? fpu_state_size : FXSAVE_SIZE))
		return -EFAULT;
	int err = load_from_user(uaddr, components);
	if (err)
		fpu_reset();
	return err;
}
