#!/bin/bash
# run --adapt: the backbone is trained on the first phase, on nothing else, and then frozen.
. "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
export L3A_CACHE=$work/cache
check 'pictures' /usr/bin/python3 "$here/make_pictures.py" .
awk -F, 'NR == 1 { print $0 ",split"; next } { gsub("Scheibe & Co", "disc"); print $0 "," (NR % 3 ? "train" : "test") }' list.csv >split.csv
options=(--data list:split.csv --split train --test-split test --backbone "$backbone" --size 32 --protocol B0-C1 --dim 64)
run_adapted() { l3a run "${options[@]}" --adapt norms --adapt-epochs 2 "$@"; }
if run_adapted --dry-run 2>&1 | grep 'cannot train networks' >cannot; then
    echo "skipped: $(cat cannot)"
    exit 77
fi
expect 0 '' run_adapted --dry-run
shows 'adaptation to 1 class: 27 pictures' '2 epochs' 'seed 2025'
check 'a dry run trains nothing' test ! -e no

# what is in the folder
expect 0 'adapted in' run_adapted -o first
check 'the checkpoint is in the folder of the run' test -s first/adapted.safetensors -a ! -e first/adapted.safetensors.training
check 'the run says whose features it has' grep -q "\"sha256\": \"$(sha256sum first/adapted.safetensors | cut -d' ' -f1)\"" first/run.json
check 'and how the backbone was adapted' grep -q '"adapted": "recipe norms: norms and biases, 2 epochs .*, seed 2025"' first/run.json
check 'so does the report' grep -q 'adapted to the first phase (recipe norms: norms and biases, 2 epochs' first/report.html
expect 0 '' l3a report first --format markdown
shows 'adapted to the first phase'
expect 0 '' l3a run "${options[@]}" --quiet -o frozen
check 'a run without it has no word of it' sh -c '! grep -q adapted frozen/run.json frozen/report.html'
check 'other features, other numbers' sh -c '! cmp -s first/model.safetensors frozen/model.safetensors'

# the same again; the same as by hand
expect 0 '' run_adapted --quiet -o second
check 'the same bytes' cmp first/adapted.safetensors second/adapted.safetensors
check 'the same numbers' diff <(metrics first) <(metrics second)
expect 0 '' l3a train --backbone "$backbone" --size 32 --data list:split.csv --split train --classes disc --epochs 2 --seed 2025 --backbone-precision float32 --quiet -o by-hand.safetensors
expect 0 '' l3a run "${options[@]/$backbone/by-hand.safetensors}" --quiet -o by-hand
check 'training by hand gives the same numbers' diff <(metrics first) <(metrics by-hand)

# the seed
expect 0 '' run_adapted --seed 7,8 --quiet -o seeds
expect 0 '' run_adapted --adapt-seed 7 --quiet -o seed
check 'the first seed is that of the adaptation' cmp seeds/adapted.safetensors seed/adapted.safetensors
check 'another seed, another checkpoint' sh -c '! cmp -s first/adapted.safetensors seed/adapted.safetensors'

# nothing but the first phase: other pictures and other labels leave every byte as it is
world() { (cd "$1" && L3A_CACHE=$work/cache run_adapted --quiet -o run); }
for place in here there control; do
    mkdir $place
    cp -r taught split.csv $place/
done
/usr/bin/python3 - <<'P'
import csv, shutil
rows = list(csv.DictReader(open("split.csv")))
base = [r for r in rows if "disc" in r["labels"] and r["split"] == "train"]
others = [r for r in rows if r not in base]
assert len(base) == 27 and len(others) == 43 and any("stripes" in r["labels"] for r in base)
for k, r in enumerate(others):  # another picture in its place, and other labels
    shutil.copy(others[(k + 5) % len(others)]["path"], "there/" + r["path"])
    if r["split"] == "train":
        r["labels"] = "unheard" if k % 2 else "stripes;unheard"
    else:
        r["labels"] = "stripes;unheard" if k % 2 else "disc;stripes"
for k, r in enumerate(base):  # what they show of later classes
    r["labels"] = "disc;unheard" if k % 2 else "disc;stripes"
def write(path, rows):
    with open(path, "w", newline="") as file:
        out = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
write("there/split.csv", rows)
base[3]["labels"] = "stripes"
write("control/split.csv", rows)
P
for place in here there control; do
    expect 0 '' world $place
done
check 'the adaptation sees the first phase alone' cmp here/run/adapted.safetensors there/run/adapted.safetensors
check 'but all of it' sh -c '! cmp -s there/run/adapted.safetensors control/run/adapted.safetensors'
check 'although the numbers are others' sh -c '! cmp -s here/run/metrics.csv there/run/metrics.csv'

# resumed
cp -r first again
rm again/checksums.csv again/model.safetensors
for file in metrics per_class; do
    head -n 1 first/$file.csv >again/$file.csv
done
expect 0 '' l3a run --resume -o again
check 'a run resumed' diff <(metrics first) <(metrics again)
check 'nothing was trained or extracted again' sh -c "! grep -qE 'adapted in|features extracted' '$work/stderr'"
expect 0 '' l3a run "${options[@]}" --adapt norms --adapt-epochs 12 --quiet -o whole
for _ in $(seq 50); do # where it was over before it was killed, it begins again
    rm -rf killed
    "$L3A_BUILD/l3a" run "${options[@]}" --adapt norms --adapt-epochs 12 --quiet -o killed >/dev/null 2>&1 &
    process=$!
    while kill -0 $process 2>/dev/null && [ ! -e killed/adapted.safetensors.training ]; do
        sleep 0.01
    done
    kill -9 $process
    wait $process
    [ ! -e killed/run.json ] && break
done 2>/dev/null
expect 0 '' l3a run "${options[@]}" --adapt norms --adapt-epochs 12 --quiet -o killed
check 'a training that was killed goes on' cmp whole/adapted.safetensors killed/adapted.safetensors
check 'and nothing is left of it' test ! -e killed/adapted.safetensors.training

mkdir other # as after a kill between the adaptation and the run
cp first/adapted.safetensors other/
expect 2 'was adapted in another way' run_adapted --adapt-seed 3 --resume -o other
expect 0 'adapted before' run_adapted --resume -o other

# the other ways
expect 0 '' l3a run "${options[@]}" --adapt released --quiet -o released
check 'released' grep -q '"adapted": "recipe released: everything, 1 epoch ' released/run.json
expect 0 '' l3a run "${options[@]}" --adapt all --adapt-epochs 1 --quiet -o all
check 'all' grep -q '"adapted": "recipe norms: everything, 1 epoch .* 4e-05' all/run.json
expect 0 '' l3a sweep "${options[@]}" --adapt norms --adapt-epochs 2 --gamma 1,1000 --quiet -o sweep
check 'a sweep' cmp first/adapted.safetensors sweep/adapted.safetensors

# errors
expect 2 'there is one for each of the class orders' run_adapted --class-order shuffle:1,shuffle:2 -o no
expect 2 "--adapt: 'some' is not one of none|released|norms|all" l3a run "${options[@]}" --adapt some -o no
expect 2 '--adapt-seed needs --adapt' l3a run "${options[@]}" --adapt-seed 3 -o no
expect 2 '--adapt needs --data' l3a run --train x --test y --adapt norms -o no
expect 2 "there is no method 'l3b'" run_adapted --method l3b -o no
check 'nothing was begun' test ! -e no
finish
