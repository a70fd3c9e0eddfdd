#!/bin/bash
# Devices: a machine without one, and one that a plug-in for tests makes of the processor, so that its numbers are the processor's.
. "$(dirname "$0")/support.sh"

data=$work/data
make_features "$data" --ids
train=$data/train.safetensors
test=$data/test.safetensors
settings=(--dim 128 --gamma 10)
run() { l3a run --train "$train" --test "$test" --protocol B0-C2 "${settings[@]}" "$@"; }
bare() { L3A_PLUGIN_PATH=/nowhere "$@"; }
fake() { LD_LIBRARY_PATH=$L3A_BUILD/tests/driver L3A_PLUGIN_PATH=$L3A_BUILD/tests/fake "$@"; }
small() { FAKE_MEMORY=100000 fake "$@"; }
same_metrics() { check "$3" diff <(metrics "$1") <(metrics "$2"); }
lacks() { check "$2" sh -c '! grep -qF -- "$1" "$2"' sh "$1" "$work/stderr"; }
device_of() { /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["machine"]["device"])' "$1/run.json"; }

# Without a device
expect 0 '' bare run -o "$work/cpu"
lacks GPU 'without --device, nothing is said about it'
expect 0 'no GPU is used: device cuda: cannot load the plug-in: /nowhere/libl3a-cuda.so' bare run --device auto -o "$work/auto"
check 'one message' test "$(grep -c GPU "$work/stderr")" = 1
same_metrics "$work/cpu" "$work/auto" 'auto without a device'
check 'the device that was used is recorded' test "$(device_of "$work/auto")" = cpu
expect 2 'device cuda: cannot load the plug-in' bare run --device cuda -o "$work/none"
grep -q '^  ' "$work/stderr" || fail 'no hint' "$work/stderr"
check 'nothing is written' test ! -e "$work/none"
driverless() { L3A_PLUGIN_PATH=$L3A_BUILD/tests/fake "$@"; }
if driverless l3a doctor | grep -q 'no NVIDIA driver'; then
    expect 2 'there is no NVIDIA driver' driverless run --device cuda -o "$work/none"
    expect 0 'no GPU is used: device cuda: there is no NVIDIA driver' driverless run --device auto -o "$work/driverless"
else
    echo 'skipped: a machine without a driver (this one has one)'
fi

# Names, for every command that learns or scores
expect 0 '' l3a learn "$work/model" --features "$train" --classes class00,class01 "${settings[@]}"
: >"$work/picture.jpg"
for name in nonsense cuda:x cuda:; do
    expect 2 "device: " fake run --device $name -o "$work/none"
    expect 2 "device: " fake l3a sweep --train "$train" --test "$test" --gamma 1,10 --device $name -o "$work/none"
    expect 2 "device: " fake l3a learn "$work/new" --features "$train" --classes class00 --device $name
    expect 2 "device: " fake l3a eval "$work/model" --features "$test" --device $name
    expect 2 "device: " fake l3a predict "$work/model" --features "$test" --device $name
    expect 2 "device: " fake l3a tag "$work/model" "$work/picture.jpg" --device $name
    expect 2 "device: " fake l3a teach "$work/model" "$work/picture.jpg" --tags a --device $name
done
check 'nothing is written' test ! -e "$work/none" -a ! -e "$work/new"
expect 2 'cuda:1: there is 1 CUDA device' fake run --device cuda:1 -o "$work/none"
expect 0 '' env FAKE_DEVICES=2 LD_LIBRARY_PATH="$L3A_BUILD/tests/driver" L3A_PLUGIN_PATH="$L3A_BUILD/tests/fake" \
    "$L3A_BUILD/l3a" eval "$work/model" --features "$test" --device cuda:1

