/*
 * ACPI, the part that needs no interpreter: MADT (CPUs, interrupt controllers), FADT (power, timer), HPET, MCFG, DMAR (only
 * copied), and the two numbers of \_S5 from the byte code of the DSDT. ACPI Specification 6.4, chapter 5.
 *
 * The rule: firmware tables are input from outside. A table is looked at only where mapped, as long as its head says,
 * and with a right checksum; a record only if it ends inside its table. acpi=off skips all of it.
 */
#include "kernel/x86/acpi.h"
#include "kernel/cmdline.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/x86/boot_map.h"
#include "mm/layout.h"

struct acpi_info acpi;

struct rsdp {
	char	signature[8];
	u8	checksum;
	char	oem[6];
	u8	revision;
	u32	rsdt;
	u32	length;			/* revision 2 on */
	u64	xsdt;
	u8	checksum2;
	u8	reserved[3];
} __packed;
_Static_assert(sizeof(struct rsdp) == 36, "ACPI 5.2.5.3");
#define RSDP_V1_SIZE	20

struct sdt {
	char	signature[4];
	u32	length;
	u8	revision, checksum;
	char	oem[6], oem_table[8];
	u32	oem_revision, creator, creator_revision;
	u8	data[];
} __packed;
_Static_assert(sizeof(struct sdt) == 36, "ACPI 5.2.6");
#define MAX_SDT_SIZE	(16ul << 20)

struct generic_address {
	u8	space, width, offset, access;
	u64	addr;
} __packed;

static bool checksum_ok(const void *p, size_t n)
{
	u8 sum = 0;

	for (size_t i = 0; i < n; i++)
		sum = (u8)(sum + ((const u8 *)p)[i]);
	return sum == 0;
}

