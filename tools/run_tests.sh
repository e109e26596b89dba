#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
set -euo pipefail
cd "$(dirname "$0")/.."

markers=$1
shift
# In CI the tests that need a browser or Redis run, and fail, where there is none. By hand the rest is still worth
# running, and the last lines say what was not run.
missing=()
for need in browser redis; do
    if [[ ${CI:-} != true ]] && ! line=$(tools/ready_for.sh "$need"); then
        markers="($markers) and not $need"
        missing+=("$line")
    fi
done
status=0
.venv/bin/python -m pytest -m "$markers" "$@" || status=$?
for line in "${missing[@]}"; do
    printf 'NOT RUN: %s\n' "$line" >&2
done
exit "$status"
