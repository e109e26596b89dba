#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
set -euo pipefail
cd "$(dirname "$0")/.."

markers=$1
shift
# In CI the browser tests run, and fail, where there is no browser. By hand the rest is still worth running, and the
# last line says what was not run.
missing=
if [[ ${CI:-} != true ]] && ! missing=$(tools/browser_ready.sh); then
    markers="($markers) and not browser"
fi
status=0
.venv/bin/python -m pytest -m "$markers" "$@" || status=$?
[[ -z $missing ]] || printf 'NOT RUN: %s\n' "$missing" >&2
exit "$status"
