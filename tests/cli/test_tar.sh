# Pictures in tar files: the features and tags that the unpacked files have, resumed after a kill and in shards; and a message for each
# archive that is refused.
source "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
/usr/bin/python3 "$here/make_pictures.py" . || { echo 'skipped: no pictures (python3-pil is not installed)'; exit 77; }
tail -n +2 list.csv | while IFS=, read -r path labels; do
    tr ';' '\n' <<<"$labels" >"${path%.png}.txt"
done
# pack ARCHIVE FILE...: in the order of the names
pack() { tar --sort=name -cf "$@"; }
pack all.tar taught
extract() { l3a extract --backbone "$backbone" --quiet "$@"; }
# same ONE OTHER: the same features, labels, ids and classes, to the byte
same() {
    /usr/bin/python3 - "$L3A_SOURCE/tests/oracle" "$@" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import feature_file
(one, about), (other, more) = map(feature_file.load, sys.argv[2:])
assert len(one["features"]) == len(other["features"]) == 70, (len(one["features"]), len(other["features"]))
assert all(one[name].tobytes() == other[name].tobytes() for name in ("features", "labels", "ids")), "tensors differ"
assert about["classes"] == more["classes"] and about["bad"] == more["bad"]
P
}

# Extraction
check 'features of the files' extract --data list:list.csv -o files.st
check 'features of the archive' extract --data tar:all.tar -o archive.st
check 'they are the same' same files.st archive.st
check 'the record says where the pictures are' bash -c "'$L3A_BUILD/l3a' info archive.st | grep -qx '  data: tar:all.tar'"
pack part-00.tar taught/0* && pack part-01.tar taught/[1-4]* && pack part-02.tar taught/[5-6]*
for i in 1 2 3; do
    check "shard $i" extract --data 'tar:part-{00..02}.tar' --shard $i/3 -o shard-$i.st
done
check 'shards of several archives are joined' l3a merge shard-1.st shard-2.st shard-3.st -o joined.st
check 'and have the same features' same files.st joined.st
(cd taught && tar --format=posix --sort=name -cf ../flat.tar .)
expect 0 '' l3a data tar:flat.tar --check-pictures
shows 'tar:flat.tar: all, 70 pictures, 2 classes' 'picture files: 70, 0 missing or empty, 0 unreadable'

check 'a run' l3a run --train archive.st --test archive.st --protocol B0-C1 --dim 64 --quiet -o run
check 'its report shows pictures of the archive' grep -q 'data:image/jpeg' run/report.html

# A kill, and pictures that change before the extraction goes on
views() { extract --data tar:part-01.tar --views 5 "$@"; } # 40 pictures are three batches
# kill_extraction FILE: after at least a batch of 16 pictures, and before all. Where it was over before the kill, it begins again.
kill_extraction() {
    for _ in $(seq 50); do
        "$L3A_BUILD/l3a" extract --backbone "$backbone" --quiet --data tar:part-01.tar --views 5 -o "$1" >/dev/null 2>&1 &
        local process=$!
        while kill -0 $process 2>/dev/null && [ "$(stat -c %s "$1.part" 2>/dev/null || echo 0)" -le 200000 ]; do
            sleep 0.02
        done
        kill -9 $process 2>/dev/null
        wait $process 2>/dev/null
        [ -e "$1" ] || return 0
        rm -f "$1"
    done
}
check 'not interrupted' views -o views.st
kill_extraction killed.st
expect 0 '' views -o killed.st
shows 'from an earlier run'
check 'resumed after a kill, the same bytes' cmp views.st killed.st
kill_extraction changed.st
cp taught/40.png taught/13.png
pack part-01.tar taught/[1-4]*
expect 0 'part-01.tar/taught/13.png has changed since it was extracted' l3a extract --backbone "$backbone" --data tar:part-01.tar --views 5 -o changed.st
check 'the changed archive from scratch' views -o fresh.st
check 'a picture that has changed in the archive is extracted again' cmp fresh.st changed.st
tar -xf all.tar taught/13.png
pack part-01.tar taught/[1-4]*

# Pictures that cannot be read
mkdir bad
cp taught/0[0-3].* bad
head -c 300 taught/00.png >bad/01.png
echo hello >bad/02.png
pack bad.tar bad
expect 2 '2 pictures could not be read and were skipped' l3a extract --backbone "$backbone" --data tar:bad.tar -o bad.st
check 'each is named' grep -q 'bad.tar/bad/01.png: ' stderr
check 'they are on record' bash -c "'$L3A_BUILD/l3a' info bad.st | grep -q 'bad: 2: bad/01.png, bad/02.png'"
expect 2 'bad.tar/bad/01.png: ' extract --strict --data tar:bad.tar -o strict.st
check 'strict leaves no file' test ! -e strict.st
expect 2 '2 of 4 pictures cannot be decoded' l3a data tar:bad.tar --check-pictures --quiet

