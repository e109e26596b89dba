#!/usr/bin/env bash
# Installs, upgrades and removes the sidecar on a bare machine without network (tools/bare_machine.sh), as root:
#
#   tools/try_package.sh KIND FOLDER [SUITE]     KIND: deb, rpm or folder
#
# FOLDER has what tools/packages.sh builds, and in later/ the same of a later version; what is not there is built there.
# An rpm is tried on Debian with rpm: that shows files, scripts and what it does, and not what a distribution with rpm
# calls the packages that it asks for.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=$1 folder=$2 suite=${3:-bookworm}
[[ -d $folder ]] || tools/packages.sh "$folder"
[[ -d $folder/later ]] || {
    mkdir "$folder/later"
    cp "$folder"/*.whl "$folder/later"
    .venv/bin/python -m tools.linux.packages "$folder/later" 1700000000 +later
}
case $kind in
    deb) only='' pattern='*.deb' ;;
    rpm) only=python3,rpm pattern='*.rpm' ;;
    folder) only='' pattern='*-linux-*.tar.gz' ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
# shellcheck disable=SC2086
files=("$folder"/$pattern "$folder"/later/$pattern)
tools/bare_machine.sh --suite "$suite" --only "$only" --offline --with "${files[0]}" --with "${files[1]}" \
    --script tools/linux/trial.sh "~/trial.sh $kind ~/$(basename "${files[0]}") ~/$(basename "${files[1]}")"
