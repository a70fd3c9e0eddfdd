#!/bin/bash
# Whatever is wrong with the input or the command line: exit 2, a message that says what and where, and nothing that was there
# before is changed.
if [ -z "${L3A_OWN_MOUNTS-}" ] && unshare -rm true 2>/dev/null; then
    L3A_OWN_MOUNTS=yes exec unshare -rm bash "$0"
fi
. "$(dirname "$0")/support.sh"

kept=$work/kept
good=$kept/good
run_model=$kept/run/model.safetensors
settings=(--dim 128 --gamma 12.5)
quick=(--protocol B0-C2 "${settings[@]}")

make_features "$good" --ids
for defect in nan inf label length width class twice ids; do
    make_features "$kept/$defect" --rows 60 --test-rows 60 --defect $defect
done
for defect in width class; do
    make_features "$kept/test-$defect" --rows 60 --test-rows 60 --defect $defect --split test
done
make_features "$kept/half-nan" --rows 60 --test-rows 60 --defect nan --type F16
make_features "$kept/half-inf" --rows 60 --test-rows 60 --defect inf --type F16
make_features "$kept/test-nan" --rows 60 --test-rows 60 --defect nan --split test
make_features "$kept/empty" --rows 60 --test-rows 60 --empty 3
make_features "$kept/unlabelled" --rows 60 --unlabelled 5
l3a learn "$kept/model.safetensors" --features "$good/train.safetensors" --classes class00,class01 --dim 128 --gamma 12.5 --quiet >"$work/made"
l3a run --train "$good/train.safetensors" --test "$good/test.safetensors" "${quick[@]}" -o "$kept/run" --quiet >"$work/made"
model=$kept/model.safetensors
snapshot() { find "$kept" | sort; find "$kept" -type f -print0 | sort -z | xargs -0 sha256sum; }
snapshot >"$work/before"

# refuse TEXT COMMAND...: exit 2 with this text, and all that is kept is as it was
refuse() {
    expect 2 "$@"
    snapshot >"$work/after"
    cmp -s "$work/before" "$work/after" || fail "changed or left behind: ${*:2}" <(diff "$work/before" "$work/after")
}
run_on() { l3a run --train "$1/train.safetensors" --test "$1/test.safetensors" "${quick[@]}" "${@:2}"; }
run_refused() { rm -rf "$work/run"; refuse "$2" run_on "$kept/$1" -o "$work/run" "${@:3}"; }
learn_refused() { refuse "$2" l3a learn "$model" --features "$kept/$1/train.safetensors" --classes class02,class03 "${@:3}"; }
run_npy() { rm -rf "$work/run"; l3a run --train "$1/train.npy" --train-labels "$1/train_labels.npy" --test "$good/test.npy" --test-labels "$good/test_labels.npy" --names "$1/names.txt" "${quick[@]}" -o "$work/run"; }

# features and labels
for folder in nan half-nan; do
    run_refused $folder 'row 17, column 3: the feature is not a number'
    refuse 'row 17, column 3' l3a learn "$work/new" --features "$kept/$folder/train.safetensors" --classes class00 "${settings[@]}"
    refuse 'row 17, column 3' l3a predict "$run_model" --features "$kept/$folder/train.safetensors"
    refuse 'row 17, column 3' l3a eval "$run_model" --features "$kept/$folder/train.safetensors"
done
for folder in inf half-inf; do
    run_refused $folder 'row 17, column 3: the feature is infinite'
