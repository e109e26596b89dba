#!/usr/bin/env bash
# Builds the package and installs, upgrades, removes and purges it on a bare machine (tools/bare_machine.sh): as root.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
tools/deb.sh "$out"
deb=("$out"/*.deb)
tools/bare_machine.sh --work-tree --with "${deb[0]}" "tools/debian/trial.sh ~/$(basename "${deb[0]}")"
