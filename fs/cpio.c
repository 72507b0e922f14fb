/*
 * Archives in cpio's "newc" format, as the initramfs has them: a header of 110 hexadecimal digits, the name, the data, each
 * padded to four bytes; "TRAILER!!!" ends an archive, and another may follow.
 *
 * The buffer comes from a boot loader and may be anything. Lengths are compared with what is left before they are used, never
 * added to an offset first.
 */
#include "fs/cpio.h"
#include "kernel/errno.h"
#include "kernel/string.h"

#define HEADER_SIZE	110u
#define NR_FIELDS	13u
#define NAME_LIMIT	4096u
#define COMPONENT_LIMIT	255u

enum field { F_INO, F_MODE, F_UID, F_GID, F_NLINK, F_MTIME, F_SIZE, F_DEVMAJOR, F_DEVMINOR, F_RDEVMAJOR, F_RDEVMINOR, F_NAMESIZE, F_CHECK };

struct reader {
	const u8	*data;
	size_t		 len, pos;
	const char	*what;		/* set with the error */
};

static int fail(struct reader *r, const char *what)
{
	r->what = what;
	return -EINVAL;
}

/* Digits only: no sign, no blank, no 0x. */
static bool parse_hex8(const u8 *s, u32 *out)
{
	u32 v = 0;

	for (unsigned int i = 0; i < 8; i++) {
		u8 c = s[i], digit;

		if (c >= '0' && c <= '9')
			digit = (u8)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			digit = (u8)((c | 0x20) - 'a' + 10);
		else
			return false;
		v = v << 4 | digit;
	}
	*out = v;
	return true;
}

/* Leaves r->pos alone. */
static int parse_header(struct reader *r, u32 fields[NR_FIELDS])
{
	const u8 *h = r->data + r->pos;
	size_t left = r->len - r->pos;

	if (left >= 2 && h[0] == 0x1f && h[1] == 0x8b)
		return fail(r, "the archive is compressed with gzip, which this kernel does not unpack");
	if (left >= 6 && (!memcmp(h, "\xfd" "7zXZ", 5) || !memcmp(h, "\x28\xb5\x2f\xfd", 4)))
		return fail(r, "the archive is compressed, which this kernel does not unpack");
	if (left < HEADER_SIZE)
		return fail(r, "the archive ends within a header");
	if (memcmp(h, "070701", 6) && memcmp(h, "070702", 6))
		return fail(r, "no cpio header in newc format");
	for (unsigned int i = 0; i < NR_FIELDS; i++)
		if (!parse_hex8(h + 6 + i * 8, &fields[i]))
			return fail(r, "a header field is not a number");
	return 0;
}

/* Moves on by @n bytes and to the next multiple of four; false when the archive ends before that. */
static bool skip(struct reader *r, size_t n)
{
	if (n > r->len - r->pos)
		return false;
	r->pos += n;
	size_t pad = -r->pos & 3;

	/* The padding of the very last piece may be missing. */
	r->pos += pad < r->len - r->pos ? pad : r->len - r->pos;
	return true;
}

/* Is every component a plain name? */
static bool clean_name(const char *s)
{
	while (*s) {
		const char *end = s;

		while (*end && *end != '/')
			end++;
		size_t n = (size_t)(end - s);

		if (!n || n > COMPONENT_LIMIT || (n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
			return false;
		s = *end ? end + 1 : end;
		if (*end && !*s)
			return false;		/* ends in a slash */
	}
	return true;
}

/* The name at r->pos, without "/" or "./" in front; moves on behind it. */
static int parse_name(struct reader *r, u32 namesize, const char **out)
{
	const char *name = (const char *)r->data + r->pos;

	if (namesize < 2 || namesize > NAME_LIMIT)
		return fail(r, "a name is empty or too long");
	if (namesize > r->len - r->pos)
		return fail(r, "the archive ends within a name");
	if (memchr(name, 0, namesize) != name + namesize - 1)
		return fail(r, "a name is not terminated where its length says");
	while (*name == '/' || (name[0] == '.' && (name[1] == '/' || !name[1])))
		name++;
	if (!clean_name(name))
		return fail(r, "a name has an empty, '.' or '..' component, or one that is too long");
	*out = name;
	skip(r, namesize);
	return 0;
}

static int parse_entry(struct reader *r, cpio_entry_fn fn, void *ctx, bool *trailer)
{
	u32 f[NR_FIELDS];
	struct cpio_entry e = { 0 };
	int err = parse_header(r, f);

	if (err)
		return err;
	size_t start = r->pos;

	r->pos += HEADER_SIZE;
	err = parse_name(r, f[F_NAMESIZE], &e.name);
	if (err) {
		r->pos = start;
		return err;
	}
	e.ino = f[F_INO], e.mode = f[F_MODE], e.uid = f[F_UID], e.gid = f[F_GID], e.nlink = f[F_NLINK], e.mtime = f[F_MTIME];
	e.dev_major = f[F_DEVMAJOR], e.dev_minor = f[F_DEVMINOR], e.rdev_major = f[F_RDEVMAJOR], e.rdev_minor = f[F_RDEVMINOR];
	e.data = r->data + r->pos;
	e.size = f[F_SIZE];
	*trailer = !strcmp(e.name, "TRAILER!!!");
	if (*trailer)
		e = (struct cpio_entry){ 0 };
	if (!skip(r, f[F_SIZE])) {
		r->pos = start;
		return fail(r, "the archive ends within the data of a file");
	}
	return fn(ctx, &e);
}

int cpio_parse(const void *data, size_t len, cpio_entry_fn fn, void *ctx, struct cpio_error *err)
{
	struct reader r = { .data = data, .len = len };
	bool inside = false, trailer = false;
	int ret = 0;

	for (;;) {
		/* Zeros may fill the space between archives, and behind the last one. */
		while (!inside && r.pos < len && !r.data[r.pos])
			r.pos++;
		if (r.pos == len)
			break;
		ret = parse_entry(&r, fn, ctx, &trailer);
		if (ret)
			break;
		inside = !trailer;
	}
	if (!ret && inside)
		ret = fail(&r, "the archive ends without its trailer: it was cut off");
	if (r.what)
		*err = (struct cpio_error){ r.pos, r.what };
	return ret;
}
