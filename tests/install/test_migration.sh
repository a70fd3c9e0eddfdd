#!/bin/bash
# The examples of 0.9, and a program that calls all that has changed since, are built and run after the changes that
# docs/migration-0.10.md gives as a script for sed.
. "$(dirname "$0")/../cli/support.sh"
: "${L3A_SOURCE:?the source folder}"
if [ -n "${L3A_SANITIZE:-}" ]; then
    echo "skipped: the programs are built without sanitizers"
    exit 77
fi
compiler=${CC:-cc}
programs=$L3A_SOURCE/tests/install/programs-0.9
cd "$work"

# builds NAME SOURCE [OPTION...]
builds() {
    local name=$1 source=$2
    shift 2
    "$compiler" -std=c11 -Wall -Wextra -Werror -I"$L3A_SOURCE/include" "$source" -o "$name" -L"$L3A_BUILD" -ll3a -lm "$@"
}

awk '/^```sed$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$L3A_SOURCE/docs/migration-0.10.md" >migrate.sed
check 'the page has a script' test -s migrate.sed
check 'without it, the program does not fit' eval '! builds unchanged "$programs/changed.c" 2>"$work/refused"'
for source in "$programs"/*.c; do
    name=$(basename "$source" .c)
    sed -E -f migrate.sed "$source" >"$name.c"
    if [ "$name" = mpi ] && ! pkg-config --exists ompi-c; then
        echo "skipped: the example for MPI (Open MPI is not installed)"
    elif [ "$name" = mpi ]; then
        # shellcheck disable=SC2046
        check 'mpi.c of 0.9' builds mpi mpi.c $(pkg-config --cflags --libs ompi-c)
    else
        check "$name.c of 0.9" builds "$name" "$name.c"
    fi
done
export LD_LIBRARY_PATH=$L3A_BUILD
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
expect 0 '' ./changed "$backbone" drawn
shows '2 phases, mAP ' '48 and 48 pictures' 'shown 4 and 4'
pictures=drawn/VOC2007/JPEGImages
expect 0 '' ./teach taught.l3a "$backbone" thing $pictures/00000[1-4].jpg
shows 'taught 4, new tags: 1'
expect 0 '' ./tag taught.l3a "$backbone" $pictures/000005.jpg
shows '000005.jpg: thing'
finish
