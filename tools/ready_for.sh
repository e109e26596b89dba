#!/usr/bin/env bash
# Says whether the browser tests can run: exits 0, or prints the one line that says what only apt-get has, and exits 1.
set -euo pipefail
cd "$(dirname "$0")/.."

shopt -s nullglob
# Playwright's driver is a Node that needs a library which a bare Debian does not have.
drivers=(.venv/lib/python3*/site-packages/playwright/driver/node)
if command -v chromium chromium-browser google-chrome >/dev/null && "${drivers[0]:-false}" --version >/dev/null 2>&1; then
    exit 0
fi
echo "the browser tests need Chromium. As root: apt-get update && apt-get install -y chromium libatomic1"
exit 1
