#!/bin/bash
# Tags in shards, by one process or several, killed and restarted: the same bytes as in one place. And what is not joined.
source "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
demo=$L3A_SOURCE/models/demo_backbone.safetensors
/usr/bin/python3 "$here/make_pictures.py" . || { echo 'skipped: no pictures (python3-pil is not installed)'; exit 77; }
l3a extract --backbone "$demo" --data list:list.csv -o features --quiet >said || fail 'extract' said
learn() { l3a learn "$1" --features features --classes 'stripes,Scheibe & Co' --dim "$2" --method l3a+ --quiet >said || fail 'learn' said; }
learn model 256
learn other-model 128
rm taught/[4-6]?.png && mv taught pictures
head -c 60 mixed/nothing.png >pictures/00.png
head -c 400 mixed/z.jpg >pictures/cut.jpg # the last of 41, which are 3 batches of 16
echo hello >pictures/text.jpg             # is listed after them
tag() { l3a tag model pictures --backbone "$demo" --quiet "$@"; }
# shards N FORM [OPTION...]: part1.FORM and so on
shards() {
    local i n=$1 form=$2
    shift 2
    rm -f part*
    for i in $(seq "$n"); do
        tag --shard "$i/$n" -o "part$i.$form" "$@" >said 2>&1
        [ -s "part$i.$form.shard" ] || return
    done
}
leftovers() { ls -A | grep -F "shared.$1" | grep -vx "shared.$1"; }

# Every form, from shards in any order
for form in csv json jsonl; do
    expect 2 '3 of 42 pictures could not be read' tag -o "whole.$form"
    check "three shards, $form" shards 3 "$form"
    check "three shards joined, the last one first, $form" l3a merge part3."$form" part2."$form" part1."$form" -o "joined.$form"
    check "three shards have the bytes of the whole, $form" cmp "whole.$form" "joined.$form"
    for i in 1 2 3; do cp "part$i.$form" "own$i.$form"; done
done
for options in '--format table' '--csv --long' '--json --long --given --top 1'; do
    expect 2 '3 of 42 pictures could not be read' tag -o all $options
    expect 2 '3 of 42 pictures could not be read' tag -o shared --shards 3 $options
    check "the bytes of the whole, $options" cmp all shared
    rm shared
done
expect 0 '' tag --shard 1/8 -o own0.json
shows 'own0.json: shard 1 of 8, 0 pictures'
check 'a shard is complete in itself' /usr/bin/python3 -c "
import csv, json
read = {'csv': lambda text: [row['path'] for row in csv.DictReader(text.splitlines())],
        'json': lambda text: [row['path'] for row in json.loads(text)],
        'jsonl': lambda text: [json.loads(line)['path'] for line in text.splitlines()]}
rows = [[of(open(f'own{shard}.{form}', newline='').read()) for shard in (1, 2, 3)] for form, of in read.items()]
assert rows[0] == rows[1] == rows[2] and [len(shard) for shard in rows[0]] == [16, 16, 10], rows
assert rows[0][0][0] == 'pictures/00.png' and rows[0][2][-2:] == ['pictures/cut.jpg', 'pictures/text.jpg'], rows
assert json.load(open('own0.json')) == []"
expect 0 '' tag --shard 2/3 --format jsonl
cp stdout second
check 'a shard on the standard output' cmp second own2.jsonl

# Processes that share the work, at once and one after another
expect 2 '' tag -o whole.csv
for i in 1 2 3; do
    tag --shards 8 -o shared.csv >"out$i" 2>&1 &
done
wait
check 'three processes: the bytes of the whole' cmp whole.csv shared.csv
check 'three processes: nothing is left behind' test -z "$(leftovers csv)"
check 'three processes: one joins them' test "$(cat out? | grep -c 'shared.csv: 42 pictures from 8 shards')" = 1
check 'three processes: all pictures count' grep -q '3 of 42 pictures could not be read' out?
expect 0 '' tag --shards 8 -o shared.csv
shows 'shared.csv: is there already'
rm shared.csv
expect 0 '' tag --csv --shard 2/3 -o shared.csv.shard-2-of-3
exec 9>.shared.csv.shard-3-of-3.l3a-lock
flock 9
expect 2 '' tag --shards 3 -o shared.csv
shows 'other processes are at work on what is left'
check 'a shard that another process has taken is left to it' test -e shared.csv.shard-1-of-3 -a ! -e shared.csv -a ! -e shared.csv.shard-3-of-3
exec 9>&-
expect 2 '3 of 42 pictures could not be read' tag --shards 3 -o shared.csv
check 'what is there is not made again' bash -c '! grep -qE "shard [12] of 3," stdout'
shows 'shared.csv.shard-3-of-3: shard 3 of 3, 10 pictures' 'shared.csv: 42 pictures from 3 shards'
check 'what was missing is tagged later' cmp whole.csv shared.csv
check 'and nothing is left behind' test -z "$(leftovers csv)"
for try in 1 2 3 4 5; do # until a process is killed in the middle
    rm -f shared.csv*
    "$L3A_BUILD/l3a" tag model pictures --backbone "$demo" --quiet --shards 3 -o shared.csv >said 2>&1 & process=$!
    while [ ! -e shared.csv.shard-1-of-3.shard ] && kill -0 $process 2>/dev/null; do
        sleep 0.01
    done
    { kill -9 $process && wait $process; } 2>/dev/null
    [ -e shared.csv ] || break
