#!/usr/bin/env bash
# Sends a real server what its own /openapi.json allows and forbids, for about a minute and a half,
# and fails for an answer of 500 or more, one that the document does not have, or one of another
# shape. Prints all that was reported, by kind.
#
# The requests are made by schemathesis, which is installed into a folder of its own.
set -euo pipefail

cd "$(dirname "$0")/.."
source Scripts/servers.sh
source Scripts/tools.sh

readonly work=.build-openapi
readonly seconds=${OPENAPI_SECONDS:-90}
readonly seed=${OPENAPI_SEED:-$RANDOM}

# What must hold. Other checks of schemathesis contradict the contract: they want a request to be
# accepted whose cursor nobody has given out, or whose key was used for another.
readonly checks=not_a_server_error,status_code_conformance,content_type_conformance,\
response_headers_conformance,response_schema_conformance,unsupported_method

# shellcheck disable=SC2034 # For skip().
readonly unchecked="The API was not compared with /openapi.json."

require_python
if [ ! -x "$work/python/bin/schemathesis" ]; then
    python3 -m venv "$work/python"
    "$work/python/bin/pip" --quiet install 'schemathesis>=4,<5' >&2 ||
        skip "schemathesis cannot be installed" "let pip reach PyPI"
fi

${SWIFT:-swift} build --product sanguine

rm -rf "$work/data"
start "$work/stand-in.log" stand-in --port 0
start "$work/server.log" serve --data "$work/data" --port 0 --admin-port 0 --upstream "$address"

# Makes a guest, and prints the access token.
token=$(
    python3 - "$address" <<'PYTHON'
import json, sys, urllib.request

guest = {"deviceId": "a-device-of-the-check", "deviceSecret": "A" * 43}
request = urllib.request.Request(
    sys.argv[1] + "/v1/accounts/guest",
    json.dumps(guest).encode(),
    {"Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request))["session"]["accessToken"])
PYTHON
)

# Left out: what is on the other port, what ends the session that all the others need, and the
# stream that never ends.
run() {
    # In its own folder, where it leaves what it has found.
    (cd "$work" && python/bin/schemathesis --no-color run "$address/openapi.json" \
        --header "Authorization: Bearer $token" --exclude-path-regex \
        '^/(metrics|admin)|/sessions/current$|/v1/live$' \
        --continue-on-failure --request-timeout 20 --seed "$seed" --max-time "$seconds" \
        --warnings off "$@")
}

echo "schemathesis, seed $seed, $seconds s"
status=0
run --checks "$checks" >"$work/report.txt" 2>&1 || status=$?
if [ "$status" != 0 ]; then
    cat "$work/report.txt"
    exit "$status"
fi
sed -n '/SUMMARY/,$p' "$work/report.txt"
