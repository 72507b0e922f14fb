/*
 * serverfs: what is in the files. Their pages are those of the page cache (mm/filemap.c, mm/writeback.c); here is how one page gets
 * to the server and back.
 *
 * Reading waits for the answer, with the page's folio lock and nothing else held: the fault has let go of its lock (mm/filemap.c,
 * fault_read_page). The page itself is lent, so the server's bytes arrive where they belong.
 *
 * Writing does not wait: the call has no caller. Its answer, or the server's death, puts the record into fs->written, and a work
 * ends the write-back:
 *
 *	  write_page()          server                  under the port's lock        work: serverfs_written()
 *	-------------->  port  ------->  reply or death ---------------------> list ------------------> page_end_writeback()
 *											     or page_return_unwritten()
 *
 * The rule that is easy to break: cutting a file. The server is told before the pages go, or a write-back that is under way could
 * make the file long again. So i_size is lowered first, from then on nothing behind it is sent; what was sent is waited for.
 */
#include "fs/serverfs.h"

#include "kernel/string.h"
#include "mm/fault_internal.h"
#include "mm/slab.h"

#define END_OF_FILE	((loff_t)(INT64_MAX & PAGE_MASK))

/* A page on its way to the server. */
struct page_write {
	struct port_call call;
	struct list_head node;		/* fs->writes_lock  in fs->written */
	struct serverfs	*fs;		/* there: a file under write-back holds its super block */
	struct page	*page;		/* under write-back, which counts it */
	u32		 size;
};

/* -- reading -- */

static void zero_page_from(struct page *page, u32 from)
{
	memset((char *)page_to_virt(page) + from, 0, PAGE_SIZE - from);
}

/* How many bytes of @page lie before the end of its file. */
static u32 bytes_in_file(const struct mapping *m, const struct page *page)
{
	u64 size = READ_ONCE(m->host->size), start = page->index << PAGE_SHIFT;

	return size > start ? (u32)min(size - start, PAGE_SIZE) : 0;
}

static int serverfs_read_page(struct mapping *m, struct page *page)
{
	u32 size = bytes_in_file(m, page);
	struct fs_question q = { .req = { .op = FL_FS_READ, .node = node_id(m->host), .offset = page->index << PAGE_SHIFT, .size = size },
				 .lent = page_to_virt(page), .rights = FL_LENT_W };

	zero_page_from(page, 0);		/* a server that says it has written, and has not, shows nothing of others */
	if (!size)
		return 0;
	int err = serverfs_ask(serverfs_of(m->host), &q);

	if (!err)
		zero_page_from(page, min((u32)q.ans.result, bytes_in_file(m, page)));	/* it may have been cut meanwhile */
	return err;
}

/* -- writing -- */

/* Under the port's lock. */
static void write_answered(struct port_call *call)
{
	struct page_write *w = container_of(call, struct page_write, call);
	struct serverfs *fs = w->fs;

	spin_lock(&fs->writes_lock);
	list_add_tail(&w->node, &fs->written);
	refcount_inc(&fs->refs);		/* the work's, if it was not queued already. Not the last one: @w is not through */
	if (!schedule_work(&fs->work)) {
		bool last = refcount_dec_and_test(&fs->refs);

		BUG_ON(last);
	}
	spin_unlock(&fs->writes_lock);
}

/* What the server says about a page. 0 or -errno; -EPIPE: nothing, it is dead. */
static int write_result(const struct page_write *w)
{
	struct fl_fs_ans ans;

	if (w->call.result)
		return w->call.result == -EPIPE ? -EPIPE : -EIO;
	memcpy(&ans, w->call.word, sizeof(ans));
	if (ans.result == w->size)
		return 0;
	return ans.result == -ENOSPC || ans.result == -EDQUOT || ans.result == -ESTALE || ans.result == -EFBIG ? (int)ans.result : -EIO;
}

static void free_write(struct page_write *w)
{
	port_payload_free(w->call.payload);	/* a reply without bytes may bring descriptors */
	port_lent_put(w->call.lent);
	kfree(w);
}

static struct page_write *next_written(struct serverfs *fs)
{
	spin_lock(&fs->writes_lock);
	struct page_write *w = list_first_entry_or_null(&fs->written, struct page_write, node);

	if (w)
		list_del(&w->node);
	spin_unlock(&fs->writes_lock);
	return w;
}

void serverfs_written(struct work *work)
{
	struct serverfs *fs = container_of(work, struct serverfs, work);
	struct page_write *w;

	while ((w = next_written(fs))) {
		struct page *page = w->page;
		int err = write_result(w);

		free_write(w);
		if (err == -EPIPE)
			page_return_unwritten(page, true);
		else
			page_end_writeback(page, err);
		cond_resched();
	}
	serverfs_put(fs);
}

/* Sends @page, @size bytes of it. 0, or -errno with nothing sent. */
static int send_page(struct serverfs *fs, struct page *page, u32 size)
{
	const struct inode *inode = page->mapping->host;
	struct fl_fs_req req = { .op = FL_FS_WRITE, .node = node_id(inode), .offset = page->index << PAGE_SHIFT, .size = size,
				 .time = READ_ONCE(inode->mtime) };
	struct page_write *w = kzalloc(sizeof(*w), GFP_KERNEL);
	struct port *p = serverfs_port(fs);
	int err = !w ? -ENOMEM : !p ? -EPIPE : 0;

	if (!err) {
		w->call = (struct port_call){ .state = CALL_NEW, .replied = write_answered, .of = fs };
		memcpy(w->call.word, &req, sizeof(w->call.word));
		w->fs = fs;
		w->page = page;
		w->size = size;
		w->call.lent = port_lent_kernel(page_to_virt(page), size, FL_LENT_R);
		if (IS_ERR(w->call.lent)) {
			w->call.lent = NULL;
			err = -ENOMEM;
		}
	}
	if (!err)
		err = port_send(p, &w->call);
	if (p)
		port_put(p);
	if (err && w)
		free_write(w);
	return err;
}

