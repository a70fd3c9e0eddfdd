#!/usr/bin/env bash
# What people meet who use the command for the first time: a run is resumed by naming its folder, nothing that is given is ignored
# without a word, numbers have the right plural, lists are short, and the end of `make test` says what was skipped.
. "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"

# ---- --resume -o DIR ----
mkdir "$work/first place" "$work/second place"
cd "$work/first place" || exit 1
make_features 'my data' --ids
settings=(--protocol B0-C2 --dim 64 --gamma 10 --method l3a,joint --seed 1,2 --class-order "my data/names.txt")
expect 0 '' l3a run --train 'my data/train.safetensors' --test 'my data/test.safetensors' "${settings[@]}" --threads 1 --quiet -o "it's my run"
cp -r "it's my run" "$work/second place/moved"
cut_short() { # the second half of a run is gone, as if it had been killed there
    for table in metrics per_class timings; do
        sed -i '/^l3a,2,1,/,$d' "$1/$table.csv"
    done
    rm -f "$1/samples.csv" "$1/report.html" "$1/checksums.csv"
}
cp "it's my run/run.json" "$work/record"
cut_short "it's my run"
expect 0 '' l3a run --resume -o "it's my run" --quiet
check 'a run resumed by its folder' diff <(metrics "it's my run") <(metrics "$work/second place/moved")
check 'the record stays' cmp "$work/record" "it's my run/run.json"
cut_short "it's my run"
expect 2 'gamma = 10, and this one has gamma = 11' l3a run --resume -o "it's my run" --gamma 11
expect 2 'methods' l3a run --resume -o "it's my run" --method l3a
expect 2 'threads' l3a run --resume -o "it's my run" --threads 2
expect 2 "unknown option '--gama'" l3a run --resume -o "it's my run" --gama 10
check 'what is refused changes nothing' test "$(grep -c '^l3a,2' "it's my run/metrics.csv")" -eq 0
metrics "$work/second place/moved" >"$work/expected"

cd "$work/second place" || exit 1
cut_short moved
expect 0 '' l3a run --resume -o moved
check 'a run moved, from another folder' diff <(metrics moved) "$work/expected"
shows 'mAP after each phase'
check 'it says that it has a report' grep -qF 'report: moved/report.html' "$work/stderr"
cut_short moved
mv "$work/first place/my data" "$work/my data"
expect 2 'if the file has moved, give its new path with the option' l3a run --resume -o moved
expect 0 '' l3a run --resume -o moved --train '../my data/train.safetensors' --test '../my data/test.safetensors' --class-order '../my data/names.txt' --quiet
check 'data moved, and named again' diff <(metrics moved) "$work/expected"

make_features 'other data' --rows 300
cut_short moved
expect 2 'has train' l3a run --resume -o moved --train 'other data/train.safetensors' --test '../my data/test.safetensors' --class-order '../my data/names.txt'
# relative paths are those of here, too, where the folder of then is gone
mv "$work/first place" "$work/gone"
mv "$work/my data" .
expect 0 '' l3a run --resume -o moved --quiet
check 'data found beside the run' diff <(metrics moved) "$work/expected"

expect 2 'there is nothing to resume' l3a run --resume -o nowhere
check 'and nothing is made' test ! -e nowhere
expect 2 '-o is required' l3a run --resume --train a --test b
expect 2 "made by 'l3a run', not by 'l3a sweep'" l3a sweep --resume -o moved
expect 0 '' l3a sweep --train 'my data/train.safetensors' --test 'my data/test.safetensors' --protocol B0-C2 --dim 32 --gamma 1,10 --eta 0.6,dynamic --quiet -o 'a sweep' --format csv
cp -r 'a sweep' whole
sed -i '/^10,/d' 'a sweep/sweep.csv'
for folder in 'a sweep/points/gamma=10'*; do
    sed -i '2,$d' "$folder/metrics.csv" "$folder/per_class.csv"
    rm "$folder/checksums.csv"
done
rm 'a sweep/checksums.csv'
mkdir below
cd below || exit 1
expect 0 '' l3a sweep --resume -o '../a sweep' --quiet
check 'a sweep resumed by its folder' diff <(cut -d, -f1-17 '../a sweep/sweep.csv') <(cut -d, -f1-17 ../whole/sweep.csv)
shows 'gamma,eta,method,avg_mAP'
check 'the points keep the command' grep -qF -- '--gamma 1,10 --eta 0.6,dynamic' '../a sweep/points/gamma=10,eta=0.6/run.json'
expect 2 'values of gamma' l3a sweep --resume -o '../a sweep' --gamma 1,20
expect 2 "made by 'l3a sweep', not by 'l3a run'" l3a run --resume -o '../a sweep'
cd ..

# ---- nothing is ignored silently ----
data='my data'
train=$data/train.safetensors
test=$data/test.safetensors
learn() { l3a learn model --features "$train" --dim 32 "$@"; }
idle() { # idle OPTION VALUE NEEDS [OPTION...]: learn warns that it has no effect
    rm -f model
    expect 0 "warning: --$1 has no effect: it needs $3" learn --classes class00 "--$1" "$2" "${@:4}"
}
idle eta 0.6 '--pseudo fixed' --pseudo off
idle eta 0.6 '--pseudo fixed' --method l3a+
idle tau 3 '--pseudo dynamic'
idle total-classes 6 '--pseudo dynamic'
idle scaling literal 'class weights (--weights)' --weights none
idle lift 0.1 'phases kept apart'
idle theta 0.6 '--thresholds fixed' --method l3a+
expect 0 'warning: --tau has no effect' learn --classes class01 --tau 3 --privacy-limit 0
rm model
expect 0 '' learn --classes class00 --pseudo dynamic --tau 3 --total-classes 6 --theta 0.6 --scaling literal --privacy-limit 0
check 'no warning of what is used' test "$(grep -c 'no effect' "$work/stderr")" -eq 0
expect 0 '' learn --classes class01 --tau 3 --quiet
check 'quiet is silent' test ! -s "$work/stderr"
expect 0 'warning: --lift 0.2 has no effect: no point of this sweep uses it' l3a sweep --train "$train" --test "$test" --protocol B0-C2 --dim 32 --gamma 1,10 --lift 0.2 -o idle-sweep
expect 0 '' l3a sweep --train "$train" --test "$test" --protocol B0-C2 --dim 32 --pseudo fixed,dynamic --tau 3 -o busy-sweep
check 'no warning of what one point uses' test "$(grep -c 'no effect' "$work/stderr")" -eq 0

