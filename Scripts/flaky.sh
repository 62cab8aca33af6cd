#!/usr/bin/env bash
# Runs every suite in its own process, several times, and prints which tests failed how often.
#
#   ROUNDS=20        the number of runs of each suite
#   LOAD=1           runs with a busy loop on each core; without load otherwise
#   JOBS=1           the number of suites that run at the same time
#   LIMIT=300        the seconds after which a run is ended and counts as failed
#   SUITES=<regex>   only the suites with a matching name, such as SUITES='SanguineTests\.Balance'
#
# The fuzzers run short games here: a failure that depends on a seed occurs each time.
# Status: 0 if nothing failed, 1 if something failed, 2 if the tests could not start.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-20} load=${LOAD:-0} jobs=${JOBS:-1} limit=${LIMIT:-300} pattern=${SUITES:-.}
[[ $rounds =~ ^[1-9][0-9]*$ && $jobs =~ ^[1-9][0-9]*$ && $limit =~ ^[1-9][0-9]*$ ]] ||
  { echo "Set ROUNDS, JOBS and LIMIT to whole numbers, at least 1." >&2; exit 2; }
export SANGUINE_FUZZ_LIMIT=${SANGUINE_FUZZ_LIMIT:-1000}

logs=.build/flaky
rm -rf "$logs" && mkdir -p "$logs"

# The bundle itself if it is executable, because the package manager costs a second each time.
bundle=$(find .build/debug/ -maxdepth 1 -name '*PackageTests.xctest' -print -quit)
run=(swift test --skip-build --disable-xctest)
[[ -f $bundle && -x $bundle ]] && run=("$bundle" --testing-library swift-testing)

# A test is listed as Module.Suite/`its name`(); a nested suite follows another slash.
suite=$'^([A-Za-z_][A-Za-z0-9_]*[.][^\x60]*)/(\x60|[^/]*$).*'
suites=()
while IFS= read -r name; do suites+=("$name"); done < <(
  swift test list --skip-build --disable-xctest 2>/dev/null |
    sed -nE "s,$suite,\\1,p" | sort -u | grep -E -- "$pattern"
)
((${#suites[@]})) || { echo "No suite matches. Build the tests first, and check SUITES." >&2; exit 2; }

children=()
trap '((${#children[@]} == 0)) || kill "${children[@]}" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
if [[ $load == 1 ]]; then
  for _ in $(seq "$(getconf _NPROCESSORS_ONLN)"); do
    (while :; do :; done) & children+=($!)
  done
fi

# Runs a suite once; prints each failed test on a line.
once() {
  local suite=$1 log=$2 status=0
  timeout -k 5 "$limit" "${run[@]}" --filter "^${suite//./\\.}/" >"$log" 2>&1 || status=$?
  ((status == 0)) && return
  if ((status == 124 || status == 137)); then
    # The tests that started but did not end.
    sed -nE 's/^[^ ]+ Test ("[^"]*"|[^ ]+\(\)) started\.$/\1/p' "$log" | sort >"$log.begun"
    sed -nE 's/^[^ ]+ Test ("[^"]*"|[^ ]+\(\)).* (passed|failed) after .*$/\1/p' "$log" | sort \
      >"$log.ended"
    comm -23 "$log.begun" "$log.ended" | sed 's/$/ (did not end)/' | grep . || echo "(did not end)"
    rm -f "$log.begun" "$log.ended"
  else
    sed -nE 's/^[^ ]+ Test (".+"|[^ ]+\(\)).* failed after .*$/\1/p' "$log" | sort -u | grep . ||
      echo "(ended with status $status)"
  fi
}

# Runs a suite `rounds` times, and prints its row of the table.
play() {
  local suite=$1 begun=$SECONDS bad=0 round log what test
  for ((round = 1; round <= rounds; round++)); do
    log="$logs/${suite//[^A-Za-z0-9.]/-}.$round.log"
    what=$(once "$suite" "$log")
    if [[ -z $what ]]; then rm -f "$log"; continue; fi
    bad=$((bad + 1))
    while IFS= read -r test; do printf '%s  %s\n' "$suite" "$test"; done <<<"$what" >>"$logs/failures"
  done
  ((bad == 0)) || echo "$bad" >>"$logs/bad"
  printf '%4d of %d failed  %4d s  %s\n' "$bad" "$rounds" $((SECONDS - begun)) "$suite"
}

echo "${#suites[@]} suites, $rounds rounds, $([[ $load == 1 ]] && echo loaded || echo quiet)," \
  "$jobs at a time"
begun=$SECONDS workers=()
: >"$logs/failures"
: >"$logs/bad"
for ((worker = 0; worker < jobs; worker++)); do
  (for ((i = worker; i < ${#suites[@]}; i += jobs)); do play "${suites[i]}"; done) &
  workers+=($!) children+=($!)
done
wait "${workers[@]}"
failed=$(awk '{ sum += $1 } END { print sum + 0 }' "$logs/bad")

echo
if ((failed == 0)); then
  echo "0 of $((${#suites[@]} * rounds)) runs failed, in $((SECONDS - begun)) s."
  exit 0
fi
echo "failed  of  suite and test (logs in $logs)"
sort "$logs/failures" | uniq -c | sort -rn |
  awk -v rounds="$rounds" '{ count = $1; sub(/^ *[0-9]+ /, ""); printf "%6d %3d  %s\n", count, rounds, $0 }'
echo
echo "$failed of $((${#suites[@]} * rounds)) runs failed, in $((SECONDS - begun)) s."
exit 1
