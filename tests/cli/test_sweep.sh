#!/bin/bash
# l3a sweep: the grid and its tables, presets, bad input, and a sweep that is killed and resumed.
. "$(dirname "$0")/support.sh"

data=$work/data
make_features "$data" --rows 1200 --test-rows 300
make_features "$work/other" --rows 1201 --test-rows 300
sweep_on() { l3a sweep --train "$1/train.safetensors" --test "$1/test.safetensors" --protocol B0-C2 "${@:2}"; }
# A sweep's table without the seconds, the last column but two.
table() { sed -E 's/,[^,]*(,[^,]*,[^,]*)$/\1/' "$1/sweep.csv"; }

# the grid
expect 0 'gamma=10 eta=dynamic, seed 2, phase 3 of 3' sweep_on "$data" --dim 64 --gamma 1,10 --eta 0.6,dynamic --seed 1,2 -o "$work/grid"
shows gamma eta 'avg mAP' 'last mAP' forgetting dynamic ' ± ' 'Nothing is marked as best: 2 paired runs cannot tell' 'standard deviation over seeds'
check 'plan' grep -q 'plan: 4 points x 2 seeds in 3 phases; 1 pass over' "$work/stderr"
check 'the header of sweep.csv' test "$(head -n 1 "$work/grid/sweep.csv")" = 'gamma,eta,method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds,base_mAP,new_mAP'
check 'a row for each point, seed and phase' test "$(tail -n +2 "$work/grid/sweep.csv" | cut -d, -f1-5 | sort -u | wc -l)" -eq 24
check 'the files' test "$(ls "$work/grid" | xargs)" = 'checksums.csv points report.html sweep.csv sweep.json'
check 'the files of points' test "$(ls "$work/grid/points" | xargs)" = 'gamma=1,eta=0.6 gamma=1,eta=dynamic gamma=10,eta=0.6 gamma=10,eta=dynamic'
check 'the page tells of every point' test "$(grep -oF -e 'gamma=1,eta=0.6' -e 'gamma=10,eta=0.6' -e 'gamma=1,eta=dynamic' -e 'gamma=10,eta=dynamic' "$work/grid/report.html" | sort -u | wc -l)" -eq 4
check 'the record' /usr/bin/python3 - "$work/grid/sweep.json" <<'P'
import json, sys
run = json.load(open(sys.argv[1]))["run"]
assert run["values of gamma"] == ["1", "10"] and run["values of eta"] == ["0.6", "dynamic"] and run["seeds"] == [1, 2], run
P

# what is printed
again=(--dim 64 --gamma 1,10 --eta 0.6,dynamic --seed 1,2 -o "$work/grid" --resume --quiet)
expect 0 '' sweep_on "$data" "${again[@]}" --format markdown
shows '| Method | gamma | eta | Avg. mAP | Last mAP | Last CF1 | Last OF1 | Δ last mAP |' '|---|---|---|---:|---:|---:|---:|---|' 'Nothing is bold' ' ± '
check 'the points are in the order of the grid' test "$(grep '^| l3a' "$work/stdout" | cut -d'|' -f3,4 | tr -d ' ' | xargs)" = '1|0.6 1|dynamic 10|0.6 10|dynamic'
check 'nothing is bold with two seeds' test "$(grep -c '\*\*' "$work/stdout")" -eq 0
check 'sweep and report print the same Markdown' cmp "$work/stdout" <(l3a report "$work/grid" --format markdown)
expect 0 '' sweep_on "$data" "${again[@]}" --format latex
shows '\begin{tabular}{@{}lllrrrrl@{}}' '\cmidrule(lr){4-4} \cmidrule(lr){5-7}' 'Method & gamma & eta & mAP' '\midrule' '$\pm$' '\bottomrule'
check 'sweep and report print the same LaTeX' cmp "$work/stdout" <(l3a report "$work/grid" --format latex)
expect 0 '' sweep_on "$data" "${again[@]}" --format csv
check 'the CSV of points' test "$(head -n 1 "$work/stdout" | cut -d, -f1-4)" = 'gamma,eta,method,avg_mAP' -a "$(wc -l <"$work/stdout")" -eq 5
expect 0 '' sweep_on "$data" "${again[@]}" --format json
check 'the best is the largest, the mean is one over seeds' /usr/bin/python3 - "$work/stdout" "$work/grid/sweep.csv" <<'P'
import csv, json, sys
points = json.load(open(sys.argv[1]))["points"]
rows = list(csv.DictReader(open(sys.argv[2])))
for point in points:
    own = [r for r in rows if r["gamma"] == point["gamma"] and r["eta"] == point["eta"]]
    last = [float(r["mAP"]) for r in own if r["phase"] == "3"]
    assert abs(sum(last) / 2 - point["last_mAP"]["mean"]) < 1e-5, point
    assert abs(abs(last[0] - last[1]) / 2 ** 0.5 - point["last_mAP"]["deviation"]) < 1e-4, point
    assert abs(sum(float(r["mAP"]) for r in own) / 6 - point["avg_mAP"]["mean"]) < 1e-5, point
