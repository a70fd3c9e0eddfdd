#!/bin/bash
# How threads wait: they sleep unless the user says otherwise, and the command starts again at most once to make it so.
. "$(dirname "$0")/support.sh"
unset OMP_WAIT_POLICY GOMP_SPINCOUNT

expect 0 '' l3a doctor
shows 'OMP_WAIT_POLICY=passive'
shows 'set it for your own programs that use the library, too'
expect 0 '' env OMP_WAIT_POLICY=active "$L3A_BUILD/l3a" doctor
shows 'OMP_WAIT_POLICY=active'
shows 'set OMP_WAIT_POLICY=passive if other programs use this machine'
expect 0 '' env GOMP_SPINCOUNT=100 "$L3A_BUILD/l3a" doctor
shows 'GOMP_SPINCOUNT=100'
check 'a spin count of the user stays alone' test "$(grep -c '^waiting.*passive' "$work/stdout")" = 0
# OpenMP itself says what it uses.
expect 0 "OMP_WAIT_POLICY = 'PASSIVE'" env OMP_DISPLAY_ENV=true "$L3A_BUILD/l3a" doctor
check 'at most one restart' test "$(grep -c 'OPENMP DISPLAY ENVIRONMENT BEGIN' "$work/stderr")" -le 2
expect 0 '' env OMP_DISPLAY_ENV=true OMP_WAIT_POLICY=active OPENBLAS_CORETYPE=Haswell "$L3A_BUILD/l3a" doctor
check 'none where all is said' test "$(grep -c 'OPENMP DISPLAY ENVIRONMENT BEGIN' "$work/stderr")" -eq 1

# With fewer threads than processors, the matrix library must not wait for the others.
/usr/bin/python3 "$(dirname "$0")/make_features.py" --rows 300 --test-rows 60 --width 12 --classes 4 "$work"
expect 0 '' env OMP_THREAD_LIMIT=1 timeout 300 "$L3A_BUILD/l3a" run --train "$work/train.safetensors" --test "$work/test.safetensors" \
    --protocol B0-C2 --dim 256 --threads 2 --quiet -o "$work/run"
finish