done
run_refused test-nan 'row 17, column 3'
refuse 'row 17, column 3' run_npy "$kept/nan"
run_refused label 'row 17, column 2: label 2'
learn_refused label 'row 17, column 2: label 2'
refuse 'row 17, column 2: label 2' run_npy "$kept/label"
run_refused length '59 rows of labels for 60 rows of features'
refuse '59 rows of labels for 60 rows of features' run_npy "$kept/length"
run_refused ids '59 ids for 60 rows'
run_refused width 'features 23 wide, but'
run_refused test-width 'features 24 wide, but'
learn_refused width 'features 23 wide, but the model takes 24'
refuse 'features 23 wide' l3a predict "$model" --features "$kept/width/train.safetensors"
refuse 'features 23 wide' l3a eval "$model" --features "$kept/width/train.safetensors"
run_refused class "no class 'stranger'"
run_refused test-class "no class 'class05'"
refuse "no class 'class05'" l3a eval "$run_model" --features "$kept/class/train.safetensors"
run_refused twice "class 'class00' is listed twice"
learn_refused twice "class 'class00' is listed twice"
head -n 3 "$good/names.txt" >"$work/few"
refuse '6 columns of labels for 3 class names' l3a learn "$work/new" --features "$good/train.npy" --labels "$good/train_labels.npy" --names "$work/few" --classes class05
refuse 'no labels' l3a learn "$work/new" --features "$good/train.npy" --classes class05 --dim 64
# What the hint suggests has to be possible.
offers() { grep -qF -- "$1" "$work/stderr" && "$L3A_BUILD/l3a" help "$3" | grep -qF -- "$2" && pass || fail "$3 does not offer $2" "$work/stderr"; }
labelled=(--train-labels "$good/train_labels.npy" --names "$good/names.txt")
for command in run sweep; do
    refuse 'train.npy: no labels' l3a $command --train "$good/train.npy" --test "$good/test.npy" -o "$work/run"
    offers 'give the training labels in a second .npy file' '--train-labels Y.npy' $command
    refuse 'test.npy: no labels' l3a $command --train "$good/train.npy" "${labelled[@]}" --test "$good/test.npy" -o "$work/run"
    offers 'give the test labels in a second .npy file' '--test-labels Y.npy' $command
done

# classes and phases
teach() { l3a learn "$model" --features "$good/train.safetensors" --classes "$@"; }
refuse "class 'class00' is listed twice" teach class00,class02,class00
refuse "class 'class02' is listed twice in the phase" teach class02,class03,class02
refuse "no class 'clas02'" teach clas02
refuse "did you mean 'class02'?" teach clas02
refuse 'No such file' teach @"$work/none"
refuse 'the phase has no classes' teach ''
refuse 'no image has any of' l3a learn "$work/new" --features "$kept/empty/train.safetensors" --classes class02 "${settings[@]}"
refuse 'phase 3 has no image' l3a run --train "$kept/empty/train.safetensors" --test "$good/test.safetensors" --protocol B0-C1 -o "$work/run"
expect 0 '' l3a learn "$work/unlabelled" --features "$kept/unlabelled/train.safetensors" --classes class00,class01,class02,class03,class04,class05 "${settings[@]}"
shows 'learned from 55 of 60 images; 5 show none'
for protocol in B0-C0 B0 C2-B0 B7-C1 B0-C2x b0-c2 B-C ''; do
    refuse 'protocol' l3a run --train "$good/train.safetensors" --test "$good/test.safetensors" --protocol "$protocol" -o "$work/run"
done
order() { printf '%s\n' "${@:2}" >"$work/order"; run_refused good "$1" --class-order "$work/order"; }
order "class 'class05' is missing" class00 class01 class02 class03 class04
order "class 'class00' is listed twice" class00 class01 class02 class00 class04 class05
order "line 2: no class 'tent'" class00 tent
run_refused good 'No such file' --class-order "$work/none"
run_refused good 'the seed must be a whole number' --class-order shuffle:x

# settings
for value in 0 -1 nan inf 1e999 ten ''; do
    learn_refused good "gamma: '$value' is not allowed" --gamma "$value"
    refuse "gamma: '$value' is not allowed" l3a run --train "$good/train.safetensors" --test "$good/test.safetensors" --gamma "$value" -o "$work/run"
done
refuse 'gamma must be auto or a number above 0' l3a learn "$work/new" --features "$good/train.safetensors" --classes class00 --gamma 0
for value in 0 1 1.5 -0.1 nan; do
    run_refused good "eta: '$value' is not allowed" --eta "$value"
    run_refused good "theta: '$value' is not allowed" --theta "$value"