done
check 'a process that was killed' test ! -e shared.csv -a -e shared.csv.shard-1-of-3.shard
expect 2 '' tag --shards 3 -o shared.csv
check 'goes on with what is missing' bash -c '! grep -q "shard 1 of 3," stdout && grep -q "shard 3 of 3," stdout'
check 'to the same bytes' cmp whole.csv shared.csv
check 'and leaves nothing behind' test -z "$(leftovers csv)"
if command -v mpirun >/dev/null; then
    rm -f shared.csv
    expect 2 '3 of 42 pictures could not be read' mpirun -n 2 --oversubscribe --allow-run-as-root "$L3A_BUILD/l3a" tag model pictures --backbone "$demo" -o shared.csv
    check 'under mpirun: the bytes of the whole' cmp whole.csv shared.csv
    check 'under mpirun: nothing is left behind' test -z "$(leftovers csv)"
    expect 2 'need a file for the tags' mpirun -n 2 --oversubscribe --allow-run-as-root "$L3A_BUILD/l3a" tag model pictures --backbone "$demo"
    expect 2 'reaches only the first' mpirun -n 2 --oversubscribe --allow-run-as-root "$L3A_BUILD/l3a" tag model - --backbone "$demo" -o no.csv
else
    echo 'skipped: tagging under mpirun (it is not installed)'
fi

