#!/bin/bash
# Images with views: run, sweep, learn, eval, predict and info on tables whose images have several rows of features.
. "$(dirname "$0")/support.sh"

crops=$work/crops fewer=$work/fewer plain=$work/plain
make_features "$crops" --rows 200 --test-rows 80 --views 14 --ids
make_features "$fewer" --rows 200 --test-rows 80 --views 5 --ids
make_features "$plain" --rows 200 --test-rows 80 --ids
run_on() { l3a run --train "$1/train.safetensors" --test "$1/test.safetensors" --protocol B0-C2 --dim 64 --epochs 4 "${@:2}"; }
methods=l3a,l3a+,joint,slda,finetune,er

# run: what the folder says, and resuming
expect 0 'plan: 6 classes in 3 phases, 14 views, features 24 wide, dim 64' run_on "$crops" --method $methods -o "$work/run"
check 'a line for each phase' test "$(wc -l <"$work/run/metrics.csv")" -eq $((1 + 5 * 3 + 1))
check 'images are counted, not rows' test "$(sed -n 2p "$work/run/metrics.csv" | cut -d, -f6,7)" = \
    "$(run_on "$plain" --quiet -o "$work/images" >/dev/null && sed -n 2p "$work/images/metrics.csv" | cut -d, -f6,7)"
check 'the record says the views' grep -q '"views": 14,' "$work/run/run.json"
check 'no word of views in a record without them' sh -c "! grep -q '\"views\"' '$work/images/run.json'"
cp -r "$work/run" "$work/again"
rm "$work/again/checksums.csv" # it would tell that the tables were cut by hand
for file in metrics per_class; do
    sed '/^slda,/,$d' "$work/run/$file.csv" >"$work/again/$file.csv"
done
expect 0 '' l3a run --quiet --resume -o "$work/again"
check 'a run resumed' diff <(metrics "$work/run") <(metrics "$work/again")
expect 0 '' l3a run --quiet --train "$crops/train.npy" --train-labels "$crops/train_labels.npy" --test "$crops/test.npy" --test-labels \
    "$crops/test_labels.npy" --names "$crops/names.txt" --protocol B0-C2 --dim 64 --epochs 4 --method $methods -o "$work/npy"
check 'the same from .npy files' diff <(metrics "$work/run") <(metrics "$work/npy")