done
new_dim() { l3a learn "$work/new" --features "$good/train.safetensors" --classes class00 --dim "$1"; }
for value in 0 -5 1.5 99999999999 18446744073709551617; do
    refuse "dim: '$value' is not allowed" new_dim "$value"
done
refuse 'GiB of memory, but' new_dim 1048576
refuse 'use a smaller dim' l3a run --train "$good/train.safetensors" --test "$good/test.safetensors" --dim 1048576 -o "$work/run"
refuse 'choose one of sqrt|inv|log|none' l3a learn "$work/new" --features "$good/train.safetensors" --classes class00 --weights square
learn_refused good 'gamma: the model was created with 12.5, and cannot change to 11' --gamma 11
learn_refused good "unknown option '--ratio'" --ratio 1 # no setting of a model
learn_refused good 'dim: the model was created with 128' --dim 64
for value in 0 2.5x 2000; do
    run_refused good "--threads: '$value' is not a number from 1 to 1024" --threads $value
done

# files that are not what they should be
py() { /usr/bin/python3 - "$@"; }
bad=$work/bad
mkdir "$bad"
: >"$bad/nothing"
echo 'not a safetensors file' >"$bad/text"
head -c 3000 /bin/bash >"$bad/program"
cp "$good/train.npy" "$bad/array"
py "$bad" <<'P'
import json, struct, sys
def write(name, header, data=b""):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    open(f"{sys.argv[1]}/{name}", "wb").write(struct.pack("<Q", len(text)) + text + data)
write("version", {"__metadata__": {"format": "l3a-model", "version": "99"}})
write("no-checksum", {"__metadata__": {"format": "l3a-model", "version": "1"}})
write("other", {"weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, bytes(16))
write("gap", {"features": {"dtype": "F32", "shape": [2, 2], "data_offsets": [8, 24]}}, bytes(24))
write("outside", {"features": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, bytes(8))
write("overflow", {"features": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 16]}}, bytes(16))
write("unclosed", b'{"features": {"dtype": "F32"')
write("empty-table", {"features": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]}})
open(f"{sys.argv[1]}/long-header", "wb").write(struct.pack("<Q", 2**63) + b"{}" + bytes(64))
P
as_model() { refuse "$2" l3a eval "$bad/$1" --features "$good/test.safetensors"
             refuse "$2" l3a predict "$bad/$1" --features "$good/test.safetensors"
             sha256sum "$bad/$1" >"$work/sum"
             refuse "$2" l3a learn "$bad/$1" --features "$good/train.safetensors" --classes class00
             check "$1 is untouched" sha256sum -c "$work/sum"; }
as_features() { refuse "$2" l3a predict "$model" --features "$bad/$1"
                refuse "$2" l3a learn "$model" --features "$bad/$1" --classes class02; }
for file in text program array long-header; do
    as_model $file 'not a safetensors file'
    as_features $file 'not a safetensors file'
done
as_model nothing '0 bytes are too few'
as_features nothing '0 bytes are too few'
as_model version 'model format version 99 is not known; the latest known version is 9'
as_model no-checksum 'the model has no checksums'
as_model other 'not a model of this program'
as_features other "tensor 'features'"
as_features gap 'overlap or leave a gap'
as_features outside "tensor 'features' ends at byte"
as_features overflow 'do not match its shape'
as_features unclosed "$bad/unclosed"
as_features empty-table 'no features'
refuse 'not a model of this program' l3a eval "$good/train.safetensors" --features "$good/test.safetensors"
refuse "tensor 'features'" l3a predict "$model" --features "$model"
refuse 'give the path of a file' l3a eval "$good" --features "$good/test.safetensors"
refuse 'give the path of a file' l3a predict "$model" --features "$good"
cp "$model" "$bad/model.npy"
refuse 'not a .npy file' l3a predict "$model" --features "$bad/model.npy"
head -c 1000 "$good/train.npy" >"$bad/short.npy"
refuse 'the header promises 38400 bytes' l3a predict "$model" --features "$bad/short.npy"
py "$good/train.npy" "$bad/big.npy" <<'P'
import sys
open(sys.argv[2], "wb").write(open(sys.argv[1], "rb").read().replace(b"<f4", b">f4", 1))
P
refuse 'big-endian' l3a predict "$model" --features "$bad/big.npy"