for command in learn eval; do
    more=()
    [ $command = eval ] || more=(--classes class02)
    expect 2 '--labels is for .npy files' l3a $command model --features "$train" "${more[@]}" --labels "$data/train_labels.npy"
    expect 2 '--names is for .npy files' l3a $command model --features "$train" "${more[@]}" --names "$data/names.txt"
done
expect 2 '--labels has no effect without --features' l3a forget model --classes class00 --labels "$data/train_labels.npy"
for command in run sweep; do
    expect 2 '--train-labels is for .npy files' l3a $command --train "$train" --test "$test" --train-labels "$data/train_labels.npy" -o none
    expect 2 '--test-labels is for .npy files' l3a $command --train "$train" --test "$test" --test-labels "$data/train_labels.npy" -o none
    expect 2 '--names is for .npy files' l3a $command --train "$train" --test "$test" --names "$data/names.txt" -o none
done
for option in '--pool mean' '--size 224' '--mean 0 --std 1' '--filter bicubic' --orient; do
    # shellcheck disable=SC2086
    expect 2 'has no effect with --features' l3a predict model --features "$test" $option
done
expect 2 "'extra' is not expected here" l3a doctor extra
expect 2 'one script for all commands' l3a help --format bash run

# ---- help names what a command takes ----
methods_in_help() { l3a help "$1" | sed -n '/^methods:/,/^$/p' | awk 'NR > 1 && NF { print $1 }'; }
[ -n "$(methods_in_help learn)" ] && pass || fail 'no methods in the help of learn'
for method in $(methods_in_help run); do
    rm -f made
    if l3a learn made --features "$train" --classes class00 --dim 32 --method "$method" --quiet >"$work/stdout" 2>"$work/stderr"; then
        check "learn takes $method and lists it" grep -qxF -- "$method" <(methods_in_help learn)
    else
        check "learn refuses $method and does not list it" test "$(methods_in_help learn | grep -cxF -- "$method")" -eq 0
    fi
done

# ---- plurals ----
printf 'path,labels\na.png,cat\n' >one.csv
expect 2 '1 of 1 picture is missing or empty' l3a data list:one.csv
shows 'all, 1 picture, 1 class'
expect 0 '' l3a run --train "$train" --test "$test" --protocol B6-C1 --dim 32 --dry-run
shows '6 classes in 1 phase,' '1 method x 1 seed,'
expect 0 '' l3a sweep --train "$train" --test "$test" --protocol B6-C1 --dim 32 --gamma 1,2 --dry-run
shows '2 points x 1 seed in 1 phase; 1 pass over'
rm -f model
expect 0 '' learn --classes class00
shows 'phase 1: 1 new class, 1 in all'
expect 0 '' l3a eval model --features "$test"
shows ', 1 class'
check 'and no wrong one' test "$(cat "$work/stdout" "$work/stderr" | grep -cE '(^|[^0-9.])1 (pictures|images|classes|phases|rows|seeds|methods|points)')" -eq 0

# ---- info of a checkpoint ----
/usr/bin/python3 - <<'P'
import json, struct
names = [f"layer{i}.weight" for i in range(40)]
header = {name: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]} for i, name in enumerate(names)}
text = json.dumps(header).encode()
open("checkpoint.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(8 * len(names)))
P
expect 0 '' l3a info checkpoint.safetensors
shows '… and 36 more tensors (--tensors lists all 40)'
check 'a short list' test "$(wc -l <"$work/stdout")" -le 10
expect 0 '' l3a info checkpoint.safetensors --tensors
check 'all where asked for' test "$(grep -c '^  tensor ' "$work/stdout")" -eq 40
expect 0 '' l3a info checkpoint.safetensors --format json
check 'all in JSON' test "$(/usr/bin/python3 -c 'import json, sys; print(len(json.load(sys.stdin)["tensors"]))' <"$work/stdout")" -eq 40
expect 0 '' l3a info model
check 'all of a model' test "$(grep -c '^  tensor ' "$work/stdout")" -ge 5

# ---- what make test skipped ----
mkdir -p build/Testing/Temporary
cat >build/Testing/Temporary/LastTest.log <<'LOG'
1/3 Testing: unit.one
Output:
4 passed, 0 failed
Test Passed.
"a test" end time: now
2/3 Testing: oracle.two
Output:
skipped: there are no pictures
Test Skipped.
"a test" end time: now
3/3 Testing: cli.three
Output:
skipped: fish is not installed
7 passed, 0 failed
Test Passed.
"a test" end time: now
LOG
expect 0 '' "$L3A_SOURCE/tests/skipped" build
check 'the reasons' diff "$work/stdout" <(printf '\nskipped:\n  oracle.two: there are no pictures\n  cli.three: fish is not installed\n')
finish
