#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
#
# The tests that are not slow wait more than they work, and run in TEST_PROCESSES (default 3) processes beside each other;
# the slow ones measure, and have the machine for themselves.
#
# In CI a test that fails has failed the run, but for one that is marked `timing`: that runs once more at once, with the same
# seed and beside the same tests, and the run says which (tests/support/again.py). A machine that stands still for a second is
# no fault of a test of time; any other first failure is somebody's.
set -euo pipefail
cd "$(dirname "$0")/.."

markers=$1
shift
# In CI the tests that need a browser, Redis, Prometheus, PostgreSQL or a C compiler run, and fail, where there is none. By hand the rest is still worth
# running, and the last lines say what was not run.
missing=()
for need in browser redis prometheus compiler postgres; do
    if [[ ${CI:-} != true ]] && ! line=$(tools/ready_for.sh "$need"); then
        markers="($markers) and not $need"
        missing+=("$line")
    fi
done
processes=()
[[ $markers == *"not slow"* ]] && processes=(-n "${TEST_PROCESSES:-3}" --no-loadscope-reorder)  # tests/support/groups.py has an order
status=0
.venv/bin/python -m pytest -p no:cacheprovider -m "$markers" "${processes[@]}" "$@" || status=$?
for line in "${missing[@]}"; do
    printf 'NOT RUN: %s\n' "$line" >&2
done
exit "$status"