size=$(stat -c %s "$model")
for length in 1 8 9 40 1000 $((size / 2)) $((size - 1)); do
    head -c "$length" "$model" >"$bad/short"
    refuse "$bad/short" l3a eval "$bad/short" --features "$good/test.safetensors"
    refuse "$bad/short" l3a info "$bad/short"
done
size=$(stat -c %s "$good/train.safetensors")
for length in 1 8 9 40 1000 $((size / 2)) $((size - 1)); do
    head -c "$length" "$good/train.safetensors" >"$bad/short"
    refuse "$bad/short" l3a learn "$model" --features "$bad/short" --classes class02
done
cat "$model" "$bad/text" >"$bad/long"
refuse 'bytes after the last tensor' l3a eval "$bad/long" --features "$good/test.safetensors"

# flip FILE: copies with one bit changed, spread over it, in $bad/flipped.*
flip() {
    rm -f "$bad"/flipped.*
    py "$1" "$bad/flipped" <<'P'
import random, struct, sys
data, rng = open(sys.argv[1], "rb").read(), random.Random(5)
header = 8 + struct.unpack("<Q", data[:8])[0]
places = [0, 3, 7, 8, len(data) - 1] + rng.sample(range(8, header), 8) + rng.sample(range(header, len(data)), 12)
for place in places:
    copy = bytearray(data)
    copy[place] ^= 1 << rng.randrange(8)
    open(f"{sys.argv[2]}.{place}", "wb").write(copy)
P
}
flip "$model"
for file in "$bad"/flipped.*; do
    refuse "$file" l3a eval "$file" --features "$good/test.safetensors"
done
refuse 'checksum' l3a info "$file"
"$L3A_BUILD/l3a" demo -o "$work/demo" >"$work/made" 2>&1 &
for ((i = 0; i < 600; i++)); do
    [ -e "$work/demo/pictures/VOC2007/JPEGImages/000033.jpg" ] && break
    sleep 0.1
done
kill -TERM $!
wait $!
{
    echo path,labels
    for ((i = 1; i <= 32; i++)); do
        printf 'demo/pictures/VOC2007/JPEGImages/%06d.jpg,%s\n' $i "$([ $((i % 3)) = 0 ] && echo third || echo other)"
    done
} >"$work/drawn.csv"
drawn=$work/drawn.safetensors
l3a extract --backbone "$work/demo/backbone.safetensors" --data "list:$work/drawn.csv" -o "$drawn" >"$work/made" 2>&1 || fail 'extracting' "$work/made"
l3a learn "$work/third" --features "$drawn" --classes third "${settings[@]}" >"$work/made" 2>&1 || fail 'learning from a whole file' "$work/made"
flip "$drawn"
for file in "$bad"/flipped.*; do
    refuse "$file" l3a learn "$work/new" --features "$file" --classes third "${settings[@]}"
done

# places that cannot be read or written
refuse 'No such file' l3a eval "$work/none" --features "$good/test.safetensors"
refuse 'No such file' l3a eval "$model" --features "$work/none"
refuse 'No such file' l3a eval "$model" --features "$work/none.npy"
refuse 'No such file' l3a info "$work/none"
refuse 'No such file' l3a run --train "$work/none" --test "$good/test.safetensors" -o "$work/run"
refuse 'No such file' l3a run --train "$good/train.npy" --train-labels "$work/none" --test "$good/test.npy" --test-labels "$good/test_labels.npy" -o "$work/run"
refuse 'No such file' l3a learn "$work/none/model" --features "$good/train.safetensors" --classes class00 "${settings[@]}"
refuse 'Not a directory' l3a learn "$good/names.txt/model" --features "$good/train.safetensors" --classes class00 "${settings[@]}"
refuse 'Not a directory' run_on "$good" -o "$good/names.txt/run"
refuse 'Not a directory' run_on "$good" -o "$good/names.txt"
refuse 'No such file' run_on "$good" -o "$work/none/run"
mkdir "$work/locked"
chmod 555 "$work/locked"
# root may write anywhere, unless it gives that up
plain=()
[ "$(id -u)" -eq 0 ] && plain=(setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search)
if "${plain[@]}" touch "$work/locked/file" 2>/dev/null || ! "${plain[@]}" true 2>/dev/null; then
    echo 'skipped: a folder without write permission (this user may write anywhere)'
