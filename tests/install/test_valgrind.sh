#!/bin/bash
# The command under valgrind: no invalid access, no use of what was never set, no leak.
. "$(dirname "$0")/../cli/support.sh"
if [ -n "${L3A_SANITIZE:-}" ]; then
    echo "skipped: sanitizers and valgrind do not go together"
    exit 77
fi
if ! command -v valgrind >"$work/which"; then
    echo "skipped: valgrind is not installed"
    exit 77
fi
if ! grep -qw avx2 /proc/cpuinfo; then
    echo "skipped: this processor cannot run the kernels that valgrind knows"
    exit 77
fi

# Kernels that valgrind can follow, and no thread but the first. Without --quiet, run measures the machine's speed, which takes
# minutes here.
export OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=1

watched() {
    valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        "$L3A_BUILD/l3a" "$@" --threads 1
}

data=$work/data
make_features "$data" --rows 40 --test-rows 20 --width 6 --classes 4 --ids
settings=(--dim 16 --gamma 1 --block 16)
table=(--features "$data/train.npy" --labels "$data/train_labels.npy" --names "$data/names.txt")
expect 0 '' watched learn "$work/model" "${table[@]}" --classes class00,class01 "${settings[@]}"
expect 0 '' watched learn "$work/model" --features "$data/train.safetensors" --classes class02,class03 --pseudo dynamic
expect 0 '' watched learn "$work/recursive" "${table[@]}" --classes class00 "${settings[@]}" --solver recursive --precision double
expect 0 '' watched eval "$work/model" --features "$data/test.safetensors"
expect 0 '' watched predict "$work/model" --features "$data/test.npy" --format json
expect 0 '' watched info "$work/model"
run=(run --train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C2 --method l3a,joint "${settings[@]}")
expect 0 '' watched "${run[@]}" -o "$work/run" --quiet
expect 0 '' watched "${run[@]}" -o "$work/run" --quiet --resume
expect 0 '' watched learn "$work/one" --method l3a+ --features "$data/test.safetensors" --classes class00,class01 "${settings[@]}"
expect 0 '' watched learn "$work/two" --method l3a+ "${table[@]}" --classes class00,class01 "${settings[@]}"
expect 0 '' watched learn "$work/two" "${table[@]}" --classes class02,class03
expect 0 '' watched merge "$work/one" "$work/two" -o "$work/both"
/usr/bin/python3 - "$data" <<'CODE'
import sys
import numpy as np
for name in "train", "train_labels":
    np.save(f"{sys.argv[1]}/{name}_few.npy", np.load(f"{sys.argv[1]}/{name}.npy")[:9])
CODE
expect 0 '' watched forget "$work/two" --features "$data/train_few.npy" --labels "$data/train_labels_few.npy" --names "$data/names.txt"
expect 0 '' watched forget "$work/both" --phase 2
expect 0 '' watched info "$work/both"
expect 2 'nothing' watched eval "$work/nothing" --features "$data/test.safetensors"
finish
