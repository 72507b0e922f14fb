/* Reader of cpio archives in the "newc" format: a pure function over a buffer, so that the host can test it. */
#ifndef FS_CPIO_H
#define FS_CPIO_H

#include "kernel/types.h"

struct cpio_entry {
	const char	*name;		/* relative, clean: no empty, "." or ".." component; NULL: end of one archive; "" the root */
	u32		 ino, mode, uid, gid, nlink, mtime;
	u32		 dev_major, dev_minor, rdev_major, rdev_minor;
	const u8	*data;
	size_t		 size;
};

struct cpio_error {
	size_t		 offset;	/* where in the buffer */
	const char	*what;		/* a sentence without a stop */
};

/* 0 to go on; anything else ends the parse and is returned. */
typedef int (*cpio_entry_fn)(void *ctx, const struct cpio_entry *e);

/*
 * Calls @fn for each entry of the archives in @data, which may be several in a row with zeros between them. 0, what @fn
 * returned, or -EINVAL with @err filled. Never reads outside of [data, data + len); what was reported before an error stands.
 */
int cpio_parse(const void *data, size_t len, cpio_entry_fn fn, void *ctx, struct cpio_error *err);

#endif