else
    as_plain() { "${plain[@]}" "$L3A_BUILD/l3a" "$@"; }
    refuse 'check the permissions' as_plain run --train "$good/train.safetensors" --test "$good/test.safetensors" --protocol B0-C2 -o "$work/locked/run"
    refuse 'locked/model: cannot write: Permission denied' as_plain learn "$work/locked/model" --features "$good/train.safetensors" --classes class00 "${settings[@]}"
    refuse 'check the permissions' as_plain learn "$work/locked/model" --features "$good/train.safetensors" --classes class00 "${settings[@]}"
fi
expect 1 'cannot write the results to the standard output' bash -c '"$0" info "$1" >/dev/full' "$L3A_BUILD/l3a" "$model"

disk=$work/disk
mkdir "$disk"
if mount -t tmpfs -o size=1m tmpfs "$disk" 2>/dev/null; then
    trap 'umount "$disk"; rm -rf "$work"' EXIT
    cp "$model" "$disk/model"
    (cd "$disk" && sha256sum model) >"$work/sum"
    more() { l3a learn "$disk/model" --features "$good/train.safetensors" --classes class02,class03; }
    for left in 0 4 16 64; do
        head -c 2M /dev/zero >"$disk/filler" 2>/dev/null
        [ $left -gt 0 ] && truncate -s -${left}K "$disk/filler"
        expect 1 'the disk is full' more
        check "the old model is whole with $left KiB left" env -C "$disk" sha256sum -c "$work/sum"
        expect 1 'the disk is full' run_on "$good" -o "$disk/run-$left"
        no_leftovers "$disk"
        rm "$disk/filler"
        expect 0 '' run_on "$good" -o "$disk/run-$left" --resume
        check "resumed with $left KiB left" cmp <(metrics "$disk/run-$left") <(metrics "$kept/run")
        check "its model with $left KiB left" cmp "$disk/run-$left/model.safetensors" "$run_model"
        rm -r "$disk/run-$left"
    done
    expect 0 '' more
    mount -o remount,ro "$disk"
    refuse 'Read-only file system' l3a learn "$disk/model" --features "$good/train.safetensors" --classes class04
    refuse 'Read-only file system' run_on "$good" -o "$disk/run"
else
    echo 'skipped: a full disk and a read-only one (no right to mount a small one)'
fi

