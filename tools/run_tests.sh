#!/usr/bin/env bash
# Runs pytest on the tests of one kind: `tools/run_tests.sh MARKERS [ARGUMENT...]`, as in `tools/run_tests.sh "not slow"`.
#
# The tests that are not slow wait more than they work, and run in TEST_PROCESSES (default 3) processes beside each other. Of
# the slow ones some wait, too, and run in three; those that measure have the machine for themselves
# (tests/support/groups.py).
#
# `make test COVER=1` says how much of each package the tests reach, in this process and in those that they start, and fails
# where that is less than the floor in pyproject.toml.
#
# In CI what failed is run again by itself when all others are done (tests/support/second_look.py): a busy machine fails no
# run, and what is UNSTABLE is named by its last lines.
set -euo pipefail
cd "$(dirname "$0")/.."

markers=$1
shift
# A thousand processes of the product are started: without cached bytecode each would compile all its modules anew.
unset PYTHONDONTWRITEBYTECODE
# In CI the tests that need a browser, curl, Redis, Prometheus, PostgreSQL, MariaDB, web servers, Mosquitto's clients, systemd's or a C compiler run, and fail, where there is none. By hand the rest is
# still worth running, and the last lines say what was not run.
missing=()
for need in browser curl redis prometheus compiler postgres mariadb webservers mosquitto systemd; do
    if [[ ${CI:-} != true ]] && ! line=$(tools/ready_for.sh "$need"); then
        markers="($markers) and not $need"
        missing+=("$line")
    fi
done
# Of the programs in other languages, each runs where its compiler or interpreter is, in CI as by hand. tools/setup.sh brings
# none of these (together they are over a gigabyte), so that to ask for them in CI would fail every plain Debian, which has
# lost nothing by it: Node, which Playwright brings, runs in any case. What did not run is told all the same.
if [[ $markers != *"not slow"* ]] && ! line=$(tools/ready_for.sh languages); then missing+=("$line"); fi
# A broker of Kafka comes by Maven, which brings a Java of its own: its slow tests run where it is.
if [[ $markers != *"not slow"* ]] && ! line=$(tools/ready_for.sh kafka); then
    markers="($markers) and not kafka"
    missing+=("$line")
fi
# A machine of one's own takes root and debootstrap, and an engine for images is a good deal to install for three tests:
# what needs them runs where they are.
if [[ $markers != *"not slow"* ]]; then
    for need in bare engine; do
        if ! line=$(tools/ready_for.sh "$need"); then
            markers="($markers) and not $need"
            missing+=("$line")
        fi
    done
fi
# Helm is no package of Debian's either: what it makes of the chart is kept in manifests, which other tests read
# (tests/distribution/test_chart.py); those that run it do so where it is.
if ! line=$(tools/ready_for.sh helm); then
    markers="($markers) and not helm"
    missing+=("$line")
fi
measured=()
if [[ -n ${COVER:-} ]]; then
    measured=(-m coverage run)
    rm -rf var/coverage
    mkdir -p var/coverage
fi
results=${TEST_RESULTS:-test-results}
rm -rf "$results/unstable" "$results/failed.jsonl"
# What each part ended with counts: 5 is that nothing of what was asked for is in it, 1 that tests failed, more that it broke.
status=5
run() {
    local ended=0
    .venv/bin/python "${measured[@]}" -m pytest -p no:cacheprovider -m "$markers" --no-loadscope-reorder --durations 20 --durations-min 5 "$@" || ended=$?
    if ((status == 5 || ended > status && ended != 5)); then status=$ended; fi
}
if [[ $markers == *"not slow"* ]]; then
    run -n "${TEST_PROCESSES:-3}" "$@"
else
    run --part beside -n 3 "$@"
    run --part alone "$@"
fi
for line in "${missing[@]}"; do
    printf 'NOT RUN: %s\n' "$line" >&2
done
if [[ -n ${COVER:-} ]]; then
    .venv/bin/python -m coverage combine --quiet
    .venv/bin/python -m coverage json --quiet -o var/coverage/report.json
    .venv/bin/python tools/check_coverage.py var/coverage/report.json || status=$((status > 0 ? status : 1))
fi
if [[ ${CI:-} == true && $status == 1 ]]; then
    status=0
    .venv/bin/python -m tests.support.second_look || status=$?
fi
exit "$status"