for key, sign in (("last_mAP", 1), ("CF1", 1), ("forgetting", -1)):
    values = sorted({round(sign * p[key]["mean"], 2) for p in points}, reverse=True)
    for p in points:
        place = values.index(round(sign * p[key]["mean"], 2)) + 1
        assert p[key]["place"] == (place if place < 3 else 0), (key, p)
P

# with five seeds, the best is marked
expect 0 '' sweep_on "$data" --dim 64 --gamma 1,100000 --seed 1,2,3,4,5 -o "$work/five" --quiet
shows '* the best of the points that learn in phases, and those that may be as good'
check 'the best is marked, in every column of one point' test "$(grep -c '[0-9]\*' "$work/stdout")" -ge 1 -a "$(grep -c '[0-9] .*[0-9]\*' "$work/stdout")" -le 2
check 'and bold in the table to publish' test "$(l3a report "$work/five" --format markdown | grep -o '\*\*[^*]*\*\*' | wc -l)" -ge 4

# presets, without work
for preset in methods ablation memory gamma buffer threshold weighting; do
    expect 0 '' sweep_on "$data" --preset $preset --dry-run
    shows 'plan: ' ' points x ' 'memory '
done
expect 0 '' sweep_on "$data" --preset ablation --dry-run
shows '5 points x 3 seeds' finetune l3a-no-pl l3a-no-wac acil '2 passes'
expect 0 '' sweep_on "$data" --preset memory --dry-run
shows '12 points x 3 seeds' 'er memory=2' 'der++ memory=5' 'icarl memory=20' 'bic memory=20'
expect 0 '' sweep_on "$data" --preset memory --memory 2 --dry-run
shows '4 points x 3 seeds' bic
expect 0 '' sweep_on "$data" --preset buffer --dry-run
shows '7 points x 1 seed in' '7 passes' dim=6144 dim=12288
expect 0 '' sweep_on "$data" --preset threshold --dim 64 --dry-run
shows '9 points' eta=0.55 eta=0.65 eta=dynamic '1 pass over'
expect 0 '' sweep_on "$data" --preset gamma --gamma 5,6 --seed 1,2,3 --dim 64 --dry-run
shows '2 points x 3 seeds' gamma=5
expect 0 '' sweep_on "$data" --method l3a,finetune,joint --gamma 1,10 --dim 32 --epochs 1 --quiet -o "$work/methods"
shows finetune ' -'
check 'a setting that a method has no use for is not varied' test "$(grep -c '^-,finetune' "$work/methods/sweep.csv")" -eq 3
check 'joint is no rival' test "$(grep -E '^joint' "$work/stdout" | grep -cE '[*+]')" -eq 0
check 'a setting that a method has no use for is a dash' grep -q '^| finetune | – | ' <(l3a report "$work/methods" --format markdown)
check 'joint learns once' test "$(grep -c ',joint,' "$work/methods/sweep.csv")" -eq 2

