# The everyday tools, on files that they made themselves.
set -e
cd /tmp
fail() { echo "$*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "expected '$1', got '$2'"; }

seq 1 5000 >numbers
same 12502500 "$(awk '{ s += $1 } END { print s }' numbers)"
same "5000 4999" "$(sort -nr numbers | head -2 | tr '\n' ' ' | sed 's/ $//')"
same 5000 "$(sed 's/[0-9]/x/g' numbers | grep -c '^x*$')"
same 9 "$(cut -c1 numbers | sort -u | wc -l)"

mkdir -p tree/a/b tree/c
cp numbers tree/a/b/; ln tree/a/b/numbers tree/hard; ln -s a/b/numbers tree/soft; : >tree/c/empty; chmod 640 tree/c/empty
tar czf tree.tgz tree
mkdir out; tar xzf tree.tgz -C out
cmp tree/hard out/tree/soft
same a/b/numbers "$(readlink out/tree/soft)"
same 640 "$(stat -c %a out/tree/c/empty)"
same 2 "$(stat -c %h out/tree/hard)"
same "$(cd tree; find . | sort | sha256sum)" "$(cd out/tree; find . | sort | sha256sum)"

gzip -c numbers | gunzip | cmp - numbers
head -c 300000 /dev/urandom >noise
same "$(md5sum <noise)" "$(dd if=noise bs=777 2>/dev/null | cat | md5sum)"
find tree -name 'num*' -exec grep -q 4999 {} \; -print | grep -q tree/a/b/numbers

# A pipe chain whose end leaves first: yes must die of it.
same y "$(yes | head -1)"
# Background jobs, wait, exit statuses, traps.
(sleep 0.1; exit 3) & wait $! || same 3 $?
sh -c 'trap "echo caught; exit 9" TERM; kill $$; sleep 5' >trap.out || same 9 $?
same caught "$(cat trap.out)"
sh -c 'kill -KILL $$' || same 137 $?
same "1 2 3" "$(for i in 1 2 3; do echo $i; done | xargs)"
same 8 "$(printf '%s\n' a b c d e f g h | while read -r x; do echo $x; done | wc -l)"
cat <<EOF >here
$(echo nested $(echo twice))
EOF
same "nested twice" "$(cat here)"

# What the tools read from /proc.
ps | grep -q 'busybox_tools\|ps' || fail "ps shows nothing"
free | grep -q '^Mem:' || fail "free shows nothing"
uptime | grep -q 'load average' || fail "uptime shows nothing"
mount | grep -q ' on /proc type proc' || fail "mount does not show /proc"
top -b -n 1 | head -3 | grep -q Mem || fail "top shows nothing"
dmesg | head -1 | grep -q . || fail "dmesg is empty"
df /tmp | grep -q tmpfs || fail "df does not know /tmp"
same "$(nproc)" "$(grep -c '^processor' /proc/cpuinfo)"
