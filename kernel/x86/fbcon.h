/* The screen: a text terminal drawn into the loader's framebuffer. */
#ifndef KERNEL_X86_FBCON_H
#define KERNEL_X86_FBCON_H

#include "kernel/types.h"

/* Before memory management: the log appears at once, through the boot window. Does nothing without a framebuffer. */
void fbcon_early_init(void);
/* After mm_init(): the final, write-combining mapping, scrollback, and everything that could not be drawn meanwhile. */
void fbcon_init(void);
/* After the scheduler: from now on a thread draws, at most some 60 times a second; registers tty1. */
void fbcon_start(void);

/* Keyboard to terminal. Interrupts off. */
void fbcon_input(const u8 *buf, size_t n);
/* Shift-PageUp and -PageDown: look back by half a screen; any output or key returns. */
void fbcon_scrollback(int half_screens);
/* Application cursor keys (DECCKM) are on: arrows send ESC O instead of ESC [. */
bool fbcon_app_cursor_keys(void);

#endif
