#!/bin/bash
# run --train-backbone: methods that train the backbone in every phase, beside those that leave it frozen.
. "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
export L3A_CACHE=$work/cache
check 'pictures' /usr/bin/python3 "$here/make_pictures.py" .
awk -F, 'NR == 1 { print $0 ",split"; next } { gsub("Scheibe & Co", "disc"); print $0 "," (NR % 3 ? "train" : "test") }' list.csv >split.csv
options=(--data list:split.csv --split train --test-split test --backbone "$backbone" --size 64 --protocol B0-C1 --dim 64 --epochs 2 --batch 16)
trained() { l3a run "${options[@]}" "$@"; }
if trained --method finetune --train-backbone --dry-run 2>&1 | grep 'cannot train networks' >cannot; then
    echo "skipped: $(cat cannot)"
    exit 77
fi

# the plan
expect 0 '' trained --method finetune,icarl --train-backbone --dry-run
shows '2 methods x 1 seed' 'memory '
check 'a dry run trains nothing' test ! -e no -a ! -e cache

# what it does
expect 0 '' trained --method finetune --train-backbone --quiet -o first
expect 0 '' trained --method finetune --train-backbone --quiet -o second
check 'the same numbers' diff <(metrics first) <(metrics second)
check 'of each class, too' cmp first/per_class.csv second/per_class.csv
check 'no features are extracted for it' test ! -e cache
check 'the run records that' grep -q '"train-backbone": "all"' first/run.json
check 'and whose pictures they were' grep -q "\"sha256\": \"$(sha256sum "$backbone" | cut -d' ' -f1)\"" first/run.json
check 'the report has pictures' grep -q '<img' first/report.html
expect 0 '' trained --method finetune --quiet -o frozen
check 'a frozen network gives other numbers' sh -c '! cmp -s first/per_class.csv frozen/per_class.csv'
expect 0 '' trained --method finetune --train-backbone norms --quiet -o norms
check 'so do norms alone' sh -c '! cmp -s first/per_class.csv norms/per_class.csv'
expect 0 '' trained --method finetune --train-backbone=all --backbone-rate 1e-3 --quiet -o rate
check 'and another rate' sh -c '! cmp -s first/per_class.csv rate/per_class.csv'

# beside methods on frozen features
rows() { metrics "$1" | grep "^$2,"; }
expect 0 '' trained --method l3a,finetune --train-backbone --quiet -o beside
expect 0 '' trained --method l3a --quiet -o alone
check 'a frozen method is as without the option' diff <(rows beside l3a) <(rows alone l3a)
check 'a trained one as by itself' diff <(rows beside finetune) <(rows first finetune)
expect 0 '' l3a sweep "${options[@]}" --method finetune --train-backbone off,all --quiet -o sweep
check 'a sweep has both' test "$(grep -c finetune sweep/sweep.csv)" -eq 4

# a method sees the labels of its phase alone: what pictures of the first phase show of the second can be anything
sed 's/disc;stripes/disc/' split.csv >later.csv
check 'some labels differ' sh -c '! cmp -s split.csv later.csv'
expect 0 '' l3a run "${options[@]/split.csv/later.csv}" --method finetune --train-backbone --quiet -o later
check 'the first phase does not see labels of the second' diff <(rows first finetune | head -n 1) <(rows later finetune | head -n 1)
check 'the second does' sh -c '! cmp -s first/per_class.csv later/per_class.csv'

expect 0 '' trained --method csc-r,tpcil --train-backbone --memory 3 --quiet -o own
expect 0 '' l3a run "${options[@]/split.csv/later.csv}" --method csc-r,tpcil --train-backbone --memory 3 --quiet -o own-later
for method in csc-r tpcil; do
    check "nor does $method" diff <(rows own "$method" | head -n 1) <(rows own-later "$method" | head -n 1)
done
expect 0 '' trained --method csc --train-backbone --csc-form code --quiet -o code
expect 0 '' trained --method csc --train-backbone --quiet -o paper
check 'the form of csc tells in the second phase' sh -c '! cmp -s code/per_class.csv paper/per_class.csv'

# resumed after a phase, and after a kill
expect 0 '' trained --method er,icarl,oewc,rwalk,bic,csc-r,tpcil --train-backbone --memory 3 --quiet -o whole
for _ in 1 2 3; do
    "$L3A_BUILD/l3a" run "${options[@]}" --method er,icarl,oewc,rwalk,bic,csc-r,tpcil --train-backbone --memory 3 --quiet --resume -o killed >/dev/null 2>&1 &
    process=$!
    sleep 1.3
    kill -9 $process
    wait $process
done 2>/dev/null
expect 0 '' trained --method er,icarl,oewc,rwalk,bic,csc-r,tpcil --train-backbone --memory 3 --quiet --resume -o killed
check 'a run that was killed ends with the same numbers' diff <(metrics whole) <(metrics killed)
check 'and the same of each class' cmp whole/per_class.csv killed/per_class.csv

# errors
make_features features --rows 60 --test-rows 30 --width 8 --classes 4
expect 2 'there are only features' l3a run --train features/train.safetensors --test features/test.safetensors --protocol B0-C2 --method finetune --train-backbone -o no
expect 2 "train-backbone: 'some' is not allowed" trained --method finetune --train-backbone some -o no
expect 2 "method 'csc-r' (Du et al., ECCV 2024) trains the backbone itself" trained --method csc-r -o no
expect 2 'add --train-backbone' trained --method tpcil -o no
expect 2 "csc-form: 'old' is not allowed" trained --method csc --train-backbone --csc-form old -o no
expect 2 'without views' trained --method finetune --train-backbone --views 5 -o no
expect 2 'is on its features' trained --method finetune --train-backbone --head-input layer -o no
check 'nothing was begun' test ! -e no
cp taught/01.png keep.png
: >taught/01.png
expect 2 'taught/01.png' trained --method finetune --train-backbone -o broken
cp keep.png taught/01.png
finish
