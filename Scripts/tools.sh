# shellcheck shell=bash
# Handles missing tools. For scripts that source this file and set `unchecked`.

# Prints what is missing and ends the script: as skipped, or with REQUIRE_TOOLS=1 as failed. `make
# check` sets it, so that continuous integration never passes by skipping.
#
#   skip "there is no python3" "install python3"
skip() {
    local word=Skipped status=0
    if [ "${REQUIRE_TOOLS:-}" = 1 ]; then word=Failed status=1; fi
    # shellcheck disable=SC2154 # The script that sources this sets it.
    echo "$word: $1. $unchecked To check it, $2." >&2
    exit "$status"
}

# Ends the script if there is no Python that can create a virtual environment.
require_python() {
    command -v python3 >/dev/null || skip "there is no python3" "install python3"
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
        skip "python3 has no module 'venv'" "install python3-venv"
}