# With one
expect 0 'using cuda:0: Fake 0' fake run --device auto -o "$work/fake"
grep -q 'device cuda:0: memory ' "$work/stderr" && pass || fail 'the plan says nothing of the device' "$work/stderr"
same_metrics "$work/cpu" "$work/fake" 'on the device'
check 'the device that was used is recorded' test "$(device_of "$work/fake")" = cuda:0
expect 0 '' fake run --device cuda --quiet -o "$work/quiet"
check 'quiet' test ! -s "$work/stderr"
expect 0 '' fake run --device cpu -o "$work/asked"
lacks 'device cuda' 'the processor, as asked'
expect 0 'device cuda:0: memory' fake l3a learn "$work/model2" --features "$train" --classes class00,class01 "${settings[@]}" --device cuda
check 'the same model' cmp "$work/model" "$work/model2"
for command in "eval $work/model --features $test" "predict $work/model --features $test"; do
    l3a $command >"$work/plain" 2>/dev/null
    expect 0 '' fake l3a $command --device cuda
    check "$command" cmp "$work/plain" "$work/stdout"
    expect 0 'using cuda:0' fake l3a $command --device auto
    check "$command" cmp "$work/plain" "$work/stdout"
done
grid() { l3a sweep --train "$train" --test "$test" --protocol B0-C2 --dim 128 --gamma 1,10 "$@"; }
expect 0 '' grid -o "$work/grid"
cp "$work/stdout" "$work/plain"
expect 0 'device cuda:0: memory' fake grid --device cuda -o "$work/grid-fake"
check 'a sweep' cmp "$work/plain" "$work/stdout"

# Too little memory
expect 0 'no GPU is used: cuda:0 is too small: dim 128 and features 24 wide need' small run --device auto -o "$work/small"
check 'the device that was used is recorded' test "$(device_of "$work/small")" = cpu
same_metrics "$work/cpu" "$work/small" 'auto with too small a device'
expect 2 'of the memory of cuda:0, but 0.00 GiB are free' small run --device cuda -o "$work/none"
check 'nothing is written' test ! -e "$work/none"
expect 0 'no GPU is used: cuda:0 is too small' small grid --device auto -o "$work/grid-small"
check 'a sweep' cmp "$work/plain" "$work/stdout"
expect 0 'no GPU is used: cuda:0 is too small' small l3a eval "$work/model" --features "$test" --device auto
plus() { l3a run --train "$train" --test "$test" --protocol B0-C2 --method l3a+ --gamma 10 --dim 512 --block 64 "$@"; }
expect 0 '' plus -o "$work/plus"
expect 0 '' fake plus --device cuda --dry-run -o "$work/none"
shows 'device cuda:0: memory '
few=$(/usr/bin/python3 - "$work/stdout" <<'P'
import re, sys
size, unit = re.search(r"device cuda:0: memory ([0-9.]+) (.)iB\n", open(sys.argv[1]).read()).groups()
print(int(float(size) * 2 ** {"K": 10, "M": 20}[unit] - 1.5 * 512 * 513 / 2 * 4))  # one part and a half are missing
P
)
expect 0 '; 2 of 3 parts will be kept in the processor' env FAKE_MEMORY="$few" LD_LIBRARY_PATH="$L3A_BUILD/tests/driver" \
    L3A_PLUGIN_PATH="$L3A_BUILD/tests/fake" "$L3A_BUILD/l3a" run --train "$train" --test "$test" --protocol B0-C2 --method l3a+ \
    --gamma 10 --dim 512 --block 64 --device cuda -o "$work/plus-fake"
same_metrics "$work/plus" "$work/plus-fake" 'parts that do not fit'

# A device that is lost in the third phase
lost() { FAKE_LOST=$1 fake run --device cuda -o "$2"; }
for calls in 9 10 11 12 13 14 15 16; do
    lost $calls "$work/lost-$calls" >"$work/stdout" 2>"$work/stderr"
    code=$?
    phases=$(grep -cE ' phase [0-9]+ of' "$work/stderr")
    [ $phases -eq 2 ] && break
done
check 'two phases were learned' test "$phases" -eq 2 -a $code -eq 2
grep -q 'cuda:0: the device failed' "$work/stderr" && pass || fail 'the error' "$work/stderr"
grep -q 'finished phases, but for at most ten seconds of work, are saved in .*--resume -o' "$work/stderr" && pass || fail 'how to go on' "$work/stderr"
expect 0 '' l3a run --resume --device cpu -o "$work/lost-$calls"
same_metrics "$work/cpu" "$work/lost-$calls" 'resumed on the processor'

