#!/usr/bin/env bash
# Installs, upgrades and removes the sidecar on a machine that is nobody's, and looks each time: `trial.sh KIND FILE LATER`,
# KIND deb, rpm or folder, LATER the same of a later version. tools/try_package.sh gives it such a machine.
set -euo pipefail

kind=$1 file=$(realpath "$2") later=$(realpath "$3")
cd /  # not where a checkout might be taken for what is installed
package=fastpath-sidecar
home=/usr/lib/fastpath
unit=/usr/lib/systemd/system/fastpath.service
[[ $kind != folder ]] || unit=$home/fastpath.service
say() { printf 'trial: %s\n' "$*"; }
fail() { printf 'trial: %s\n' "$*" >&2; exit 1; }

# ask PYTHON PORT read|write : publish on the sidecar, if asked to, and read what was.
ask() {
    "$1" - "$2" "$3" <<'END'
import sys
from fastpath.client.blocking import connect

with connect(f"ws://127.0.0.1:{sys.argv[1]}/ws") as client:
    if sys.argv[2] == "write":
        client.publish("/trial/one", "kept")
    with client.subscribe("/trial/one") as stream:
        assert stream.get(60).content == "kept"
END
}

# ready LOG PROCESS : wait until the sidecar says so.
ready() {
    for _ in $(seq 1800); do
        grep -q '^ready {' "$1" && return
        kill -0 "$2" 2>/dev/null || { cat "$1" >&2; fail "the sidecar has ended"; }
        sleep 0.1
    done
    fail "the sidecar was not ready within three minutes"
}

# serve read|write : run the unit's own command as its user, with its variables and file, ask it, and end it.
serve() {
    local log=/tmp/fastpath.log command sidecar status=0
    : >$log
    command=$(sed -n 's/^ExecStart=//p' $unit)
    install -d -o fastpath -g fastpath -m 700 /run/fastpath
    # shellcheck disable=SC2046,SC2086
    env -i $(sed -n 's/^Environment=//p' $unit) $(grep -v '^#' /etc/fastpath/fastpath.env) FASTPATH_MODE=none PATH=/usr/bin:/bin \
        setpriv --reuid fastpath --regid fastpath --clear-groups --inh-caps=-all --no-new-privs $command >$log 2>&1 &
    sidecar=$!
    ready $log $sidecar
    ask $home/bin/python 8800 "$1" || status=$?
    kill $sidecar
    wait $sidecar || fail "the sidecar ended with $?"
    return $status
}

# look : nothing is there of Django's side, and nobody but root can change the program.
look() {
    id fastpath >/dev/null || fail "there is no user"
    [[ $(stat -c '%U %a' /var/lib/fastpath) == 'fastpath 700' ]] || fail "/var/lib/fastpath is not its user's alone"
    [[ $(stat -c '%U %a' /etc/fastpath/fastpath.env) == 'root 600' ]] || fail "anybody reads the secret"
    $home/bin/fastpath --help | grep -q 'The Fastpath sidecar' || fail "the command does not run"
    $home/bin/python -c 'import importlib.util as all; assert not all.find_spec("django") and not all.find_spec("realtime")'
    [[ -z $(find $home ! -user root) ]] || fail "somebody else can change the program"
}

as_it_was() { cat /etc/fastpath/fastpath.env; id -u fastpath; }

try_deb() {
    dpkg --install "$file" >/dev/null
    look
    fastpath --help >/dev/null || fail "it is not in PATH"
    [[ -L /etc/systemd/system/multi-user.target.wants/fastpath.service ]] || fail "the service is not enabled"
    serve write
    say "installed, and it keeps what it is sent"

    echo '# the operator was here' >>/etc/fastpath/fastpath.env
    before=$(as_it_was)
    dpkg --install "$later" >/dev/null
    [[ $(dpkg-query --show --showformat '${Version}' $package) == *later* ]] || fail "it is not upgraded"
    [[ $(as_it_was) == "$before" ]] || fail "the upgrade has changed the configuration"
    serve read
    say "upgraded: configuration, user and journal are as they were"

    dpkg --remove $package >/dev/null
    [[ ! -e $home && ! -e $unit && ! -e /usr/bin/fastpath ]] || fail "the removal leaves something of the program"
    [[ -s /etc/fastpath/fastpath.env && -n $(ls -A /var/lib/fastpath) ]] || fail "the removal takes what is the operator's"
    dpkg --install "$file" >/dev/null
    serve read
    say "removed and installed again: configuration and journal are as they were"

    touch /etc/fastpath/site.pem
    dpkg --purge $package >/dev/null
    [[ ! -e /var/lib/fastpath && ! -e /etc/fastpath/fastpath.env ]] || fail "the purge leaves configuration or journal"
    [[ -e /etc/fastpath/site.pem ]] || fail "the purge takes a file that is not the package's"
    [[ -z $(find /etc/systemd /var/lib/systemd -name 'fastpath*' 2>/dev/null) ]] || fail "the purge leaves the service enabled"
    dpkg-query --show $package 2>/dev/null && fail "it is still known"
    say "purged: nothing is left but the user and a file that was never the package's"
}

