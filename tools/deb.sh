#!/usr/bin/env bash
# Builds the sidecar's package for Debian into dist/, beside the wheel that it is made of: `tools/deb.sh [FOLDER]`.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-dist}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
tools/dist.sh "$out" >/dev/null
.venv/bin/python -m tools.deb "$out" "$SOURCE_DATE_EPOCH"
