/*
 * Who may reach which memory: units from the DMAR table, a context entry for each function, second-stage tables for each that a driver
 * holds (kernel/iommu.h says what for).
 *
 * Default deny: a context entry is present while its function has a domain, from the first iommu_map() until iommu_release(). What the
 * kernel uses itself passes untranslated (bridges, the screen), and what the firmware goes on using (RMRR), until a driver takes it.
 *
 * Taking away is done for a whole domain at once: entry out, caches emptied, then the tables are freed. There is no other unmap, so
 * there is no moment at which a page is free and a stale translation alive.
 */
#include "kernel/iommu.h"

#include "kernel/cmdline.h"
#include "kernel/errno.h"
#include "kernel/panic.h"
#include "kernel/pci.h"
#include "kernel/printk.h"
#include "kernel/string.h"
#include "kernel/x86/acpi.h"
#include "kernel/x86/dmar.h"
#include "kernel/x86/iommu_unit.h"
#include "mm/frame.h"

/* 9.8: an entry of a second-stage table */
#define SL_READ		BIT(0)
#define SL_WRITE	BIT(1)
#define SL_ADDRESS	0x000ffffffffff000ul
#define SL_INDEX_BITS	9u
#define SL_ENTRIES	(1u << SL_INDEX_BITS)

/* Of one holder: so many lines in the log, and after so many its faults are not even recorded, or it could keep a CPU busy. */
#define FAULTS_LOGGED	8u
#define FAULTS_HEARD	32u

static struct iommu_unit units[DMAR_MAX_UNITS];		/* constant after boot */
static unsigned int nr_units;

/* -- tables ---------------------------------------------------------------------------------------------------------------- */

/* A zeroed page that the unit can see, or NULL. */
static u64 *table_alloc(const struct iommu_unit *u)
{
	struct page *page = alloc_pages(GFP_KERNEL | GFP_ZERO, 0);

	if (!page)
		return NULL;
	unit_wrote(u, page_to_virt(page), SL_ENTRIES);
	return page_to_virt(page);
}

static u64 *table_at(u64 entry) { return phys_to_virt(entry & SL_ADDRESS); }

/* @level 1: its entries are pages of the driver, which are not ours to free. */
static void table_free(u64 *table, unsigned int level)
{
	for (unsigned int i = 0; level > 1 && i < SL_ENTRIES; i++)
		if (table[i])
			table_free(table_at(table[i]), level - 1);
	free_pages(virt_to_page(table), 0);
}

/* The entry of the last level for @phys, with the tables on the way made; NULL: no memory. */
static u64 *walk(const struct iommu_unit *u, u64 *table, phys_addr_t phys)
{
	for (unsigned int level = u->levels; level > 1; level--) {
		u64 *entry = &table[phys >> (PAGE_SHIFT + (level - 1) * SL_INDEX_BITS) & (SL_ENTRIES - 1)];

		if (!*entry) {
			u64 *below = table_alloc(u);

			if (!below)
				return NULL;
			WRITE_ONCE(*entry, virt_to_phys(below) | SL_READ | SL_WRITE);
			unit_wrote(u, entry, 1);
		}
		table = table_at(*entry);
	}
	return &table[phys >> PAGE_SHIFT & (SL_ENTRIES - 1)];
}

/* -- context entries ------------------------------------------------------------------------------------------------------- */

/* NULL: that bus has no function (and so no table). */
static u64 *context_of(const struct iommu_unit *u, u32 bdf)
{
	u64 root = u->root[2 * (bdf >> 8)];

	return root & CTX_PRESENT ? table_at(root) + 2 * (bdf & 0xff) : NULL;
}

/* u->lock held, or boot. The present bit is in the word that is written last. */
static void context_set(const struct iommu_unit *u, u64 *context, u64 low, u64 high)
{
	WRITE_ONCE(context[1], high);
	unit_wrote(u, context + 1, 1);
	WRITE_ONCE(context[0], low);
	unit_wrote(u, context, 1);
}

