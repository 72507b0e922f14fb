/*
 * CPU features: found by CPUID, never by vendor or model. Intel SDM vol. 2, CPUID; AMD APM vol. 3, appendix E.
 *
 * Bits that this kernel cannot run without are tested in cpu_features_init(); each optional one has a fallback, and
 * the log says which was taken.
 */
#include "kernel/x86/features.h"
#include "kernel/cmdline.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/x86/cpu.h"

struct cpu_features cpu_features;
bool cpu_has_smap;		/* tested by stac()/clac() and the entry code */

static void read_names(struct cpu_features *f)
{
	u32 a, regs[12] = { 0 }, b, c, d;

	cpuid(0, 0, &f->max_leaf, &b, &c, &d);
	memcpy(f->vendor, &b, 4);
	memcpy(f->vendor + 4, &d, 4);
	memcpy(f->vendor + 8, &c, 4);
	cpuid(0x80000000, 0, &a, &b, &c, &d);
	if (a >= 0x80000004) {
		for (u32 i = 0; i < 3; i++)
			cpuid(0x80000002 + i, 0, &regs[4 * i], &regs[4 * i + 1], &regs[4 * i + 2], &regs[4 * i + 3]);
		memcpy(f->brand, regs, 48);
	}
	cpuid(1, 0, &a, &b, &c, &d);
	f->family = a >> 8 & 15;
	f->model = a >> 4 & 15;
	f->stepping = a & 15;
	if (f->family == 6 || f->family == 15)
		f->model |= a >> 12 & 0xf0;
	if (f->family == 15)
		f->family += a >> 20 & 0xff;
}

static void need(bool present, const char *what)
{
	if (!present)
		halt_with_message("This CPU has no %s, and Faultline cannot run without it.", what);
}

void cpu_features_init(void)
{
	struct cpu_features *f = &cpu_features;
	u32 a, b, c, d, ext;

	read_names(f);
	cpuid(1, 0, &a, &b, &c, &d);
	need(d & BIT(4), "time stamp counter (TSC)");
	need(d & BIT(5), "model-specific registers (MSR)");
	need(d & BIT(9), "local APIC");
	need(d & BIT(24), "FXSAVE");
	need(d & BIT(25), "SSE");
	need(d & BIT(26), "SSE2");
	f->pge = d & BIT(13);
	f->pat = d & BIT(16);
	f->mwait = c & BIT(3);
	f->pcid = c & BIT(17);
	f->x2apic = c & BIT(21);
	f->tsc_deadline = c & BIT(24);
	f->xsave = c & BIT(26);
	f->avx = c & BIT(28);
	f->rdrand = c & BIT(30);
	f->hypervisor = c & BIT(31);

	if (f->max_leaf >= 7) {
		cpuid(7, 0, &a, &b, &c, &d);
		f->fsgsbase = b & BIT(0);
		f->smep = b & BIT(7);
		f->invpcid = b & BIT(10);
		f->rdseed = b & BIT(18);
		f->smap = b & BIT(20);
		f->umip = c & BIT(2);
		f->la57 = c & BIT(16);
	}
	if (f->xsave && f->max_leaf >= 0xd) {
		cpuid(0xd, 0, &f->xcr0_lo, &b, &c, &d);
		cpuid(0xd, 1, &a, &b, &c, &d);
		f->xsaveopt = a & BIT(0);
	} else {
		f->xsave = false;
	}

	cpuid(0x80000000, 0, &ext, &b, &c, &d);
	cpuid(0x80000001, 0, &a, &b, &c, &d);
	need(d & BIT(11), "SYSCALL instruction");
	need(d & BIT(20), "no-execute pages (NX; it may be switched off in the firmware's setup)");
	f->nx = true;
	f->gib_pages = d & BIT(26);
	f->phys_bits = 36;
	f->virt_bits = 48;
	if (ext >= 0x80000007) {
		cpuid(0x80000007, 0, &a, &b, &c, &d);
		f->invariant_tsc = d & BIT(8);
	}
	if (ext >= 0x80000008) {
		cpuid(0x80000008, 0, &a, &b, &c, &d);
		f->phys_bits = a & 0xff;
		f->virt_bits = a >> 8 & 0xff;
	}

	/* Boot words that take a feature away, to try the fallback. */
	if (cmdline_flag("nosmap"))
		f->smap = false;
	if (cmdline_flag("nosmep"))
		f->smep = false;
	if (cmdline_flag("nofsgsbase"))
		f->fsgsbase = false;
	if (cmdline_flag("nox2apic"))
		f->x2apic = false;
	if (cmdline_flag("nopcid"))
		f->pcid = false;
	if (cmdline_flag("noxsave"))
		f->xsave = f->xsaveopt = false;
	if (cmdline_flag("notscdeadline"))
		f->tsc_deadline = false;
}

void cpu_enable_features(void)
{
	const struct cpu_features *f = &cpu_features;
	u64 cr4 = read_cr4() & ~(CR4_PCIDE | CR4_OSXSAVE | CR4_UMIP | CR4_SMEP | CR4_SMAP | CR4_FSGSBASE);

	write_cr0((read_cr0() & ~(CR0_EM | CR0_TS | CR0_AM)) | CR0_MP | CR0_NE | CR0_WP);
	cr4 |= CR4_OSFXSR | CR4_OSXMMEXCPT | CR4_MCE;
	if (f->pge)
		cr4 |= CR4_PGE;
	if (f->umip)
		cr4 |= CR4_UMIP;
	if (f->fsgsbase)
		cr4 |= CR4_FSGSBASE;
	if (f->xsave)
		cr4 |= CR4_OSXSAVE;
	if (f->smep)
		cr4 |= CR4_SMEP;
	if (f->smap)
		cr4 |= CR4_SMAP;
	write_cr4(cr4);
	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_NXE | EFER_SCE);
	if (f->pat)
		wrmsr(MSR_PAT, PAT_VALUE);
	cpu_has_smap = f->smap;
}

void cpu_features_log(void)
{
	const struct cpu_features *f = &cpu_features;
	const char *brand = f->brand;

	while (*brand == ' ')
		brand++;
	pr_info("CPU: %s %s family %u model %u stepping %u, %u-bit physical addresses%s", f->vendor, brand, f->family, f->model,
		f->stepping, f->phys_bits, f->hypervisor ? ", under a hypervisor" : "");
	pr_info("CPU: PCID %s", f->pcid ? (f->invpcid ? "found, with INVPCID" : "found, no INVPCID") :
		"not found: address-space switches flush the TLB");
	pr_info("CPU: x2APIC %s", f->x2apic ? "found" : "not found: xAPIC through memory");
	pr_info("CPU: TSC-deadline timer %s", f->tsc_deadline ? "found" : "not found: local APIC one-shot timer");
	pr_info("CPU: invariant TSC %s", f->invariant_tsc ? "found" :
		"not promised: TSC used, checked against a second clock and between CPUs");
	pr_info("CPU: 1 GiB pages %s", f->gib_pages ? "found" : "not found: direct map of 2 MiB pages");
	pr_info("CPU: SMEP %s, SMAP %s, UMIP %s, FSGSBASE %s, XSAVE %s", f->smep ? "on" : "no", f->smap ? "on" : "no",
		f->umip ? "on" : "no", f->fsgsbase ? "on" : "no", f->xsaveopt ? "optimised" : f->xsave ? "on" : "no, FXSAVE");
}