# Processes that mpirun starts each take a device of their own, as long as there are enough; sums pass through the processor
if command -v mpirun >/dev/null && [ -e "$L3A_BUILD/libl3a-mpi.so" ]; then
    mkdir "$work/plugins"
    ln -s "$L3A_BUILD/libl3a-mpi.so" "$L3A_BUILD/tests/fake/libl3a-cuda.so" "$work/plugins"
    # together PROCESSES FOLDER OPTION...
    together() {
        local n=$1 folder=$work/$2
        shift 2
        env FAKE_DEVICES=2 FAKE_LOG="$work/log" LD_LIBRARY_PATH="$L3A_BUILD/tests/driver" L3A_PLUGIN_PATH="$work/plugins" \
            ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" mpirun -n "$n" --oversubscribe --allow-run-as-root --bind-to none \
            "$L3A_BUILD/l3a" run --train "$train" --test "$test" --protocol B0-C2 "${settings[@]}" --threads 1 "$@" -o "$folder"
    }
    # took WHAT DEVICES: what the processes opened
    took() { check "$1: $(sort -u "$work/log" | tr '\n' ,)" test "$(sort -u "$work/log" | tr '\n' ,)" = "$2"; }
    expect 0 '' together 3 three --device cpu
    check 'the processor is no device' test ! -e "$work/log"
    for device in cuda auto; do
        rm -f "$work/log"
        expect 0 '' together 3 "three-$device" --device $device
        took "three processes, two devices, $device" '0 0,1 1,2 0,'
        same_metrics "$work/three" "$work/three-$device" "three processes, $device"
    done
    rm -f "$work/log"
    expect 0 '' together 2 two --device cuda:1
    took 'a device that was named' '0 1,1 1,'
    cramped() { FAKE_MEMORY=100000 together "$@"; }
    expect 0 'no GPU is used: cuda:0 is too small' cramped 3 cramped --device auto
    same_metrics "$work/three" "$work/cramped" 'three processes whose devices are too small'
else
    echo 'skipped: devices under mpirun (it or its plug-in is missing)'
fi

# Networks run on the device. New files are in float16 there, unless something else is asked for
for command in extract tag teach; do
    expect 0 '' l3a help $command
    check "the help of $command" grep -q 'where networks run: cpu, cuda or cuda:N' <(tr -s ' \n' ' ' <"$work/stdout")
done
expect 0 '' l3a help extract
check 'the help of extract' grep -q 'the network runs on a GPU, in float16 unless --backbone-precision' <(tr -s ' \n' ' ' <"$work/stdout")
/usr/bin/python3 "$here/make_pictures.py" "$work/pictures"
demo=$L3A_SOURCE/models/demo_backbone.safetensors
pictures() { l3a extract --backbone "$demo" --data "list:$work/pictures/list.csv" "$@"; }
full() { FAKE_NETWORKS='its memory is full' fake "$@"; }
without() { FAKE_NETWORKS=none fake "$@"; }
batches() { FAKE_BATCH=$1 fake "${@:2}"; }
records() { check "$1: network '$2'" test "$(l3a info "$1" | sed -En 's/^  (record\.)?network: //p')" = "$2"; }
# agree FILE FILE TOLERANCE WHAT: two feature files are of the same pictures, and their numbers differ by no more
agree() {
    check "$4" /usr/bin/python3 - "$1" "$2" "$3" <<'P'
import json, struct, sys
import numpy
def read(path):
    content = open(path, "rb").read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    return [content[8 + length:][slice(*header[name]["data_offsets"])] for name in ("features", "ids", "labels")]
one, other = read(sys.argv[1]), read(sys.argv[2])
numbers = [numpy.frombuffer(features, numpy.float32) for features in (one[0], other[0])]
sys.exit(one[1:] != other[1:] or not numpy.abs(numbers[0] - numbers[1]).max() <= float(sys.argv[3]))
P
}
expect 0 '' pictures -o "$work/features"
lacks '(fake' 'the processor computes'
expect 0 '(fake, float16)' fake pictures --device cuda -o "$work/features-half"
lacks 'no effect' 'nothing is said against --device'
records "$work/features-half" float16
agree "$work/features" "$work/features-half" 0 'what this device calls float16 is float32'
expect 0 '(fake)' fake pictures --device cuda --backbone-precision float32 -o "$work/features-fake"
check 'the same features' cmp "$work/features" "$work/features-fake"
expect 0 'using cuda:0' fake pictures --device auto -o "$work/features-auto"
check 'the same features' cmp "$work/features-half" "$work/features-auto"
expect 0 'no GPU is used: cuda:0: its memory is full' full pictures --device auto -o "$work/features-full"
lacks 'cannot compute' 'nobody asked for float16'
check 'the same features' cmp "$work/features" "$work/features-full"
expect 2 'demo_backbone.safetensors: cuda:0: its memory is full' full pictures --device cuda -o "$work/none"
expect 0 'networks run on the processor: cuda:0 cannot compute them here' without pictures --device cuda -o "$work/features-none"
check 'the same features' cmp "$work/features" "$work/features-none"
expect 0 'cannot compute in float16 here, so the network is computed in float32' pictures --backbone-precision float16 -o "$work/features-asked"
check 'float32 is recorded' cmp "$work/features" "$work/features-asked"
expect 2 "'fp8' is not one of float32|bf16|float16" pictures --backbone-precision fp8 -o "$work/none"
for views in 1 5; do # batches that the pictures fill several times, with a rest, and not once
    expect 0 '' pictures --views $views --float32 -o "$work/plain-$views"
    for batch in 7 24 1000; do
        expect 0 '' batches $batch pictures --views $views --float32 --device cuda -o "$work/features-$batch"
        agree "$work/plain-$views" "$work/features-$batch" 1e-5 "$views views, batches of $batch"
    done
