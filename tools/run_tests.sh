#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
#
# The tests that are not slow wait more than they work, and run in TEST_PROCESSES (default 3) processes beside each other;
# the slow ones measure, and have the machine for themselves.
#
# In CI up to AGAIN_MAX tests that failed run once more, each with the machine for itself, and the run says which: a machine
# that stands still for seconds is no fault of a test. One that fails twice fails the run.
set -euo pipefail
cd "$(dirname "$0")/.."

markers=$1
shift
# In CI the tests that need a browser, Redis or Prometheus run, and fail, where there is none. By hand the rest is still worth
# running, and the last lines say what was not run.
missing=()
for need in browser redis prometheus; do
    if [[ ${CI:-} != true ]] && ! line=$(tools/ready_for.sh "$need"); then
        markers="($markers) and not $need"
        missing+=("$line")
    fi
done
processes=()
[[ $markers == *"not slow"* ]] && processes=(-n "${TEST_PROCESSES:-3}")
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
status=0
.venv/bin/python -m pytest -o cache_dir="$cache" -m "$markers" "${processes[@]}" "$@" || status=$?
failed=0
[[ -f $cache/v/cache/lastfailed ]] && failed=$(grep -c '::' "$cache/v/cache/lastfailed" || true)
if [[ ${CI:-} == true && $status == 1 && $failed -ge 1 && $failed -le ${AGAIN_MAX:-4} ]]; then
    printf 'FAILED ONCE, run again:\n' >&2
    sed -n 's/^ *"\(.*\)": true,*$/  \1/p' "$cache/v/cache/lastfailed" >&2
    status=0
    .venv/bin/python -m pytest -o cache_dir="$cache" -m "$markers" --last-failed --last-failed-no-failures none "$@" || status=$?
fi
for line in "${missing[@]}"; do
    printf 'NOT RUN: %s\n' "$line" >&2
done
exit "$status"
