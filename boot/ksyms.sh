#!/bin/sh
# The kernel's symbol table for backtraces: `nm -nS --defined-only` in, assembly out.
#
# Makes ksym_table[] (struct ksym { u64 addr; u32 name_off; u32 size; }, sorted by address, functions only), ksym_count and
# ksym_names[] in section .ksyms. Empty input makes an empty table, for the first of the two links.
exec awk '
BEGIN { n = 0; next_offset = 0; print "\t.section .ksyms, \"a\", @progbits\n\t.balign 16" }
{
	if (NF == 4) { a = $1; s = $2; type = $3; name = $4 } else { a = $1; s = ""; type = $2; name = $3 }
	if (type !~ /^[tTwW]$/ || name ~ /^\.L/ || name ~ /^\$/ || name ~ /^__[a-z_]*_(start|end)$/)
		next				# not functions: local labels, and borders that linker.ld defines
	if (a == last) {			# aliases: one name is enough, a sized one is better
		if (s == "" || sizes[n] != "")
			next
	} else
		n++
	last = a
	addrs[n] = a; sizes[n] = s; names[n] = name
}
END {
	print "\t.globl ksym_count, ksym_table, ksym_names"
	print "ksym_count:\n\t.quad " n "\n\t.balign 16\nksym_table:"
	for (i = 1; i <= n; i++) {
		# A function of assembly may have no size: it then reaches to the next one.
		size = "0"
		if (sizes[i] != "")
			size = "0x" sizes[i]
		else if (i < n && substr(addrs[i], 1, 8) == substr(addrs[i + 1], 1, 8))
			size = "0x" addrs[i + 1] " - 0x" addrs[i]
		printf "\t.quad 0x%s\n\t.long %d, %s\n", addrs[i], next_offset, size
		next_offset += length(names[i]) + 1
	}
	print "ksym_names:"
	for (i = 1; i <= n; i++)
		print "\t.asciz \"" names[i] "\""
	print "\t.byte 0\n\t.section .note.GNU-stack, \"\", @progbits"
}'