/* A present entry may not be changed under the unit's eyes: first it goes, and is forgotten. */
static bool context_replace(struct pci_function *f, u64 low, u64 high)
{
	struct iommu_unit *u = f->iommu;
	u64 *context = context_of(u, pci_bdf(f));
	unsigned long flags = spin_lock_irqsave(&u->lock);
	bool good = true;

	if (context[0] & CTX_PRESENT) {
		context_set(u, context, 0, 0);
		good = unit_invalidate(u);
	}
	context_set(u, context, low, high);
	good = unit_invalidate(u) && good;
	spin_unlock_irqrestore(&u->lock, flags);
	return good;
}

static bool forget(struct iommu_unit *u)
{
	unsigned long flags = spin_lock_irqsave(&u->lock);
	bool good = unit_invalidate(u);

	spin_unlock_irqrestore(&u->lock, flags);
	return good;
}

/* -- domains --------------------------------------------------------------------------------------------------------------- */

int iommu_hold(struct pci_function *f)
{
	assert(mutex_is_held(&f->mutex));
	if (!f->iommu || !f->iommu_passes)
		return 0;
	if (!context_replace(f, 0, 0))
		return -EIO;		/* still passes, as far as anybody knows: nobody gets it */
	f->iommu_passes = false;
	return 0;
}

int iommu_map(struct pci_function *f, phys_addr_t phys, u64 size)
{
	struct iommu_unit *u = f->iommu;
	bool good = true;

	assert(mutex_is_held(&f->mutex) && IS_ALIGNED(phys | size, PAGE_SIZE));
	if (!u)
		return 0;
	if (!f->iommu_domain)
		return -ENOSPC;
	if (phys + size > BIT(PAGE_SHIFT + u->levels * SL_INDEX_BITS))
		return -ENOMEM;		/* memory that its tables cannot name */
	if (!f->iommu_table && !(f->iommu_table = table_alloc(u)))
		return -ENOMEM;
	/* Tables that are made here stay, empty if need be, until the domain goes. */
	for (phys_addr_t p = phys; p < phys + size; p += PAGE_SIZE)
		if (!walk(u, f->iommu_table, p))
			return -ENOMEM;

	/* Nothing below this line can fail: a unit that has stopped answering is noticed by iommu_release(), in time for the memory. */
	for (phys_addr_t p = phys; p < phys + size; p += PAGE_SIZE) {
		u64 *entry = walk(u, f->iommu_table, p);

		assert(!*entry);
		WRITE_ONCE(*entry, p | SL_READ | SL_WRITE);
		unit_wrote(u, entry, 1);
	}
	if (!f->iommu_pages)
		good = context_replace(f, virt_to_phys(f->iommu_table) | CTX_PRESENT, CTX_WIDTH(u->levels) | CTX_DOMAIN(f->iommu_domain));
	else if (u->caches_absent)	/* others do not remember that an entry was not there */
		good = forget(u);
	if (!good)
		pr_err("iommu: the unit at %lx does not answer", u->base);
	f->iommu_pages += size >> PAGE_SHIFT;
	return 0;
}

bool iommu_release(struct pci_function *f)
{
	bool good = true;

	assert(mutex_is_held(&f->mutex));
	if (!f->iommu)
		return true;
	if (f->iommu_table || READ_ONCE(f->iommu_faults) >= FAULTS_HEARD)
		good = context_replace(f, 0, 0);
	if (!good)
		pr_err("iommu: pci %02x:%02x.%u: the unit does not answer; its memory is lost", f->bus, f->device, f->function);
	else if (f->iommu_table)
		table_free(f->iommu_table, f->iommu->levels);
	f->iommu_table = NULL;
	f->iommu_pages = 0;
	WRITE_ONCE(f->iommu_faults, 0);
	return good;
}

/* -- faults ---------------------------------------------------------------------------------------------------------------- */

