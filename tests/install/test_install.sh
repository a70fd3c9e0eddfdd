#!/bin/bash
# An installed copy, as other people's programs use it: pkg-config, find_package, C and C++, also after it was moved.
. "$(dirname "$0")/../cli/support.sh"
: "${L3A_SOURCE:?the source folder}"
if [ -n "${L3A_SANITIZE:-}" ]; then
    echo "skipped: the installed copy is tested in the build without sanitizers"
    exit 77
fi
unset CFLAGS CXXFLAGS LDFLAGS LD_LIBRARY_PATH PKG_CONFIG_PATH
compiler=${CC:-cc}
example=$L3A_SOURCE/examples/learn_and_tag.c

# install PREFIX: the build folder's list of what `make uninstall` removes stays as it was
install_copy() {
    local manifest=$L3A_BUILD/install_manifest.txt status
    [ ! -f "$manifest" ] || mv "$manifest" "$work/manifest"
    cmake --install "$L3A_BUILD" --prefix "$1"
    status=$?
    mv "$manifest" "$work/installed"
    [ ! -f "$work/manifest" ] || mv "$work/manifest" "$manifest"
    return $status
}

runs_example() {
    local said
    said=$("$1" "$work/tags.safetensors") && [ "$(cut -d' ' -f1 <<<"$said" | xargs)" = 'cat tree' ]
}

uses_pkg_config() {
    local flags libraries
    export PKG_CONFIG_PATH=$1/$lib/pkgconfig
    flags=$(pkg-config --cflags l3a) && libraries=$(pkg-config --libs l3a) || return 1
    [ "$(pkg-config --modversion l3a)" = "$version" ] || return 1
    # shellcheck disable=SC2086
    "$compiler" -std=c11 -Wall -Wextra -pedantic -Werror $flags "$example" -o "$work/by_pkg_config" $libraries -lm || return 1
    LD_LIBRARY_PATH=$1/$lib runs_example "$work/by_pkg_config"
}

uses_find_package() {
    rm -rf "$work/consumer"
    mkdir "$work/consumer"
    cat >"$work/consumer/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(l3a $version REQUIRED)
add_executable(by_find_package $example)
target_link_libraries(by_find_package PRIVATE l3a::l3a m)
C
    cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$1" -DCMAKE_C_COMPILER="$compiler" &&
        cmake --build "$work/consumer/build" && runs_example "$work/consumer/build/by_find_package"
}

says_version() {
    [ "$(cd / && "$1/bin/l3a" --version)" = "l3a $version" ]
}

# The header by itself: in C it needs nothing before it, in C++ its functions link.
compiles_as_c() {
    echo '#include <l3a/l3a.h>' >"$work/header.c"
    echo 'int header(void) { return L3A_OK; }' >>"$work/header.c"
    "$compiler" -std=c11 -Wall -Wextra -pedantic -Werror -I"$1/include" -c "$work/header.c" -o "$work/header.o"
}

compiles_as_cxx() {
    cat >"$work/header.cpp" <<'C'
#include <l3a/l3a.h>
#include <cstring>
int main() { return std::strcmp(l3a_version(), L3A_VERSION); }
C
    g++ -std=c++11 -Wall -Wextra -Werror -pedantic -I"$1/include" "$work/header.cpp" -L"$1/$lib" -ll3a -o "$work/header" &&
        LD_LIBRARY_PATH=$1/$lib "$work/header"
}

exports_only_its_own() {
    local names
    names=$(nm -D --defined-only "$1/$lib/libl3a.so" | awk '{print $3}')
    grep -qx l3a_model_learn <<<"$names" && ! grep -v '^l3a_' <<<"$names"
}

# Every function that the header declares is there.
exports_the_header() {
    local name
    nm -D --defined-only "$1/$lib/libl3a.so" | awk '{print $3}' >"$work/exported"
    for name in $(grep -oE 'L3A_PUBLIC [^(]*' "$1/include/l3a/l3a.h" | grep -oE 'l3a_[a-z0-9_]+$' | sort -u); do
        grep -qx "$name" "$work/exported" || { echo "$name is not exported" && return 1; }
    done
}

names_no_folder_of_the_build() {
    ! grep -rlF -e "$L3A_BUILD" -e "$L3A_SOURCE" "$1/$lib/pkgconfig" "$1/$lib/cmake" "$1/include"
}

# Manual pages and completion are there, and in the list of what `make uninstall` removes.
brings_the_manual() {
    local file
    for file in man/man1/l3a.1 man/man1/l3a-run.1 bash-completion/completions/l3a zsh/site-functions/_l3a \
        fish/vendor_completions.d/l3a.fish; do
        [ -s "$1/share/$file" ] || { echo "no $file" && return 1; }
        grep -qxF "$1/share/$file" "$work/installed" || { echo "$file is not in the list" && return 1; }
    done
    [ "$(ls "$1/share/man/man1" | wc -l)" -eq $(($("$1/bin/l3a" help | grep -c '^  l3a ') + 1)) ]
}

version=$(sed -n 's/^#define L3A_VERSION "\(.*\)"/\1/p' "$L3A_SOURCE/include/l3a/l3a.h")
first=$work/first
moved="$work/moved/elsewhere"
check 'cmake --install' install_copy "$first"
lib=$(cd "$first" && dirname "$(find . -name libl3a.so)")
check 'pkg-config' uses_pkg_config "$first"
check 'find_package' uses_find_package "$first"
check 'l3a --version from another folder' says_version "$first"
check 'the header in C' compiles_as_c "$first"
if command -v g++ >"$work/which"; then
    check 'the header in C++' compiles_as_cxx "$first"
else
    echo "no g++: the header is not tried in C++"
fi
check 'nothing but l3a_* is exported' exports_only_its_own "$first"
check 'all that the header declares is exported' exports_the_header "$first"
check 'no folder of the build in what is installed' names_no_folder_of_the_build "$first"
check 'manual pages and completion' brings_the_manual "$first"

mkdir "$work/moved"
mv "$first" "$moved"
check 'pkg-config, moved' uses_pkg_config "$moved"
check 'find_package, moved' uses_find_package "$moved"
check 'l3a --version, moved' says_version "$moved"
finish