# bad input
expect 2 "did you mean 'gamma'?" sweep_on "$data" --preset gama -o "$work/bad"
expect 2 "is listed twice" sweep_on "$data" --gamma 1,10,1 -o "$work/bad"
expect 2 'gamma' sweep_on "$data" --gamma 1,zero -o "$work/bad"
expect 2 'eta' sweep_on "$data" --eta 0.5,1.5 -o "$work/bad"
expect 2 'has no value' sweep_on "$data" --gamma , -o "$work/bad"
expect 2 "there is no method 'l4a'" sweep_on "$data" --method l3a,l4a -o "$work/bad"
expect 2 '-o is required' sweep_on "$data" --gamma 1,2
expect 2 'more than 10000 points' sweep_on "$data" --dim "$(seq -s, 1 300)" --block "$(seq -s, 1 300)" -o "$work/bad"
expect 2 'unknown option' sweep_on "$data" --gamam 1,2 -o "$work/bad"
expect 2 'memory' sweep_on "$data" --dim 64,1000000 -o "$work/bad"
check 'bad input leaves nothing' test ! -e "$work/bad"
expect 2 'already holds a sweep' sweep_on "$data" --dim 64 --gamma 1,10 --eta 0.6,dynamic --seed 1,2 -o "$work/grid"
expect 2 'values of gamma = ["1", "10"], but this one has values of gamma = ["1", "20"]' sweep_on "$data" --dim 64 --gamma 1,20 --eta 0.6,dynamic --seed 1,2 -o "$work/grid" --resume
expect 2 'dim = 64' sweep_on "$data" --dim 65 --gamma 1,10 --eta 0.6,dynamic --seed 1,2 -o "$work/grid" --resume
expect 2 'this one has train' sweep_on "$work/other" --dim 64 --gamma 1,10 --eta 0.6,dynamic --seed 1,2 -o "$work/grid" --resume
l3a run --train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C2 --dim 16 --quiet -o "$work/run" >/dev/null
expect 2 'this folder holds a run' sweep_on "$data" --gamma 1,2 -o "$work/run"

# killed and resumed
kills=0
whole=(--dim 64,96,128 --gamma 1,10 --method l3a,acil --seed 1,2,3)
killed() { # killed SIGNAL: once the sweep has some points and not all
    "$L3A_BUILD/l3a" sweep --train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C2 "${whole[@]}" -o "$work/killed" --resume >"$work/stdout" 2>"$work/stderr" &
    local pid=$! before
    before=$(cat "$work/killed/sweep.csv" 2>/dev/null | wc -l)
    for ((i = 0; i < 2000; i++)); do
        [ "$(cat "$work/killed/sweep.csv" 2>/dev/null | wc -l)" -gt "$before" ] && break
        sleep 0.01
    done
    kill -"$1" $pid 2>/dev/null
    wait $pid 2>/dev/null
    code=$?
    kills=$((kills + (code != 0)))
}
expect 0 '' sweep_on "$data" "${whole[@]}" --quiet -o "$work/whole"
killed KILL
check "killed: $code" test $code -eq 137 -o $code -eq 0
killed INT
check "interrupted: $code" test $code -eq 130 -o $code -eq 0
[ $code -eq 0 ] || check 'what an interrupted sweep says' grep -qF "finished points are saved in $work/killed; resume with: $L3A_BUILD/l3a sweep --resume -o $work/killed" "$work/stderr"
[ $code -eq 0 ] || expect 1 'resume the sweep' l3a report "$work/killed" --format latex
killed KILL
check "stopped $kills times" test $kills -ge 1
cut -d, -f1-5 "$work/killed/sweep.csv" | tail -n +2 | sort >"$work/had"
expect 0 '' sweep_on "$data" "${whole[@]}" -o "$work/killed" --resume
check 'finished points are not done again' test "$(grep -c ' phase [0-9]* of ' "$work/stderr")" -eq $((108 - $(wc -l <"$work/had")))
check 'the same table' diff <(table "$work/whole") <(table "$work/killed")
for point in "$work"/whole/points/*; do
    check "the same classes: $point" cmp "$point/per_class.csv" "$work/killed/points/$(basename "$point")/per_class.csv"
done
no_leftovers "$work/killed"

# rows that somebody edited
expect 0 '' sweep_on "$data" "${whole[@]}" -o "$work/killed" --resume
cp "$work/killed/sweep.csv" "$work/kept"
sed -i '3s/$/1/' "$work/killed/sweep.csv"
expect 2 'killed/sweep.csv: line 3 is not as it was written' sweep_on "$data" "${whole[@]}" -o "$work/killed" --resume
cp "$work/kept" "$work/killed/sweep.csv"
point=$(ls -d "$work"/killed/points/* | head -n 1)
sed -i '4s/^\(\([^,]*,\)\{8\}\)[^,]*/\199.9/' "$point/metrics.csv"
expect 2 "$point/metrics.csv: line 4 is not as it was written" sweep_on "$data" "${whole[@]}" -o "$work/killed" --resume
finish
