# Extraction in shards, feature files joined, and models learned in shards: the same as in one place.
source "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
check 'pictures' /usr/bin/python3 "$here/make_pictures.py" .
sed -i 's/Scheibe & Co/disc/' list.csv
extract() { l3a extract --backbone "$backbone" --data list:list.csv --quiet "$@"; }
# shards N [OPTION...]: s1.st and so on
shards() {
    local i n=$1
    shift
    rm -f s*.st
    for i in $(seq "$n"); do
        extract --shard "$i/$n" -o "s$i.st" "$@" || return
    done
}

# 70 pictures are 5 batches of 16
for n in 1 2 3 5 8; do
    for options in '' '--views 5' '--float16'; do
        [ "$n" = 3 ] || [ -z "$options" ] || continue
        check "whole $options" extract $options -o whole.st
        check "$n shards $options" shards "$n" $options
        check "$n shards joined, the last one first $options" l3a merge $(ls s*.st | sort -rV) -o joined.st
        check "$n shards have the bytes of the whole $options" cmp whole.st joined.st
    done
done
expect 0 '' extract --shard 1/8 -o s1.st
shows 's1.st: shard 1 of 8, 0 rows of 512 features'
check 'the shards cover every picture once, in order, and differ by at most one batch' /usr/bin/python3 - "$L3A_SOURCE/tests/oracle" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import feature_file
files = [feature_file.load(f"s{i}.st") for i in range(1, 9)]
rows = [tensors["features"].shape[0] for tensors, _ in files]
assert sum(rows) == 70 and max(rows) <= 16 and rows.count(0) == 3, rows
names = [name for tensors, _ in files for name in feature_file.ids(tensors) if name]
assert names == [f"taught/{i:02}.png" for i in range(70)], names
assert [about["shard"] for _, about in files] == [f"{i}/8" for i in range(1, 9)]
assert {about["batches"] for _, about in files} == {"5"}
assert len({about["extraction"] for _, about in files}) == 1 and files[0][0]["features"].shape == (0, 512)
whole, about = feature_file.load("whole.st")
assert not {"shard", "extraction", "batches"} & about.keys() and len(whole["features"]) == 70
P

# processes that share an extraction, at once and one after another
check 'whole' extract -o whole.st
leftovers() { ls -A | grep -F shared.st | grep -vx shared.st; }
for n in 1 3 8; do
    rm -f shared.st
    for i in 1 2 3; do
        extract --shards $n -o shared.st >"out$i" 2>&1 &
    done
    failures=0
    for i in 1 2 3; do
        wait -n || failures=1
    done
    check "$n shards by three processes: all end well" test $failures = 0
    check "$n shards by three processes: the bytes of the whole" cmp whole.st shared.st
    check "$n shards by three processes: nothing is left behind" test -z "$(leftovers)"
    check "$n shards by three processes: one joins them" test "$(cat out? | grep -c "shared.st: 70 rows of 512 features from $n shard")" = 1
done
expect 0 '' extract --shards 8 -o shared.st
shows 'shared.st: is there already'
rm shared.st
check 'a shard from before' extract --shard 2/3 -o shared.st.shard-2-of-3
exec 9>.shared.st.shard-3-of-3.l3a-lock
flock 9
expect 0 '' extract --shards 3 -o shared.st
shows 'other processes are at work on what is left'
check 'a shard that another process has taken is left to it' test -e shared.st.shard-1-of-3 -a ! -e shared.st -a ! -e shared.st.shard-3-of-3
exec 9>&-
expect 0 '' extract --shards 3 -o shared.st
shows 'shared.st: 70 rows of 512 features from 3 shards'
check 'what was missing is extracted later' cmp whole.st shared.st
expect 2 '--shard and --shards exclude each other' extract --shards 3 --shard 1/3 -o no.st
expect 2 '--shards' extract --shards 0 -o no.st
expect 2 'no/folder/shared.st' extract --shards 3 -o no/folder/shared.st
if command -v mpirun >/dev/null; then
    rm -f shared.st
    check 'under mpirun' mpirun -n 3 --oversubscribe --allow-run-as-root "$L3A_BUILD/l3a" extract --backbone "$backbone" --data list:list.csv -o shared.st
    check 'under mpirun: the bytes of the whole' cmp whole.st shared.st
    check 'under mpirun: nothing is left behind' test -z "$(leftovers)"
