/* The file layer comes to life: its own trees first, then devices in them, then what the loader brought. */
#include "fs/init.h"

#include "fs/device_files.h"
#include "fs/pipe.h"
#include "fs/procfs.h"
#include "fs/tty.h"
#include "fs/vfs.h"
#include "kernel/boot_info.h"
#include "kernel/panic.h"
#include "kernel/printk.h"
#include "mm/frame.h"
#include "mm/uffd.h"

static void unpack_initramfs(void)
{
	if (!boot_info.initrd)
		halt_with_message("No initramfs: the loader gave the kernel no module. Check the module2 line of grub.cfg, or -initrd.");
	int ret = initramfs_unpack(phys_to_virt(boot_info.initrd), boot_info.initrd_size);

	if (ret)
		halt_with_message("The initramfs cannot be unpacked (error %d): it is damaged, or there is too little memory.", -ret);
	free_initrd_memory();
}

void fs_init(void)
{
	vfs_init();
	pipe_init();
	tty_init();
	uffd_init();
	procfs_init();
	dev_pci_init();
	dev_dma_init();
	unpack_initramfs();
	devtmpfs_mount_early();
}
