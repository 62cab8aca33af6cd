#!/usr/bin/env bash
# Checks the shell scripts: that bash can read them, what install-missing.sh does on made-up systems,
# what becomes of a check without its tool, and what shellcheck has to say.
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
