# Faultline. `make help` lists the targets. Everything built goes to build/; `make clean` removes it.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
SHELL := /bin/bash

# Building uses every processor; running does not, since a parallel make does not hand on the terminal.
ifeq ($(MAKELEVEL)$(filter-out all kernels iso build/%,$(or $(MAKECMDGOALS),all)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# --- What a user may set ---------------------------------------------------------------------------------------------------
ifneq ($(filter default undefined,$(origin CC)),)
CC := gcc
endif
LD	?= ld
NM	?= nm
OBJCOPY	?= objcopy
MUSL_CC	?= musl-gcc
HOST_CC	?= gcc
WERROR	?= $(if $(filter true 1,$(CI)),1)

# of `make run` and `make gdb`
CPUS	 ?= 2
MEM	 ?= 1G
FIRMWARE ?= bios
MEDIA	 ?= direct
APPEND	 ?=
GFX	 ?=
CPU	 ?=
QEMU	 ?=
WEB	 ?=
ADD	 ?=

# Where everything goes. Another directory for another compiler keeps both: make O=build/clang CC=clang kernels
O	 ?= build

# --- What is built ---------------------------------------------------------------------------------------------------------
SOURCE_DIRS := boot kernel kernel/x86 mm mm/sync fs
SOURCES	:= $(sort $(wildcard $(addsuffix /*.c,$(SOURCE_DIRS)) $(addsuffix /*.S,$(SOURCE_DIRS))))
KERNELS	:= $(O)/release/faultline.elf $(O)/debug/faultline.elf
INITRAMFS := $(O)/initramfs.cpio
SERVERS	:= $(O)/user/driver-run $(O)/user/memfs $(if $(filter none,$(LWIP_SRC)),,$(O)/user/netd)
ISO	:= $(O)/faultline.iso

# --- Compilers: probe each flag that is not universal, once per compiler -----------------------------------------------------
# A flag that a compiler does not know is left out, never assumed: neither an old nor a next year's compiler breaks the build.
compiler_id := $(shell { $(CC) --version 2>/dev/null || echo missing; } | head -1 | tr -cd 'A-Za-z0-9.-')
FLAGS_MK := $(O)/flags-$(compiler_id).mk
PROBE := -fcf-protection=none -fno-stack-protector -fno-stack-clash-protection -mgeneral-regs-only -fno-pie -fno-pic \
	-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-tree-loop-distribute-patterns -fno-strict-overflow \
	-fno-delete-null-pointer-checks -mno-outline-atomics -mskip-rax-setup -fmax-errors=20 -ferror-limit=20 \
	-Wno-address-of-packed-member -Wno-gnu-variable-sized-type-not-at-end -Wimplicit-fallthrough \
	-Werror=implicit-function-declaration -Werror=int-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wframe-larger-than=3072
PROBE_LD := --no-warn-rwx-segments --no-warn-execstack
# The address sanitizer of the debug build (mm/kasan.c), with a call for each check. A compiler that knows neither does without.
KASAN_GCC := -fsanitize=kernel-address --param asan-instrumentation-with-call-threshold=0 --param asan-stack=0 --param asan-globals=0
KASAN_CLANG := -fsanitize=kernel-address -mllvm -asan-instrumentation-with-call-threshold=0 -mllvm -asan-stack=0 -mllvm -asan-globals=0

no_build_goals := help clean distclean deps doctor loc format oracle lab grade grade-all gradescope oral map book
ifneq ($(if $(MAKECMDGOALS),$(filter-out $(no_build_goals),$(MAKECMDGOALS)),all),)
-include $(FLAGS_MK)
endif

$(FLAGS_MK): Makefile
	@command -v $(firstword $(CC)) >/dev/null || { echo "No C compiler '$(CC)'. Run: make deps" >&2; exit 1; }
	@mkdir -p $(O)
	@# -Wno-x is accepted, and complained about later, by a compiler that has no -Wx.
	@probe() { echo 'int probe;' | $(CC) -Werror "$${1/#-Wno-/-W}" -c -x c -o /dev/null - 2>/dev/null; }; \
	{ printf 'probed_cflags :='; for f in $(PROBE); do ! probe "$$f" || printf ' %s' "$$f"; done; \
	  printf '\nprobed_ldflags :='; for f in $(PROBE_LD); do ! $(LD) "$$f" -v >/dev/null 2>&1 || printf ' %s' "$$f"; done; \
	  printf '\nprobed_kasan :='; for f in '$(KASAN_GCC)' '$(KASAN_CLANG)'; do \
		echo 'int probe(int *p); int probe(int *p) { return *p; }' | $(CC) -ffreestanding -m64 -O1 $$f -c -x c -o $@.o - 2>/dev/null && \
		$(NM) -u $@.o | grep -q '__asan_load4_noabort$$' && { printf ' %s -DKASAN=1' "$$f"; break; }; done; rm -f $@.o; \
	  echo; } >$@.tmp
	@mv $@.tmp $@

CFLAGS_COMMON := -std=gnu11 -ffreestanding -fno-common -fno-strict-aliasing -fno-omit-frame-pointer -m64 -mno-red-zone \
	-mcmodel=kernel $(probed_cflags) -g -I. -Wall -Wextra $(if $(WERROR),-Werror)
CFLAGS_release := -O2
CFLAGS_debug   := -O1 -DDEBUG=1 $(probed_kasan)
# These look at memory that nobody may touch, or are checkers themselves and run all the time: no checks.
unchecked := mm/kasan mm/slab mm/debug kernel/string kernel/x86/backtrace kernel/lock_rank kernel/race
checks_off := $(if $(probed_kasan),-fno-sanitize=kernel-address)
CFLAGS_mm/kasan := -O2

# On the path of every fault a function that calls nobody goes without a frame of its own. What a backtrace loses by that is the caller of
# such a function, if it is there that an exception hits; not in debug builds.
frameless := kernel/rwsem mm/vma_tree mm/vma_lock mm/radix mm/pgtable mm/tlb
frameless_release := -momit-leaf-frame-pointer
LDFLAGS := -nostdlib -static -T linker.ld -z max-page-size=0x1000 -z noexecstack --build-id=none $(probed_ldflags)

.PHONY: all kernels help clean distclean deps doctor run gdb test check-slow unit bench experiments iso usb loc format stack oracle \
	lab grade grade-all gradescope oral map book FORCE
all: $(KERNELS) $(INITRAMFS) $(ISO)
	@echo "Built $(KERNELS) $(INITRAMFS) $(ISO)"

kernels: $(KERNELS)

# --- The kernel, once per build ----------------------------------------------------------------------------------------------
# Linked twice. The first link has an empty symbol table; from its symbols we make the real one, which lies behind all code, so
# the second link moves no function. That it did not is checked, as are the load addresses and the boot headers.
define kernel_rules
$(O)/$(1)/objects := $$(patsubst %,$(O)/$(1)/%.o,$$(basename $$(SOURCES))) $(O)/$(1)/font.o

$(O)/$(1)/.flags: FORCE
	@mkdir -p $$(@D)
	@echo '$$(CC) $$(compiler_id) $$(CFLAGS_COMMON) $$(CFLAGS_$(1)) $$(LDFLAGS)' | cmp -s - $$@ || \
		echo '$$(CC) $$(compiler_id) $$(CFLAGS_COMMON) $$(CFLAGS_$(1)) $$(LDFLAGS)' >$$@

$(O)/$(1)/%.o: %.c $(O)/$(1)/.flags
	@mkdir -p $$(@D)
	@echo "  CC $(1)  $$<"
	@$$(CC) $$(CFLAGS_COMMON) $$(CFLAGS_$(1)) $$(if $$(filter $$*,$$(unchecked)),$$(checks_off)) $$(if $$(filter $$*,$$(frameless)),$$(frameless_$(1))) $$(CFLAGS_$$*) -MMD -MP -c -o $$@ $$<

$(O)/$(1)/%.o: %.S $(O)/$(1)/.flags
	@mkdir -p $$(@D)
	@echo "  AS $(1)  $$<"
	@$$(CC) $$(CFLAGS_COMMON) $$(CFLAGS_$(1)) -D__ASSEMBLY__ -MMD -MP -c -o $$@ $$<

$(O)/$(1)/font.o: $(O)/font.S $(O)/$(1)/.flags
	@$$(CC) $$(CFLAGS_COMMON) -c -o $$@ $$<

$(O)/$(1)/faultline.elf: $$($(O)/$(1)/objects) linker.ld boot/ksyms.sh boot/checkelf.py
	@echo "  LD $(1)  $$@"
	@boot/ksyms.sh </dev/null >$(O)/$(1)/ksyms0.S
	@$$(CC) -m64 -c -o $(O)/$(1)/ksyms0.o $(O)/$(1)/ksyms0.S
	@$$(LD) $$(LDFLAGS) -o $(O)/$(1)/pass1.elf $$($(O)/$(1)/objects) $(O)/$(1)/ksyms0.o
	@$$(NM) -nS --defined-only $(O)/$(1)/pass1.elf | boot/ksyms.sh >$(O)/$(1)/ksyms.S
	@$$(CC) -m64 -c -o $(O)/$(1)/ksyms.o $(O)/$(1)/ksyms.S
	@$$(LD) $$(LDFLAGS) -Map $(O)/$(1)/faultline.map -o $(O)/$(1)/pass2.elf $$($(O)/$(1)/objects) $(O)/$(1)/ksyms.o
	@$$(NM) -nS --defined-only $(O)/$(1)/pass2.elf | boot/ksyms.sh | cmp -s - $(O)/$(1)/ksyms.S || \
		{ echo "$$@: the symbol table moved the functions that it describes; .ksyms must lie behind .text" >&2; exit 1; }
	@boot/checkelf.py $(O)/$(1)/pass2.elf
	@mv $(O)/$(1)/pass2.elf $$@

-include $$(patsubst %.o,%.d,$$($(O)/$(1)/objects))
endef
$(foreach build,release debug,$(eval $(call kernel_rules,$(build))))

# The console font: GRUB's own, so that a package we need anyway provides it.
$(O)/font.S: boot/mkfont.py
	@mkdir -p $(@D)
	@echo "  FONT     $@"
	@boot/mkfont.py $@

# --- User space ----------------------------------------------------------------------------------------------------------------
$(INITRAMFS): boot/mkinitramfs.sh boot/mkcpio.py $(shell find user/rootfs user/demo/www 2>/dev/null) $(SERVERS)
	@mkdir -p $(@D)
	@echo "  CPIO     $@"
	@boot/mkinitramfs.sh $@ $(SERVERS)

# Servers in ring 3, each a static program in /sbin. netd is linked with lwIP, which is fetched from Debian (LWIP_SRC=PATH: taken from
# there; LWIP_SRC=none: no netd, and so no network).
USER_CFLAGS := -std=gnu11 -O2 -g1 -fno-strict-aliasing -Wall -Wextra $(if $(WERROR),-Werror)
$(O)/user/driver-run: user/servers/driver_run.c $(wildcard user/include/*.h)
	@mkdir -p $(@D)
	@echo "  MUSL     $@"
	@$(MUSL_CC) $(USER_CFLAGS) -static -s -I. -o $@ $<

$(O)/user/memfs: user/servers/memfs.c $(wildcard user/include/*.h)
	@mkdir -p $(@D)
	@echo "  MUSL     $@"
	@$(MUSL_CC) $(USER_CFLAGS) -static -s -I. -o $@ $<

LWIP := build/cache/lwip
$(LWIP)/src/core/tcp.c:
	@echo "  FETCH    lwip"
	@user/servers/netd/fetch_lwip.sh $(LWIP)

netd_own := $(wildcard user/servers/netd/*.c)
netd_lwip := $(addprefix src/core/,def.c dns.c inet_chksum.c init.c ip.c mem.c memp.c netif.c pbuf.c raw.c tcp.c tcp_in.c tcp_out.c \
	timeouts.c udp.c ipv4/acd.c ipv4/dhcp.c ipv4/etharp.c ipv4/icmp.c ipv4/igmp.c ipv4/ip4.c ipv4/ip4_addr.c ipv4/ip4_frag.c \
	ipv6/ethip6.c ipv6/icmp6.c ipv6/ip6.c ipv6/ip6_addr.c ipv6/ip6_frag.c ipv6/mld6.c ipv6/nd6.c) src/netif/ethernet.c
netd_objects := $(netd_own:user/servers/netd/%.c=$(O)/user/netd.o/%.o) $(netd_lwip:src/%.c=$(O)/user/netd.o/lwip/%.o)
netd_cflags := $(USER_CFLAGS) -I. -Iuser/servers/netd -Iuser/servers/netd/lwip -isystem $(LWIP)/src/include -MMD -MP

$(O)/user/netd.o/%.o: user/servers/netd/%.c | $(LWIP)/src/core/tcp.c
	@mkdir -p $(@D)
	@echo "  MUSL     $<"
	@$(MUSL_CC) $(netd_cflags) -c -o $@ $<

# Upstream's code is built as it is, with upstream's warnings: none of ours.
$(O)/user/netd.o/lwip/%.o: $(LWIP)/src/core/tcp.c user/servers/netd/lwip/lwipopts.h user/servers/netd/lwip/arch/cc.h
	@mkdir -p $(@D)
	@if [ -e $(LWIP)/src/$*.c ]; then source=$(LWIP)/src/$*.c; else source=/dev/null; fi; \
		$(MUSL_CC) $(netd_cflags) -w -x c -c -o $@ $$source

$(O)/user/netd: $(netd_objects)
	@echo "  MUSL     $@"
	@$(MUSL_CC) -static -s -o $@ $^
-include $(netd_objects:.o=.d)

# The same without its kernel and its card, on the host and under sanitizers: tests/net/hosted.h.
hosted_objects := $(filter-out $(O)/tests/net.o/netd.o $(O)/tests/net.o/device.o,$(netd_objects:$(O)/user/netd.o/%=$(O)/tests/net.o/%))
hosted_cflags := $(netd_cflags:-O2=-O1) -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
.SECONDARY: $(hosted_objects)
$(O)/tests/net.o/lwip/%.o: $(LWIP)/src/core/tcp.c user/servers/netd/lwip/lwipopts.h user/servers/netd/lwip/arch/cc.h
	@mkdir -p $(@D)
	@$(HOST_CC) $(hosted_cflags) -fno-sanitize=null,alignment -w -c -o $@ $(LWIP)/src/$*.c	# it takes addresses of members of NULL, and compares the results
$(O)/tests/net.o/%.o: user/servers/netd/%.c | $(LWIP)/src/core/tcp.c
	@mkdir -p $(@D)
	@$(HOST_CC) $(hosted_cflags) -c -o $@ $<
$(O)/tests/net/%: tests/net/%.c tests/net/hosted.h $(hosted_objects)
	@mkdir -p $(@D)
	@echo "  HOSTCC   $@"
	@$(HOST_CC) $(hosted_cflags) -Wno-unused-function -MF $@.d -o $@ $< $(hosted_objects)
-include $(hosted_objects:.o=.d)
# This one runs in a guest.
$(O)/tests/net/restart_time: tests/net/restart_time.c
	@mkdir -p $(@D)
	@echo "  MUSL     $@"
	@$(MUSL_CC) $(USER_CFLAGS) -static -s -o $@ $<

$(O)/tests/guest-init: tests/lib/guest-init.c
	@mkdir -p $(@D)
	@command -v $(MUSL_CC) >/dev/null || { echo "No '$(MUSL_CC)'. Run: make deps" >&2; exit 1; }
	@echo "  MUSL     $@"
	@$(MUSL_CC) -static -O2 -s -Wall -Wextra -o $@ $<

$(O)/tests/kvm-probe: tests/lib/kvm-probe.S
	@mkdir -p $(@D)
	@$(HOST_CC) -m32 -c -o $@.o $<
	@$(LD) -m elf_i386 -Ttext=0x100000 --build-id=none -o $@ $@.o

# --- Images --------------------------------------------------------------------------------------------------------------------
iso: $(ISO)
$(ISO): $(KERNELS) $(INITRAMFS) boot/grub.cfg boot/mkimage.sh
	@echo "  ISO      $@"
	@boot/mkimage.sh $@ /boot/grub/grub.cfg=boot/grub.cfg /boot/initramfs.cpio=$(INITRAMFS) \
		/boot/faultline.elf=$(O)/release/faultline.elf /boot/faultline-debug.elf=$(O)/debug/faultline.elf

usb: $(ISO)
	@boot/usb.sh "$(ISO)" "$(DEV)"

# --- Running -------------------------------------------------------------------------------------------------------------------
deps:
	@tests/lib/deps.sh

oracle: deps
	@python3 -B -c 'import sys; sys.path.insert(0, "tests/lib"); import vm; print("Linux", vm.fetch_linux())'

doctor:
	@python3 -B tests/lib/run.py --doctor

export CPUS MEM FIRMWARE MEDIA APPEND GFX CPU QEMU BUILD WEB ADD
run: deps
	@$(MAKE) -s -j$$(nproc) $(if $(filter direct,$(MEDIA)),$(KERNELS) $(INITRAMFS),$(ISO))
	@python3 -B tests/lib/run.py

gdb: deps
	@$(MAKE) -s -j$$(nproc) $(KERNELS) $(INITRAMFS)
	@python3 -B tests/lib/run.py --gdb

test: deps
	@tests/run.sh

check-slow: deps
	@tests/run.sh --slow

bench: deps
	@python3 -B user/bench/bench.py

# --- Labs (docs/labs/README.md) ----------------------------------------------------------------------------------------------------
-include docs/labs/this-lab.mk		# a student's tree knows which lab it is
lab: deps
	@python3 -B tests/labs/cut.py "$(N)" "$(DIR)" "$(VARIANT)"

# Ends with the grader's status, which make by itself would turn into 2 (tests/labs/make_status.c). Not under -n, -q, -t, and not if there are
# other goals after it.
grade_command = N="$(N)" HIDDEN="$(HIDDEN)" SEED="$(SEED)" SUBMISSION="$(SUBMISSION)" ONLY="$(ONLY)" VARIANT="$(VARIANT)" OUT="$(OUT)" \
	python3 -B tests/labs/grade.py
short_flags = $(filter-out --%,$(firstword -$(MAKEFLAGS)))
ifeq ($(MAKECMDGOALS) $(filter load,$(.FEATURES)) $(foreach flag,n q t,$(findstring $(flag),$(short_flags))),grade load   )
-load build/labs/make_status.so
build/labs/make_status.so: tests/labs/make_status.c
	@mkdir -p $(@D)
	@$(HOST_CC) -shared -fPIC -O2 -Wall -Wextra -o $@ $< 2>/dev/null || true
endif
grade: deps
	$(if $(filter %/make_status.so,$(.LOADED)),$(exit-with-status-of $(grade_command)),@$(grade_command))

grade-all: deps
	@N="$(N)" SUBMISSIONS="$(SUBMISSIONS)" OUT="$(OUT)" HIDDEN="$(HIDDEN)" SEED="$(SEED)" VARIANT="$(VARIANT)" python3 -B tests/labs/grade_all.py

oral:
	@N="$(N)" SUBMISSION="$(SUBMISSION)" RESULTS="$(RESULTS)" SEED="$(SEED)" VARIANT="$(VARIANT)" python3 -B tests/labs/oral.py

gradescope:
	@N="$(N)" HIDDEN="$(HIDDEN)" VARIANT="$(VARIANT)" python3 -B tests/labs/gradescope.py

# --- The book, as a site ----------------------------------------------------------------------------------------------------------
book:
	@BOOK=1 tests/lib/deps.sh
	@python3 -B tests/lib/book.py

# --- Pictures of page tables ---------------------------------------------------------------------------------------------------------
map: export CMD := $(value CMD)
map: export OUT := $(OUT)
map: deps
	@python3 -B tests/lib/map.py

# The programs of the measurements, one by one; `make bench` and `make experiments` build what they need themselves.
$(O)/bench/%: user/bench/%.c $(wildcard user/bench/*.h)
	@mkdir -p $(@D)
	@echo "  MUSL     $@"
	@$(MUSL_CC) -static -O2 -Wall -Wextra -o $@ $(filter %.c,$^)
$(O)/bench/cost: $(filter-out user/bench/cost.c,$(wildcard user/bench/cost*.c))

# Debian's own python3: the one that has matplotlib.
experiments: deps
	@EXPERIMENTS=1 tests/lib/deps.sh
	@/usr/bin/python3 -B user/bench/experiments.py

unit: deps
	@tests/run.sh unit

# --- Looking at the source -------------------------------------------------------------------------------------------------------
ring0 = $(wildcard boot/*.[chS] kernel/*.[chS] kernel/x86/*.[chS] mm/*.[chS] mm/*/*.[chS] fs/*.[chS] linker.ld)
loc:
	@wc -l $(wildcard mm/*.[chS] mm/*/*.[chS]) /dev/null | tail -1 | awk '{ printf "mm/      %6d lines of %6d\n", $$1, 9000 }'
	@cat $(ring0) /dev/null | wc -l | awk '{ printf "ring 0   %6d lines of %6d\n", $$1, 25000 }'
	@for d in boot kernel mm fs user tests; do \
		printf '%-8s %6d lines of C and assembly\n' $$d/ \
			$$(find $$d -name '*.[chS]' -exec cat {} + 2>/dev/null | wc -l); done

format:
	@command -v clang-format >/dev/null || { echo "No clang-format; install the package clang-format." >&2; exit 1; }
	@files=$$(git diff --name-only --diff-filter=d HEAD -- '*.c' '*.h'; git ls-files -o --exclude-standard -- '*.c' '*.h'); \
		[ -z "$$files" ] || clang-format -i $$files

stack:
	@mkdir -p $(O)/stack
	@for f in $(filter %.c,$(SOURCES)); do $(CC) $(CFLAGS_COMMON) $(CFLAGS_release) -fstack-usage -c \
		-o $(O)/stack/$$(echo $$f | tr / -).o $$f; done
	@cat $(O)/stack/*.su | sort -t'	' -k2 -nr | head -20

clean:
	@rm -rf $(O)

distclean: clean

help:
	@echo 'make              build the kernel (release and debug), the initramfs and the boot image'
	@echo 'make run          boot it here; the serial console is this terminal (leave with Ctrl-A X)'
	@echo '                    CPUS=2 MEM=1G FIRMWARE=bios|uefi MEDIA=direct|iso|usb APPEND="kernel parameters"'
	@echo '                    WEB=8080: the port of this machine that shows the guest'"'"'s web page'
	@echo '                    ADD="FILE..." are in the guest as /t/FILE (make gdb and make map know it too)'
	@echo '                    GFX=1 for a window, BUILD=debug for the checked kernel, QEMU=path'
	@echo 'make test         every quick test; ends with "N passed, N failed, N skipped"'
	@echo 'make check-slow   the quick tests and the long ones'
	@echo 'make bench        what operations cost, in instructions, beside Linux: build/bench.csv'
	@echo 'make experiments  published measurements repeated, as tables and pictures: build/experiments/ (QUICK=1: smaller)'
	@echo 'make unit         only the tests that run on the host (ASan, UBSan)'
	@echo 'make iso          build/faultline.iso: for CD, USB stick, BIOS and UEFI'
	@echo 'make usb DEV=/dev/sdX   write it to a stick, after asking'
	@echo 'make lab N=3 DIR=~/lab3   a student'\''s repository;   make grade N=3   points for what is there (docs/labs)'
	@echo 'make oral N=3 SUBMISSION=DIR   questions to ask about what a student wrote'
	@echo 'make gdb          boot it halted under gdb, with symbols;   make map   draw page tables (docs/debugging.md)'
	@echo 'make book         docs/ as a searchable site, build/book/index.html'
	@echo 'make deps         install with apt what is missing (run and test do it by themselves)'
	@echo 'make doctor       what this machine has: packages, QEMU, hardware virtualisation'
	@echo 'make oracle       fetch the Linux kernel that tests compare with'
	@echo 'make loc          lines of code;   make stack   the largest stack frames'
	@echo 'make format       clang-format what you changed;   make clean   remove everything that was built'
	@echo 'CC=clang builds with Clang. WERROR=1 makes warnings errors.'
	@echo 'tests/guest.sh -- COMMAND     run one command in a guest; --help tells the options'
