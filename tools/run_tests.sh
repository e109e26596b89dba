#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
#
# The tests that are not slow wait more than they work, and run in TEST_PROCESSES (default 3) processes beside each other. Of
# the slow ones some wait, too, and run in two; those that measure have the machine for themselves (tests/support/groups.py).
#
# In CI what failed is run again by itself when all others are done (tests/support/second_look.py): a busy machine fails no
# run, and what is UNSTABLE is named by its last lines.
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
results=${TEST_RESULTS:-test-results}
rm -rf "$results/unstable" "$results/failed.jsonl"
status=0
# What each part ended with counts: 5 is that nothing of what was asked for is in it, 1 that tests failed, more that it broke.
run() {
    local ended=0
    .venv/bin/python -m pytest -p no:cacheprovider -m "$markers" --no-loadscope-reorder "$@" || ended=$?
    if ((ended > status && ended != 5 || status == 5)); then status=$ended; fi
}
if [[ $markers == *"not slow"* ]]; then
    run -n "${TEST_PROCESSES:-3}" "$@"
else
    run --part beside -n 2 "$@"
    run --part alone "$@"
fi
for line in "${missing[@]}"; do
    printf 'NOT RUN: %s\n' "$line" >&2
done
if [[ ${CI:-} == true && $status == 1 ]]; then
    status=0
    .venv/bin/python -m tests.support.second_look || status=$?
fi
exit "$status"
