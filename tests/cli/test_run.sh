#!/bin/bash
# What the commands print and write when all is well.
. "$(dirname "$0")/support.sh"

data=$work/data
make_features "$data" --ids
make_features "$work/half" --type F16
make_features "$work/few" --rows 40
make_features "$work/odd" --odd-names
settings=(--dim 128 --gamma 10)
train=$data/train.safetensors
test=$data/test.safetensors
run_on() { l3a run --train "$1/train.safetensors" --test "$1/test.safetensors" --protocol B0-C2 "${settings[@]}" "${@:2}"; }
py() { /usr/bin/python3 - "$@"; }
same_metrics() { check "$3" diff <(metrics "$1") <(metrics "$2"); }

# run: the folder
expect 0 'l3a, seed 1, phase 1 of 3' run_on "$data" --method l3a,joint --seed 1,2 -o "$work/run"
shows avg last CF1 OF1 forget ' ± ' 'standard deviation over seeds'
check 'the header of metrics.csv' test "$(head -n 1 "$work/run/metrics.csv")" = 'method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds,base_mAP,new_mAP'
check 'the header of per_class.csv' test "$(head -n 1 "$work/run/per_class.csv")" = 'method,seed,phase,class,AP,images,weight,pseudo,right,present,curve'
check 'the files of a run' test "$(ls "$work/run" | xargs)" = 'checksums.csv metrics.csv model.safetensors per_class.csv report.html run.json samples.csv timings.csv'
check 'what the files hold' py "$work/run" <<'P'
import csv, json, sys
record = json.load(open(f"{sys.argv[1]}/run.json"))
run = record["run"]
assert record["command"].startswith("l3a run --train") and record["machine"]["blas"], record
assert run["methods"] == ["l3a", "joint"] and run["seeds"] == [1, 2] and run["gamma"] == 10 and run["dim"] == 128, run
assert run["train"]["rows"] == 400 and run["test"]["width"] == 24 and len(run["train"]["xxh3"]) == 16, run
assert run["classes"] == [f"class{k:02d}" for k in range(6)], run
rows = list(csv.DictReader(open(f"{sys.argv[1]}/metrics.csv")))
assert [(r["method"], r["seed"], r["phase"], r["first"], r["last"]) for r in rows] == \
    [("l3a", s, str(t + 1), str(2 * t), str(2 * t + 2)) for s in "12" for t in range(3)] + [("joint", s, "1", "0", "6") for s in "12"], rows
classes = list(csv.DictReader(open(f"{sys.argv[1]}/per_class.csv")))
for r in rows:
    own = [float(c["AP"]) for c in classes if (c["method"], c["seed"], c["phase"]) == (r["method"], r["seed"], r["phase"])]
    assert len(own) == int(r["last"]) and abs(sum(own) / len(own) - float(r["mAP"])) < 1e-9, r
    assert all(0 <= float(r[k]) < 100 + 1e-9 for k in ("mAP", "CP", "CR", "CF1", "OP", "OR", "OF1")), r
assert all(float(r["mAP"]) > 80 for r in rows), rows
P

# run: what it prints
expect 0 '' run_on "$data" --method l3a,joint --seed 1,2 -o "$work/run-json" --format json
cp "$work/stdout" "$work/results.json"
expect 0 '' run_on "$data" --method l3a,joint --seed 1,2 -o "$work/run-csv" --format csv
cp "$work/stdout" "$work/results.csv"
same_metrics "$work/run" "$work/run-json" 'a run repeated'
check 'results as JSON, as CSV and in the folder' py "$work/run" "$work/results.json" "$work/results.csv" <<'P'
import csv, json, statistics, sys
kept = list(csv.DictReader(open(f"{sys.argv[1]}/metrics.csv")))
shown, table = json.load(open(sys.argv[2])), list(csv.DictReader(open(sys.argv[3])))
assert len(kept) == len(table) == len(shown["rows"]) and list(kept[0]) == list(table[0])
for a, b, c in zip(kept, table, shown["rows"]):
    for key in a:
        if key == "method":
            assert a[key] == b[key] == c[key]
        elif key != "seconds":
            assert abs(float(a[key]) - float(b[key])) < 1e-6 and abs(float(a[key]) - c[key]) < 1e-6, (key, a, b, c)
    assert len(c["AP"]) == c["last"]
first = shown["summary"][0]
last = [float(r["mAP"]) for r in kept if r["method"] == "l3a" and r["phase"] == "3"]
average = [statistics.mean(float(r["mAP"]) for r in kept if r["method"] == "l3a" and r["seed"] == s) for s in "12"]
for key, values in ("last_mAP", last), ("avg_mAP", average):
    assert abs(first[key]["mean"] - statistics.mean(values)) < 1e-5, first
    assert abs(first[key]["deviation"] - statistics.stdev(values)) < 1e-5, first
