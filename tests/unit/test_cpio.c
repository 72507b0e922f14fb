/*
 * The initramfs reader against good archives (several, padded, hard links, odd lengths), against every truncation of one, and
 * against a few hundred thousand mutations: an error or a parse, never a byte read outside (ASan: the buffer is exactly
 * as long as the archive) and never a name that could leave the root.
 *
 * sources: fs/cpio.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/cpio.h"

#define CHECK(cond) do { if (!(cond)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); exit(1); } } while (0)

static unsigned char archive[65536];
static size_t archive_len;

static void put(const void *p, size_t n)
{
	CHECK(archive_len + n <= sizeof(archive));
	memcpy(archive + archive_len, p, n);
	archive_len += n;
}

static void pad4(void)
{
	while (archive_len & 3)
		archive[archive_len++] = 0;
}

static void entry(const char *name, unsigned mode, unsigned ino, unsigned nlink, const char *data, size_t size)
{
	char header[111];

	sprintf(header, "070701%08X%08X%08X%08X%08X%08X%08zX%08X%08X%08X%08X%08zX%08X", ino, mode, 0u, 0u, nlink, 1700000000u, size,
		8u, 1u, 5u, 1u, strlen(name) + 1, 0u);
	put(header, 110);
	put(name, strlen(name) + 1);
	pad4();
	put(data, size);
	pad4();
}

static void trailer(void) { entry("TRAILER!!!", 0, 0, 1, "", 0); }

/* -- what came out -- */

static char seen[64][4200];
static size_t sizes[64], nr_seen, nr_ends, total;
static int stop_after = -1;
static const unsigned char *low, *high;		/* the buffer */

static int collect(void *ctx, const struct cpio_entry *e)
{
	(void)ctx;
	if (!e->name) {
		nr_ends++;
		return 0;
	}
	CHECK((const unsigned char *)e->name >= low && (const unsigned char *)e->name < high);
	CHECK(e->data >= low && e->data <= high && e->size <= (size_t)(high - e->data));
	size_t len = strlen(e->name);

	CHECK(len < 4096 && e->name[0] != '/');
	CHECK(strcmp(e->name, "..") && strncmp(e->name, "../", 3) && !strstr(e->name, "/../"));
	CHECK(len < 3 || strcmp(e->name + len - 3, "/.."));
	for (size_t i = 0; i < e->size; i++)
		total += e->data[i];
	if (nr_seen < 64) {
		strcpy(seen[nr_seen], e->name);
		sizes[nr_seen] = e->size;
	}
	nr_seen++;
	return stop_after >= 0 && (int)nr_seen > stop_after ? -77 : 0;
}

static struct cpio_error error;

static int parse(const void *data, size_t len)
{
	unsigned char *exact = malloc(len ? len : 1);	/* ASan sees the first byte too many */

	if (len)
		memcpy(exact, data, len);
	nr_seen = nr_ends = 0;
	error = (struct cpio_error){ 0, NULL };
	low = exact, high = exact + len;
	int ret = cpio_parse(exact, len, collect, NULL, &error);

	CHECK(ret != -22 || (error.what && error.offset <= len));
	free(exact);
	return ret;
}

static void good_archive(void)
{
	archive_len = 0;
	entry(".", 040755, 1, 2, "", 0);
	entry("./dev", 040755, 2, 2, "", 0);
	entry("/dev/console", 020600, 3, 1, "", 0);
	entry("bin/a", 0100755, 4, 2, "", 0);
	entry("bin/b", 0100755, 4, 2, "shared data", 11);
	entry("link", 0120777, 5, 1, "bin/a", 5);
	entry("odd", 0100644, 6, 1, "x", 1);
	trailer();
}

static void test_good(void)
{
	good_archive();
	CHECK(parse(archive, archive_len) == 0);
	CHECK(nr_seen == 7 && nr_ends == 1 && !error.what);
	CHECK(!strcmp(seen[0], "") && !strcmp(seen[1], "dev") && !strcmp(seen[2], "dev/console") && !strcmp(seen[4], "bin/b"));
	CHECK(sizes[4] == 11 && sizes[6] == 1);
}

static void test_concatenated(void)
{
	good_archive();
	archive_len += 512 - archive_len % 512;		/* as cpio pads */
	entry("second", 0100644, 1, 1, "2", 1);
	trailer();
	memset(archive + archive_len, 0, 1000);
	archive_len += 1000;
	CHECK(parse(archive, archive_len) == 0);
	CHECK(nr_seen == 8 && nr_ends == 2 && !strcmp(seen[7], "second"));
	CHECK(parse("", 0) == 0 && nr_seen == 0);
	CHECK(parse("\0\0\0\0\0", 5) == 0 && nr_seen == 0);
}

