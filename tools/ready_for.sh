#!/usr/bin/env bash
# Says whether the tests of one kind can run here: `tools/ready_for.sh browser|redis|prometheus|compiler|postgres` exits 0, or prints the
# one line that says what only apt-get has, and exits 1. With --packages it prints the packages instead.
set -euo pipefail
cd "$(dirname "$0")/.."

need=$1
case $need in
    browser) packages="chromium libatomic1" what="Chromium" ;;
    prometheus) packages="prometheus" what="Prometheus" ;;
    postgres) packages="postgresql" what="PostgreSQL" ;;
    compiler) packages="gcc libc6-dev" what="a C compiler, for the floor of the benchmarks" ;;
    redis) packages="redis-server iproute2 iptables" what="redis-server, and ip and iptables for networks" ;;
esac
if [[ ${2:-} == --packages ]]; then
    echo "$packages"
    exit
fi

browser_ready() {
    shopt -s nullglob
    # Playwright's driver is a Node that needs a library which a bare Debian does not have.
    local drivers=(.venv/lib/python3*/site-packages/playwright/driver/node)
    command -v chromium chromium-browser google-chrome >/dev/null && "${drivers[0]:-false}" --version >/dev/null 2>&1
}

redis_ready() {
    command -v redis-server >/dev/null && command -v ip >/dev/null
}

prometheus_ready() {
    command -v prometheus >/dev/null && command -v promtool >/dev/null
}

postgres_ready() {
    shopt -s nullglob
    # Debian keeps the server's programs out of PATH.
    local servers=(/usr/lib/postgresql/*/bin/postgres)
    [[ -x ${servers[0]:-} ]] || command -v postgres >/dev/null
}

compiler_ready() {
    command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null
}

"${need}_ready" && exit
echo "the $need tests need $what. As root: apt-get update && apt-get install -y $packages"
exit 1
