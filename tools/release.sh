#!/usr/bin/env bash
# Builds all that a release consists of into release/, byte for byte the same from the same commit and packages:
# `tools/release.sh [FOLDER]`. What is not committed is in no release, unless UNCOMMITTED=1 says that this is a trial.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-release}
if [[ -n $(git status --porcelain) && ${UNCOMMITTED:-} != 1 ]]; then
    echo 'release: there is something that is not committed (git status); UNCOMMITTED=1 builds all the same' >&2
    exit 1
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
tools/dist.sh "$out"
.venv/bin/python -m tools.linux.packages "$out" "$SOURCE_DATE_EPOCH" >/dev/null
.venv/bin/python -m tools.release "$out" "$SOURCE_DATE_EPOCH"