done

# A device that is lost leaves what can be resumed there; with other batches or kernels, it begins again
broken() { FAKE_LOST=3 fake "$@"; }
expect 2 'cuda:0: the device failed' broken pictures --device cuda -o "$work/lost"
check 'there is a part' test -e "$work/lost.part" -a ! -e "$work/lost"
cp "$work/lost.part" "$work/other.part"
cp "$work/lost.part" "$work/kernels.part"
chosen() { FAKE_KERNELS='kernels B' fake "$@"; }
expect 0 '' chosen pictures --device cuda -o "$work/kernels"
check 'with other kernels' test -z "$(grep 'from an earlier run' "$work/stdout")"
expect 0 '' batches 8 pictures --device cuda -o "$work/other"
check 'with other batches' test -z "$(grep 'from an earlier run' "$work/stdout")"
expect 0 '' fake pictures --device cuda -o "$work/lost"
shows 'from an earlier run'
check 'the same features' cmp "$work/features-half" "$work/lost"

# Shards of a device consist of its batches, and are not joined with others
for i in 1 2; do
    expect 0 '' batches 24 pictures --device cuda --shard $i/2 -o "$work/shard-$i"
    expect 0 '' batches 24 pictures --device cuda --backbone-precision float32 --shard $i/2 -o "$work/single-shard-$i"
    expect 0 '' pictures --shard $i/2 -o "$work/plain-shard-$i"
done
expect 0 '' l3a merge "$work/shard-1" "$work/shard-2" -o "$work/joined"
expect 0 '' batches 24 pictures --device cuda -o "$work/whole"
check 'the joined file' cmp "$work/whole" "$work/joined"
expect 2 "network is 'float16' in one and '' in the other" l3a merge "$work/shard-1" "$work/plain-shard-2" -o "$work/none"
expect 2 "engine is 'fake, batches of 24, kernels A' in one and '' in the other" l3a merge "$work/single-shard-1" "$work/plain-shard-2" -o "$work/none"

