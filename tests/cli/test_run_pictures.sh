#!/bin/bash
# run and sweep from pictures: the same as from feature files, to the last bit; and the cache of features between them.
. "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
work=$(pwd -P) # as the cache records it
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
export L3A_CACHE=$work/cache
check 'pictures' /usr/bin/python3 "$here/make_pictures.py" .
# 70 pictures of two classes, every third one for the test
awk -F, 'NR == 1 { print $0 ",split"; next } { gsub("Scheibe & Co", "disc"); print $0 "," (NR % 3 ? "train" : "test") }' list.csv >split.csv
source_options=(--data list:split.csv --split train --test-split test --backbone "$backbone")
settings=(--protocol B0-C1 --dim 64)
run_pictures() { l3a run "${source_options[@]}" "${settings[@]}" "$@"; }
files() { ls "$L3A_CACHE" 2>/dev/null | wc -l; }
extracted() { grep -c 'features extracted' "$work/stderr"; }

# the same as in three commands
for split in train test; do
    check "extract $split" l3a extract --data "list:$work/split.csv" --split $split --backbone "$backbone" -o $split.safetensors
done
expect 0 '' l3a run --train train.safetensors --test test.safetensors "${settings[@]}" -o three
expect 0 '' run_pictures --dry-run
shows 'features of 47 pictures are to be extracted first' 'features of 23 pictures are to be extracted first' '2 classes in 2 phases'
check 'a dry run extracts nothing' test "$(files)" = 0
expect 0 'features extracted' run_pictures -o one
check 'one command has the numbers of three' diff <(metrics three) <(metrics one)
check 'and the same model' cmp three/model.safetensors one/model.safetensors
check 'two files are in the cache' test "$(files)" = 2
for split in train test; do
    check "the cache has the bytes of extract for $split" sh -c 'for file in "$L3A_CACHE"/*; do cmp -s "$file" '$split'.safetensors && exit 0; done; exit 1'
done

# used again
expect 0 "features from $L3A_CACHE" run_pictures -o two
check 'nothing was extracted' test "$(extracted)" = 0
check 'features from the cache have the same numbers' diff <(metrics one) <(metrics two)
expect 0 '' run_pictures --dry-run
check 'a dry run knows the cache' sh -c "! grep -q 'to be extracted' '$work/stdout'"
mkdir elsewhere
expect 0 '' sh -c 'cd elsewhere && "$0" run --data list:../split.csv --split train --test-split test --backbone "$1" --protocol B0-C1 --dim 64 -o ../three-two' "$L3A_BUILD/l3a" "$backbone"
check 'the data set by another path to it' test "$(extracted)" = 0
expect 0 '' l3a sweep "${source_options[@]}" "${settings[@]}" --gamma 1,1000 -o sweep
check 'a sweep uses the cache' test "$(extracted)" = 0
expect 0 '' l3a sweep --train train.safetensors --test test.safetensors "${settings[@]}" --gamma 1,1000 -o sweep-files
check 'a sweep has the numbers of feature files' diff <(cut -d, -f1-12 sweep/sweep.csv) <(cut -d, -f1-12 sweep-files/sweep.csv)

# resumed, from elsewhere, without the options
cp -r one again
rm again/checksums.csv again/model.safetensors
for file in metrics per_class; do
    head -n 1 one/$file.csv >again/$file.csv
done
expect 0 '' sh -c 'cd elsewhere && "$0" run --resume -o ../again' "$L3A_BUILD/l3a"
check 'a run resumed' diff <(metrics one) <(metrics again)
check 'from the cache' test "$(extracted)" = 0
rm -r again "$L3A_CACHE"
cp -r one again
rm again/checksums.csv again/model.safetensors
for file in metrics per_class; do
    head -n 1 one/$file.csv >again/$file.csv
done
expect 0 'features extracted' sh -c 'cd elsewhere && "$0" run --resume -o ../again' "$L3A_BUILD/l3a"
check 'a run resumed after the cache was lost' diff <(metrics one) <(metrics again)

# what features depend on
count=2
for option in --float16 --orient '--size 32' '--views 5' '--mean 0.4 --std 0.3' '--threads 1' --strict; do
    count=$((count + 2))
    expect 0 '' run_pictures $option --quiet -o "options-$count"
    check "$option: its own files" test "$(files)" = $count