# views help where crops show single classes, and every method uses them
expect 0 '' run_on "$crops" --quiet --method $methods --views 1 -o "$work/whole"
for method in ${methods//,/ }; do
    last() { grep "^$method,2025,[13],0*.*,6," "$1/metrics.csv" | tail -n 1 | cut -d, -f9; }
    check "$method uses the views" test "$(last "$work/run")" != "$(last "$work/whole")"
done
check 'crops help l3a+' /usr/bin/python3 -c 'import sys; sys.exit(float(sys.argv[1]) <= float(sys.argv[2]))' \
    "$(grep '^l3a+,' "$work/run/metrics.csv" | tail -n 1 | cut -d, -f9)" "$(grep '^l3a+,' "$work/whole/metrics.csv" | tail -n 1 | cut -d, -f9)"

# --views uses some of them: the whole picture alone is a table without views
expect 0 '' run_on "$plain" --quiet --method $methods -o "$work/same"
check '--views 1 is a table without views' diff <(metrics "$work/whole") <(metrics "$work/same")
expect 0 'plan: 6 classes in 3 phases, 5 views, features 24 wide' run_on "$crops" --method l3a --views 5 -o "$work/five"
check 'no warning of --views' sh -c "! grep -q 'views.*no effect' '$work/stderr'"
check 'the record says which' grep -q '"views": 5,' "$work/five/run.json"
expect 2 'has views = 5, but this one has views = 14' l3a run --resume -o "$work/five" --views 14
expect 0 '' l3a run --quiet --resume -o "$work/five"
expect 2 "$fewer/train.safetensors" run_on "$fewer" --views 9 -o "$work/none"
expect 2 "$plain/train.safetensors" run_on "$plain" --views 5 -o "$work/none"
expect 2 'views must be a whole number' run_on "$crops" --views some -o "$work/none"
expect 2 "$crops/train.safetensors has 14 views of each image, but $plain/test.safetensors has 1" l3a run --train \
    "$crops/train.safetensors" --test "$plain/test.safetensors" --protocol B0-C2 -o "$work/none"
expect 2 'has 1 view of each image, but' l3a sweep --train "$plain/train.safetensors" --test "$fewer/test.safetensors" --protocol B0-C2 -o "$work/none"
check 'nothing was made' test ! -e "$work/none"

expect 0 'plan: 6 classes in 3 phases, 1 view to learn and 14 to score' run_on "$crops" --method slda,finetune --views 1 --score-views 14 -o \
    "$work/scored"
check 'no warning of --score-views' sh -c "! grep -q 'views.*no effect' '$work/stderr'"

# sweep
sweep_on() { l3a sweep --train "$crops/train.safetensors" --test "$crops/test.safetensors" --protocol B0-C2 --dim 64 --quiet "$@"; }
expect 0 '' sweep_on --gamma 10,1000 --method l3a,l3a-no-pl -o "$work/sweep"
expect 0 '' run_on "$crops" --quiet --gamma 1000 --method l3a,l3a-no-pl -o "$work/alone"
check 'points of a sweep are runs' diff <(tail -n +2 "$work/alone/metrics.csv" | grep '^l3a,' | cut -d, -f9) \
    <(tail -n +2 "$work/sweep/points/l3a,gamma=1000/metrics.csv" | cut -d, -f9)
check 'the record of a sweep says the views' grep -q '"views": 14,' "$work/sweep/sweep.json"
expect 0 '' l3a sweep --quiet --resume -o "$work/sweep"
expect 2 'views cannot be an axis of a grid' sweep_on --views 5,14 -o "$work/none"
expect 0 '' sweep_on --views 5 --gamma 10,1000 -o "$work/sweep5"
check 'a sweep with some of the views' grep -q '"views": 5,' "$work/sweep5/sweep.json"

# learn, eval, predict
train=(--features "$crops/train.safetensors") test=(--features "$crops/test.safetensors")
expect 0 '' l3a learn "$work/model" "${train[@]}" --classes class00,class01 --dim 64
expect 0 '' l3a learn "$work/model" "${train[@]}" --classes class02,class03
expect 0 '' l3a eval "$work/model" "${test[@]}" --format json
value() { /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/stdout" "$1"; }
check 'learned as run learns' test "$(value mAP | cut -c 1-8)" = "$(sed -n 3p "$work/run/metrics.csv" | cut -d, -f9 | cut -c 1-8)"
expect 0 '' l3a predict "$work/model" "${test[@]}" --format csv --top 2
check 'a line for each tag of each image' test "$(wc -l <"$work/stdout")" -eq $((1 + 80 * 2))
expect 0 '' l3a info "$work/model"
check 'info says the views of a model' grep -q '^  views: 14$' "$work/stdout"
expect 0 '' l3a info "$crops/train.safetensors"
check 'info says the views of a table' grep -q '^  views: 14 (rows of an image: the whole picture and 14 crops)$' "$work/stdout"
expect 0 '' l3a learn "$work/five.model" "${train[@]}" --views 5 --classes class00,class01 --dim 64
expect 0 '' l3a info "$work/five.model"
check 'a model of some views' grep -q '^  views: 5$' "$work/stdout"
expect 0 '' l3a eval "$work/five.model" "${test[@]}" --views 5
expect 0 '' l3a predict "$work/five.model" "${test[@]}" --views 5
make_features "$work/some" --rows 50 --test-rows 1 --views 14 --ids # the first rows of the training table
expect 0 '' l3a forget "$work/five.model" --features "$work/some/train.safetensors" --views 5 -o "$work/forgotten"
expect 2 'views must be a whole number' l3a eval "$work/five.model" "${test[@]}" --views 5,9
expect 2 'is not one of 1|5|9|14' l3a predict "$work/model" --backbone b --views 6 picture.jpg

# a model takes images with its own views only
expect 0 '' l3a learn "$work/plain.model" --features "$plain/train.safetensors" --classes class00,class01 --dim 64
for command in learn eval predict forget; do
    classes=()
    [ $command = learn ] && classes=(--classes class04)
    expect 2 'the features are those of whole pictures, but the model takes 14 views' l3a $command "$work/model" \
        --features "$plain/train.safetensors" "${classes[@]}"
    expect 2 'the features have 14 views, but the model takes whole pictures' l3a $command "$work/plain.model" "${train[@]}" \
        "${classes[@]}"
    expect 2 'the features have 14 views, but the model takes 5' l3a $command "$work/five.model" "${train[@]}" "${classes[@]}"
done
expect 2 'views: the model was created with 14, and cannot change to 5' l3a learn "$work/model" "${train[@]}" --views 5 --classes class04
expect 0 '' l3a eval "$work/plain.model" "${test[@]}" --views 1
finish
