#!/usr/bin/env bash
# Installs the missing system packages that a build needs; with `tests`, also those that tests run;
# with `checks`, also those that `make check` runs.
#
# If all are installed, it prints nothing and uses no network. It never installs Swift: if Swift is
# missing or too old, it prints what to do.
set -euo pipefail

readonly needed_major=6 needed_minor=3

# Where to look for files; empty for the system itself. The script's own check sets it.
readonly root=${INSTALL_MISSING_ROOT:-}

readonly purpose=${1:-build}

# One line each: Debian package | Homebrew formula, or - if macOS includes it | how to detect it: a
# command, a module of Python, or files of which one must exist. A package with a question mark does
# not exist in every version of Debian.
packages() {
    cat <<'TABLE'
git             | git  | command git
make            | make | command make
ca-certificates | -    | /etc/ssl/certs/ca-certificates.crt
tzdata          | -    | /usr/share/zoneinfo/Europe/Berlin
g++             | -    | /usr/include/c++/*/vector
libsqlite3-dev  | -    | /usr/include/sqlite3.h /usr/local/include/sqlite3.h
zlib1g-dev      | -    | /usr/include/zlib.h /usr/local/include/zlib.h
pkg-config      | pkgconf | command pkg-config
libvips-dev     | vips | /usr/include/vips/vips.h /usr/local/include/vips/vips.h /opt/homebrew/include/vips/vips.h
libheif-plugin-libde265? | - | /usr/lib/*/libheif/plugins/libheif-libde265.so /usr/lib/*/libheif.so.1.15.*
libcurl4        | -    | /usr/lib/*/libcurl.so.4 /usr/lib*/libcurl.so.4
libncurses6     | -    | /usr/lib/*/libncurses.so.6 /usr/lib*/libncurses.so.6 /lib/*/libncurses.so.6
libuuid1        | -    | /usr/lib/*/libuuid.so.1 /usr/lib*/libuuid.so.1 /lib/*/libuuid.so.1
libxml2         | -    | /usr/lib/*/libxml2.so.* /usr/lib*/libxml2.so.*
TABLE
    if [ "$purpose" = build ]; then return; fi
    # What Tests/TestSupport/SystemTool.swift names.
    cat <<'TABLE'
ffmpeg                 | ffmpeg   | command ffmpeg
libimage-exiftool-perl | exiftool | command exiftool
libvips-tools          | vips     | command vips
python3                | python   | command python3
python3-venv           | -        | module ensurepip
TABLE
    if [ "$purpose" = tests ]; then return; fi
    cat <<'TABLE'
shellcheck             | shellcheck | command shellcheck
TABLE
}

case $purpose in
build | tests | checks) ;;
*)
    echo "install-missing.sh: call it without arguments, or with 'tests' or 'checks', not '$purpose'." >&2
    exit 2
    ;;
esac

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$@"
    exit 1
}

# Whether one of the files exists below the root. Patterns are expanded here.
any_file() {
    local pattern file
    for pattern in "$@"; do
        # shellcheck disable=SC2086 # The pattern must expand.
        for file in $root$pattern; do
            if [ -e "$file" ]; then return 0; fi
        done
    done
    return 1
}

is_there() {
    case $1 in
    command\ *) command -v "${1#command }" >/dev/null 2>&1 ;;
    module\ *) python3 -c "import ${1#module }" >/dev/null 2>&1 ;;
    *)
        set -f # Split into patterns, and leave each as it is.
        # shellcheck disable=SC2086
        set -- $1
        set +f
        any_file "$@"
        ;;
    esac
}

# Prints the missing packages of the column (1 Debian, 2 Homebrew), one per line.
missing() {
    local column=$1 debian brew probe name
    packages | while IFS='|' read -r debian brew probe; do
        name=$debian
        if [ "$column" = 2 ]; then name=$brew; fi
        name=$(trim "$name")
        if [ "$name" = - ] || is_there "$(trim "$probe")"; then continue; fi
        printf '%s\n' "$name"
    done
}

trim() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}

install_debian() {
    local as_root=()
    local name wanted=()
    command -v apt-get >/dev/null 2>&1 || fail \
        "Missing, by their Debian names: ${*%\?}." \
        "There is no apt-get here. Install the corresponding packages and run this again."
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || fail \
            "Missing packages: ${*%\?}." \
            "There is no sudo here. As root, run: apt-get install ${*%\?}"
        as_root=(sudo)
    fi
    # An array that may be empty, in a form that bash 3.2 accepts under `set -u`.
    ${as_root[@]+"${as_root[@]}"} apt-get -qq update ||
        fail "apt-get update failed (see above). Fix it, or install by hand: ${*%\?}"
    for name in "$@"; do
        case $name in
        *\?) apt-cache show "${name%\?}" >/dev/null 2>&1 || continue ;;
        esac
        wanted+=("${name%\?}")
    done
    if [ "${#wanted[@]}" = 0 ]; then return; fi
    say "Installing: ${wanted[*]}"
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "${wanted[@]}" ||
        fail "apt-get install failed (see above). Fix it, or install by hand: ${wanted[*]}"
}

install_homebrew() {
    command -v brew >/dev/null 2>&1 || fail \
        "Missing: $*. Install Xcode's command line tools (xcode-select --install)," \
        "or Homebrew (https://brew.sh) and run this again."
    say "Installing: $*"
    brew install "$@" || fail "brew install failed (see above). Install by hand: $*"
}

install_packages() {
    local names
    case $(uname -s) in
    Darwin)
        names=$(missing 2)
        # shellcheck disable=SC2086 # Names have no spaces.
        if [ -n "$names" ]; then install_homebrew $names; fi
        ;;
    *)
        names=$(missing 1)
        # shellcheck disable=SC2086
        if [ -n "$names" ]; then install_debian $names; fi
        ;;
    esac
}

# Installs the S3 storage of the tests into a folder of its own. Tests that need it are skipped
# without it, so that they can also be run where PyPI cannot be reached.
install_moto() {
    local folder=${root:-$(dirname "$0")/..}/.build-moto
    if [ "$purpose" = build ] || [ -x "$folder/bin/moto_server" ]; then return; fi
    command -v python3 >/dev/null 2>&1 || return 0
    say "Installing moto, an S3 storage for tests"
    if ! python3 -m venv "$folder" || ! "$folder/bin/pip" --quiet --retries 1 --timeout 20 \
        install 'moto[s3]>=5.1,<6' 'flask>=3,<4' 'flask-cors>=5' >&2; then
        rm -rf "$folder"
        say "moto cannot be installed: let pip reach PyPI. Tests with an S3 storage are skipped."
    fi
}

readonly install_swift="Sanguine needs Swift $needed_major.$needed_minor or newer: \
https://www.swift.org/install"

require_swift() {
    command -v swift >/dev/null 2>&1 || fail \
        "Swift is missing, or its folder is not in PATH. $install_swift"
}

require_new_swift() {
    local text version major minor
    text=$(swift --version 2>&1) || fail "swift --version failed: $text" "$install_swift"
    version=$(printf '%s\n' "$text" |
        sed -n 's/.*Swift version \([0-9][0-9]*\.[0-9][0-9.]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] || fail "swift --version reports no version: $text" "$install_swift"
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%.*}
    if [ "$major" -lt "$needed_major" ] ||
        { [ "$major" = "$needed_major" ] && [ "$minor" -lt "$needed_minor" ]; }; then
        fail "Swift $version is too old. $install_swift"
    fi
}

# Without Swift nothing is changed. The version is checked last: Swift needs the libraries to run.
require_swift
install_packages
install_moto
require_new_swift
