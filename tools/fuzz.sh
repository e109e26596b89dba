#!/usr/bin/env bash
# Fuzzes every parser, one after the other and behind everything else that runs: `tools/fuzz.sh [--seconds N] [TARGET...]`.
# What reached something new is kept in var/fuzz and begun with the next time; what was found lies in var/fuzz/found.
set -euo pipefail
cd "$(dirname "$0")/.."
exec nice -n 19 .venv/bin/python -m tests.fuzz "$@"
