#!/bin/bash
# l3a train: a backbone is trained on pictures, used, and trained on after interruptions; and whatever can be wrong.
. "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
demo=$L3A_SOURCE/models/demo_backbone.safetensors
export L3A=$L3A_BUILD/l3a
cd "$work"
/usr/bin/python3 "$here/make_pictures.py" . || fail 'pictures are made'

# Small pictures, in steps of 20; the last of an epoch has fewer.
small=(--backbone "$demo" --data list:list.csv --size 32 --threads 2)
train() { l3a train "${small[@]}" --batch 20 "$@"; }
lines() { grep -cE '^ +[0-9]+ ' "$work/stdout"; }
recorded() { l3a info --format json "$1" | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["metadata"].get(sys.argv[1]))' "$2"; }

if train --epochs 1 -o probe.safetensors --quiet 2>&1 | grep -q 'cannot train networks'; then
    echo 'skipped: this build cannot train networks (it has no oneDNN)'
    exit 77
fi
rm -f probe.safetensors*

# First use
expect 0 'plan: ' train --epochs 3 -o tuned.safetensors
shows 'epoch        loss      mAP    seconds' 'tuned.safetensors: epoch 3 of 3'
check 'a line for each epoch' test "$(lines)" = 3
check 'the state is gone' test ! -e tuned.safetensors.training
check 'the plan says what is trained' grep -q 'trained: 6176 of 599120 parameters' "$work/stderr"
check 'the same network' bash -c "'$L3A' info tuned.safetensors | grep -q 'backbone: resnet, width 16, blocks 2 2 2 1'"
check 'it says how it was trained' test "$(recorded tuned.safetensors l3a.training.trained), $(recorded tuned.safetensors l3a.training.epochs)" = 'norms, 3'
check 'it records the command, without what changes nothing' \
    test "$(recorded tuned.safetensors l3a.training.command)" = "l3a train --backbone $demo --data list:list.csv --epochs 3 --batch 20 --size 32"
expect 0 '' l3a extract --backbone tuned.safetensors --data list:list.csv --quiet -o features.safetensors
check 'its pictures have the size that it was trained with' test "$(recorded features.safetensors preprocess)" = \
    'rgb 32x32 bilinear mean 0.485,0.456,0.406 std 0.229,0.224,0.225'
expect 0 '' l3a teach shapes.l3a --list list.csv --backbone tuned.safetensors --quiet
expect 0 '' l3a tag shapes.l3a mixed/z.jpg
shows 'stripes'
expect 0 'the loss rose from' train --epochs 2 --rate 900 --keep last -o worse.safetensors
expect 0 '' train --epochs 3 -o again.safetensors --quiet
check 'quiet' test ! -s "$work/stderr"
check 'the same bytes' cmp tuned.safetensors again.safetensors
expect 0 '' train --epochs 3 -o other.safetensors --seed 1
check 'another seed gives another network' bash -c '! cmp -s tuned.safetensors other.safetensors'
expect 0 '' l3a train --backbone tuned.safetensors --data list:list.csv --epochs 1 --batch 20 -o further.safetensors
check 'what was trained can be trained' test "$(recorded further.safetensors l3a.training.epochs)" = 1

# A last batch of one picture, of which this network's batch norms would see a single number
expect 0 '' l3a train "${small[@]}" --batch 23 --epochs 1 --train head -o single.safetensors
head -n 2 list.csv >one.csv
expect 2 'use more pictures, or larger ones' l3a train --backbone "$demo" --data list:one.csv --size 32 --dry-run
expect 0 '' l3a train --backbone "$demo" --data list:one.csv --size 64 --epochs 1 -o single.safetensors

# A folder for each class
mkdir -p sorted/disc sorted/stripes && cp taught/0?.png sorted/disc && cp taught/3?.png sorted/stripes
expect 0 '' l3a train --backbone "$demo" --data folders:sorted --size 32 --epochs 1 -o sorted.safetensors
check 'classes are the folders' test "$(recorded sorted.safetensors l3a.classes)" = "$(printf 'disc\nstripes')"

