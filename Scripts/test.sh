#!/usr/bin/env bash
# Runs the tests that were built, with the arguments of `swift test`, and lists at the end which failed.
#
# It prints failures and a line for each hundred tests that passed; the whole output is in
# .build/test.log. SANGUINE_TEST_PATIENCE (4) multiplies the waits, so that only a test that waits in
# vain notices a slow machine.
# Status: that of `swift test`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

swift=${SWIFT:-swift} log=.build/test.log
export SANGUINE_TEST_PATIENCE=${SANGUINE_TEST_PATIENCE:-4}
mkdir -p .build
"$swift" test --skip-build "$@" 2>&1 | tee "$log" | grep -av --line-buffered '^◇' | awk '
  /^✔ Suite/ || /^✔ Test case/ { next }
  /^✔ Test run/ { print; next }
  /^✔ Test/ { if (++passed % 100 == 0) { print passed " tests passed"; fflush() }; next }
  { print; fflush() }
'
status=${PIPESTATUS[0]}
((status == 0)) && exit 0

# Issues of Swift Testing, crashes, and a compiler's or a linker's errors.
failed=$(awk '
  /^(◇|✔)/ { next }
  /recorded an issue|^Fatal error|[Cc]rash|error: / && count++ < 50 { print substr($0, 1, 600) }
' "$log")
echo
echo "The failed tests; the whole output is in $log:"
echo "${failed:-none is named; the end of the output says why}"
exit "$status"