# command lines
expect 2 'l3a predict' l3a
refuse "did you mean 'learn'?" l3a leran
refuse "unknown command 'xyzzy'" l3a xyzzy
refuse "did you mean 'eval'?" l3a help evla
refuse "did you mean '--gamma'?" l3a run --gama 10
refuse "unknown option '-x'" l3a run -x
check 'no letter is mistaken for another' test "$(grep -c 'did you mean' "$work/stderr")" -eq 0
refuse "unknown option '--xyzzyxyzzy'" l3a run --xyzzyxyzzy
refuse "unknown option '-q'" l3a run -q
refuse "unknown option '--o'" l3a run --o DIR
refuse "unknown option '--gamma'" l3a eval "$model" --gamma 1
run_refused good "did you mean 'l3a-no-pl'?" --method l3a,l3a-no-lp
run_refused good 'trains the backbone itself' --method l3a,podnet
run_refused good 'does not run on features' --method l3a,multi-lane
run_refused good "method 'l3a' is listed twice" --method l3a,l3a
run_refused good 'a run needs at least one method' --method ,
run_refused good 'seed 1 is listed twice' --seed 1,1
run_refused good "seed: 'x' is not allowed" --seed 1,x
refuse '--gamma needs a value' l3a run --gamma
refuse '--quiet takes no value' l3a run --quiet=1
refuse '--gamma is given twice' l3a run --gamma 1 --gamma=2
refuse '--train is given twice' l3a run --train a --train b
refuse '--train is required' l3a run -o "$work/run"
refuse '--test is required' l3a run --train "$good/train.safetensors" -o "$work/run"
refuse '-o is required' l3a run --train "$good/train.safetensors" --test "$good/test.safetensors"
refuse '--features is required' l3a learn "$model" --classes class02
refuse '--classes is required' l3a learn "$model" --features "$good/train.safetensors"
refuse 'name one model file' l3a eval --features "$good/test.safetensors"
refuse 'name one model file' l3a predict "$model" "$model" --features "$good/test.safetensors"
refuse 'name one file' l3a info
run_refused good "'extra' is not expected here" extra
refuse "--format: 'xml' is not one of table|json" l3a info "$model" --format xml
for command in eval predict; do
    refuse "--format: 'xml' is not one of table|json|csv" l3a $command "$model" --features "$good/test.safetensors" --format xml
done
run_refused good "--format: 'xml' is not one of table|json|csv" --format xml
refuse 'cannot be used together' l3a predict "$model" --features "$good/test.safetensors" --top 2 --threshold 0.5
refuse "--top: '0'" l3a predict "$model" --features "$good/test.safetensors" --top 0
refuse "--threshold: 'high'" l3a predict "$model" --features "$good/test.safetensors" --threshold high
refuse "theta: '7' is not allowed" l3a eval "$model" --features "$good/test.safetensors" --theta 7
refuse 'choose a new folder with -o' l3a demo -o "$kept"

# runs that are there already
refuse 'already holds a run' run_on "$good" -o "$kept/run"
resume() { l3a run --train "$good/train.safetensors" --test "$good/test.safetensors" --dim 128 -o "$kept/run" --resume "$@"; }
refuse 'gamma = 12.5, but this one has gamma = 11' resume --protocol B0-C2 --gamma 11
refuse 'protocol = "B0-C2", but this one has protocol = "B0-C3"' resume --protocol B0-C3 --gamma 12.5
refuse 'methods' resume --protocol B0-C2 --gamma 12.5 --method l3a,joint
refuse 'seeds' resume --protocol B0-C2 --gamma 12.5 --seed 1
refuse 'classes' resume --protocol B0-C2 --gamma 12.5 --class-order shuffle:1
refuse 'train' l3a run --train "$kept/empty/train.safetensors" --test "$good/test.safetensors" "${quick[@]}" -o "$kept/run" --resume
mkdir "$work/other"
cp "$model" "$work/other/model.safetensors"
refuse 'this run would overwrite the file' run_on "$good" -o "$work/other"
check 'the model that was there' cmp "$model" "$work/other/model.safetensors"
cp -r "$kept/run" "$work/damaged"
head -c 5000 "$run_model" >"$work/damaged/model.safetensors"
refuse "$work/damaged/model.safetensors" run_on "$good" -o "$work/damaged" --resume
cp "$run_model" "$work/damaged"
sed -i '3s/,/;/' "$work/damaged/metrics.csv"
refuse 'metrics.csv: line 3 is not as it was written' run_on "$good" -o "$work/damaged" --resume
mv "$work/damaged/checksums.csv" "$work/checksums"
refuse 'metrics.csv: line 3 cannot be understood' run_on "$good" -o "$work/damaged" --resume
sed 's/,/;/' "$work/checksums" >"$work/damaged/checksums.csv"
refuse 'checksums.csv: line 1 cannot be understood' run_on "$good" -o "$work/damaged" --resume
echo '{' >"$work/damaged/run.json"
refuse 'run.json' run_on "$good" -o "$work/damaged" --resume
finish