# needs : each file that the package asks for is on this machine, whose files rpm itself has never heard of.
needs() {
    local each
    rpm --query --package --requires "$file" | grep -q '^/usr/bin/python3' || fail "it asks for no Python"
    for each in $(rpm --query --package --requires "$file" | grep '^/'); do
        [[ -e $each ]] || fail "it asks for $each, which is not here"
    done
}

try_rpm() {
    needs
    rpm --install --nodeps "$file"
    look
    fastpath --help >/dev/null || fail "it is not in PATH"
    rpm --verify --nodeps $package || fail "what is installed is not what was packed"
    serve write
    say "installed, and it keeps what it is sent"

    echo '# the operator was here' >>/etc/fastpath/fastpath.env
    before=$(as_it_was)
    rpm --upgrade --nodeps "$later"
    [[ $(rpm --query $package) == *later* ]] || fail "it is not upgraded"
    [[ $(as_it_was) == "$before" ]] || fail "the upgrade has changed the configuration"
    [[ -e $home/bin/python ]] || fail "the upgrade has taken the new program with the old one"
    serve read
    say "upgraded: configuration, user and journal are as they were"

    rpm --erase $package
    [[ ! -e $home && ! -e $unit && ! -e /usr/bin/fastpath ]] || fail "the removal leaves something of the program: $(find $home)"
    [[ -s /etc/fastpath/fastpath.env && -n $(ls -A /var/lib/fastpath) ]] || fail "the removal takes what is the operator's"
    rpm --install --nodeps "$file"
    serve read
    say "removed and installed again: configuration and journal are as they were"
}

try_folder() {
    local log=/tmp/own.log own=/home/newcomer/own sidecar
    # An ordinary user, in a folder of his own.
    install -d -o newcomer -g newcomer $own
    cp "$file" "$later" $own
    chown -R newcomer: $own
    local newcomer=(env -i HOME=/home/newcomer PATH=/usr/bin:/bin setpriv --reuid newcomer --regid newcomer --clear-groups)
    : >$log
    "${newcomer[@]}" tar -C $own -xzf "$own/$(basename "$file")"
    local top=$own/$(basename "${file%-linux-*}")
    "${newcomer[@]}" env FASTPATH_MODE=none FASTPATH_TOKEN_SECRET=$(printf '0%.0s' {1..64}) FASTPATH_CONTROL=$own/control.sock \
        FASTPATH_LISTEN=clients://127.0.0.1:8900,publishers://127.0.0.1:0 "$top/bin/fastpath" >$log 2>&1 &
    sidecar=$!
    ready $log $sidecar
    ask "$top/bin/python" 8900 write
    kill $sidecar
    wait $sidecar || fail "the sidecar ended with $?"
    say "unpacked and run by an ordinary user"

    # As a service, by the words of its README.
    tar -C /tmp -xzf "$file"
    (cd "/tmp/$(basename "${file%-linux-*}")" && cp -r . $home && $home/bin/set-up)
    look
    serve write
    echo '# the operator was here' >>/etc/fastpath/fastpath.env
    before=$(as_it_was)
    rm -rf $home
    tar -C /tmp -xzf "$later"
    (cd "/tmp/$(basename "${later%-linux-*}")" && cp -r . $home && $home/bin/set-up)
    [[ $(as_it_was) == "$before" ]] || fail "the upgrade has changed the configuration"
    serve read
    say "in its place as a service, and upgraded: configuration, user and journal are as they were"
}

"try_$kind"
