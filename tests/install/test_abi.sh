#!/bin/bash
# A program built with this header runs with a later library, in which every struct that may grow has more fields and there are more
# settings, and says the same as with this library.
. "$(dirname "$0")/../cli/support.sh"
: "${L3A_SOURCE:?the source folder}"
if [ -n "${L3A_SANITIZE:-}" ] || [ -n "${L3A_QUICK:-}" ]; then
    echo "skipped: builds the library once more; not with sanitizers, nor with L3A_QUICK"
    exit 77
fi
compiler=${CC:-cc}
installed=$L3A_SOURCE/tests/install

grow_library() {
    mkdir "$work/later" && cp -r "$L3A_SOURCE"/{CMakeLists.txt,cmake,include,src,models} "$work/later" &&
        python3 "$installed/grow.py" "$work/later" || return 1
    local launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
        export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
    fi
    cmake -S "$work/later" -B "$work/later/build" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 \
        "${launcher[@]}" >"$work/configured" && cmake --build "$work/later/build" --target l3a -j 2 >"$work/built" 2>&1 || {
        tail -20 "$work/configured" "$work/built"
        return 1
    }
}

# runs NAME LIBRARY_FOLDER
runs() {
    mkdir "$work/$1" && LD_LIBRARY_PATH=$2 "$work/program" "$L3A_SOURCE/models/demo_backbone.safetensors" "$work/run" "$work/$1" >"$work/$1.txt" ||
        { tail -3 "$work/$1.txt"; return 1; }
}

has_more() {
    grep -qa 'method-grown' "$1"
}

make_features "$work" >/dev/null
check 'a run' l3a run --train "$work/train.safetensors" --test "$work/test.safetensors" --protocol B0-C4 --dim 32 --quiet -o "$work/run"
check 'the program' "$compiler" -std=c11 -D_GNU_SOURCE -DL3A_EXPERIMENTAL -Wall -Wextra -Werror -I"$L3A_SOURCE/include" "$installed/abi_program.c" -o "$work/program" \
    -L"$L3A_BUILD" -ll3a -lm
check 'the later library' grow_library
check 'it is later' has_more "$work/later/build/libl3a.so"
check 'the program with this library' runs now "$L3A_BUILD"
check 'the program with the later library' runs then "$work/later/build"
check 'both say the same' diff "$work/now.txt" "$work/then.txt"
finish
