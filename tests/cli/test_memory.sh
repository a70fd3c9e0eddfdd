#!/bin/bash
# The memory that a plan announces, and the most that the process really takes. Other libraries take 20 to 30 MiB of their own
# (l3a_model_prepare in l3a.h): the process never takes more than the plan and 30 MiB, and the plan is at most 5 % too high.
. "$(dirname "$0")/support.sh"
if [ -n "${L3A_SANITIZE:-}" ]; then
    echo "skipped: sanitizers take memory of their own"
    exit 77
fi

data=$work/data
make_features "$data" --rows 5000 --test-rows 1000 --width 512 --classes 20

# watched COMMAND...: /usr/bin/python3 says the peak of the process, its plan stays in $work/stderr
watched() {
    /usr/bin/python3 - "$work/stderr" "$L3A_BUILD/l3a" "$@" <<'P'
import os, re, sys
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out, 2), (os.POSIX_SPAWN_DUP2, out, 1)])
_, code, usage = os.wait4(process, 0)
text = open(sys.argv[1]).read()
assert code == 0, text
size, unit = re.search(r"memory ([0-9.]+) ([MG])iB", text).groups()
plan, peak = float(size) * {"M": 1, "G": 1024}[unit], usage.ru_maxrss / 1024
print(f"{' '.join(sys.argv[3:4])}: plan {plan:.1f} MiB, peak {peak:.1f} MiB, without the libraries {peak - 30:.1f} to {peak - 20:.1f} MiB")
sys.exit(not peak - 30 <= plan <= 1.05 * (peak - 20))
P
}

# within WHAT COMMAND...
within() {
    local what=$1
    shift
    check "$what" watched "$@" --threads 2
    sed "s/^/$what: /" "$work/check"
}
tables=(--train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C5 --dim 4096)
within 'a run of l3a' run "${tables[@]}" -o "$work/l3a"
within 'a run of l3a+' run "${tables[@]}" --method l3a+ -o "$work/plus"
classes=class00,class01,class02,class03,class04
for method in l3a l3a+; do
    within "the first phase of $method" learn "$work/$method.model" --method $method --dim 4096 --features "$data/train.safetensors" --classes $classes
    within "the second phase of $method" learn "$work/$method.model" --features "$data/train.safetensors" --classes class05,class06
done
finish
