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

# A model of two classes, from a few drawn pictures, and the tags of one of them.
runs_example() {
    local said
    rm -f "$work/model" "$work/model.features"
    said=$("$1" "list:$work/list.csv" "$L3A_SOURCE/models/demo_backbone.safetensors" "$work/model" "$work/apple.jpg") &&
        [ "$(head -n 1 <<<"$said" | cut -d' ' -f1)" = apple ] && [ "$(wc -l <<<"$said")" -eq 2 ]
}

draws_pictures() {
    local class name
    l3a demo --pictures 400 -o "$work/demo" --quiet || return 1
    echo path,labels >"$work/list.csv"
    for class in apple kite; do
        for name in $(awk '$2 == 1 { print $1 }' "$work/demo/pictures/VOC2007/ImageSets/Main/${class}_trainval.txt" | head -n 12); do
            cp "$work/demo/pictures/VOC2007/JPEGImages/$name.jpg" "$work/$class$name.jpg"
            echo "$class$name.jpg,$class" >>"$work/list.csv"
        done
        mv "$work/$class$name.jpg" "$work/$class.jpg" # the last one is for tagging
        sed -i "/$class$name/d" "$work/list.csv"
    done
}

# builds_by_pkg_config PREFIX PROGRAM [--static [MODULE]]
builds_by_pkg_config() {
    local flags libraries
    export PKG_CONFIG_PATH=$1/$lib/pkgconfig
    flags=$(pkg-config --cflags "${4:-l3a}") && libraries=$(pkg-config ${3:+"$3"} --libs "${4:-l3a}") || return 1
    # shellcheck disable=SC2086
    "$compiler" -std=c11 -Wall -Wextra -pedantic -Werror $flags "$example" -o "$2" $libraries -lm
}

# needs_the_library PROGRAM: the shared one, when it runs
needs_the_library() {
    readelf -d "$1" | grep -qF "Shared library: [libl3a.so.$soname]"
}

uses_pkg_config() {
    builds_by_pkg_config "$1" "$work/by_pkg_config" && [ "$(pkg-config --modversion l3a)" = "$version" ] &&
        needs_the_library "$work/by_pkg_config" && LD_LIBRARY_PATH=$1/$lib runs_example "$work/by_pkg_config"
}

# A linker that finds both libraries takes the shared one, so this copy has only the static one.
uses_pkg_config_static() {
    rm -rf "$work/static"
    cp -r "$1" "$work/static"
    rm "$work/static/$lib"/libl3a.so*
    builds_by_pkg_config "$work/static" "$work/by_pkg_config_static" --static &&
        ! needs_the_library "$work/by_pkg_config_static" && runs_example "$work/by_pkg_config_static"
}

# With both libraries installed, the module l3a-static takes the static one.
uses_static_module() {
    builds_by_pkg_config "$1" "$work/by_static_module" --static l3a-static && ! needs_the_library "$work/by_static_module" &&
        runs_example "$work/by_static_module"
}

uses_find_package() {
    rm -rf "$work/consumer"
    mkdir "$work/consumer"
    cat >"$work/consumer/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(l3a $version REQUIRED COMPONENTS shared static)
add_executable(by_find_package $example)
target_link_libraries(by_find_package PRIVATE l3a::l3a m)
add_executable(by_find_package_static $example)
target_link_libraries(by_find_package_static PRIVATE l3a::l3a_static)
C
    cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$1" -DCMAKE_C_COMPILER="$compiler" &&
        cmake --build "$work/consumer/build" && needs_the_library "$work/consumer/build/by_find_package" &&
        runs_example "$work/consumer/build/by_find_package" && ! needs_the_library "$work/consumer/build/by_find_package_static" &&
        runs_example "$work/consumer/build/by_find_package_static"
}

