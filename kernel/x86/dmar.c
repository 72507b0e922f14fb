/*
 * Reading the DMAR table. It is input from outside: a record counts only if it ends inside the table, and a scope if it ends inside
 * its record. A table that breaks this is refused as a whole: half an answer to "who is confined by whom" is a wrong one.
 */
#include "kernel/x86/dmar.h"

#include "kernel/errno.h"
#include "kernel/string.h"

#define TABLE_HEAD	48u		/* the common 36 bytes, address width, flags, 10 reserved */
#define RECORD_HEAD	4u		/* type, length */

enum { RECORD_DRHD = 0, RECORD_RMRR = 1 };
#define DRHD_HEAD	16u
#define  DRHD_ALL	1u
#define RMRR_HEAD	24u

enum { SCOPE_ENDPOINT = 1, SCOPE_BRIDGE = 2 };	/* others are interrupt controllers and timers */
#define SCOPE_HEAD	6u

static u64 get(const u8 *p, unsigned int n)
{
	u64 v = 0;

	memcpy(&v, p, n);
	return v;
}

/* @p: the scopes at the end of a record, of @left bytes. */
static int parse_scopes(const u8 *p, u32 left, u8 unit, struct dmar_info *out)
{
	while (left) {
		u8 length = left >= SCOPE_HEAD ? p[1] : 0;

		if (length < SCOPE_HEAD + 2 || length > left || length % 2)
			return -EINVAL;
		if (p[0] == SCOPE_ENDPOINT || p[0] == SCOPE_BRIDGE) {
			u8 depth = (u8)((length - SCOPE_HEAD) / 2);

			if (out->nr_scopes == DMAR_MAX_SCOPES || depth > DMAR_MAX_DEPTH)
				return -ENOSPC;
			struct dmar_scope *s = &out->scopes[out->nr_scopes++];

			*s = (struct dmar_scope){ .unit = unit, .bridge = p[0] == SCOPE_BRIDGE, .bus = p[5], .depth = depth };
			for (u8 i = 0; i < depth; i++) {
				s->path[i].device = p[SCOPE_HEAD + 2 * i] & 31;
				s->path[i].function = p[SCOPE_HEAD + 2 * i + 1] & 7;
			}
		}
		p += length;
		left -= length;
	}
	return 0;
}

static int parse_drhd(const u8 *p, u32 length, struct dmar_info *out)
{
	phys_addr_t base = length >= DRHD_HEAD ? get(p + 8, 8) : 0;

	if (!base || !IS_ALIGNED(base, PAGE_SIZE))
		return -EINVAL;
	if (get(p + 6, 2) != 0)		/* segment */
		return 0;
	if (out->nr_units == DMAR_MAX_UNITS)
		return -ENOSPC;
	out->units[out->nr_units].base = base;
	out->units[out->nr_units].all = p[4] & DRHD_ALL;
	return parse_scopes(p + DRHD_HEAD, length - DRHD_HEAD, (u8)out->nr_units++, out);
}

static int parse_rmrr(const u8 *p, u32 length, struct dmar_info *out)
{
	if (length < RMRR_HEAD)
		return -EINVAL;
	return get(p + 6, 2) ? 0 : parse_scopes(p + RMRR_HEAD, length - RMRR_HEAD, DMAR_RESERVED, out);
}

int dmar_parse(const u8 *table, u32 length, struct dmar_info *out)
{
	*out = (struct dmar_info){ 0 };
	if (length < TABLE_HEAD)
		return -EINVAL;
	for (u32 at = TABLE_HEAD; at < length; ) {
		u32 type, n;
		int err = 0;

		if (length - at < RECORD_HEAD)
			return -EINVAL;
		type = (u32)get(table + at, 2);
		n = (u32)get(table + at + 2, 2);
		if (n < RECORD_HEAD || n > length - at)
			return -EINVAL;
		if (type == RECORD_DRHD)
			err = parse_drhd(table + at, n, out);
		else if (type == RECORD_RMRR)
			err = parse_rmrr(table + at, n, out);
		if (err)
			return err;
		at += n;
	}
	return 0;
}