done
expect 0 '' l3a extract --data "list:$work/split.csv" --split train --backbone "$backbone" --views 5 -o views.safetensors
check 'views are kept as float16' sh -c 'for file in "$L3A_CACHE"/*; do cmp -s "$file" views.safetensors && exit 0; done; exit 1'
expect 0 '' run_pictures --views 5 --score-views 1 --quiet -o score-views
check 'other views to score' test "$(files)" = $count
rm -r "$L3A_CACHE"
expect 0 '' run_pictures --quiet -o fresh
picture=$(sed -n 2p split.csv | cut -d, -f1)
cp -p "$picture" kept.png
/usr/bin/python3 - "$picture" <<'P'
import os, sys
path = sys.argv[1]
about, data = os.stat(path), bytearray(open(path, "rb").read())
other = bytearray(open("taught/69.png", "rb").read())
open(path, "wb").write((other + bytes(len(data)))[:len(data)] if len(other) <= len(data) else data)
os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
assert os.stat(path).st_size == about.st_size and os.stat(path).st_mtime_ns == about.st_mtime_ns
P
expect 0 '' run_pictures --quiet -o replaced
check 'a picture of the same size and date is noticed' test "$(files)" = 3
cp -p kept.png "$picture"
sed 's/stripes,train/disc;stripes,train/; ' split.csv >other.csv
expect 0 '' l3a run --data list:other.csv --split train --test-split test --backbone "$backbone" "${settings[@]}" --quiet -o labels
check 'other labels, other files' test "$(files)" = 5