# Tags
check 'a model' l3a learn model --features archive.st --classes 'stripes,Scheibe & Co' --dim 256 --quiet
tag() { l3a tag model "$@" --backbone "$backbone"; }
expect 0 '' tag taught/*.png --csv
mv stdout files.csv
expect 0 '' tag tar:all.tar --csv
check 'the same tags and scores' diff <(sed 's|^taught/|all.tar/taught/|' files.csv) stdout
expect 0 '' tag tar:part-00.tar,part-02.tar --csv
check 'of several archives, too' diff <(sed -n 's|^taught/0|part-00.tar/&|p; s|^taught/[56]|part-02.tar/&|p; 1p' files.csv) stdout
expect 2 '2 of 5 pictures could not be read' tag tar:bad.tar mixed/z.jpg --quiet
expect 2 'XMP files cannot be written beside pictures in a tar file: all.tar' tag tar:all.tar --xmp
check 'no sidecar' test -z "$(find . -name '*.xmp')"
expect 2 'pictures in a tar file cannot be taught' l3a teach model tar:all.tar --backbone "$backbone"

# What is refused, by extraction as an error and by tagging as a row
corpus=$L3A_SOURCE/fuzz/corpus/tar
refused() {
    expect 2 "${1##*/}: $2" extract --data "tar:$1" -o no.st
}
# where ARCHIVE MEMBER: the byte of its header
where() { /usr/bin/python3 -c 'import sys, tarfile; print(tarfile.open(sys.argv[1]).getmember(sys.argv[2]).offset)' "$@"; }
second=$(where all.tar taught/01.png)
head -c $((second + 1000)) all.tar >cut.tar
head -c "$second" all.tar >no-end.tar
gzip -c all.tar >all.tar.gz
refused cut.tar "byte $second: 'taught/01.png' should have $(stat -c %s taught/01.png) bytes, but only 488 follow"
refused no-end.tar "ends at byte $second, after 'taught/00.txt' without the mark that ends an archive"
refused all.tar.gz 'is compressed (gzip)'
refused list.csv 'is not a tar file'
refused "$corpus/bad_link" "byte 1024: 'odd.jpg' is a symbolic link"
refused "$corpus/bad_hard_link" "byte 1024: 'odd.jpg' is a link to another member"
refused "$corpus/bad_pipe" "byte 1024: 'odd.jpg' is a pipe"
refused "$corpus/bad_sparse" "byte 1024: 'odd.jpg' is a sparse file"
refused "$corpus/bad_absolute" "byte 0: the name '/a.jpg' is absolute"
refused "$corpus/bad_up" "byte 0: the name '../a.jpg' is outside of the archive"
refused "$corpus/bad_line" "byte 0: the name 'a\\x0ab.jpg' contains a line break"
refused "$corpus/bad_twice" "byte 1024: 'set/a.jpg' is in the archive a second time; the first one is at byte 0"
refused "$corpus/bad_joined" 'byte 2048: the archive ends at byte 1024, but there is more'
refused "$corpus/bad_record" 'byte 0: record 0 bytes into an extended header has the wrong length'
expect 2 '2 of 3 pictures could not be read' tag tar:cut.tar "tar:$corpus/bad_link" mixed/z.jpg
shows "cut.tar " "cannot be read: byte $second: 'taught/01.png' should have" "cannot be read: byte 1024: 'odd.jpg' is a symbolic link" mixed/z.jpg
expect 2 'unpack the compression and give the tar file' extract --data tar:all.tar.gz -o no.st
expect 2 'bad_json/set/a.json: line 1, column 13: a label must be a name or a number' extract --data "tar:$corpus/bad_json" -o no.st
expect 2 'nowhere.tar: cannot open' extract --data tar:nowhere.tar -o no.st
expect 2 'none-*.tar: no file has such a name; it holds' extract --data 'tar:none-*.tar' -o no.st
expect 2 'put the names of several tar files in quotes' extract --data tar:part-{00..02}.tar -o no.st # the shell makes three of it
expect 2 "'taught/00.png' is in all.tar and in part-00.tar" extract --data tar:all.tar,part-00.tar -o no.st
pack bare.tar taught/*.png
expect 2 'bare.tar: 70 pictures, but no labels' extract --data tar:bare.tar -o no.st
expect 0 '' tag tar:bare.tar --quiet
check 'nothing was written' test ! -e no.st
finish
