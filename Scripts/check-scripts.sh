#!/usr/bin/env bash
# Checks the shell scripts: bash can parse them, install-missing.sh works on simulated systems, a
# check without its tool is skipped or fails, and shellcheck reports nothing.
set -euo pipefail

cd "$(dirname "$0")/.."
source Scripts/tools.sh

# shellcheck disable=SC2034 # For skip().
readonly unchecked="The scripts were not checked by shellcheck."
readonly scripts=(Scripts/*.sh .ci/run)

for script in "${scripts[@]}"; do bash -n "$script"; done
Scripts/check-install-missing.sh
Scripts/check-missing-tools.sh

command -v shellcheck >/dev/null || skip "there is no shellcheck" "install shellcheck"
shellcheck --external-sources "${scripts[@]}"
echo "shellcheck: ${#scripts[@]} scripts are clean"