# Shards that are damaged are made again; those of another run are noticed
rm -f shared.csv*
exec 9>.shared.csv.shard-3-of-3.l3a-lock
flock 9
expect 2 '' tag --shards 3 -o shared.csv
rm shared.csv.shard-1-of-3 # mpirun would end the processes that are still at work if this one did not end well
expect 0 '1 of 16 pictures could not be read' env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$L3A_BUILD/l3a" tag model pictures --backbone "$demo" --quiet --shards 3 -o shared.csv
shows 'other processes are at work on what is left'
exec 9>&-
mkdir begun && cp shared.csv* begun
begin() { rm -f shared.csv* && cp begun/* .; }
rm shared.csv.shard-1-of-3.shard
expect 2 '' tag --shards 3 -o shared.csv
shows 'shard 1 of 3,'
check 'a shard without its record is made again' cmp whole.csv shared.csv
begin
head -c 100 shared.csv.shard-2-of-3 >cut && cat cut >shared.csv.shard-2-of-3
expect 2 '' tag --shards 3 -o shared.csv
check 'a shard that was cut is made again' cmp whole.csv shared.csv
begin
/usr/bin/python3 -c "
data = bytearray(open('shared.csv.shard-2-of-3', 'rb').read()); data[-40] ^= 1; open('shared.csv.shard-2-of-3', 'wb').write(data)"
expect 2 'shared.csv.shard-2-of-3: was changed or damaged: its checksum is wrong' tag --shards 3 -o shared.csv
check 'nothing was joined' test ! -e shared.csv
expect 2 '' tag --shards 3 -o shared.csv
check 'a shard that was changed is made again' cmp whole.csv shared.csv
begin
another='shared.csv.shard-1-of-3: is of another run:'
expect 2 "$another the options are '--format csv' and '--format csv --top 1'" tag --shards 3 -o shared.csv --top 1
expect 2 "$another the pictures are others" tag mixed --shards 3 -o shared.csv
expect 2 "$another the model is another one, or has changed" l3a tag other-model pictures --backbone "$demo" --shards 3 -o shared.csv
cp model kept && cat other-model >model
expect 2 "$another the model is another one, or has changed" tag --shards 3 -o shared.csv
check 'a model that was changed in its place' grep -q 'remove the shards of that run, shared.csv.shard-\*' stderr
cp kept model
mv shared.csv.shard-1-of-3 a && mv shared.csv.shard-1-of-3.shard b
expect 2 "shared.csv.shard-2-of-3: is of another run" tag --shards 3 -o shared.csv --top 1
check 'before work begins' test ! -e shared.csv.shard-1-of-3
mv a shared.csv.shard-1-of-3 && mv b shared.csv.shard-1-of-3.shard
check 'nothing was joined, and the shards stay' test ! -e shared.csv -a -e shared.csv.shard-1-of-3 -a -e shared.csv.shard-2-of-3
expect 2 '' tag --shards 3 -o shared.csv
check 'the first run goes on' cmp whole.csv shared.csv

# What l3a merge refuses
check 'three shards' shards 3 csv
for i in 1 2 3; do cp "part$i.csv" "copy$i.csv" && cp "part$i.csv.shard" "copy$i.csv.shard"; done
expect 2 'shard 2 of 3 is missing' l3a merge copy3.csv copy1.csv -o no.csv
expect 2 '2 of 3 shards are missing, the first of them shard 1' l3a merge copy2.csv -o no.csv
expect 2 'copy1.csv and part1.csv are both shard 1 of 3' l3a merge copy1.csv copy2.csv copy3.csv part1.csv -o no.csv
expect 2 'copy1.csv is one of 3 shards, but other.csv is one of 4' bash -c '"$0" tag model pictures --backbone "$1" --quiet --shard 2/4 -o other.csv; "$0" merge copy1.csv other.csv copy3.csv -o no.csv' "$L3A_BUILD/l3a" "$demo"
expect 0 '' tag --shard 2/3 --threshold 0.3 -o other.csv
expect 2 'copy1.csv and other.csv are shards of different runs: the options are' l3a merge copy1.csv other.csv copy3.csv -o no.csv
expect 2 'is no shard of tags' l3a merge copy1.csv whole.csv copy3.csv -o no.csv
printf x >>copy2.csv
expect 2 'copy2.csv: was changed or damaged' l3a merge copy1.csv copy2.csv copy3.csv -o no.csv
check 'nothing was written' test ! -e no.csv
mkdir elsewhere
expect 0 'is in another folder than the shards' l3a merge part1.csv part2.csv part3.csv -o elsewhere/all.csv
expect 0 '' l3a merge part1.csv part2.csv part3.csv -o part1.csv
check 'the result may replace a shard' cmp part1.csv whole.csv
no_leftovers .

# Arguments
expect 2 '--shard and --shards exclude each other' tag --shards 3 --shard 1/3 -o no.csv
expect 2 "--shard: '4/3' is not a shard such as 3/8" tag --shard 4/3 -o no.csv
expect 2 'need a file for the tags: -o FILE' tag --shards 3
expect 2 '--sort needs all pictures at once' tag --shards 3 -o no.csv --sort name
expect 2 'no/folder/shared.csv' tag --shards 3 -o no/folder/shared.csv

# The rows of a file go to the disk, not to memory: 22 MB of them
cat >many.py <<'P'
import os, subprocess, sys
import numpy as np
l3a, demo = sys.argv[1:]
rng = np.random.default_rng(1)
np.save("x.npy", rng.normal(size=(300, 512)).astype(np.float32))
np.save("y.npy", (rng.random((300, 2000)) < 0.01).astype(np.int8))
names = [f"{i:04}" + "n" * 240 for i in range(2000)]
open("names", "w").write("\n".join(names))
subprocess.run([l3a, "learn", "many", "--features", "x.npy", "--labels", "y.npy", "--names", "names", "--classes", "@names", "--dim", "64",
                "--privacy-limit", "0", "--gamma", "1", "--quiet"], check=True)
peaks = []
for output in "small.csv", "large.csv":
    started = subprocess.Popen([l3a, "tag", "many", "pictures", "--backbone", demo, "--quiet", "--long", "-o", output]
                               + (["--given", "--threshold", "100"] if output == "small.csv" else []), stderr=subprocess.DEVNULL)
    peaks.append(os.wait4(started.pid, 0)[2].ru_maxrss / 1024)
    started.returncode = 0
size = os.path.getsize("large.csv") / 2**20
print(f"peaks {peaks} MiB for {size} MiB")
sys.exit(not (size > 15 and peaks[1] - peaks[0] < size / 3))
P
if [ -z "${L3A_SANITIZE:-}" ]; then
    check 'memory' /usr/bin/python3 many.py "$L3A_BUILD/l3a" "$demo"
else
    echo 'skipped: memory (sanitizers keep what was freed)'
fi
finish
