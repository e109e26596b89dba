#!/usr/bin/env bash
# Installs, upgrades, removes and purges the package on a machine that is nobody's, and looks each time: as root,
# `tools/debian/trial.sh FILE.deb`. tools/try_deb.sh gives it such a machine.
set -euo pipefail

deb=$(realpath "$1")
cd /  # not where a checkout might be taken for what is installed
package=fastpath-sidecar
python=/usr/lib/fastpath/bin/python
unit=/lib/systemd/system/fastpath.service
say() { printf 'trial: %s\n' "$*"; }
fail() { printf 'trial: %s\n' "$*" >&2; exit 1; }

# serve WORDS : run the unit's own command as its user, with its variables and file, ask it in Python, and end it.
serve() {
    local log=/tmp/fastpath.log command sidecar status=0
    : >$log
    command=$(sed -n 's/^ExecStart=//p' $unit)
    install -d -o fastpath -g fastpath -m 700 /run/fastpath
    # shellcheck disable=SC2046
    env -i $(sed -n 's/^Environment=//p' $unit) $(grep -v '^#' /etc/fastpath/fastpath.env) FASTPATH_MODE=none PATH=/usr/bin \
        setpriv --reuid fastpath --regid fastpath --clear-groups --inh-caps=-all --no-new-privs $command >$log 2>&1 &
    sidecar=$!
    for _ in $(seq 600); do
        grep -q '^ready {' $log && break
        kill -0 $sidecar 2>/dev/null || { cat $log >&2; fail "the sidecar has ended"; }
        sleep 0.1
    done
    grep -q '^ready {' $log || fail "the sidecar was not ready within a minute"
    $python - "$1" <<'END' || status=$?
import sys
from fastpath.client.blocking import connect

with connect("ws://127.0.0.1:8800/ws") as client:
    if sys.argv[1] == "write":
        client.publish("/trial/one", "kept")
    with client.subscribe("/trial/one") as stream:
        assert stream.get(20).content == "kept"
END
    kill $sidecar
    wait $sidecar || fail "the sidecar ended with $?"
    return $status
}

dpkg --install "$deb" >/dev/null
id fastpath >/dev/null || fail "there is no user"
[[ $(stat -c '%U %a' /var/lib/fastpath) == 'fastpath 700' ]] || fail "/var/lib/fastpath is not its user's alone"
[[ $(stat -c '%U %a' /etc/fastpath/fastpath.env) == 'root 600' ]] || fail "anybody reads the secret"
[[ -L /etc/systemd/system/multi-user.target.wants/fastpath.service ]] || fail "the service is not enabled"
fastpath --help | grep -q 'The Fastpath sidecar' || fail "the command does not run"
$python -c 'import importlib.util as all; assert not all.find_spec("django") and not all.find_spec("realtime")'
[[ -z $(find /usr/lib/fastpath ! -user root) ]] || fail "somebody else can change the program"
serve write
say "installed, and it keeps what it is sent"

echo '# the operator was here' >>/etc/fastpath/fastpath.env
before=$(cat /etc/fastpath/fastpath.env; id -u fastpath)
work=$(mktemp -d)
dpkg-deb --raw-extract "$deb" "$work/new"
sed -i 's/^Version: .*/&+later/' "$work/new/DEBIAN/control"
dpkg-deb --build --root-owner-group "$work/new" "$work/later.deb" >/dev/null
dpkg --install "$work/later.deb" >/dev/null
[[ $(dpkg-query --show --showformat '${Version}' $package) == *+later ]] || fail "it is not upgraded"
[[ $(cat /etc/fastpath/fastpath.env; id -u fastpath) == "$before" ]] || fail "the upgrade has changed the configuration"
serve read
say "upgraded: configuration, user and journal are as they were"

dpkg --remove $package >/dev/null
[[ ! -e /usr/lib/fastpath && ! -e $unit && ! -e /usr/bin/fastpath ]] || fail "the removal leaves something of the program"
[[ -s /etc/fastpath/fastpath.env && -n $(ls -A /var/lib/fastpath) ]] || fail "the removal takes what is the operator's"
dpkg --install "$deb" >/dev/null
serve read
say "removed and installed again: configuration and journal are as they were"

touch /etc/fastpath/site.pem
dpkg --purge $package >/dev/null
[[ ! -e /var/lib/fastpath && ! -e /etc/fastpath/fastpath.env ]] || fail "the purge leaves configuration or journal"
[[ -e /etc/fastpath/site.pem ]] || fail "the purge takes a file that is not the package's"
[[ -z $(find /etc/systemd /var/lib/systemd -name 'fastpath*' 2>/dev/null) ]] || fail "the purge leaves the service enabled"
dpkg-query --show $package 2>/dev/null && fail "it is still known"
say "purged: nothing is left but the user and a file that was never the package's"
