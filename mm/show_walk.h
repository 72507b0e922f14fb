/* What the page tables and VMAs say about an address. For panics: takes no lock, and believes nothing. */
#ifndef MM_SHOW_WALK_H
#define MM_SHOW_WALK_H

#include "kernel/types.h"

void show_page_walk(uintptr_t addr);		/* through the tables that this CPU uses */

#endif
