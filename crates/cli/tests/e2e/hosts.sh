#!/bin/bash
# Two machines `a` and `b` with sshd, for the tests of the bed `hosts`. Each has a network, a process and a mount
# namespace and accounts of its own. Runs as the first process of a process namespace, whose network is the
# controller's, and ends with its standard input:
#
#     unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private bash hosts.sh DIRECTORY PASSWORD
#
# Host a takes passwords, host b keyboard-interactive alone. Both have the user `racer`. The monotonic clock of host b
# is an hour ahead of that of host a.
set -euo pipefail
dir=$1
password=$2

ip link set lo up
for host in a b; do
  number=$([ $host = a ] && echo 1 || echo 2)
  d=$dir/$host
  mkdir -p "$d"/{etc,run,home/racer}
  chmod 755 "$d" "$d/etc" "$d/home"
  chown 4242:4242 "$d/home/racer"
  chmod 700 "$d/home/racer"
  { cat /etc/passwd; echo "racer:x:4242:4242::$d/home/racer:/bin/bash"; } >"$d/etc/passwd"
  { cat /etc/shadow; echo "racer:$(openssl passwd -6 "$password"):19000:0:99999:7:::"; } >"$d/etc/shadow"
  chmod 600 "$d/etc/shadow"
  ssh-keygen -q -t ed25519 -N '' -f "$d/etc/hostkey"
  cat >"$d/etc/sshd_config" <<CONFIG
HostKey $d/etc/hostkey
# The default takes three quarters of the processor time of a connection.
KexAlgorithms curve25519-sha256
PidFile none
PasswordAuthentication $([ $host = a ] && echo yes || echo no)
KbdInteractiveAuthentication $([ $host = a ] && echo no || echo yes)
UsePAM $([ $host = a ] && echo no || echo yes)
AllowUsers racer
CONFIG
  ahead=$([ $host = a ] && echo 0 || echo 3600)
  unshare --net --mount --pid --time --monotonic $ahead --boottime $ahead --fork --kill-child --mount-proc \
    --propagation private bash -c "
    mount --bind '$d/etc/passwd' /etc/passwd; mount --bind '$d/etc/shadow' /etc/shadow
    mount -t tmpfs tmpfs /run; mkdir -m 755 /run/sshd
    ip link set lo up; echo up >'$d/run/up'
    until [ -e '$dir/linked' ]; do sleep 0.01; done
    exec /usr/sbin/sshd -D -f '$d/etc/sshd_config' -E '$d/log'" &
  pid=$!
  echo $pid >"$d/pid"
  until [ -e "$d/run/up" ]; do sleep 0.01; done
  ip link add manage$number type veth peer name manage netns $pid
  ip addr add 10.98.$number.1/24 dev manage$number
  ip link set manage$number up
  inside="nsenter --target $pid --net ip"
  $inside addr add 10.98.$number.2/24 dev manage
  $inside link set manage up
  declare "$host=$pid"
done
ip link add data netns "$a" type veth peer name data netns "$b"
for number in 1 2; do
  pid=$([ $number = 1 ] && echo "$a" || echo "$b")
  nsenter --target "$pid" --net ip addr add 10.98.3.$number/24 dev data
  nsenter --target "$pid" --net ip link set data up
done
touch "$dir/linked"
for number in 1 2; do
  until (exec 3<>/dev/tcp/10.98.$number.2/22) 2>/dev/null; do sleep 0.01; done
done
echo ready
cat >/dev/null