# A model and a feature file decide; float16 and float32 are not mixed
few=("$work"/pictures/taught/*.png)
few=("${few[@]:0:6}")
teach() { l3a teach "$@" --tags thing; }
new=(--backbone "$demo" --dim 64 --no-orient)
expect 0 '' fake teach "$work/half.l3a" "${few[@]}" "${new[@]}" --device cuda
records "$work/half.l3a" float16
expect 0 '' teach "$work/single.l3a" "${few[@]}" "${new[@]}"
records "$work/single.l3a" ''
expect 0 '' fake teach "$work/asked.l3a" "${few[@]}" "${new[@]}" --device cuda --backbone-precision float32
records "$work/asked.l3a" ''
expect 0 'cannot compute in float16 here' l3a tag "$work/half.l3a" "${few[@]}" --long
cp "$work/stdout" "$work/tags"
expect 0 '' fake l3a tag "$work/half.l3a" "${few[@]}" --long --device cuda
lacks 'cannot compute' 'the device has float16'
check 'the same tags' cmp "$work/tags" "$work/stdout"
expect 0 '' fake teach "$work/single.l3a" "${few[2]}" --instead --device cuda
records "$work/single.l3a" ''
expect 0 'cannot compute in float16 here' teach "$work/half.l3a" "${few[3]}" --instead
records "$work/half.l3a" float16
expect 2 "network is 'as usual', but the model was learned with 'float16'" l3a predict "$work/half.l3a" --features "$work/features"
expect 2 "network is 'float16', but the model was learned with 'as usual'" l3a predict "$work/single.l3a" --features "$work/features-half"
expect 0 '' l3a learn "$work/phases" --features "$work/features-half" --classes stripes --dim 64 --privacy-limit 0
expect 2 "network is 'as usual', but the model was learned with 'float16'" l3a learn "$work/phases" --features "$work/features" --classes 'Scheibe & Co'
expect 0 '' fake l3a index "$work/half.l3a" "$work/pictures" --device cuda
lacks 'cannot compute' 'the device has float16'
for i in 1 2; do
    expect 0 '' batches 24 l3a tag "$work/half.l3a" "$work/pictures" --device cuda --csv --shard $i/2 -o "$work/tags-$i"
    expect 0 '' l3a tag "$work/half.l3a" "$work/pictures" --csv --shard $i/2 -o "$work/plain-tags-$i"
done
expect 0 '' l3a merge "$work/tags-1" "$work/tags-2" -o "$work/joined-tags"
expect 0 '' batches 24 l3a tag "$work/half.l3a" "$work/pictures" --device cuda --csv -o "$work/whole-tags"
check 'the joined tags' cmp "$work/whole-tags" "$work/joined-tags"
expect 2 "the options are '--format csv --device cuda' and '--format csv'" l3a merge "$work/tags-1" "$work/plain-tags-2" -o "$work/none"

# doctor: what is there, and what to install for what is not
expect 0 '' fake l3a doctor
shows 'device       cuda:0: Fake 0; --device cuda uses it' 'GFLOP/s in single precision' 'of its memory'
expect 0 '' fake l3a doctor --backbone "$demo" --device cuda
shows '(fake on cuda:0)' 'float32: ' 'float16: ' '16 at a time' 'bf16: cannot be computed here'
expect 0 '' l3a doctor --backbone "$demo"
shows 'on the processor)' 'float32: '
check 'what the processor lacks is not measured' test -z "$(grep float16 "$work/stdout")"
check 'and nobody warns of it' test ! -s "$work/stderr"
expect 0 '' bare l3a doctor
shows 'device       no GPU: device cuda: cannot load the plug-in' 'install l3a-backend-cuda' \
    'figures      only SVG: plug-in figure: cannot load the plug-in: /nowhere/libl3a-figure.so' 'install l3a-figures' \
    'MPI          no MPI: plug-in mpi: cannot load the plug-in: /nowhere/libl3a-mpi.so' 'install l3a-backend-mpi' \
    ', on the processor'
expect 0 '' l3a doctor
# has FILE LIBRARY: whether it was built with it
has() { readelf -d "$L3A_BUILD/$1" 2>"$work/why" | grep -q "NEEDED.*$2"; }
has l3a libmicrohttpd && shows 'server       l3a serve, with its page' || shows 'server       none' 'install libmicrohttpd-dev'
has libl3a-figure.so librsvg && shows 'figures      SVG, PDF and PNG' || shows 'figures      only SVG' 'install l3a-figures'
has libl3a-mpi.so libmpi && shows 'MPI          processes that mpirun' || shows 'MPI          no MPI' 'install l3a-backend-mpi'
for why in 'the driver is too old: it is for CUDA 11.0, and the plug-in needs 13.0' 'there are 0 CUDA devices'; do
    expect 0 '' env FAKE_REFUSAL="$why" LD_LIBRARY_PATH="$L3A_BUILD/tests/driver" L3A_PLUGIN_PATH="$L3A_BUILD/tests/fake" \
        "$L3A_BUILD/l3a" doctor
    shows "device       no GPU: cuda:0: $why"
done

finish
