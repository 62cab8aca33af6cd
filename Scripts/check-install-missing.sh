#!/usr/bin/env bash
# Runs install-missing.sh on simulated systems: a folder of files, and a PATH of commands that
# record how they were called. Installs nothing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Creates a complete Debian system with Swift 6.3.1, used by root.
start() {
    rm -rf "${work:?}"/*
    mkdir -p "$work/bin"
    local file
    for file in etc/ssl/certs/ca-certificates.crt usr/share/zoneinfo/Europe/Berlin \
        usr/include/c++/12/vector usr/include/sqlite3.h usr/include/zlib.h \
        usr/include/vips/vips.h usr/lib/any-linux-gnu/libheif/plugins/libheif-libde265.so \
        usr/lib/any-linux-gnu/libcurl.so.4 usr/lib/any-linux-gnu/libncurses.so.6 \
        usr/lib/any-linux-gnu/libuuid.so.1 usr/lib/any-linux-gnu/libxml2.so.2; do
        mkdir -p "$work/root/$(dirname "$file")"
        touch "$work/root/$file"
    done
    local tool
    for tool in bash sed head cat env; do ln -s "$(command -v "$tool")" "$work/bin/$tool"; done
    for tool in git make pkg-config apt-get brew; do
        command_that "$tool" "echo $tool \"\$@\" >>'$work/calls'"
    done
    command_that apt-cache 'exit 0'
    command_that sudo "echo sudo >>'$work/calls'; exec \"\$@\""
    command_that id 'echo 0'
    command_that uname 'echo Linux'
    command_that swift 'echo "Swift version 6.3.1 (swift-6.3.1-RELEASE)"'
}

command_that() {
    rm -f "$work/bin/$1"
    printf '#!%s\n%s\n' "$(command -v bash)" "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

play() {
    : >"$work/calls"
    status=0
    output=$(PATH="$work/bin" INSTALL_MISSING_ROOT="$work/root" \
        "$work/bin/bash" "$here/install-missing.sh" "$@" 2>&1) || status=$?
    calls=$(cat "$work/calls")
}

# expect NAME STATUS OUTPUT CALLS: the texts must occur; an empty one means that there is none.
expect() {
    local problem=
    [ "$status" = "$2" ] || problem="exit status $status, not $2"
    if [ -z "$3" ]; then [ -z "$output" ] || problem="said something"; fi
    if [ -z "$4" ]; then [ -z "$calls" ] || problem="installed something"; fi
    case $output in *"$3"*) ;; *) problem="did not say: $3" ;; esac
    case $calls in *"$4"*) ;; *) problem="did not call: $4" ;; esac
    if [ -n "$problem" ]; then
        printf 'install-missing.sh, %s: %s\noutput: %s\ncalls: %s\n' \
            "$1" "$problem" "$output" "$calls" >&2
        exit 1
    fi
}

start
play
expect "a complete system is left alone" 0 "" ""

start
rm "$work/root/usr/include/sqlite3.h" "$work/root/usr/lib/any-linux-gnu/libcurl.so.4"
play
expect "what is missing is installed, and no more" 0 "Installing: libsqlite3-dev libcurl4" \
    "install -y --no-install-recommends libsqlite3-dev libcurl4"
case $calls in *sudo*) echo "install-missing.sh: root needs no sudo" >&2 && exit 1 ;; esac

start
rm "$work/root/usr/include/vips/vips.h" \
    "$work/root/usr/lib/any-linux-gnu/libheif/plugins/libheif-libde265.so"
play
expect "a decoder that Debian has is installed" 0 "Installing: libvips-dev libheif-plugin-libde265" \
    "--no-install-recommends libvips-dev libheif-plugin-libde265"
command_that apt-cache 'exit 100'
play
expect "a package that Debian has not is left out" 0 "Installing: libvips-dev" "libvips-dev"
case $calls in *libde265*) echo "install-missing.sh: it asked for an unknown package" >&2 && exit 1 ;; esac

readonly test_packages="ffmpeg libimage-exiftool-perl libvips-tools python3 python3-venv"

start
play tests
expect "tests need more than a build" 0 "Installing: $test_packages" \
    "--no-install-recommends $test_packages"

start
play checks
expect "checks need more than tests" 0 "Installing: $test_packages shellcheck" \
    "--no-install-recommends $test_packages shellcheck"

start
for tool in ffmpeg exiftool vips shellcheck; do command_that "$tool" 'exit 0'; done
# A Python that creates an environment whose pip installs moto.
ln -s "$(command -v mkdir)" "$(command -v dirname)" "$(command -v touch)" "$(command -v chmod)" \
    "$(command -v rm)" "$work/bin"
command_that python3 "case \$1 in -c) exit 0 ;; esac
mkdir -p \"\$3/bin\"
printf '#!/bin/sh\\necho pip \"\$*\" >>%s/calls\\ntouch %s/root/.build-moto/bin/moto_server\\n' '$work' '$work' >\"\$3/bin/pip\"
chmod +x \"\$3/bin/pip\""
play tests
expect "tests get an S3 storage" 0 "Installing moto" "moto[s3]"
chmod +x "$work/root/.build-moto/bin/moto_server"
play checks
expect "a system with all tools is left alone" 0 "" ""
rm -r "$work/root/.build-moto"
command_that python3 "case \$1 in -c) exit 0 ;; esac; exit 1"
play tests
expect "without PyPI the tests are skipped" 0 "Tests with an S3 storage are skipped" ""
command_that python3 'exit 1'
play checks
expect "a Python without 'venv' gets it" 0 "Installing: python3-venv" "python3-venv"

start
play everything
expect "a purpose that is none is refused" 2 "or with 'tests' or 'checks'" ""

start
rm "$work/root/usr/include/zlib.h"
command_that id 'echo 1000'
play
expect "others go through sudo" 0 "zlib1g-dev" "sudo"

rm "$work/bin/sudo"
play
expect "without sudo the command is named" 1 "run: apt-get install zlib1g-dev" ""

start
rm "$work/root/usr/include/zlib.h"
command_that apt-get 'exit 100'
play
expect "a failure of apt-get is one of the script" 1 "apt-get update failed" ""

start
rm "$work/root/usr/include/zlib.h" "$work/bin/apt-get"
play
expect "a system without apt-get gets the names" 1 "zlib1g-dev" ""

start
rm "$work/root/usr/include/sqlite3.h" "$work/bin/swift"
play
expect "without Swift nothing is installed" 1 "Swift is missing" ""

for old in 5.10.1 6.2 6.2.4; do
    start
    command_that swift "echo 'Swift version $old (swift-$old-RELEASE)'"
    play
    expect "Swift $old is refused" 1 "Swift $old is too old" ""
done

for new in 6.3 6.4-dev 6.10 7.0; do
    start
    command_that swift "echo 'swift-driver version: 1.148 Apple Swift version $new (swiftlang)'"
    play
    expect "Swift $new is accepted" 0 "" ""
done

start
command_that swift 'echo "libxyz.so: cannot open"; exit 127'
play
expect "a Swift that does not run is quoted" 1 "libxyz.so: cannot open" ""

start
command_that uname 'echo Darwin'
rm -r "$work/root"
play
expect "macOS has the other libraries in its SDK" 0 "Installing: vips" "brew install vips"

mkdir -p "$work/root/opt/homebrew/include/vips"
touch "$work/root/opt/homebrew/include/vips/vips.h"
play
expect "libvips of Homebrew is found" 0 "" ""

rm "$work/bin/git"
play
expect "Homebrew installs on macOS" 0 "Installing: git" "brew install git"

rm "$work/bin/brew"
play
expect "without Homebrew both ways are named" 1 "xcode-select --install" ""

echo "install-missing.sh: all scenarios hold"
