#!/usr/bin/env bash
# Runs the tests that were built, with the arguments of `swift test`, and lists at the end which failed.
#
# The whole output is in .build/test.log.
# Status: that of `swift test`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

swift=${SWIFT:-swift} log=.build/test.log
mkdir -p .build
"$swift" test --skip-build "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
((status == 0)) && exit 0

# Issues of Swift Testing, crashes, and a compiler's or a linker's errors.
failed=$(awk '/recorded an issue|^Fatal error|[Cc]rash|error: / && count++ < 50 {
  print substr($0, 1, 600)
}' "$log")
echo
echo "The failed tests; the whole output is in $log:"
echo "${failed:-none is named; the end of the output says why}"
exit "$status"
