#!/bin/bash
# Heads trained by gradient descent, as run compares them: settings, files, resuming.
. "$(dirname "$0")/support.sh"

data=$work/data
make_features "$data" --rows 200 --test-rows 80
run_on() { l3a run --train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C2 --quiet "$@"; }
methods=finetune,joint-sgd,lwf,ewc,oewc,rwalk,er,der++,icarl,bic,prs,ocdm

expect 0 '' run_on --method $methods --seed 1,2 --epochs 4 -o "$work/run"
check 'no model of a head' test "$(find "$work/run" -name "*.safetensors" | wc -l)" -eq 0
check 'a line for each phase' test "$(wc -l <"$work/run/metrics.csv")" -eq $((1 + 2 * (11 * 3 + 1)))
check 'no pseudo-labels' test "$(cut -d, -f8 "$work/run/metrics.csv" | sort -u | xargs)" = '0 pseudo_labels'

# a job whose file is missing starts again, and those before it stay
cp -r "$work/run" "$work/again"
rm "$work/again/checksums.csv" # it would tell that the tables were cut by hand
for file in metrics per_class; do
    sed '/^bic,2,3/,$d' "$work/run/$file.csv" >"$work/again/$file.csv"
done
expect 0 '' run_on --method $methods --seed 1,2 --epochs 4 -o "$work/again" --resume
check 'a run resumed' diff <(metrics "$work/run") <(metrics "$work/again")

# a setting reaches what it names
expect 0 '' run_on --method bic --seed 1 -o "$work/plain"
for setting in '--loss bce' '--epochs 5' '--batch 16' '--first-rate 0.1' '--rate 0.1' '--lambda 50' '--memory 2' '--memory-per run' '--head-input layer' \
    '--head-theta 0.3'; do
    # shellcheck disable=SC2086
    expect 0 '' run_on --method bic --seed 1 $setting -o "$work/set$setting"
    check "$setting changes the numbers" test "$(metrics "$work/set$setting")" != "$(metrics "$work/plain")"
done

# what is said about CF1 and OF1
expect 0 '' run_on --method l3a,finetune --dim 32 --epochs 1 --head-theta 0.7 --theta 0.6 -o "$work/theta"
threshold_of() { awk -v method="$1" '/^method.* threshold/ { found = 1 } found && $1 == method' "$work/stdout" | grep -o 'σ > [0-9.]*'; }
check 'the threshold of a head and that of l3a' test "$(threshold_of finetune), $(threshold_of l3a)" = 'σ > 0.7, σ > 0.6'
check 'and in the table to publish' test "$(l3a report "$work/theta" --format latex | grep -c '\$\\sigma >\$ 0.[67]')" -eq 2
expect 0 '' l3a sweep --train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C2 --quiet --method l3a,finetune --dim 32 --epochs 1 \
    -o "$work/thetas"
check 'and in a sweep' test "$(threshold_of finetune), $(threshold_of l3a)" = 'σ > 0.8, σ > 0.525'

refuse() { expect 2 "$1" run_on --method er -o "$work/none" "${@:2}"; }
refuse 'choose one of asl|bce' --loss hinge
refuse 'choose one of features|layer' --head-input pixels
refuse 'lambda must be a number in [0' --lambda -1
refuse 'epochs must be a whole number' --epochs 2.5
refuse 'head-theta must be a number in (0, 1)' --head-theta 1
expect 2 "unknown option '--rate'" l3a learn "$work/model" --features "$data/train.safetensors" --classes class00 --rate 1
check 'nothing was made' test ! -e "$work/none"
expect 2 'a memory of 3 images in all is less than one for each of 6 classes' run_on --method icarl --memory 3 --memory-per run -o "$work/small"
expect 2 'use a larger memory, or memory-per class' run_on --method bic --memory 3 --memory-per run -o "$work/smaller"
finish