assert first["seeds"] == 2 and shown["classes"] == [f"class{k:02d}" for k in range(6)]
P
expect 0 '' run_on "$data" --dry-run -o "$work/dry"
shows '6 classes in 3 phases' 'phase 3: classes 5-6' 'model file'
check 'a dry run writes nothing' test ! -e "$work/dry"
expect 0 '' run_on "$data" --dry-run
expect 0 '' run_on "$data" -o "$work/quiet" --quiet
check 'quiet is silent' test ! -s "$work/stderr"
shows 'mAP after each phase'
expect 0 'plan: 6 classes' run_on "$data" -o "$work/loud"
check 'results on stdout only' test "$(grep -cE '^plan|phase . of' "$work/stdout")" = 0
check 'messages on stderr only' test "$(grep -cE 'avg|± ' "$work/stderr")" = 0
expect 0 '' l3a run --list-methods
shows 'Zhang et al., ICML 2025'
check 'its lines fit 100 columns' test "$(l3a run --list-methods | wc -L)" -le 100
for method in l3a l3a-no-pl l3a-no-wac joint joint+ joint-masked acil air dsal gkeal slda podnet tpcil krt csc csc-r l2p coda-prompt multi-lane ease real; do
    check "$method is listed" eval "l3a run --list-methods | grep -q '^$method '"
done
expect 0 '' run_on "$data" --method l3a-no-pl,l3a-no-wac,acil -o "$work/methods"
check 'no pseudo-labels where there should be none' test "$(cut -d, -f1,8 "$work/methods/metrics.csv" | grep -v no-wac | grep -vc ',0$')" = 1