# Validation: what is best, is written
expect 0 '21 to validate on' train --epochs 4 --validation-share 0.3 -o held.safetensors --format csv --report held.html
check 'a header, and a line for each epoch' test "$(wc -l <"$work/stdout")" = 5
best_of='import csv, sys; rows = list(csv.DictReader(open(sys.argv[1]))); print(max(rows, key=lambda row: float(row["map"]))["epoch"])'
check 'the epoch with the highest mAP is written' test "$(recorded held.safetensors l3a.training.epoch)" = "$(/usr/bin/python3 -c "$best_of" "$work/stdout")"
check 'the page has the curve' grep -q 'mAP of the validation pictures' held.html
check 'and is finished' bash -c '! grep -q "not finished" held.html'
expect 0 '' train --epochs 4 --validation-share 0.3 --keep last -o last.safetensors
shows 'last.safetensors: epoch 4 of 4, mAP'
expect 0 '70 to validate on' train --epochs 1 --validation-data list:list.csv -o own.safetensors --format json
check 'JSON' /usr/bin/python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
assert len(said["epochs"]) == 1 and said["kept"] == 1 and said["map"] == said["epochs"][0]["map"] and said["steps"] == 4, said' "$work/stdout"

# Plans
expect 0 '' l3a train --backbone "$demo" --data list:list.csv --dry-run
shows 'plan: ' '70 pictures, of 2 classes' 'memory '
check 'a plan writes nothing' test -z "$(ls | grep training)"
for options in '--train all --crop 0.2,0.8 --cutout 0.5 --head-rate 0.1 --clip 0' '--recipe released --difficult ignore --save-every 0' \
    '--train last:1 --optimiser sgd --momentum 0.5 --schedule cosine --loss bce --clip 1 --orient' \
    '--train head --optimiser adam --decay 0 --schedule constant --rate 0.0001 --crop none --flip no --filter bicubic --classes stripes'; do
    # shellcheck disable=SC2086
    expect 0 '' train --epochs 1 $options -o some.safetensors
done
expect 0 '' train --dry-run --train all
shows 'trained: 599120 of 599120 parameters'
expect 0 '' train --dry-run --train head
shows 'trained: 0 of 599120 parameters'
expect 0 '' train --dry-run --classes stripes
shows '40 pictures, of 1 class;'

# What was there is replaced at the end, and kept if anything fails
echo old >kept.safetensors
printf 'path,labels\ntaught/00.png,a\nbroken.png,b\n' >broken.csv
head -c 200 taught/01.png >broken.png
expect 2 'broken.png' l3a train --backbone "$demo" --data list:broken.csv --size 32 --epochs 1 -o kept.safetensors
check 'after a failure, the old file is there' test "$(cat kept.safetensors)" = old
expect 0 '' train --epochs 1 -o kept.safetensors
check 'a new one replaces it' test "$(recorded kept.safetensors l3a.training.epochs)" = 1

# Bad command lines and bad input. None of them writes anything.
touch notes.txt
printf 'path,labels\ntaught/00.png,\n' >unlabelled.csv
before=$(ls)
while IFS='|' read -r said options; do
    # shellcheck disable=SC2086
    expect 2 "$said" l3a train "${small[@]}" -o bad.safetensors $options