# A machine without the packages that the static library needs: l3a::l3a is there, l3a::l3a_static is not, and asking for it says why.
finds_the_shared_library_alone() {
    local options=(-DCMAKE_PREFIX_PATH="$1" -DCMAKE_C_COMPILER="$compiler" -DPKG_CONFIG_EXECUTABLE=/nowhere/pkg-config)
    rm -rf "$work/alone"
    mkdir "$work/alone"
    cat >"$work/alone/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.22)
project(alone LANGUAGES C)
find_package(l3a REQUIRED COMPONENTS \${parts})
if(NOT TARGET l3a::l3a OR TARGET l3a::l3a_static)
  message(FATAL_ERROR "not what was expected")
endif()
C
    PKG_CONFIG_LIBDIR=/nowhere cmake -S "$work/alone" -B "$work/alone/build" "${options[@]}" -Dparts=shared || return 1
    ! PKG_CONFIG_LIBDIR=/nowhere cmake -S "$work/alone" -B "$work/alone/build2" "${options[@]}" -Dparts=static 2>"$work/why" &&
        grep -qF 'l3a::l3a_static needs openblas' "$work/why"
}

# The name that programs remember is major.minor while the version is 0.x.
has_the_soname() {
    readelf -d "$1/$lib/libl3a.so" | grep -qF "Library soname: [libl3a.so.$soname]" && [ -e "$1/$lib/libl3a.so.$soname" ]
}

# The private names of the library do not clash with a program's.
static_shows_only_its_own() {
    local names
    names=$(nm --defined-only --extern-only "$1/$lib/libl3a.a" | awk 'NF == 3 {print $3}')
    grep -qx l3a_model_learn <<<"$names" && ! grep -v '^l3a_' <<<"$names"
}

# The presets are there, and this CMake understands them.
lists_the_presets() {
    local name
    (cd "$L3A_SOURCE" && cmake --list-presets) >"$work/presets" || return 1
    for name in release debug sanitize clang fuzz bench; do
        grep -qF "\"$name\"" "$work/presets" || { echo "no preset $name" && return 1; }
    done
}

says_version() {
    [ "$(cd / && "$1/bin/l3a" --version)" = "l3a $version" ]
}

# The header by itself: in C it needs nothing before it, in C++ its functions link.
compiles_as_c() {
    local header experimental
    for header in l3a l3a_experiment; do
        for experimental in '' -DL3A_EXPERIMENTAL; do
            echo "#include <l3a/$header.h>" >"$work/header.c"
            echo 'int header(void) { return L3A_OK; }' >>"$work/header.c"
            "$compiler" -std=c11 -Wall -Wextra -pedantic -Werror $experimental -I"$1/include" -c "$work/header.c" -o "$work/header.o" || return 1
        done
    done
}

compiles_as_cxx() {
    cat >"$work/header.cpp" <<'C'
#define L3A_EXPERIMENTAL
#include <l3a/l3a_experiment.h>
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
    for name in $(grep -oE 'L3A_PUBLIC [^(]*' "$1/include/l3a"/*.h -h | grep -oE 'l3a_[a-z0-9_]+$' | sort -u); do
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
case $version in
0.*) soname=${version%.*} ;;
*) soname=${version%%.*} ;;
esac
first=$work/first
moved="$work/moved/elsewhere"
check 'cmake --install' install_copy "$first"
check 'pictures to learn from' draws_pictures
lib=$(cd "$first" && dirname "$(find . -name libl3a.so)")
check 'pkg-config' uses_pkg_config "$first"
check 'pkg-config --static' uses_pkg_config_static "$first"
check 'pkg-config l3a-static beside the shared library' uses_static_module "$first"
check 'find_package, both libraries' uses_find_package "$first"
check 'find_package without the packages of the static library' finds_the_shared_library_alone "$first"
check 'soname' has_the_soname "$first"
check 'l3a --version from another folder' says_version "$first"
check 'the headers in C' compiles_as_c "$first"
if command -v g++ >"$work/which"; then
    check 'the headers in C++' compiles_as_cxx "$first"
else
    echo "no g++: the header is not tried in C++"
fi
check 'nothing but l3a_* is exported' exports_only_its_own "$first"
check 'nothing but l3a_* is visible in the static library' static_shows_only_its_own "$first"
check 'presets' lists_the_presets
check 'all that the headers declare is exported' exports_the_header "$first"
check 'no folder of the build in what is installed' names_no_folder_of_the_build "$first"
check 'manual pages and completion' brings_the_manual "$first"

mkdir "$work/moved"
mv "$first" "$moved"
check 'pkg-config, moved' uses_pkg_config "$moved"
check 'pkg-config --static, moved' uses_pkg_config_static "$moved"
check 'pkg-config l3a-static, moved' uses_static_module "$moved"
check 'find_package, moved' uses_find_package "$moved"
check 'l3a --version, moved' says_version "$moved"
finish
