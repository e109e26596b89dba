#!/usr/bin/env bash
# Measures, and writes the documentation's tables and charts: `tools/bench.sh [SCENARIO...] [OPTION...]`. With scenarios named, only
# these are measured, and their tables are printed: those of the documentation come from one whole run.
# `tools/bench.sh spark-live [--seconds 60] [--rates 100,1000]` measures rows from Kafka through Spark, live and in batches.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
mkdir -p var

# Rows live, from Kafka through Spark to a subscriber, need a broker that only the tests have.
if [[ ${1:-} == spark-live ]]; then exec "$python" -m tests.support.spark.live_latency "${@:2}"; fi

scenarios=()
options=()
for argument in "$@"; do
    if [[ $argument =~ ^F[0-9]+[a-z]?$ ]]; then scenarios+=("$argument"); else options+=("$argument"); fi
done
comparable=()
for scenario in F1 F2 F3 F5; do
    [[ ${#scenarios[@]} -gt 0 && " ${scenarios[*]} " != *" $scenario "* ]] || comparable+=("$scenario")
done

"$python" -m fastpath.bench run "${scenarios[@]:-all}" --repeat 3 --floor auto --output var/bench.json "${options[@]}"
files=(var/bench.json)
if [[ ${#comparable[@]} -gt 0 ]]; then
    "$python" -m fastpath.bench compare "${comparable[@]}" --floor auto --output var/compare.json
    files+=(var/compare.json)
fi
documentation=()
[[ ${#scenarios[@]} -gt 0 ]] || documentation=(--docs docs/explain/benchmarks.md)
[[ ${#scenarios[@]} -gt 0 ]] || "$python" -m fastpath.bench guarantee --output var/guarantee.json "${documentation[@]}"
"$python" -m fastpath.bench report "${files[@]}" "${documentation[@]}"
[[ ${#scenarios[@]} -gt 0 ]] || "$python" -m spark.bench --output var/spark.json
[[ ${#scenarios[@]} -gt 0 ]] || "$python" -m fastpath.bench publishing --output var/publishing.json
