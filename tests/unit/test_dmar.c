/*
 * The DMAR table as firmware makes it, as firmware should not make it, and at random.
 *
 * sources: kernel/x86/dmar.c
 */
#include "kernel/x86/dmar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/errno.h"

#define CHECK(x) do { if (!(x)) { printf("%s:%d: %s\n", __FILE__, __LINE__, #x); exit(1); } } while (0)

/* Two units (one with an endpoint behind a bridge, one with the rest), one reserved region, one record of a kind that we skip. */
static const u8 good[] = {
	[0] = 'D', 'M', 'A', 'R',	[36] = 38, 1,	[47] = 0,
	0, 0, 26, 0,	0, 0, 0, 0,	0, 0x10, 0xd9, 0xfe, 0, 0, 0, 0,	/* DRHD at fed91000 */
		1, 10, 0, 0, 0, 0,	1, 2, 3, 4,				/* 00:01.2, behind it xx:03.4 */
	1, 0, 32, 0,	0, 0, 0, 0,	0, 0, 0, 8, 0, 0, 0, 0,	0xff, 0xff, 0, 8, 0, 0, 0, 0,	/* RMRR */
		1, 8, 0, 0, 0, 0,	0x1d, 0,				/* 00:1d.0 */
	2, 0, 8, 0,	0, 0, 0, 0,						/* ATSR */
	0, 0, 24, 0,	1, 0, 0, 0,	0, 0x00, 0xd9, 0xfe, 0, 0, 0, 0,	/* DRHD at fed90000: all others */
		3, 8, 0, 2, 0xf0, 0,	0x1f, 0,				/* an I/O APIC */
};

static void whole(void)
{
	struct dmar_info d;

	CHECK(dmar_parse(good, sizeof(good), &d) == 0);
	CHECK(d.nr_units == 2 && d.units[0].base == 0xfed91000 && !d.units[0].all && d.units[1].base == 0xfed90000 && d.units[1].all);
	CHECK(d.nr_scopes == 2);
	CHECK(d.scopes[0].unit == 0 && d.scopes[0].depth == 2 && d.scopes[0].path[0].device == 1 && d.scopes[0].path[0].function == 2 &&
	      d.scopes[0].path[1].device == 3 && d.scopes[0].path[1].function == 4 && !d.scopes[0].bridge);
	CHECK(d.scopes[1].unit == DMAR_RESERVED && d.scopes[1].depth == 1 && d.scopes[1].path[0].device == 0x1d);
}

/* A copy of exactly so many bytes, so that the sanitizer sees one read too far. */
static int parse_copy(const u8 *table, u32 length, struct dmar_info *d)
{
	u8 *p = malloc(length ? length : 1);

	memcpy(p, table, length);
	int err = dmar_parse(p, length, d);

	free(p);
	return err;
}

static void cut_short(void)
{
	static const u32 whole_records[] = { 48, 74, 106, 114, 138 };
	struct dmar_info d;

	for (u32 n = 0; n <= sizeof(good); n++) {
		bool ends = false;

		for (unsigned int i = 0; i < 5; i++)
			ends |= n == whole_records[i];
		CHECK(parse_copy(good, n, &d) == (ends ? 0 : -EINVAL));
	}
}

static void broken(void)
{
	static const struct { u32 at; u8 value; int err; } cases[] = {
		{ 50, 3, -EINVAL },		/* a record shorter than its head: going on would not end */
		{ 50, 0, -EINVAL },
		{ 51, 1, -EINVAL },		/* longer than the table */
		{ 50, 15, -EINVAL },		/* no room for the address */
		{ 57, 0x18, -EINVAL },		/* registers that do not begin with a page */
		{ 65, 0, -EINVAL },		/* scopes: length 0, odd, beyond the record, without a path */
		{ 65, 9, -EINVAL },
		{ 65, 12, -EINVAL },
		{ 65, 6, -EINVAL },
	};
	u8 table[sizeof(good)];
	struct dmar_info d;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(table, good, sizeof(good));
		table[cases[i].at] = cases[i].value;
		CHECK(parse_copy(table, sizeof(table), &d) == cases[i].err);
	}
	/* Another segment is not ours; nothing is wrong with it. */
	memcpy(table, good, sizeof(good));
	table[54] = 1;
	CHECK(parse_copy(table, sizeof(table), &d) == 0 && d.nr_units == 1 && d.units[0].base == 0xfed90000);
}

static void too_many(void)
{
	static u8 table[48 + 16 * (DMAR_MAX_UNITS + 1)], scopes[48 + 16 + 8 * (DMAR_MAX_SCOPES + 1)];
	struct dmar_info d;

	for (u32 at = 48; at < sizeof(table); at += 16)
		memcpy(table + at, (const u8[16]){ 0, 0, 16, 0, 0, 0, 0, 0, 0, 0x10 }, 16);
	CHECK(parse_copy(table, sizeof(table) - 16, &d) == 0 && d.nr_units == DMAR_MAX_UNITS);
	CHECK(parse_copy(table, sizeof(table), &d) == -ENOSPC);
	memcpy(scopes + 48, (const u8[16]){ 0, 0, (sizeof(scopes) - 48) & 255, (sizeof(scopes) - 48) >> 8, 0, 0, 0, 0, 0, 0x10 }, 16);
	for (u32 at = 64; at < sizeof(scopes); at += 8)
		memcpy(scopes + at, (const u8[8]){ 1, 8, 0, 0, 0, 0, 2, 0 }, 8);
	CHECK(parse_copy(scopes, sizeof(scopes), &d) == -ENOSPC);
}

/* Whatever comes: an end, and nothing out of bounds. */
static void random_tables(void)
{
	u8 table[sizeof(good)];
	struct dmar_info d;

	srand(1);
	for (int round = 0; round < 200000; round++) {
		memcpy(table, good, sizeof(good));
		for (int n = rand() % 6; n >= 0; n--)
			table[48 + (size_t)rand() % (sizeof(good) - 48)] = (u8)(rand() % 3 ? rand() % 40 : rand());
		int err = parse_copy(table, 48 + (u32)rand() % (sizeof(good) - 47), &d);

		CHECK(err == 0 || err == -EINVAL || err == -ENOSPC);
		CHECK(d.nr_units <= DMAR_MAX_UNITS && d.nr_scopes <= DMAR_MAX_SCOPES);
		for (unsigned int i = 0; i < d.nr_scopes && !err; i++)
			CHECK(d.scopes[i].depth >= 1 && d.scopes[i].depth <= DMAR_MAX_DEPTH &&
			      (d.scopes[i].unit == DMAR_RESERVED || d.scopes[i].unit < d.nr_units));
	}
}

int main(void)
{
	whole();
	cut_short();
	broken();
	too_many();
	random_tables();
	return 0;
}