else
    echo 'skipped: extraction under mpirun (it is not installed)'
fi
rm -f shared.st

# what is not a shard
for text in 0/3 4/3 1/0 0/0 x 3 /3 3/ 1/2/3 -1/3 1/-3 ' 1/3' +1/3 1/3x 1/1000001 1.5/3 ''; do
    expect 2 "--shard: '$text' is not a shard such as 3/8" extract --shard "$text" -o no.st
done
check 'nothing was written' test ! -e no.st

# resuming
check 'two shards' shards 2
for at in 40 20000 40000; do # a process that is killed while it writes
    (
        "$L3A_BUILD/l3a" extract --backbone "$backbone" --data list:list.csv --quiet --shard 2/2 -o killed.st >/dev/null 2>&1 & process=$!
        for _ in $(seq 500); do
            [ "$(stat -c %s killed.st.part 2>/dev/null || echo 0)" -gt $at ] && break
            sleep 0.002
        done
        kill -9 $process 2>/dev/null
        wait $process 2>/dev/null
    ) 2>/dev/null
    expect 0 '' extract --shard 2/2 -o killed.st
    check 'a shard that was killed continues to the same bytes' cmp s2.st killed.st
done
{ head -c 40000 /dev/zero; } >foreign.st.part
expect 2 'the file is not one of its own' extract --shard 2/2 -o foreign.st

# refusals
check 'three shards' shards 3
for i in 1 2 3; do cp "s$i.st" "t$i.st"; done
expect 2 'shard 2 of 3 is missing' l3a merge s3.st s1.st -o no.st
expect 2 'shards 2 and 3 of 3 are missing' l3a merge s1.st -o no.st
expect 2 's1.st and t1.st are both shard 1 of 3' l3a merge s1.st s2.st s3.st t1.st -o no.st
expect 2 's1.st and s1.st are the same file' l3a merge s1.st s1.st -o no.st
expect 2 's1.st is a shard of an extraction, but whole.st is not' l3a merge whole.st s1.st -o no.st
expect 0 '' extract -o whole.st --shard 1/12
expect 2 'shards 2, 3, 4, 5, 6, 7, 8, 9, … of 12 are missing' l3a merge whole.st -o no.st
check 'another number of shards' extract --shard 2/4 -o other.st
expect 2 'is one of 3 shards' l3a merge s1.st other.st s3.st -o no.st
check 'half precision' extract --shard 2/3 --float16 -o other.st
expect 2 'different extractions' l3a merge s1.st other.st s3.st -o no.st
check 'views' extract --shard 2/3 --views 5 --float32 -o other.st
expect 2 'different extractions' l3a merge s1.st other.st s3.st -o no.st
check 'another preprocessing' extract --shard 2/3 --filter bicubic -o other.st
expect 2 'different extractions: preprocess is' l3a merge s1.st other.st s3.st -o no.st
sed 's/60.png,disc;stripes/60.png,stripes/' list.csv >relabelled.csv
check 'other labels' l3a extract --backbone "$backbone" --data list:relabelled.csv --quiet --shard 2/3 -o other.st
expect 2 'different extractions: data is' l3a merge s1.st other.st s3.st -o no.st
cp list.csv kept.csv
cp relabelled.csv list.csv
check 'a list that changes meanwhile' extract --shard 2/3 -o other.st
expect 2 'the pictures of the data set or their labels have changed' l3a merge s1.st other.st s3.st -o no.st
cp kept.csv list.csv
for size in 0 5 100 900 30000; do
    head -c $size s2.st >other.st
    expect 2 'other.st' l3a merge s1.st other.st s3.st -o no.st
