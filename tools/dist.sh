#!/usr/bin/env bash
# Builds the wheel and the source distribution into dist/, byte for byte the same from the same commit, and checks both.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
out=${1:-dist}
[[ -f realtime/static/realtime/vendor/uplot/uPlot.iife.js ]] ||
    { echo 'dist: uPlot is not here yet: run `make setup` first' >&2; exit 1; }

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf "$out"
$python -m build --no-isolation --outdir "$out" . | tail -n 1
$python -m twine check --strict "$out"/*
$python -m check_wheel_contents "$out"/*.whl
