#!/usr/bin/env bash
# Builds the sidecar's packages for Linux, deb, rpm and a folder, into dist/, beside the wheel that they are made of:
# `tools/packages.sh [FOLDER]`.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-dist}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
tools/dist.sh "$out" >/dev/null
.venv/bin/python -m tools.linux.packages "$out" "$SOURCE_DATE_EPOCH"