static int serverfs_write_page(struct mapping *m, struct page *page)
{
	u32 size = bytes_in_file(m, page);

	page_start_writeback(page);
	unlock_page(page);
	if (!size)
		page_return_unwritten(page, false);	/* behind the end: truncate is about to take it */
	else if (send_page(serverfs_of(m->host), page, size))
		page_return_unwritten(page, true);
	return 0;
}

const struct mapping_ops serverfs_mapping_ops = {
	.read_page = serverfs_read_page,
	.write_page = serverfs_write_page,
};

/* A clean page becomes writable through a mapping (G6). It is locked, and stays so unless this fails. The server is not asked for room. */
static unsigned int serverfs_page_mkwrite(struct vm_fault *vmf)
{
	struct page *page = vmf->page;
	struct mapping *m = page->mapping;

	if (page->index >= mapping_size_pages(m)) {
		unlock_page(page);
		return VM_FAULT_NOPAGE;		/* truncate is about to take it: the access finds out */
	}
	inode_touch(m->host, true);
	return 0;
}

static struct vma_ops mapped_ops;		/* those of any mapped file, and page_mkwrite */

static int serverfs_mmap(struct file *file, struct vma *vma)
{
	int err = generic_file_mmap(file, vma);

	vma->ops = &mapped_ops;
	return err;
}

/* -- calls -- */

/* Without a server not even what would fit into the cache: whoever writes is told now. */
static ssize_t serverfs_write(struct file *f, struct iov_iter *from, loff_t *pos)
{
	ssize_t n = serverfs_present(serverfs_of(f->inode)) ? ramfs_write(f, from, pos) : -EIO;
	int err = n > 0 && (f->flags & O_DSYNC) ? mapping_writeback_range(&f->inode->mapping, *pos - n, *pos, true) : 0;

	return err ? err : n;
}

static int serverfs_fsync(struct file *f, bool datasync)
{
	int err = mapping_writeback_range(&f->inode->mapping, 0, INT64_MAX, true);

	(void)datasync;
	mapping_release_clean(&f->inode->mapping);
	return err;
}

static int tell_size(struct inode *inode, u64 size)
{
	struct fs_question q = { .req = { .op = FL_FS_SETATTR, .node = node_id(inode), .valid = FL_FS_SET_SIZE | FL_FS_SET_TIME,
					  .offset = size, .time = ktime_get_real_ns() } };

	return serverfs_ask(serverfs_of(inode), &q);
}

/* Lock: inode->lock for write. */
static int serverfs_truncate(struct inode *inode, u64 size)
{
	struct mapping *m = &inode->mapping;
	u64 old = inode->size;
	int err;

	if (size > (u64)END_OF_FILE)
		return -EFBIG;
	if (size >= old) {
		err = tell_size(inode, size);
		if (!err && size > old) {
			zero_beyond_end(m, size);
			WRITE_ONCE(inode->size, size);
		}
		return err;
	}
	WRITE_ONCE(inode->size, size);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);	/* against bytes_in_file() after page_start_writeback() */
	err = mapping_wait_writeback(m, size >> PAGE_SHIFT, ~0ul);
	if (!err)
		err = tell_size(inode, size);
	if (err) {
		WRITE_ONCE(inode->size, old);		/* nothing was cut: what lies behind is dirty or clean as before */
		return err;
	}
	truncate_mapping_range(m, (loff_t)size, END_OF_FILE, true);
	return 0;
}

int serverfs_setattr(struct inode *inode, const struct iattr *a)
{
	_Static_assert(ATTR_MODE == FL_FS_SET_MODE && ATTR_OWNER == FL_FS_SET_OWNER && ATTR_MTIME == FL_FS_SET_TIME, "the same bits");
	struct fs_question q = { .req = { .op = FL_FS_SETATTR, .node = node_id(inode), .valid = a->valid, .mode = a->mode & 07777,
					  .uid = a->uid, .gid = a->gid, .time = a->mtime } };

	return serverfs_ask(serverfs_of(inode), &q);
}

/* Where the holes are only the server knows. */
static u64 serverfs_blocks(struct inode *inode)
{
	return DIV_ROUND_UP(READ_ONCE(inode->size), PAGE_SIZE) * (PAGE_SIZE / 512);
}

const struct inode_ops serverfs_file_inode_ops = {
	.truncate = serverfs_truncate,
	.blocks = serverfs_blocks,
	.setattr = serverfs_setattr,
	.evict = serverfs_evict,
};

const struct file_ops serverfs_file_ops = {
	.read = ramfs_read,
	.write = serverfs_write,
	.llseek = generic_llseek,
	.mmap = serverfs_mmap,
	.fsync = serverfs_fsync,
};

void serverfs_file_init(void)
{
	mapped_ops = filemap_vma_ops;
	mapped_ops.page_mkwrite = serverfs_page_mkwrite;
}