/* Cut anywhere but between the header's last needed byte and its padding, an archive is damaged and says so. */
static void test_truncated(void)
{
	good_archive();
	for (size_t len = 1; len < archive_len - 3; len++) {
		CHECK(parse(archive, len) == -22);
		CHECK(error.what && nr_ends == 0);
	}
}

static void one(const char *name, unsigned mode, const char *data, size_t size)
{
	archive_len = 0;
	entry(name, mode, 1, 1, data, size);
	trailer();
}

static void test_bad_names(void)
{
	static const char *const bad[] = { "..", "../etc/passwd", "a/../../b", "a/..", "a//b", "a/", "a/./b", "./../x", "/../x" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		one(bad[i], 0100644, "", 0);
		CHECK(parse(archive, archive_len) == -22 && nr_seen == 0);
	}
	char name[5000];

	memset(name, 'n', sizeof(name));
	name[256] = 0;
	one(name, 0100644, "", 0);
	CHECK(parse(archive, archive_len) == -22);
	name[256] = 'n', name[255] = 0;
	one(name, 0100644, "", 0);
	CHECK(parse(archive, archive_len) == 0 && nr_seen == 1);
	name[255] = 'n', name[4999] = 0;
	one(name, 0100644, "", 0);
	CHECK(parse(archive, archive_len) == -22);
	one("with NUL", 0100644, "", 0);
	archive[110 + 3] = 0;
	CHECK(parse(archive, archive_len) == -22);
	one("no NUL", 0100644, "", 0);
	archive[110 + 6] = 'x';
	CHECK(parse(archive, archive_len) == -22);
}

static void field(unsigned n, const char *digits) { memcpy(archive + 6 + n * 8, digits, 8); }

static void test_bad_numbers(void)
{
	one("file", 0100644, "data", 4);
	field(6, "FFFFFFFF");				/* size of 4 GiB */
	CHECK(parse(archive, archive_len) == -22 && strstr(error.what, "data"));
	field(6, "00000004");
	field(11, "FFFFFFFF");				/* name of 4 GiB */
	CHECK(parse(archive, archive_len) == -22);
	field(11, "00000000");
	CHECK(parse(archive, archive_len) == -22);
	field(11, "-0000005");
	CHECK(parse(archive, archive_len) == -22 && strstr(error.what, "number"));
	field(11, "  000005");
	CHECK(parse(archive, archive_len) == -22);
	field(11, "00000005");
	CHECK(parse(archive, archive_len) == 0);
	archive[5] = '7';				/* old binary and ODC formats are others */
	CHECK(parse(archive, archive_len) == -22);
	CHECK(parse("\x1f\x8b\x08\0\0\0\0\0", 8) == -22 && strstr(error.what, "gzip"));
}

static void test_callback_stops(void)
{
	good_archive();
	stop_after = 2;
	CHECK(parse(archive, archive_len) == -77 && nr_seen == 3);
	stop_after = -1;
}

static unsigned long long state = 88172645463325252ull;
static unsigned rnd(unsigned n)
{
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (unsigned)(state >> 20) % n;
}

static void test_mutations(void)
{
	static unsigned char copy[65536];

	for (int round = 0; round < 300000; round++) {
		good_archive();
		if (round & 1) {
			entry("more/of/it", 0100644, 9, 1, "0123456789abcdef", rnd(17));
			trailer();
		}
		size_t len = archive_len - (rnd(4) ? 0 : rnd((unsigned)archive_len));

		memcpy(copy, archive, len);
		for (unsigned n = 1 + rnd(4); n && len; n--) {
			unsigned char *p = copy + rnd((unsigned)len);

			switch (rnd(4)) {
			case 0: *p = (unsigned char)rnd(256); break;
			case 1: *p = "0123456789ABCDEFf/.\0"[rnd(20)]; break;
			case 2: *p ^= (unsigned char)(1 << rnd(8)); break;
			default: memmove(p, copy + rnd((unsigned)len), (size_t)(copy + len - p) / 8); break;
			}
		}
		(void)parse(copy, len);
	}
}

int main(void)
{
	test_good();
	test_concatenated();
	test_truncated();
	test_bad_names();
	test_bad_numbers();
	test_callback_stops();
	test_mutations();
	printf("cpio: all well (%zu)\n", total);
	return 0;
}
