/* What uname and the first line of the log say. */
#ifndef KERNEL_VERSION_H
#define KERNEL_VERSION_H

#define KERNEL_VERSION	"0.1"
#ifdef DEBUG
#define KERNEL_BUILD	"debug build"
#else
#define KERNEL_BUILD	"release build"
#endif

#endif
