#!/usr/bin/env bash
# Makes what the project needs in .venv and var/: `tools/setup.sh [--tests]`. Quick when nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamps=$venv/stamps
purpose=${1:-}

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Run a command quietly; what it said is shown only if it fails.
quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# Two runs at once (`make run` here, `make test` there) wait for each other.
exec 9>>.setup.lock
flock 9

make_environment() {
    [[ -x $venv/bin/pip ]] && $venv/bin/python -c '' 2>/dev/null && return
    command -v python3 >/dev/null || fail "Python 3.11 or newer is missing. As root: apt-get install -y python3 python3-venv"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "this needs Python 3.11 or newer, and $(command -v python3) is $(python3 --version)."
    python3 -c 'import ensurepip' 2>/dev/null ||
        fail "Python's venv module is not complete. As root: apt-get install -y python3-venv"
    say "making $venv with $(python3 --version)"
    rm -rf "$venv"
    quietly python3 -m venv "$venv" || fail "could not make $venv; the reason is above."
}

# install STAMP WORDS FILE... : install the requirement files unless just these, byte for byte, are installed already.
install() {
    local stamp=$stamps/$1 words=$2
    shift 2
    local digest started=$SECONDS
    digest=$(cat constraints.txt requirements-build.txt requirements-data.txt requirements-postgres.txt \
        requirements-mariadb.txt requirements-docs.txt "$@" | sha256sum)
    [[ -f $stamp && $(<"$stamp") == "$digest" ]] && return
    say "$words"
    local options=(--disable-pip-version-check --quiet)
    quietly $venv/bin/python -m pip install "${options[@]}" -r requirements-build.txt &&
        quietly $venv/bin/python -m pip install "${options[@]}" --no-build-isolation "${@/#/--requirement=}" ||
        fail "pip could not install the packages; the reason is above."
    if [[ $stamp == "$stamps/run" ]]; then
        quietly $venv/bin/python -m pip install "${options[@]}" --no-deps -r requirements-data.txt ||
            fail "pip could not install the packages of requirements-data.txt; the reason is above."
    fi
    if [[ $stamp == "$stamps/tests" ]]; then
        local apart
        for apart in postgres mariadb docs; do
            quietly $venv/bin/python -m pip install "${options[@]}" --upgrade --target $venv/$apart -r requirements-$apart.txt ||
                fail "pip could not install the packages of requirements-$apart.txt; the reason is above."
        done
    fi
    mkdir -p "$stamps"
    printf '%s\n' "$digest" >"$stamp"
    say "installed in $((SECONDS - started)) s"
}

# The browser tests drive Debian's Chromium, others its redis-server, Prometheus, PostgreSQL, MariaDB, web servers and gcc: no pip package brings them.
install_for() {
    local missing packages
    missing=$(tools/ready_for.sh "$1") && return
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        say "$missing"
        [[ ${CI:-} != true ]] || exit 1
        return
    fi
    packages=$(tools/ready_for.sh "$1" --packages)
    say "installing what the $1 tests need (apt-get: $packages)"
    export DEBIAN_FRONTEND=noninteractive
    local install=(apt-get install -y --no-install-recommends $packages)
    # Lists that are empty or old do not name a package that is there: update, and try once more.
    quietly "${install[@]}" 2>/dev/null || { quietly apt-get update && quietly "${install[@]}"; } || fail "$missing"
    missing=$(tools/ready_for.sh "$1") || fail "$missing"
}

# install_stopped KIND UNIT... : nobody wants a test's web server on this machine's port 80, nor its database server: none of
# these units is started when they are installed, or later by itself. Debian asks a program before it starts a service, and
# 101 is "no"; one that is there already decides, as in a container.
install_stopped() {
    local kind=$1 policy=/usr/sbin/policy-rc.d unit units=()
    shift
    tools/ready_for.sh "$kind" >/dev/null && return
    for unit in "$@"; do
        [[ -e /lib/systemd/system/$unit.service ]] || units+=("$unit")
    done
    if [[ $(id -u) == 0 && ! -e $policy ]]; then
        trap "rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        install_for "$kind"
        rm -f "$policy"
        trap - EXIT
    else
        install_for "$kind"
    fi
    for unit in "${units[@]}"; do
        [[ ! -e /lib/systemd/system/$unit.service ]] || systemctl disable --quiet "$unit" >/dev/null 2>&1 || true
    done
}

# The charts of the monitoring pages: what browsers load comes from this site alone.
copy_charts() {
    local from=("$venv"/lib/python3*/site-packages/uplot/static) to=realtime/static/realtime/vendor/uplot
    [[ -f ${from[0]}/uPlot.iife.js ]] || fail "uplot-python is installed without its uPlot.iife.js."
    mkdir -p "$to"
    install_file() { cmp -s "$1" "$to/$2" || cp "$1" "$to/$2"; }
    install_file "${from[0]}/uPlot.iife.js" uPlot.iife.js
    install_file "${from[0]}/uPlot.min.css" uPlot.min.css
    install_file tools/licences/uPlot.txt LICENSE
}

prepare_database() {
    mkdir -p var
    $venv/bin/python manage.py migrate --noinput --verbosity 0
    $venv/bin/python manage.py realtime_demo | sed 's/^/setup: /'
}

make_environment
if [[ $purpose == --tests ]]; then
    install tests "installing what the tests need" requirements.txt requirements-test.txt
    install_for browser
    install_for curl
    install_for redis
    install_for prometheus
    install_for compiler
    install_for postgres
    install_for mosquitto
    install_for systemd
    install_stopped mariadb mariadb
    install_stopped webservers nginx apache2 apache-htcacheclean haproxy
else
    install run "installing the pinned packages; Spark is the large one (456 MB), so the first time takes minutes" \
        requirements.txt
    copy_charts
    prepare_database
fi
