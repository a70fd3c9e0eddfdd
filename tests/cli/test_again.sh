#!/bin/bash
# tests/again: of the tests that failed, those that fail a second time fail, and the others are named.
. "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"

# A folder with tests for ctest: one that passes, one that fails until it has run once, and one that fails always.
make_build() {
    mkdir "$work/$1"
    echo 'add_test(good true)' >"$work/$1/CTestTestfile.cmake"
    echo "add_test(shy sh -c \"test -e '$work/$1/seen' || { touch '$work/$1/seen'; exit 1; }\")" >>"$work/$1/CTestTestfile.cmake"
    [ "$1" = shy ] || echo 'add_test(bad false)' >>"$work/$1/CTestTestfile.cmake"
    (cd "$work/$1" && ! ctest -j 2 >log 2>&1)
}
check 'a test fails once' make_build shy
expect 0 '' "$L3A_SOURCE/tests/again" "$work/shy"
shows 'failed first, passed alone: shy'
check 'nothing else is named' test "$(grep -c '^failed ' "$work/stdout")" = 1
check 'what passed does not run again' sh -c '! grep -q good "$1"' sh "$work/stdout"

check 'two tests fail' make_build bad
expect 8 '' "$L3A_SOURCE/tests/again" "$work/bad"
shows 'failed first, passed alone: shy' 'failed twice: bad'
check 'nothing else is named' test "$(grep -c '^failed ' "$work/stdout")" = 2

mkdir "$work/none"
expect 0 '' "$L3A_SOURCE/tests/again" "$work/none"
finish
