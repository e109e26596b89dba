#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
#
# The tests that are not slow wait more than they work, and run in TEST_PROCESSES (default 3) processes beside each other. Of
# the slow ones some wait, too, and run in two; those that measure have the machine for themselves (tests/support/groups.py).
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
status=0
run() { .venv/bin/python -m pytest -p no:cacheprovider -m "$markers" --no-loadscope-reorder "$@" || status=$?; }
if [[ $markers == *"not slow"* ]]; then
    run -n "${TEST_PROCESSES:-3}" "$@"
else
    run --part beside -n 2 "$@"
    beside=$status
    status=0
    run --part alone "$@"
    # 5: nothing of what was asked for is in this part.
    if ((status == 5 || (status == 0 && beside != 5))); then status=$beside; fi
fi
for line in "${missing[@]}"; do
    printf 'NOT RUN: %s\n' "$line" >&2
done
exit "$status"