# class orders
order() { expect 0 '' run_on "$data" --class-order "$1" -o "$2"; }
classes() { py "$1/run.json" <<<'import json, sys; print(*json.load(open(sys.argv[1]))["run"]["classes"])'; }
order lexicographic "$work/order-lexicographic"
order shuffle:3 "$work/order-a"
order shuffle:3 "$work/order-b"
order shuffle:4 "$work/order-c"
order "$data/names.txt" "$work/order-file"
same_metrics "$work/order-lexicographic" "$work/quiet" 'lexicographic is the default'
same_metrics "$work/order-a" "$work/order-b" 'a shuffle repeated'
check 'a shuffle is not the lexicographic order' test "$(classes "$work/order-a")" != "$(classes "$work/quiet")"
check 'another seed, another shuffle' test "$(classes "$work/order-a")" != "$(classes "$work/order-c")"
check 'a shuffle has every class' test "$(classes "$work/order-a" | tr ' ' '\n' | sort | xargs)" = "$(classes "$work/quiet")"
check 'the order of a file' test "$(classes "$work/order-file")" = "$(xargs <"$data/names.txt")"
expect 0 '' run_on "$work/odd" -o "$work/run-odd"
check 'a name with a comma and quotes' grep -qF ',"class01, ""é""",' "$work/run-odd/per_class.csv"
expect 0 '' run_on "$work/odd" -o "$work/run-odd" --resume
for protocol in B4-C1:3 B0-C4:2 B6-C1:1 B0-C9:1 B5-C2:2; do
    expect 0 '' l3a run --train "$train" --test "$test" --protocol "${protocol%:*}" --dim 64 -o "$work/run-$protocol" --quiet
    check "phases of $protocol" test "$(wc -l <"$work/run-$protocol/metrics.csv")" = $((${protocol#*:} + 1))
done

# NumPy files
run_npy() { l3a run --train "$1/train$2.npy" --train-labels "$1/train_labels$2.npy" --test "$1/test$2.npy" --test-labels "$1/test_labels$2.npy" --names "$1/names.txt" --protocol B0-C2 "${settings[@]}" -o "$3"; }
expect 0 '' run_npy "$data" '' "$work/npy"
expect 0 '' run_npy "$data" _fortran "$work/npy-fortran"
same_metrics "$work/quiet" "$work/npy" 'NumPy files'
same_metrics "$work/quiet" "$work/npy-fortran" 'NumPy files in Fortran order'
expect 0 '' run_on "$work/half" -o "$work/half-run"
expect 0 '' run_npy "$work/half" '' "$work/half-npy"
expect 0 '' run_npy "$work/half" _fortran "$work/half-fortran"
same_metrics "$work/half-run" "$work/half-npy" 'float16 NumPy files'
same_metrics "$work/half-run" "$work/half-fortran" 'float16 NumPy files in Fortran order'

# learn and eval, phase by phase, against run
model=$work/model
phase=0
for classes in class00,class01 class02,class03 class04,class05; do
    phase=$((phase + 1))
    expect 0 '' l3a learn "$model" --features "$train" --classes $classes "${settings[@]}"
    shows "phase $phase: 2 new classes, $((2 * phase)) in all" 'sums and Cholesky' "saved to $model"
    expect 0 '' l3a eval "$model" --features "$test" --format json
    cp "$work/stdout" "$work/eval.json"
    check "phase $phase learned by itself, and in a run" py "$work/eval.json" "$work/quiet/metrics.csv" $phase <<'P'
import csv, json, sys
alone = json.load(open(sys.argv[1]))
row = [r for r in csv.DictReader(open(sys.argv[2])) if r["phase"] == sys.argv[3]][0]
for key in "mAP", "CP", "CR", "CF1", "OP", "OR", "OF1":
    assert abs(alone[key] - float(row[key])) < 1e-6, (key, alone, row)
assert alone["images"] == int(row["test_images"]) and len(alone["AP"]) == int(row["last"])
assert alone["images"] + alone["left_out"] == 200
P
    if [ $phase = 1 ]; then
        left=$(/usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["left_out"])' "$work/eval.json")
        expect 0 "$left images that show none of the classes were left out; --all-pictures counts them" l3a eval "$model" --features "$test" --format json
        check 'standard output is JSON alone' cmp "$work/stdout" "$work/eval.json"
        expect 0 '' l3a eval "$model" --features "$test" --format json --quiet
        check 'quiet is quiet' test ! -s "$work/stderr"
        expect 0 '' l3a eval "$model" --features "$test"
        shows "$left images that show none of the classes were left out; --all-pictures counts them"
        expect 0 '' l3a eval "$model" --features "$test" --all-pictures
        shows '200 images, 2 classes'
        check 'nothing is left out' test -z "$(grep 'left out' "$work/stdout" "$work/stderr")"
    fi
done
check 'the same sums and weights' py "$model" "$work/quiet/model.safetensors" <<'P'
import struct, sys
tensors = []
for path in sys.argv[1:]:
    data = open(path, "rb").read()
    tensors.append(data[8 + struct.unpack("<Q", data[:8])[0]:])
assert tensors[0] == tensors[1]
P
expect 0 '' l3a eval "$model" --features "$test"
shows '200 images, 6 classes' 'mAP' 'learned from' class05
expect 0 '' l3a eval "$model" --features "$test" --format csv
shows 'class,images,AP'
check 'a line for each class' test "$(wc -l <"$work/stdout")" = 7
expect 0 '' l3a eval "$model" --features "$data/test_fortran.npy" --labels "$data/test_labels.npy" --names "$data/names.txt" --format json
check 'eval on NumPy files' cmp "$work/stdout" "$work/eval.json"
expect 0 '' l3a eval "$model" --features "$test" --theta 0.9 --format json
check 'another theta, other F1' test "$(grep -o '"CF1": [0-9.]*' "$work/stdout")" != "$(grep -o '"CF1": [0-9.]*' "$work/eval.json")"

# few rows: the recursion, and the same weights as by sums
few() { l3a learn "$1" --features "$work/few/train.safetensors" --classes "$2" --dim 1024 --gamma 10 --precision double "${@:3}"; }
expect 0 '' few "$work/recursive" class00,class01
shows 'solved by recursion'
expect 0 '' few "$work/recursive" class02,class03
shows 'solved by recursion'
expect 0 '' few "$work/sums" class00,class01 --solver sums
expect 0 '' few "$work/sums" class02,class03 --solver sums
shows 'sums and Cholesky'
for name in recursive sums; do
    expect 0 '' l3a predict "$work/$name" --features "$test" --format csv --top 4
    sort "$work/stdout" >"$work/$name.csv"
done
check 'recursion and sums' py "$work/recursive.csv" "$work/sums.csv" <<'P'
import sys
tables = [{tuple(line.split(",")[:2]): line.split(",")[2].strip() for line in open(path)} for path in sys.argv[1:]]
assert tables[0].keys() == tables[1].keys() and len(tables[0]) == 801
assert all(a == b or abs(float(a) - float(b)) < 2e-4 for a, b in ((tables[0][k], tables[1][k]) for k in tables[0]))
P

# predict
expect 0 '' l3a predict "$model" --features "$test" --top 2
check 'a line for each row' test "$(wc -l <"$work/stdout")" = 200
check 'two tags in each' test "$(grep -cE '^test [0-9]+\.jpg +class0[0-5] -?[01]\.[0-9]{3}, class0[0-5] -?[01]\.[0-9]{3}$' "$work/stdout")" = 200
expect 0 '' l3a predict "$model" --features "$test" --threshold 9
check 'no tag, but a line' test "$(grep -cE '^test [0-9]+\.jpg +-$' "$work/stdout")" = 200
expect 0 '' l3a predict "$model" --features "$test" --threshold 0.4 --format json
cp "$work/stdout" "$work/tags.json"
expect 0 '' l3a predict "$model" --features "$test" --threshold 0.4 --format csv
cp "$work/stdout" "$work/tags.csv"
check 'tags as JSON and as CSV' py "$work/tags.json" "$work/tags.csv" <<'P'
import csv, json, sys
rows, table = json.load(open(sys.argv[1])), list(csv.DictReader(open(sys.argv[2])))
assert [r["id"] for r in rows] == [f"test {i}.jpg" for i in range(200)]
tags = [(r["id"], t["class"], t["score"]) for r in rows for t in r["tags"]]
assert tags == [(r["id"], r["class"], float(r["score"])) for r in table if r["class"]] and len(tags) > 100
# every row is in the CSV, in order, and one without a tag has neither class nor number
assert list(dict.fromkeys(r["id"] for r in table)) == [r["id"] for r in rows]
untagged = [r["id"] for r in rows if not r["tags"]]
assert untagged == [r["id"] for r in table if not r["class"] and not r["score"]] and untagged
assert all(t[2] >= 0.4 for t in tags)
assert all(r["tags"] == sorted(r["tags"], key=lambda t: -t["score"]) for r in rows)
P
expect 0 '' l3a predict "$model" --features "$data/test.npy" --top 1 --format csv
check 'rows without a name have a number' test "$(sed -n '2p;$p' "$work/stdout" | cut -d, -f1 | xargs)" = '0 199'
expect 0 '' l3a learn "$work/odd-model" --features "$work/odd/train.safetensors" --classes @"$work/odd/names.txt" "${settings[@]}"
expect 0 '' l3a predict "$work/odd-model" --features "$work/odd/test.safetensors" --top 6 --format csv
shows ',"class01, ""é""",'
expect 0 '' l3a predict "$work/odd-model" --features "$work/odd/test.safetensors" --top 6 --format json
check 'an odd name as JSON' py "$work/stdout" <<<'import json, sys; assert any(t["class"] == "class01, \"é\"" for t in json.load(open(sys.argv[1]))[0]["tags"])'

# info
expect 0 '' l3a info "$model"
shows ': model,' 'gamma: 10' 'classes: 6: class00, class01' 'tensor gram F64 [8256]' 'tensor weights F64 [128, 6]' 'checksum verified'
expect 0 '' l3a info "$work/recursive"
shows 'tensor inverse F64'
expect 0 '' l3a info "$train"
shows ': features,' 'tensor features F32 [400, 24]' 'tensor labels I8 [400, 6]'
expect 0 '' l3a info "$data/train.npy"
shows ': npy,' 'F32 [400, 24]'
for file in "$model:model" "$train:features" "$data/train_labels.npy:npy"; do
    expect 0 '' l3a info "${file%:*}" --format json
    cp "$work/stdout" "$work/info.json"
    check "info of $file as JSON" py "$work/info.json" "${file%:*}" "${file#*:}" <<'P'
import json, os, sys
info = json.load(open(sys.argv[1]))
assert info["kind"] == sys.argv[3] and info["bytes"] == os.path.getsize(sys.argv[2]), info
assert all(t["verified"] == (sys.argv[3] == "model") for t in info["tensors"]) and info["tensors"], info
P
done
expect 0 '' l3a learn "$work/narrow" --features "$train" --classes class00 "${settings[@]}" --store float32
expect 0 '' l3a info "$work/narrow"
shows 'tensor gram F32 [8256]'
expect 0 '' l3a learn "$work/narrow" --features "$train" --classes class01

# help
expect 0 '' l3a help
shows run learn eval predict info doctor demo
for command in run learn eval predict info doctor demo; do
    expect 0 '' l3a help $command
    shows "usage: l3a $command" --quiet
    cp "$work/stdout" "$work/help"
    expect 0 '' l3a $command --help
    check "both ways to ask for help on $command" cmp "$work/stdout" "$work/help"
    expect 0 '' l3a $command -h
done
for version in --version version; do
    expect 0 '' l3a $version
    check 'a version' grep -qE '^l3a [0-9]+\.[0-9]+\.[0-9]+$' "$work/stdout"
done
expect 0 "" l3a run --train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C2 --dim 64 --method l3a+ --gamma auto -o "$work/run-auto"
check 'the record of a run that chooses gamma is JSON' /usr/bin/python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["run"]["gamma"] == "auto"' "$work/run-auto/run.json"
check 'and has its report' test -s "$work/run-auto/report.html"

expect 0 '' l3a doctor
shows processor threads memory 'pictures     jpeg, png' matrices
finish