done <<'BAD'
--epochs: '0' is not a whole number|--epochs 0
--epochs: 'many' is not a whole number|--epochs many
--batch: '0' is not a whole number|--batch 0
--rate: '0' is not a number|--rate 0
--rate: 'nan' is not a number|--rate nan
--head-rate: '-1' is not a number|--head-rate -1
--momentum: '1' is not a number|--momentum 1
--decay: '-1' is not a number|--decay -1
--clip: 'x' is not a number|--clip x
--cutout: '2' is not a number|--cutout 2
--validation-share: '1' is not a number|--validation-share 1
--save-every: '-1' is not a number|--save-every -1
--memory: '0' is not a whole number|--memory 0
--seed: '-1' is not a whole number|--seed -1
--train: 'blocks' is not one of all|--train blocks
--train: 'last:' is not one of|--train last:
--train: 'last:x' is not one of|--train last:x
--schedule: 'linear' is not one of|--schedule linear
--optimiser: 'lion' is not one of|--optimiser lion
--loss: 'mse' is not one of|--loss mse
--crop: '0.5' is neither|--crop 0.5
--crop: '1,0.5' is neither|--crop 1,0.5
--crop: '0,1' is neither|--crop 0,1
--flip: 'maybe' is not one of|--flip maybe
--keep: 'first' is not one of|--keep first
--difficult: 'drop' is not one of|--difficult drop
--format: 'xml' is not one of|--format xml
--mean and --std must be given together|--mean 0.5
did you mean 'norms'?|--recipe norm
dragons|--classes dragons
the list is empty|--classes ,
--validation-share has no effect with --validation|--validation test --validation-share 0.1
'extra' is not expected here|extra
unknown option '--epoch'|--epoch 3
--epochs is given twice|--epochs 3 --epochs 4
the network has 7|--train last:99
use batches of 24 pictures, or larger pictures|--batch 23
use batches of 2 pictures|--batch 1 --train last:1
nowhere.csv|--validation-data list:nowhere.csv
BAD
expect 2 '--backbone is required' l3a train --data list:list.csv -o bad.safetensors
expect 2 '--data is required' l3a train --backbone "$demo" -o bad.safetensors
expect 2 '-o is required' l3a train --backbone "$demo" --data list:list.csv
expect 2 'nowhere.safetensors' l3a train --backbone nowhere.safetensors --data list:list.csv -o bad.safetensors
expect 2 'notes.txt' l3a train --backbone notes.txt --data list:list.csv -o bad.safetensors
expect 2 'nowhere.csv' l3a train --backbone "$demo" --data list:nowhere.csv -o bad.safetensors
expect 2 'vic' l3a train --backbone "$demo" --data vic:x -o bad.safetensors
expect 2 '' l3a train --backbone "$demo" --data list:unlabelled.csv -o bad.safetensors
expect 2 'nowhere/bad.safetensors: cannot write' train -o nowhere/bad.safetensors
expect 2 'nowhere/page.html: cannot write' train -o bad.safetensors --report nowhere/page.html
check 'nothing is written' test "$(ls)" = "$before"
cp "$demo" begin.safetensors
expect 2 'is the checkpoint that is to be trained' l3a train --backbone begin.safetensors --data list:list.csv -o begin.safetensors
expect 2 'is the checkpoint that is to be trained' l3a train --backbone begin.safetensors --data list:list.csv -o ./begin.safetensors
for page in ./begin.safetensors bad.safetensors bad.safetensors.training; do
    expect 2 'is to be another file' l3a train --backbone begin.safetensors --data list:list.csv -o bad.safetensors --report $page
done
check 'the checkpoint stays' cmp "$demo" begin.safetensors
# A checkpoint in several files: one, and an index that names it
mkdir parts && cp "$demo" parts/one.safetensors
/usr/bin/python3 - <<'INDEX'
import json, struct
content = open("parts/one.safetensors", "rb").read()
names = json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])
names.pop("__metadata__", None)
json.dump({"metadata": {}, "weight_map": {name: "one.safetensors" for name in names}}, open("parts/model.safetensors.index.json", "w"))
INDEX
expect 0 '' l3a train --backbone parts --data list:list.csv --size 32 --epochs 1 -o of_parts.safetensors
expect 2 'is the checkpoint that is to be trained' l3a train --backbone parts --data list:list.csv --size 32 -o parts/one.safetensors
check 'its files stay' cmp "$demo" parts/one.safetensors
expect 2 '' train --memory 1 -o bad.safetensors

