#!/bin/bash
# Two machines `a` and `b` with kernels and an sshd of their own, for the tests of the bed `hosts`: guests of User Mode
# Linux on one Ethernet with the controller. Their kernel has netem, and their user is root. Runs as the first process of
# a process namespace, whose network is the controller's, and ends with its standard input:
#
#     unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private bash guest-hosts.sh DIRECTORY PASSWORD
#
# A guest that ends is booted again. The key in DIRECTORY/key opens both. Regatta is sent to a guest that boots while there
# is no program in DIRECTORY/HOST/program.
set -euo pipefail
dir=$1
password=$2
here=$(cd "$(dirname "$0")" && pwd)

# The library without which the kernels up to 6.12 do not boot on processors with AMX.
cc -O2 -shared -fPIC "$here/../../../bed/src/guest/ptrace.c" -o "$dir/ptrace.so"
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
ip link set lo up
ip link add lan type bridge
ip addr add 10.98.0.254/24 dev lan
# The guests take no segments longer than a packet.
ip link set lan gso_max_segs 1
ip link set lan up
for number in 1 2; do
  host=$([ $number = 1 ] && echo a || echo b)
  d=$dir/$host
  mkdir -p "$d/kernel"
  { grep -v ^root: /etc/shadow; echo "root:$(openssl passwd -6 "$password"):19000:0:99999:7:::"; } >"$d/shadow"
  chmod 600 "$d/shadow"
  # A shell that starts in half the time.
  sed 's|^\(root:.*:\)[^:]*$|\1/bin/sh|' /etc/passwd >"$d/passwd"
  ssh-keygen -q -t ed25519 -N '' -f "$d/hostkey"
  ip tuntap add tap$number mode tap
  ip link set tap$number master lan
  ip link set tap$number up
  cat >"$d/init" <<INIT
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd /run/netns
mount -t tmpfs -o mode=700 tmpfs /root
mount --bind $d/shadow /etc/shadow
mount --bind $d/passwd /etc/passwd
# As if it had been sent here. A file on /root would be memory of the guest's.
for program in $d/program/*; do
  sent=/root/.cache/regatta/agents/\${program##*/}
  [ -e "\$program" ] && mkdir -p "\${sent%/*}" && : >"\$sent" && mount --bind "\$program" "\$sent"
done
mount -t tmpfs tmpfs /mnt
mkdir -p /mnt/lib
ln -s /usr/lib/uml/modules /mnt/lib/modules
modprobe -d /mnt -aq sch_netem sch_prio sch_tbf cls_u32 macvlan tls hmac sha1_generic sctp
hostname $host
ip link set lo up
ip addr add 10.98.0.$number/24 dev vec0
# Neither guest takes segments longer than a packet from the other one.
ip link set vec0 gso_max_segs 1
ip link set vec0 up
# For each 32 KB that come before they are read, sshd copies all that waits to new memory: 50 ms of page faults here.
export MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TOP_PAD_=16777216 MALLOC_TRIM_THRESHOLD_=1073741824
# A connection does not execute it again (-r): in a guest that takes long.
exec /usr/sbin/sshd -r -D -e -f $d/sshd_config
INIT
  chmod 755 "$d/init"
  cat >"$d/sshd_config" <<CONFIG
HostKey $d/hostkey
# The default takes longest of all that a connection does.
KexAlgorithms curve25519-sha256
PidFile none
PermitRootLogin yes
UsePAM no
# The directory of the tests belongs to all.
StrictModes no
AuthorizedKeysFile .ssh/authorized_keys $dir/key.pub
CONFIG
  # A guest that boots again has the same Ethernet address, as a machine has: the controller would not find it for a minute.
  while true; do
    TMPDIR=$d/kernel LD_PRELOAD=$dir/ptrace.so linux.uml mem=512M root=/dev/root rootfstype=hostfs rootflags=/ \
      ro quiet con=null con0=null,fd:1 ssl=null noreboot panic=-1 umid=$host uml_dir="$d/kernel/" \
      vec0:transport=tap,ifname=tap$number,mac=02:00:00:00:00:0$number,depth=64,gro=0 init="$d/init" </dev/null >"$d/console" 2>&1 || true
    sleep 0.1
  done &
done
for number in 1 2; do
  # One connection at a time, which a slow guest may answer late: each costs it half a second of work.
  until [ $SECONDS -gt 60 ] || ssh-keyscan -t ed25519 -T 20 10.98.0.$number 2>/dev/null | grep -q ssh-; do sleep 0.05; done
done
echo ready
cat >/dev/null