# room: what was not used for the longest time goes, but nothing that is in use
rm -r "$L3A_CACHE"
expect 0 '' run_pictures --quiet -o first
size=$(cat "$L3A_CACHE"/* | wc -c)
expect 0 '' run_pictures --orient --quiet -o second
expect 0 '' run_pictures --quiet -o used
gibibytes=$(/usr/bin/python3 -c "print(2.1 * $size / 2**30)")
expect 0 '' run_pictures --strict --quiet --cache-size "$gibibytes" -o third
check 'old files went' test "$(files)" = 4
expect 0 '' run_pictures -o still
check 'what was used last stayed' test "$(extracted)" = 0
expect 0 'more than the cache may' run_pictures --orient --cache-size 0.00001 -o beyond
check 'both files of a run stay while they are in use' test "$(files)" = 2
expect 0 '' run_pictures --orient --cache-size 0.00001 -o beyond-again
check 'and are used again' test "$(extracted)" = 0
echo mine >"$L3A_CACHE/notes.txt"
expect 0 '' run_pictures --quiet --cache-size 0.00001 --threads 1 -o careful
check 'other files are left alone' grep -q mine "$L3A_CACHE/notes.txt"
rm "$L3A_CACHE/notes.txt"

# what is damaged is made again
rm -r "$L3A_CACHE"
expect 0 '' run_pictures --quiet -o undamaged
for damage in 'dd if=/dev/zero bs=1 seek=20000 count=64 conv=notrunc' 'truncate -s 30000' 'truncate -s 0'; do
    for file in "$L3A_CACHE"/*; do
        cp "$file" whole.safetensors
        case $damage in dd*) $damage of="$file" 2>dd.log ;; *) $damage "$file" ;; esac
        expect 0 'extracted again' run_pictures -o "damaged-$((damaged = ${damaged:-0} + 1))"
        check "after $damage: the same bytes" cmp "$file" whole.safetensors
        check "after $damage: the same numbers" diff <(metrics one) <(metrics "damaged-$damaged")
    done
done
no_leftovers "$L3A_CACHE"

# --no-cache, and folders for the cache
rm -r "$L3A_CACHE"
expect 0 'kept in own/features' run_pictures --no-cache -o own
check 'its own folder has the features' test "$(ls own/features | wc -l)" = 2
check 'and the cache nothing' test "$(files)" = 0
check 'the numbers are the same' diff <(metrics one) <(metrics own)
rm own/checksums.csv own/model.safetensors
head -n 1 one/metrics.csv >own/metrics.csv
head -n 1 one/per_class.csv >own/per_class.csv
expect 0 'features from' l3a run --resume -o own
check 'resumed with them' diff <(metrics one) <(metrics own)
expect 0 '' run_pictures --quiet --cache deep/er -o deep
check 'a folder is made' test "$(ls deep/er | wc -l)" = 2
expect 0 '' env -u L3A_CACHE XDG_CACHE_HOME="$work/xdg" "$L3A_BUILD/l3a" run "${source_options[@]}" "${settings[@]}" --quiet -o xdg-run
check 'XDG_CACHE_HOME' test "$(ls xdg/l3a | wc -l)" = 2
expect 0 '' env -u L3A_CACHE -u XDG_CACHE_HOME HOME="$work/home" "$L3A_BUILD/l3a" run "${source_options[@]}" "${settings[@]}" --quiet -o home-run
check 'HOME' test "$(ls home/.cache/l3a | wc -l)" = 2
expect 2 'neither L3A_CACHE, XDG_CACHE_HOME nor HOME is set' env -u L3A_CACHE -u XDG_CACHE_HOME -u HOME "$L3A_BUILD/l3a" run "${source_options[@]}" "${settings[@]}" -o no
expect 0 '' l3a doctor
shows "cache        $L3A_CACHE, empty"

# pictures that cannot be read
cp split.csv bad.csv
echo taught/broken.png,disc,train >>bad.csv
head -c 100 taught/00.png >taught/broken.png
bad() { l3a run --data list:bad.csv "${source_options[@]:2}" "${settings[@]}" "$@"; }
expect 2 '1 picture could not be read and was skipped' bad -o bad
expect 2 '1 picture could not be read and was skipped' bad -o bad-again
check 'from the cache' test "$(extracted)" = 0
check 'the numbers are those without it' diff <(metrics one) <(metrics bad)
expect 2 'broken.png' bad --strict -o strict
check 'strict: nothing ran' test ! -e strict
cp taught/00.png taught/broken.png
expect 0 '' bad -o healed
check 'it counts once it can be read' test "$(sed -n 2p healed/metrics.csv | cut -d, -f6)" = $(($(sed -n 2p one/metrics.csv | cut -d, -f6) + 1))

# more to do, so that it takes a while: two processes at once; one that is killed; a full disk
{ echo path,labels,split; for i in $(seq 15); do cp -r taught "many$i"; sed "1d; s/taught/many$i/" split.csv; done; } >many.csv
many() { "$L3A_BUILD/l3a" run --data list:many.csv "${source_options[@]:2}" "${settings[@]}" "$@"; }
rm -r "$L3A_CACHE"
many -o left >left.txt 2>&1 &
left=$!
many -o right >right.txt 2>&1
check 'one of two at once' wait $left
check 'both of two at once' diff <(metrics left) <(metrics right)
check 'they extracted each file once' test "$(cat left.txt right.txt | grep -c 'features extracted')" = 2
check 'and no more' test "$(files)" = 2
rm -r "$L3A_CACHE"
for _ in $(seq 50); do # where it was over before it was killed, it begins again
    rm -rf "$L3A_CACHE" killed
    "$L3A_BUILD/l3a" run --data list:many.csv "${source_options[@]:2}" "${settings[@]}" -o killed >killed.txt 2>&1 &
    process=$!
    while kill -0 $process 2>/dev/null && ! { [ "$(stat -c %s "$L3A_CACHE"/*.part 2>/dev/null | head -n 1 || echo 0)" -gt 200000 ]; } 2>/dev/null; do
        sleep 0.02
    done
    kill -9 $process
    wait $process
    ls "$L3A_CACHE"/*.part >/dev/null 2>&1 && break
done 2>/dev/null
expect 0 'from an earlier run' many -o killed
check 'a killed extraction goes on' diff <(metrics left) <(metrics killed)
no_leftovers "$L3A_CACHE"
rm -r "$L3A_CACHE"
expect 1 'name another folder for the cache' bash -c 'ulimit -f 1000; "$0" "$@"' "$L3A_BUILD/l3a" run --data list:many.csv "${source_options[@]:2}" "${settings[@]}" -o full
check 'nothing ran' test ! -e full
rm -rf "$L3A_CACHE"

# what is asked for wrongly is said before anything is extracted
expect 2 "there is no method 'l3b'" run_pictures --method l3b -o no
expect 2 'this folder already holds results' run_pictures -o one
expect 2 'does not say which pictures to measure on' l3a run --data list:split.csv --split train --backbone "$backbone" -o no
expect 2 'no split was chosen' l3a run --data list:split.csv --test-split test --backbone "$backbone" -o no
expect 2 '--data and --train exclude each other' run_pictures --train train.safetensors -o no
expect 2 '--backbone needs --data' l3a run --train train.safetensors --test test.safetensors --backbone "$backbone" -o no
expect 2 '--pool needs --data' l3a run --train train.safetensors --test test.safetensors --pool cls -o no
expect 2 '--backbone is required' l3a run --data list:split.csv --split train --test-split test -o no
expect 2 '--cache and --no-cache exclude each other' run_pictures --cache x --no-cache -o no
expect 2 'pictures cannot have 7 views' run_pictures --views 7 -o no
expect 2 "--cache-size: 'many' is not a number" run_pictures --cache-size many -o no
check 'nothing was extracted' test "$(files)" = 0 -a ! -e no
finish
