#!/usr/bin/env bash
# l3a+ as a user types it: learn and run, its settings one by one, and what does not fit together.
source "$(dirname "$0")/support.sh"
make_features "$work" --rows 240 --classes 6 --width 8 >/dev/null
train=$work/train.safetensors
test=$work/test.safetensors

learn() {
    l3a learn "$work/m" --features "$train" "$@"
}

expect 0 '' learn --method l3a+ --classes class00,class01 --dim 64 --seed 3
shows 'phase 1: 2 new classes' 'chosen from these images'
expect 0 '' learn --method l3a+ --classes class02,class03
expect 0 '' learn --classes class04 --gamma auto
expect 2 "made with method l3a+, and acil was given" learn --method acil --classes class05
expect 2 'alpha: the model was created with 0.3, and cannot change to 0.5' learn --classes class05 --alpha 0.5
expect 2 'lift: the model was created with 0.1, and cannot change to 0' learn --classes class05 --lift 0
expect 2 'skip-features' learn --classes class05 --skip-features off
expect 2 'replaces pseudo-labels' learn --classes class05 --pseudo fixed
expect 0 '' l3a info "$work/m"
shows 'gram.3 F32' 'label_weight' 'alpha: 0.3' 'lift: 0.1' 'record.gamma: auto'
expect 0 '' l3a eval "$work/m" --features "$test" --format json
fitted=$(cat "$work/stdout")
expect 0 '' l3a eval "$work/m" --features "$test" --format json --theta 0.525
[ "$fitted" != "$(cat "$work/stdout")" ] && pass || fail 'eval --theta does not change the thresholds'
expect 0 '' l3a predict "$work/m" --features "$test" --format csv
grep -q '^0,' "$work/stdout" || grep -q 'class0' "$work/stdout" && pass || fail 'no tag' "$work/stdout"
expect 0 '' l3a predict "$work/m" --features "$test" --format csv --threshold 0
[ "$(wc -l <"$work/stdout")" -gt 5 ] && pass || fail 'a threshold of 0 chooses few'
# folding later is allowed, leaving off is not
expect 0 '' learn --classes class05 --keep-phases 2
expect 0 '' l3a info "$work/m"
shows 'parts: 2: 3, 1'

rm -f "$work/m"
expect 2 'alpha' learn --classes class00 --alpha 1.5
expect 2 'lift' learn --classes class00 --lift 2
expect 2 'thresholds' learn --classes class00 --thresholds own
expect 2 'gamma must be auto or a number above 0' learn --classes class00 --gamma 0
expect 2 "did you mean 'l3a+'?" learn --method l3a++ --classes class00
expect 2 'makes no model that learns phase after phase' learn --method joint --classes class00
expect 2 'replaces pseudo-labels' learn --classes class00 --alpha 0.5
expect 2 'one inverse for all phases' learn --method l3a+ --classes class00 --gamma 5 --solver recursive
expect 2 'starts from gamma' learn --classes class00 --gamma auto --solver recursive
[ ! -e "$work/m" ] && pass || fail 'a refused command leaves a model'
expect 0 '' learn --method l3a --classes class00 --dim 64
expect 2 'adds all phases to one sum' learn --classes class01 --keep-phases 3

# few images are warned of, unless told not to
rm -f "$work/m"
expect 0 'could reconstruct their features' learn --classes class00 --dim 64 --privacy-limit 1000
rm -f "$work/m"
expect 0 '' learn --classes class00 --dim 64 --privacy-limit 0
grep -q 'could reconstruct' "$work/stderr" && fail 'a warning in spite of --privacy-limit 0' "$work/stderr" || pass

run() {
    l3a run --train "$train" --test "$test" --protocol B0-C2 --dim 64 --quiet "$@"
}

expect 0 '' run --method l3a,l3a+,joint -o "$work/run"
shows 'l3a+'
expect 2 'already' run --method l3a,l3a+,joint -o "$work/run"
expect 0 '' run --method l3a,l3a+,joint -o "$work/run" --resume
expect 2 "method 'l3a': alpha below 1" run --method l3a+,l3a --alpha 0.2 -o "$work/bad"
expect 0 '' run --method l3a+ --alpha 1 --lift 0 --skip-features off --gamma 1000 --thresholds fixed -o "$work/plain"
expect 0 '' run --method l3a-no-pl -o "$work/no-pl"
expect 0 'lift 0.2 has no effect: no method of this run uses it' l3a run --train "$train" --test "$test" --protocol B0-C2 --dim 64 \
    --method l3a --lift 0.2 -o "$work/idle"
expect 0 '' l3a run --train "$train" --test "$test" --protocol B0-C2 --dim 64 --method l3a,l3a+ --lift 0.2 -o "$work/looked-at"
grep -q 'has no effect' "$work/stderr" && fail 'a warning of a setting that l3a+ uses' "$work/stderr" || pass
cut -d, -f2-15 "$work/plain/metrics.csv" >"$work/one"
cut -d, -f2-15 "$work/no-pl/metrics.csv" >"$work/other"
check 'l3a+ with everything off is l3a without pseudo-labels' cmp "$work/one" "$work/other"
finish