done
/usr/bin/python3 -c "
data = bytearray(open('s2.st', 'rb').read()); data[-40000] ^= 1; open('other.st', 'wb').write(data)"
expect 2 'other.st: tensor' l3a merge s1.st other.st s3.st -o no.st
expect 2 'nowhere' l3a merge s1.st nowhere s3.st -o no.st
expect 2 'neither a model nor a feature file' l3a merge "$backbone" s1.st -o no.st
expect 2 'name the models or feature files' l3a merge -o no.st
check 'nothing was written' test ! -e no.st
echo before >there.st
expect 2 'shard 2 of 3 is missing' l3a merge s1.st s3.st -o there.st
check 'what was there stays' grep -qx before there.st
check 'the whole' extract -o fresh.st
expect 0 '' l3a merge s3.st s1.st s2.st -o s1.st
check 'the result may replace a shard' cmp fresh.st s1.st
cp t1.st s1.st
no_leftovers .

# a copy of the pictures in another folder on each machine
mkdir elsewhere && cp -r taught list.csv elsewhere
check 'the second shard elsewhere' l3a extract --backbone "$backbone" --data list:elsewhere/list.csv --quiet --shard 2/3 -o other.st
check 'pictures in other places' l3a merge s1.st other.st s3.st -o joined.st
check 'all but the place is the same' /usr/bin/python3 - "$L3A_SOURCE/tests/oracle" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import feature_file
(one, said), (other, about) = feature_file.load("joined.st"), feature_file.load("fresh.st")
assert "data" not in said and about["data"].startswith("list:") and {**said, "data": about["data"], "xxh3.header": ""} == {**about, "xxh3.header": ""}
assert all((one[name] == other[name]).all() for name in other) and one.keys() == other.keys()
P

# pictures that cannot be read, in the first, a middle and the last batch
cp -r taught good
echo broken >taught/00.png
rm taught/40.png
echo broken >taught/69.png
expect 2 '3 pictures could not be read' extract -o whole.st
for i in 1 2 3; do
    expect 2 '1 picture could not be read' extract --shard "$i/3" -o "s$i.st"
done
check 'shards with bad pictures' l3a merge s*.st -o joined.st
check 'bad pictures are left out in the same way' cmp whole.st joined.st
check 'and listed' bash -c "'$L3A_BUILD/l3a' info joined.st | grep -q 'bad: 3: taught/00.png, taught/40.png, taught/69.png'"
exec 9>.shared.st.shard-3-of-3.l3a-lock
flock 9 # mpirun would end the process that is still at work if the others did not end well
expect 0 '2 pictures could not be read' env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$L3A_BUILD/l3a" extract --backbone "$backbone" --data list:list.csv --quiet --shards 3 -o shared.st
exec 9>&-
expect 2 '3 pictures could not be read' extract --shards 3 -o shared.st # the process that joins them speaks for all
check 'shared, with bad pictures' cmp whole.st shared.st
rm shared.st
for i in $(seq 0 15); do echo broken >"taught/$(printf %02d "$i").png"; done
expect 2 'none of the 16 pictures could be read' extract --shard 1/5 -o none.st
check 'a shard without a picture that can be read is not written' test ! -e none.st
rm -r taught && mv good taught

# a model among them
check 'a model' l3a learn model.st --features t1.st --classes disc --dim 32 --quiet
check 'half of the same pictures' extract --shard 1/2 -o half.st
check 'a model of it' l3a learn half.model --features half.st --classes disc --dim 32 --quiet
expect 2 'shard 1/3 and shard 1/2 of the same extraction have pictures in common' l3a merge model.st half.model -o no.st
expect 2 't1.st is a feature file, but model.st is a model' l3a merge t1.st model.st -o no.st
expect 2 'model.st is a model, but t1.st is a feature file' l3a merge model.st t1.st -o no.st
expect 2 'name at least two models' l3a merge model.st -o no.st
finish
