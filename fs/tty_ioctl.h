/* Terminal ioctl numbers (Linux x86-64, asm-generic/ioctls.h). */
#ifndef FS_TTY_IOCTL_H
#define FS_TTY_IOCTL_H

#define TCGETS		0x5401
#define TCSETS		0x5402
#define TCSETSW		0x5403
#define TCSETSF		0x5404
#define TCSBRK		0x5409
#define TCXONC		0x540A
#define TCFLSH		0x540B
#define TIOCEXCL	0x540C
#define TIOCNXCL	0x540D
#define TIOCSCTTY	0x540E
#define TIOCGPGRP	0x540F
#define TIOCSPGRP	0x5410
#define TIOCOUTQ	0x5411
#define TIOCSTI		0x5412
#define TIOCGWINSZ	0x5413
#define TIOCSWINSZ	0x5414
#define TIOCINQ		0x541B
#define TIOCNOTTY	0x5422
#define TIOCSETD	0x5423
#define TIOCGETD	0x5424
#define TCSBRKP		0x5425
#define TIOCGSID	0x5429
#define TIOCGPTN	0x80045430
#define TIOCSPTLCK	0x40045431
#define TIOCGPTLCK	0x80045439
#define TIOCGPTPEER	0x5441
#define FIONREAD	TIOCINQ
#define FIONBIO		0x5421
#define FIOCLEX		0x5451
#define FIONCLEX	0x5450
#define FIOASYNC	0x5452

#define TCIFLUSH	0
#define TCOFLUSH	1
#define TCIOFLUSH	2
#define TCOOFF		0
#define TCOON		1
#define TCIOFF		2
#define TCION		3

#define VT_OPENQRY	0x5600
#define KDGKBTYPE	0x4B33
#define KDGETMODE	0x4B3B
#define KB_101		2

#endif