# Interrupted: by Ctrl-C, and by kill -9 at any moment. What comes out in the end has the same bytes.
# The whole takes long enough to be interrupted; a training that is over before that is begun again.
long=(--epochs 6 --train all --validation-share 0.3 --save-every 0.01)
expect 0 '' train "${long[@]}" -o whole.safetensors
# interrupt SIGNAL FILE SECONDS [OPTION...]: begins a training, and signals it when it has saved something
interrupt() {
    local signal=$1 file=$2 seconds=$3 process
    shift 3
    "$L3A" train "${small[@]}" --batch 20 "${long[@]}" -o "$file" "$@" >"$work/stdout" 2>"$work/stderr" &
    process=$!
    while [ ! -e "$file.training" ] && kill -0 $process 2>/dev/null; do sleep 0.01; done
    sleep "$seconds"
    kill -"$signal" $process 2>/dev/null
    wait $process 2>/dev/null
}
interrupt INT cut.safetensors 0.05
code=$?
if [ -e cut.safetensors ]; then
    echo 'skipped: Ctrl-C (the training was over before it)'
else
    check 'the exit code of Ctrl-C' test $code = 130
    check 'the state is there' test -s cut.safetensors.training
    check 'it says how to go on' grep -q 'saved in cut.safetensors.training; go on with: .*l3a train --backbone .* --resume$' "$work/stderr"
    expect 2 'go on with it with --resume' train "${long[@]}" -o cut.safetensors
    expect 2 '' train "${long[@]}" -o cut.safetensors --resume --epochs 7
    expect 2 '' l3a train --backbone "$demo" --data folders:sorted --size 32 --batch 20 "${long[@]}" -o cut.safetensors --resume
    check 'what does not fit leaves the state' test -s cut.safetensors.training
    expect 0 '' train "${long[@]}" -o cut.safetensors --resume --report cut.html
    check 'all epochs are told' test "$(lines)" = 6
    check 'the same bytes as at once' cmp whole.safetensors cut.safetensors
fi
for n in 1 2; do
    rm -f killed.safetensors*
    interrupt KILL killed.safetensors 0.0$n
    for _ in $(seq 20); do
        [ -e killed.safetensors ] && break
        interrupt KILL killed.safetensors 0.$((RANDOM % 3))$n --resume
    done
    [ -e killed.safetensors ] || train "${long[@]}" -o killed.safetensors --resume --quiet >/dev/null
    check "killed and resumed $n: the same bytes" cmp whole.safetensors killed.safetensors
done
interrupt KILL threads.safetensors 0.05
if [ ! -e threads.safetensors ]; then
    expect 0 'the training began with 2 threads' l3a train "${small[@]:0:6}" --batch 20 --threads 1 "${long[@]}" -o threads.safetensors --resume
    check 'as many threads as before: the same bytes' cmp whole.safetensors threads.safetensors
fi
expect 2 'no training of it was interrupted' train "${long[@]}" -o whole.safetensors --resume
expect 0 '' train --epochs 1 -o fresh.safetensors --resume

# No room on the disk: an error, and the last state stays
expect 1 'ulimit -f' bash -c 'ulimit -f 100; exec "$@"' sh "$L3A" train "${small[@]}" --epochs 1 --train all -o full.safetensors
check 'no half file' test ! -e full.safetensors
interrupt KILL full.safetensors 0.02
if [ -e full.safetensors.training ]; then
    expect 1 'ulimit -f' bash -c 'ulimit -f 100; exec "$@"' sh "$L3A" train "${small[@]}" --batch 20 "${long[@]}" -o full.safetensors --resume
    check 'the state stays' test -s full.safetensors.training
    expect 0 '' train "${long[@]}" -o full.safetensors --resume
    check 'and is good' cmp whole.safetensors full.safetensors
fi
rm -f ./*.training.lock
no_leftovers .
finish