/* 7.1.3, those of tables like ours; all the others are mistakes of ours in making them. */
static const char *reason_text(unsigned int reason)
{
	switch (reason) {
	case 1: case 2:	return "no driver holds it";
	case 4:		return "beyond the width of addresses";
	case 5: case 6:	return "not given to it";
	}
	return "the tables are broken";
}

/* Its faults are not recorded any more, until context_replace(). */
static void silence(struct iommu_unit *u, u32 bdf)
{
	unsigned long flags = spin_lock_irqsave(&u->lock);
	u64 *context = context_of(u, bdf);

	if (context) {
		WRITE_ONCE(context[0], context[0] | CTX_SILENT);
		unit_wrote(u, context, 1);
		(void)unit_invalidate(u);	/* nothing is taken away here */
	}
	spin_unlock_irqrestore(&u->lock, flags);
}

/* Interrupts off. */
void iommu_fault(struct iommu_unit *u, u32 bdf, u64 addr, bool write, unsigned int reason)
{
	struct pci_function *f, *who = NULL;

	for_each_pci_function(f)
		if (pci_bdf(f) == bdf)
			who = f;
	unsigned int before = who ? __atomic_fetch_add(&who->iommu_faults, 1, __ATOMIC_RELAXED) : 0;

	if (before < FAULTS_LOGGED)
		pr_warn("iommu: pci %02x:%02x.%u: %s at %012lx refused: %s (reason %u)", bdf >> 8, bdf >> 3 & 31, bdf & 7,
			write ? "write" : "read", addr, reason_text(reason), reason);
	if (who && before == FAULTS_HEARD - 1) {
		pr_warn("iommu: pci %02x:%02x.%u: %u faults; not listening to it any more until it is released", who->bus, who->device,
			who->function, FAULTS_HEARD);
		silence(u, bdf);
	}
	__atomic_fetch_add(&u->faults, 1, __ATOMIC_RELAXED);
}

ssize_t iommu_show(char *buf, size_t size)
{
	struct pci_function *f;
	u64 faults = 0;
	int n;

	for (unsigned int i = 0; i < nr_units; i++)
		faults += __atomic_load_n(&units[i].faults, __ATOMIC_RELAXED);
	n = scnprintf(buf, size, "units %u\nfaults %lu\n", nr_units, faults);
	for_each_pci_function(f)
		if (f->iommu && READ_ONCE(f->iommu_pages))
			n += scnprintf(buf + n, size - (size_t)n, "pci %02x:%02x.%u domain %u pages %lu faults %u\n", f->bus, f->device, f->function,
				       f->iommu_domain, READ_ONCE(f->iommu_pages), READ_ONCE(f->iommu_faults));
	return n;
}

/* -- boot ------------------------------------------------------------------------------------------------------------------ */

/* Does the scope name @f, or a bridge that @f is behind? */
static bool scope_has(const struct dmar_scope *s, const struct pci_function *f)
{
	u32 bus = s->bus, bdf = 0;

	for (u8 i = 0; i < s->depth; i++) {
		bdf = bus << 8 | (u32)s->path[i].device << 3 | s->path[i].function;
		if (i + 1 < s->depth)
			bus = pci_port_read(bdf, PCI_SECONDARY_BUS, 1);
	}
	if (pci_bdf(f) == bdf)
		return true;
	return s->bridge && f->bus >= pci_port_read(bdf, PCI_SECONDARY_BUS, 1) && f->bus <= pci_port_read(bdf, PCI_SUBORDINATE_BUS, 1) && f->bus;
}

static struct iommu_unit *unit_for(const struct dmar_info *dmar, const struct pci_function *f, bool *reserved)
{
	struct iommu_unit *named = NULL, *rest = NULL;

	*reserved = false;
	for (unsigned int i = 0; i < dmar->nr_scopes; i++) {
		if (!scope_has(&dmar->scopes[i], f))
			continue;
		if (dmar->scopes[i].unit == DMAR_RESERVED)
			*reserved = true;
		else
			named = &units[dmar->scopes[i].unit];
	}
	for (unsigned int i = 0; i < dmar->nr_units; i++)
		if (dmar->units[i].all)
			rest = &units[i];
	return named ? named : rest;
}

