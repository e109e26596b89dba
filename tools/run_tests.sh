#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
set -euo pipefail
cd "$(dirname "$0")/.."

markers=$1
shift
missing=
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
    # In CI these tests fail; by hand the rest is still worth running, and the last line says what was not run.
    if [[ ${CI:-} != true ]]; then
        markers="($markers) and not browser"
        missing="NOT RUN: the browser tests need Chromium. As root: apt-get update && apt-get install -y chromium"
    fi
fi
status=0
.venv/bin/python -m pytest -m "$markers" "$@" || status=$?
[[ -z $missing ]] || printf '%s\n' "$missing" >&2
exit "$status"
