/* What /dev/pci and /dev/dma share with each other and with nobody else. */
#ifndef FS_DEVICE_FILES_H
#define FS_DEVICE_FILES_H

struct file;
struct pci_function;

/* fs/dev_pci.c: the function whose "config" @f is, open for writing; NULL: it is something else. */
struct pci_function *pci_function_of_config(const struct file *f);
void dev_pci_init(void);

/* fs/dev_dma.c: frees what closed pools left behind. The function is quiet, and nobody holds it; its mutex held. */
void dma_free_closed(struct pci_function *fn);
void dev_dma_init(void);

#endif