/* The table at @phys if it is wholly readable and sound, else NULL. */
static const struct sdt *sdt_at(phys_addr_t phys)
{
	const struct sdt *t = phys ? boot_phys(phys, sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	u32 length = t->length;
	if (length < sizeof(*t) || length > MAX_SDT_SIZE || !boot_phys(phys, length))
		return NULL;
	if (!checksum_ok(t, length)) {
		pr_warn("ACPI: table %.4s at %012lx has a wrong checksum, ignored", t->signature, phys);
		return NULL;
	}
	return t;
}

/* A field of @n bytes at @offset of the table, zero-extended; 0 if the table is too short for it. */
static u64 field(const struct sdt *t, size_t offset, size_t n)
{
	u64 v = 0;

	if (offset + n <= t->length)
		memcpy(&v, (const u8 *)t + offset, n);
	return v;
}

/* --- MADT --------------------------------------------------------------------------------------------------------------- */

enum { MADT_LAPIC = 0, MADT_IOAPIC = 1, MADT_OVERRIDE = 2, MADT_X2APIC = 9 };
#define LAPIC_ENABLED		1u
#define LAPIC_ONLINE_CAPABLE	2u

static void add_cpu(u32 apic_id, u32 flags)
{
	if (!(flags & (LAPIC_ENABLED | LAPIC_ONLINE_CAPABLE)))
		return;
	/* "Online capable" without "enabled" is an empty socket unless the firmware is new enough to mean it. */
	if (!(flags & LAPIC_ENABLED))
		return;
	for (unsigned int i = 0; i < acpi.nr_cpus; i++) {
		if (acpi.apic_ids[i] == apic_id)
			return;		/* listed as LAPIC and as X2APIC */
	}
	acpi.nr_cpus_listed++;
	if (acpi.nr_cpus < NR_CPUS)
		acpi.apic_ids[acpi.nr_cpus++] = apic_id;
}

static void madt_record(const u8 *r, u8 length)
{
	u32 w[4] = { 0 };

	switch (r[0]) {
	case MADT_LAPIC:
		if (length < 8)
			return;
		memcpy(&w[0], r + 4, 4);
		if (r[3] != 0xff)
			add_cpu(r[3], w[0]);
		break;
	case MADT_X2APIC:
		if (length < 16)
			return;
		memcpy(w, r + 4, 8);
		if (w[0] != UINT32_MAX)
			add_cpu(w[0], w[1]);
		break;
	case MADT_IOAPIC:
		if (length < 12 || acpi.nr_ioapics == MAX_IOAPICS)
			return;
		memcpy(w, r + 4, 8);
		acpi.ioapics[acpi.nr_ioapics++] = (struct acpi_ioapic){ .id = r[2], .phys = w[0], .gsi_base = w[1] };
		break;
	case MADT_OVERRIDE: {
		u16 flags;
		if (length < 10 || r[2] != 0 || r[3] >= ARRAY_SIZE(acpi.isa))
			return;
		memcpy(&w[0], r + 4, 4);
		memcpy(&flags, r + 8, 2);
		acpi.isa[r[3]] = (struct acpi_override){ .gsi = w[0], .active_low = (flags & 3) == 3, .level = (flags >> 2 & 3) == 3 };
		break;
	}
	}
}

static void read_madt(const struct sdt *t)
{
	acpi.has_madt = true;
	acpi.pcat_compat = field(t, 40, 4) & 1;
	for (size_t at = 44; at + 2 <= t->length; ) {
		const u8 *r = (const u8 *)t + at;
		if (r[1] < 2 || at + r[1] > t->length)
			break;
		madt_record(r, r[1]);
		at += r[1];
	}
}

/* --- FADT and \_S5 -------------------------------------------------------------------------------------------------------- */

/*
 * \_S5 is "Name (_S5, Package () { a, b, ... })": NameOp '_S5_' PackageOp PkgLength NumElements, then each number as
 * ZeroOp, OneOp or BytePrefix n. A scan for exactly that is what everybody without an interpreter does.
 */
static bool aml_small_number(const u8 **p, const u8 *end, u8 *value)
{
	if (*p >= end)
		return false;
	u8 op = *(*p)++;
	if (op <= 1) {				/* ZeroOp, OneOp */
		*value = op;
		return true;
	}
	if (op != 0x0a || *p >= end)		/* BytePrefix */
		return false;
	*value = *(*p)++;
	return true;
}

static bool parse_s5(const u8 *p, const u8 *end)
{
	if (p >= end || *p++ != 0x12 || p >= end)	/* PackageOp */
		return false;
	p += 1 + (*p >> 6);			/* PkgLength: its top two bits count further bytes */
	p += 1;					/* NumElements */
	u8 a, b;
	if (!aml_small_number(&p, end, &a) || !aml_small_number(&p, end, &b))
		return false;
	acpi.s5_typ_a = a & 7;
	acpi.s5_typ_b = b & 7;
	return true;
}

static void read_dsdt(const struct sdt *t)
{
	const u8 *end = (const u8 *)t + t->length;

	for (const u8 *p = t->data; p + 5 < end && !acpi.has_s5; p++) {
		bool named = p[0] == 0x08 || (p > t->data + 1 && p[0] == '\\' && p[-1] == 0x08);
		if (named && memcmp(p + 1, "_S5_", 4) == 0)
			acpi.has_s5 = parse_s5(p + 5, end);
	}
}

static void read_fadt(const struct sdt *t)
{
	u32 flags = (u32)field(t, 112, 4);
	u16 boot_arch = (u16)field(t, 109, 2);
	struct generic_address x_timer = { 0 };

	acpi.smi_cmd = (u16)field(t, 48, 4);
	acpi.acpi_enable = (u8)field(t, 52, 1);
	acpi.pm1a_cnt = (u16)field(t, 64, 4);
	acpi.pm1b_cnt = (u16)field(t, 68, 4);
	acpi.pm_timer_port = (u16)field(t, 76, 4);
	acpi.pm_timer_32bit = flags & BIT(8);
	acpi.century_reg = (u8)field(t, 108, 1);
	acpi.no_8042 = t->revision >= 3 && !(boot_arch & BIT(1));

	if (t->length >= 208 + sizeof(x_timer))
		memcpy(&x_timer, (const u8 *)t + 208, sizeof(x_timer));
	if (!acpi.pm_timer_port && x_timer.space == 1)
		acpi.pm_timer_port = (u16)x_timer.addr;
	if ((flags & BIT(10)) && t->length >= 129) {
		acpi.reset_space = (u8)field(t, 116, 1);
		acpi.reset_addr = field(t, 120, 8);
		acpi.reset_value = (u8)field(t, 128, 1);
	}

	phys_addr_t dsdt = field(t, 140, 8);
	if (!dsdt)
		dsdt = field(t, 40, 4);
	const struct sdt *d = sdt_at(dsdt);
	if (d && memcmp(d->signature, "DSDT", 4) == 0)
		read_dsdt(d);
}

/* --- the others ------------------------------------------------------------------------------------------------------------ */

static void read_hpet(const struct sdt *t)
{
	if (field(t, 40, 1) == 0)		/* in memory */
		acpi.hpet = field(t, 44, 8);
}

static void read_mcfg(const struct sdt *t)
{
	for (size_t at = 44; at + 16 <= t->length; at += 16) {
		if (field(t, at + 8, 2) != 0)	/* segment */
			continue;
		acpi.mcfg_base = field(t, at, 8);
		acpi.mcfg_bus_first = (u8)field(t, at + 10, 1);
		acpi.mcfg_bus_last = (u8)field(t, at + 11, 1);
		return;
	}
}

static void read_dmar(const struct sdt *t)
{
	acpi.dmar_length = t->length;
	if (t->length <= sizeof(acpi.dmar))
		memcpy(acpi.dmar, t, t->length);
}

static void read_table(phys_addr_t phys)
{
	static const struct { char signature[5]; void (*read)(const struct sdt *t); } readers[] = {
		{ "APIC", read_madt }, { "FACP", read_fadt }, { "HPET", read_hpet }, { "MCFG", read_mcfg },
		{ "DMAR", read_dmar },
	};
	const struct sdt *t = sdt_at(phys);

	for (unsigned int i = 0; t && i < ARRAY_SIZE(readers); i++) {
		if (memcmp(t->signature, readers[i].signature, 4) == 0)
			readers[i].read(t);
	}
}

/* @width: 4 in the RSDT, 8 in the XSDT. */
static void read_root(const struct sdt *root, size_t width)
{
	acpi.present = true;
	for (size_t at = sizeof(*root); at + width <= root->length; at += width)
		read_table(field(root, at, width));
}

static const struct rsdp *scan_for_rsdp(phys_addr_t from, phys_addr_t to)
{
	for (phys_addr_t p = from; p < to; p += 16) {
		const struct rsdp *r = phys_to_virt(p);
		if (memcmp(r->signature, "RSD PTR ", 8) == 0 && checksum_ok(r, RSDP_V1_SIZE))
			return r;
	}
	return NULL;
}

static const struct rsdp *find_rsdp(void)
{
	const struct rsdp *r = boot_info.rsdp ? boot_phys(boot_info.rsdp, sizeof(*r)) : NULL;

	if (r && memcmp(r->signature, "RSD PTR ", 8) == 0 && checksum_ok(r, RSDP_V1_SIZE))
		return r;
	if (boot_info.uefi)
		return NULL;			/* only a BIOS leaves it in low memory */
	phys_addr_t ebda = (phys_addr_t)*(const u16 *)phys_to_virt(0x40e) << 4;
	if (ebda >= 0x80000 && ebda < 0xa0000)
		r = scan_for_rsdp(ebda, ebda + 1024);
	return r ? r : scan_for_rsdp(0xe0000, 0x100000);
}

void acpi_init(void)
{
	char value[8];

	for (u32 i = 0; i < ARRAY_SIZE(acpi.isa); i++)
		acpi.isa[i].gsi = i;
	if (cmdline_get("acpi", value, sizeof(value)) && strcmp(value, "off") == 0) {
		pr_info("ACPI: switched off by acpi=off: one CPU, 8259 interrupts");
		return;
	}
	const struct rsdp *rsdp = find_rsdp();
	if (!rsdp) {
		pr_warn("ACPI: no root pointer found: one CPU, 8259 interrupts");
		return;
	}

	const struct sdt *xsdt = rsdp->revision >= 2 ? sdt_at(rsdp->xsdt) : NULL;
	const struct sdt *rsdt = xsdt ? NULL : sdt_at(rsdp->rsdt);
	if (xsdt && memcmp(xsdt->signature, "XSDT", 4) == 0)
		read_root(xsdt, 8);
	else if (rsdt && memcmp(rsdt->signature, "RSDT", 4) == 0)
		read_root(rsdt, 4);
	else
		pr_warn("ACPI: the root table cannot be read");
	pr_info("ACPI: revision %u, %u CPUs, %u I/O APICs%s%s%s", rsdp->revision, acpi.nr_cpus_listed, acpi.nr_ioapics,
		acpi.hpet ? ", HPET" : "", acpi.pm_timer_port ? ", PM timer" : "", acpi.has_s5 ? ", power-off" : "");
	if (acpi.nr_cpus_listed > NR_CPUS)
		pr_warn("ACPI: %u CPUs, only the first %u will be used", acpi.nr_cpus_listed, NR_CPUS);
}
