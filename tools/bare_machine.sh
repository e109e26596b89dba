#!/usr/bin/env bash
# Runs a command in a fresh copy of this project on a bare machine: Debian 12 with python3, python3-venv, git and make.
#
#   tools/bare_machine.sh [--user] [--work-tree] [--keep] [--with FILE]… [--script FILE] [--suite SUITE]
#                         [--only PACKAGES] [--offline] [COMMAND]      (default: make setup)
#
#   --user       as an ordinary user; without it as root
#   --work-tree  with what is not committed yet; without it a plain clone
#   --with FILE  with that file in the user's home
#   --script     with that file there, and without a copy of the project
#   --keep       leave the machine's folder behind and say where it is
#   --suite      another Debian: trixie
#   --only       with these packages, as a,b, or with '' none, instead of python3, python3-venv, git and make
#   --offline    with no network but its own loopback
#
# The machine is a chroot made by debootstrap (needs root), kept under BARE_FOLDER (default /tmp/bare) and copied for
# every run. It reaches its package registries as this machine does: the settings of apt and pip, the resolver and the
# trusted certificates are copied into it, and nothing else of this machine is.
set -euo pipefail
cd "$(dirname "$0")/.."

repository=$PWD
folder=${BARE_FOLDER:-/tmp/bare}
suite=bookworm
packages=python3,python3-venv,git,make
offline=
user=root
home=/root
work_tree=
keep=
script=
with=()

while [[ ${1:-} == --* ]]; do
    case $1 in
        --user) user=newcomer home=/home/newcomer ;;
        --work-tree) work_tree=yes ;;
        --keep) keep=yes ;;
        --with) with+=("$2") && shift ;;
        --script) script=$2 && with+=("$2") && shift ;;
        --suite) suite=$2 && shift ;;
        --only) packages=$2 && shift ;;
        --offline) offline=--net ;;
        *) sed -n '2,18s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
command=${*:-make setup}
base=$folder/base-$suite-${packages//,/-}

[[ $(id -u) == 0 ]] || { echo "bare_machine: a chroot needs root." >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "bare_machine: missing: apt-get install -y debootstrap" >&2; exit 1; }

# Where this machine's apt finds Debian 12, whatever that is.
debian_archive() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb( \[[^]]*\])? +([^ ]+) .*/\2/p' | grep '/debian/\?$' | head -n 1
}

# What lets apt and pip inside reach what they reach outside.
copy_registry_settings() {
    local root=$1 file
    cp -L /etc/resolv.conf "$root/etc/"
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list /etc/pip.conf; do
        [[ -f $file ]] && cp -L --parents "$file" "$root"
    done
    grep -lE '^ *Acquire' /etc/apt/apt.conf.d/* 2>/dev/null | xargs -r -I{} cp -L --parents {} "$root"
    mkdir -p "$root/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
}

make_base() {
    [[ -d $base ]] && return
    echo "bare_machine: making the base with debootstrap, once" >&2
    rm -rf "$base.partial"
    mkdir -p "$folder"
    debootstrap --variant=minbase ${packages:+"--include=$packages"} "$suite" "$base.partial" \
        "$(debian_archive)" >"$folder/debootstrap.log" 2>&1 ||
        { tail -n 20 "$folder/debootstrap.log" >&2; exit 1; }
    rm -rf "$base.partial"/var/cache/apt/archives/*.deb "$base.partial"/var/lib/apt/lists/*
    chroot "$base.partial" useradd --create-home --shell /bin/bash newcomer
    copy_registry_settings "$base.partial"
    mv "$base.partial" "$base"
}

copy_project() {
    local target=$1
    if git -C "$repository" rev-parse --quiet --verify HEAD >/dev/null; then
        git clone --quiet --no-hardlinks "$repository" "$target"
    else
        git init --quiet "$target"
    fi
    if [[ -n $work_tree ]]; then
        # Not what was deleted and is still in the index: tar would stop there.
        git -C "$repository" ls-files -z --cached --others --exclude-standard |
            tar -C "$repository" --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -C "$target" -xf -
    fi
}

make_base
machine=$(mktemp -d "$folder/machine.XXXXXX")
if [[ -n $keep ]]; then
    echo "bare_machine: kept in $machine" >&2
else
    trap 'rm -rf --one-file-system "$machine"' EXIT
fi
cp -a "$base/." "$machine/"
if [[ -n $script ]]; then mkdir "$machine$home/project"; else copy_project "$machine$home/project"; fi
((${#with[@]} == 0)) || cp "${with[@]}" "$machine$home/"
chroot "$machine" chown -R "$user:" "$home/project"

# Only what tells pip how to reach its registry comes along from this shell's variables.
mapfile -t variables < <(env | grep -E '^(PIP_[A-Z_]+|CI|SSL_CERT_FILE|https?_proxy|no_proxy)=' || true)
status=0
# Mounts and processes of its own: both end with the command, whatever it left running.
unshare --mount --pid --fork --kill-child $offline -- bash -c '
    set -e
    machine=$1 user=$2 home=$3 command=$4 offline=$5
    shift 5
    [[ -z $offline ]] || ip link set lo up
    mount --bind "$machine" "$machine"  # its root is a mount point, as that of every machine
    mount -t proc proc "$machine/proc"
    mount -t sysfs sysfs "$machine/sys"
    mkdir -p "$machine/dev/shm" "$machine/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$machine/dev/shm"
    mount -t devpts devpts "$machine/dev/pts"
    exec env -i "$@" HOME="$home" USER="$user" LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        chroot --userspec="$user" "$machine" bash -c "cd ~/project && $command"
' bash "$machine" "$user" "$home" "$command" "$offline" "${variables[@]}" || status=$?
exit "$status"
