#!/usr/bin/env bash
# Builds the manual from docs/ as a site, byte for byte the same from the same files: `tools/manual.sh [FOLDER]`. A broken
# link or anchor and a page that docs/index.md does not list are errors.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath --canonicalize-missing "${1:-build/site}")
[[ -d .venv/docs ]] || { echo 'manual: MkDocs is not here yet: run `make setup-tests` first' >&2; exit 1; }
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# The theme's advertisement for its successor is no fault of a page.
export PYTHONPATH=$PWD/.venv/docs NO_MKDOCS_2_WARNING=1
# It shall be silent when all is well; its own --quiet would have `--strict` count nothing.
.venv/bin/python -m mkdocs build --strict --config-file tools/manual/mkdocs.yml --site-dir "$out" 2>&1 |
    { grep -v '^INFO ' || true; }
