#!/bin/bash
# What packages are made from: the tarball has the same bytes wherever it is made, the lists of what a build needs agree, the health
# check of the container knows a server that is not ready, and doctor says what a build lacks. The package l3a, made of this build, has
# the service, its settings, and all that its pages link to. packaging/try-* try the packages.
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

# What the package l3a has, in $root, by the steps that debhelper would take after the build.
root=$work/package/debian/l3a
makes_the_package() {
    mkdir "$work/package" && cd "$work/package" || return 1
    cp -r "$L3A_SOURCE"/{CHANGELOG.md,CONTRIBUTING.md,README.md,docs,examples,models} . && cp -r "$packaging/debian" debian || return 1
    printf 'l3a (%s-1) unstable; urgency=medium\n\n  * This build.\n\n -- %s  %s\n' "$version" "$(sed -n 's/^Maintainer: //p' debian/control)" \
        "$(date -R)" >debian/changelog
    # All files have this component; with its name, the build folder's list of what `make uninstall` removes stays as it is.
    DESTDIR=$PWD/debian/tmp cmake --install "$L3A_BUILD" --prefix /usr --component Unspecified >log || { cat log; return 1; }
    rm -f "$L3A_BUILD/install_manifest_Unspecified.txt"
    mkdir -p debian/tmp/usr/share/zsh && mv debian/tmp/usr/share/zsh/site-functions debian/tmp/usr/share/zsh/vendor-completions
    export DH_OPTIONS=-pl3a # and no other package
    { dh_install && dh_installdocs && dh_installexamples &&
        make -s -f debian/rules execute_before_dh_installinit override_dh_installsystemd override_dh_compress override_dh_gencontrol &&
        dh_installinit && dh_installdeb; } >>log 2>&1 || { cat log; return 1; }
}

has_the_service() {
    local path good=0
    for path in lib/systemd/system/l3a.service etc/default/l3a usr/share/doc/l3a/docs/serving.md usr/share/doc/l3a/examples/serving/nginx.conf \
        usr/share/doc/l3a/examples/serving/l3a.service usr/share/doc/l3a/examples/cluster/part.sh usr/bin/l3a usr/share/man/man1/l3a-serve.1.gz; do
        [ -s "$root/$path" ] || { echo "$path is not there" && good=1; }
    done
    [ "$(cat "$root/DEBIAN/conffiles")" = /etc/default/l3a ] || { cat "$root/DEBIAN/conffiles" && good=1; }
    return $good
}

# Whatever a page or an example links to is in the package; what the README has for developers is not.
has_what_pages_link_to() {
    local page target good=0
    cd "$root/usr/share/doc/l3a" || return 1
    while IFS=: read -r page target; do
        target=${target#](} && target=${target%%[)#]*}
        case $page:$target in README.md:C*.md | *:) continue ;; esac
        [ -e "$(dirname "$page")/$target" ] || { echo "$page links to $target" && good=1; }
    done < <(grep -ro --include='*.md' '](\([^)h]\|h[^)t]\)[^)]*)' README.md docs examples)
    return $good
}

# systemd knows every line of the unit, which starts the command that the package has, with the settings of the file that it has.
unit_is_understood() {
    sed -e "s#/usr/bin/l3a#$L3A_BUILD/l3a#; s#^EnvironmentFile=#&$root#; /^Documentation=/d" "$root/lib/systemd/system/l3a.service" >"$work/l3a.service"
    systemd-analyze verify "$work/l3a.service" >"$work/said" 2>&1 && [ ! -s "$work/said" ] || { cat "$work/said"; return 1; }
    local name
    for name in MODEL LISTEN OPTIONS; do
        grep -q "^$name=" "$root/etc/default/l3a" && grep -q "^ExecStart=.*\\$\\({$name}\\|$name\\)" "$work/l3a.service" || { echo "$name" && return 1; }
    done
}

# The scripts of the package, where neither systemd runs nor anything was installed: a token that only its owner can read, which stays
# when it is there, goes with a purge, and leaves models alone.
scripts_work() {
    local changed=$work/scripts
    mkdir "$changed" && mkdir -p "$work/machine/var/lib/private/l3a" "$work/machine/etc" || return 1
    for script in postinst prerm postrm; do
        sed "s#/etc/l3a#$work/machine/etc/l3a#g; s#/var/lib/#$work/machine/var/lib/#g; /^# Automatically added/,/^# End automatically/d" \
            "$root/DEBIAN/$script" >"$changed/$script"
    done
    ln -s private/l3a "$work/machine/var/lib/l3a" && touch "$work/machine/var/lib/l3a/pets.l3a" &&
        sh "$changed/postinst" configure && [ "$(stat -c %a "$work/machine/etc/l3a/token")" = 600 ] &&
        [ "$(wc -c <"$work/machine/etc/l3a/token")" = 33 ] && cp "$work/machine/etc/l3a/token" "$work/token" &&
        sh "$changed/postinst" configure "$version-1" && cmp "$work/token" "$work/machine/etc/l3a/token" &&
        sh "$changed/postrm" remove && [ -s "$work/machine/etc/l3a/token" ] &&
        sh "$changed/postrm" purge >"$work/said" && grep -q 'models in .* are still there' "$work/said" &&
        [ ! -e "$work/machine/etc/l3a" ] && [ -e "$work/machine/var/lib/l3a/pets.l3a" ] && rm "$work/machine/var/lib/l3a/pets.l3a" &&
        sh "$changed/postrm" purge && [ -z "$(ls -A "$work/machine/var/lib/private")" ] && [ ! -L "$work/machine/var/lib/l3a" ]
}

# Nothing starts by itself, and it is enabled again only where it was; a removal stops it, and an upgrade restarts what runs.
starts_nothing() {
    ! grep -E 'invoke start|_dh_action=start' "$root/DEBIAN/postinst" && grep -q "debian-installed 'l3a.service'" "$root/DEBIAN/postinst" &&
        grep -q "try-restart 'l3a.service'" "$root/DEBIAN/postinst" && grep -q 'stop l3a.service' "$root/DEBIAN/prerm"
}

has_a_maintainer() {
    sed -n 's/^Maintainer: //p' "$root/DEBIAN/control" >"$work/said"
    grep -Eq '^The l3a authors <[^@ ]+@[^@ ]+>$' "$work/said" && ! grep -w example "$work/said"
}

if [ "$(cd "$L3A_SOURCE" && git rev-parse --show-toplevel 2>"$work/why")" = "$L3A_SOURCE" ] &&
    git -C "$L3A_SOURCE" cat-file -e HEAD:packaging/tarball; then
    check 'the same tarball' makes_the_same_tarball
    check 'every file is in it' has_every_file
else
    echo 'skipped: the tarball of a checkout; this is none'
fi
if command -v dh_installsystemd >"$work/why"; then
    check 'the package l3a' makes_the_package
    check 'the service is in it' has_the_service
    check 'links of its pages' has_what_pages_link_to
    check 'nothing starts by itself' starts_nothing
    check 'its scripts' scripts_work
    check 'its maintainer' has_a_maintainer
else
    echo 'skipped: the package l3a; debhelper is not installed'
fi
if [ -d "$root" ] && command -v systemd-analyze >"$work/why"; then
    check 'systemd understands the unit' unit_is_understood
else
    echo 'skipped: the unit; systemd-analyze or debhelper is not installed'
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
