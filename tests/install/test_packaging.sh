#!/bin/bash
# What packages are made from: the tarball has the same bytes wherever it is made, the lists of what a build needs agree, the health
# check of the container knows a server that is not ready, and doctor says what a build lacks. packaging/try-* try the packages.
. "$(dirname "$0")/../cli/support.sh"
: "${L3A_SOURCE:?the source folder}"
packaging=$L3A_SOURCE/packaging
version=$("$packaging/version")

# Two tarballs of a checkout, and one of what is in them, are the same file.
makes_the_same_tarball() {
    "$packaging/tarball" "$work/first" && (umask 077 && cd / && TZ=Asia/Tokyo LC_ALL=C "$packaging/tarball" "$work/second") &&
        cmp "$work/first/l3a-$version.tar.gz" "$work/second/l3a-$version.tar.gz" || return 1
    mkdir "$work/unpacked" && tar -x -C "$work/unpacked" -f "$work/first/l3a-$version.tar.gz" || return 1
    mkdir "$work/unpacked/l3a-$version/build" && touch "$work/unpacked/l3a-$version/build/l3a" "$work/unpacked/l3a-$version/build.log"
    "$work/unpacked/l3a-$version/packaging/tarball" "$work/third" &&
        cmp "$work/first/l3a-$version.tar.gz" "$work/third/l3a-$version.tar.gz"
}

has_every_file() {
    (cd "$L3A_SOURCE" && git ls-tree -r --name-only HEAD) | sort >"$work/committed"
    tar -t -f "$work/first/l3a-$version.tar.gz" | sed -n "s#^l3a-$version/\(.*[^/]\)\$#\1#p" | sort | diff "$work/committed" -
}

# Every package that tools/install-packages names for a build is in the Dockerfile and, unless each build of a Debian package has it, in debian/control.
lists_agree() {
    local package good=0
    for package in $(sed -n 's/^  \[build\]="\(.*\)"/\1/p' "$L3A_SOURCE/tools/install-packages"); do
        grep -qwF -- "$package" "$L3A_SOURCE/Dockerfile" || { echo "$package is not in the Dockerfile" && good=1; }
        case $package in
        gcc | libc6-dev | make) ;;
        *) sed -n '/^Build-Depends/,/^Standards/p' "$packaging/debian/control" | grep -qE "(^|[ :])$package([ ,]|\$)" ||
            { echo "$package is not in debian/control" && good=1; } ;;
        esac
    done
    return $good
}

# The name of the library's package goes with the version's first number.
names_the_library() {
    grep -qx "Package: libl3a${version%%.*}" "$packaging/debian/control"
}

sends_what_exists() {
    local path good=0
    for path in $(sed -n 's/^!//p' "$L3A_SOURCE/.dockerignore"); do
        [ -e "$L3A_SOURCE/$path" ] || { echo "$path is not there" && good=1; }
    done
    return $good
}

# serve CODE BASE: answers requests below a path with it; prints its port
serve() {
    /usr/bin/python3 -c '
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(sys.argv[1]) if self.path == sys.argv[2] + "/v2/health/ready" else 404)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
server.handle_request()' "$1" "$2"
}

# health CODE [BASE]: what the check says of a server that answers so
health() {
    local port code
    mkfifo "$work/port"
    serve "$1" "${2-}" >"$work/port" 2>"$work/requests" &
    read -r port <"$work/port"
    printf 'l3a\0serve\0pets.l3a\0--listen\0000.0.0.0:%s\0' "$port" >"$work/cmdline"
    [ -z "${2-}" ] || printf '%s\0' --base-path "$2" >>"$work/cmdline"
    "$packaging/healthcheck" "$work/cmdline"
    code=$?
    wait
    rm "$work/port"
    return $code
}

is_not_healthy() {
    ! "$@"
}

no_server_answers() {
    printf 'l3a\0serve\0pets.l3a\0--listen\000127.0.0.1:1\0' >"$work/cmdline"
    ! "$packaging/healthcheck" "$work/cmdline"
}

needs_no_server() {
    printf 'l3a\0demo\0' >"$work/cmdline"
    "$packaging/healthcheck" "$work/cmdline"
}

if [ "$(cd "$L3A_SOURCE" && git rev-parse --show-toplevel 2>"$work/why")" = "$L3A_SOURCE" ] &&
    git -C "$L3A_SOURCE" cat-file -e HEAD:packaging/tarball; then
    check 'the same tarball' makes_the_same_tarball
    check 'every file is in it' has_every_file
else
    echo 'skipped: the tarball of a checkout; this is none'
fi
check 'lists of packages' lists_agree
check 'the package of the library' names_the_library
check '.dockerignore' sends_what_exists
check 'a server that is ready' health 200
check 'a server below a path' health 200 /tags
check 'a server that is not ready' is_not_healthy health 503
check 'a server that does not answer' no_server_answers
check 'a command that is no server' needs_no_server

# What the build has, by what the library is linked with.
expect 0 '' l3a doctor
readelf -d "$L3A_BUILD/libl3a.so" >"$work/needed"
if grep -q libdnnl "$work/needed"; then
    shows 'networks     onednn'
else
    shows 'networks     blas' 'this build lacks oneDNN'
fi
if grep -q libheif "$work/needed"; then
    shows 'heic, avif'
else
    shows 'this build does not read heic, avif'
fi
finish
