/* Start of the file layer. */
#ifndef FS_INIT_H
#define FS_INIT_H

/* Root file system, kernel-made trees, terminals, and the unpacked initramfs. Process context; halts with a sentence
 * when the initramfs is missing or broken: without it there is no first program. */
void fs_init(void);

#endif
