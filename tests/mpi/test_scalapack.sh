#!/usr/bin/env bash
# Sums over one to six processes, of which there are more than processors.
set -eu
program=${L3A_BUILD:?}/tests/scalapack_sums
if [ ! -x "$program" ]; then
    echo "skipped: ScaLAPACK or Open MPI was not there when this was built"
    exit 77
fi
if ! command -v mpirun > /dev/null; then
    echo "skipped: mpirun is missing"
    exit 77
fi
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# MPI does not free all of its memory; the program counts its own.
export OMP_NUM_THREADS=1 L3A_PLUGIN_PATH=$L3A_BUILD ASAN_OPTIONS=detect_leaks=0
for processes in 1 2 3 4 6; do
    mpirun --oversubscribe -n $processes "$program"
done
mpirun --oversubscribe -n 4 "$L3A_BUILD/tests/choose_solver"