/* The table of its bus; true: there is one. */
static bool make_context_table(struct iommu_unit *u, u32 bus)
{
	if (u->root[2 * bus])
		return true;
	u64 *table = table_alloc(u);

	if (!table)
		return false;
	u->root[2 * bus] = virt_to_phys(table) | CTX_PRESENT;
	unit_wrote(u, &u->root[2 * bus], 1);
	return true;
}

/* Puts every function where it belongs. False: no memory. */
static bool place_functions(const struct dmar_info *dmar)
{
	unsigned int next[DMAR_MAX_UNITS];
	struct pci_function *f;

	for (unsigned int i = 0; i < dmar->nr_units; i++)
		next[i] = DOMAIN_FIRST;
	for_each_pci_function(f) {
		bool reserved;
		struct iommu_unit *u = unit_for(dmar, f, &reserved);

		if (!u || !u->regs)
			continue;
		if (!make_context_table(u, f->bus))
			return false;
		f->iommu = u;
		if (f->is_bridge || f->kernel_uses || reserved) {
			f->iommu_passes = u->can_pass;
			if (u->can_pass)
				context_set(u, context_of(u, pci_bdf(f)), CTX_PRESENT | CTX_PASS, CTX_WIDTH(u->levels) | CTX_DOMAIN(DOMAIN_PASS));
		}
		if (!f->is_bridge && !f->kernel_uses && next[u - units] < u->nr_domains)
			f->iommu_domain = (u16)next[u - units]++;
	}
	return true;
}

static void trust_all(const char *why)
{
	struct pci_function *f;

	pr_warn("iommu: %s: drivers are trusted with the addresses that they give their devices", why);
	for_each_pci_function(f)
		f->iommu = NULL;
	nr_units = 0;
}

static void start_units(const struct dmar_info *dmar)
{
	for (unsigned int i = 0; i < dmar->nr_units; i++) {
		struct iommu_unit *u = &units[i];
		const char *why;

		u->base = dmar->units[i].base;
		u->lock = (struct spinlock)SPINLOCK_INIT(LOCK_LEAF_IRQ);
		why = unit_probe(u);
		if (!why && !(u->root = table_alloc(u)))
			why = "no memory for its tables";
		if (why) {
			pr_warn("iommu: the unit at %lx cannot be used: %s", u->base, why);
			u->regs = NULL;
		}
	}
	nr_units = dmar->nr_units;
	if (!place_functions(dmar)) {
		trust_all("no memory for tables");
		return;
	}
	for (unsigned int i = 0; i < nr_units; i++) {
		struct iommu_unit *u = &units[i];
		struct pci_function *f;

		if (!u->regs)
			continue;
		if (unit_start(u)) {
			pr_info("iommu: unit at %lx: %u levels, %u domains: a device reaches only what its driver was given", u->base, u->levels, u->nr_domains);
			continue;
		}
		pr_err("iommu: the unit at %lx does not start; drivers behind it are trusted", u->base);
		for_each_pci_function(f)
			if (f->iommu == u)
				f->iommu = NULL;
	}
}

void iommu_init(void)
{
	static struct dmar_info dmar;
	char value[8];

	if (cmdline_get("iommu", value, sizeof(value)) && strcmp(value, "off") == 0) {
		pr_info("iommu: switched off by iommu=off");
		return;
	}
	if (!acpi.dmar_length) {
		pr_info("iommu: none: drivers are trusted with the addresses that they give their devices");
		return;
	}
	int err = acpi.dmar_length > sizeof(acpi.dmar) ? -ENOSPC : dmar_parse(acpi.dmar, acpi.dmar_length, &dmar);

	if (err)
		trust_all(err == -ENOSPC ? "the DMAR table is longer than any that we know" : "the DMAR table contradicts itself");
	else if (!dmar.nr_units)
		trust_all("the DMAR table has no unit");
	else
		start_units(&dmar);
}
