/* PS/2 keyboard. */
#ifndef KERNEL_X86_KEYBOARD_H
#define KERNEL_X86_KEYBOARD_H

void keyboard_init(void);		/* after interrupts; says so when there is none */

#endif
