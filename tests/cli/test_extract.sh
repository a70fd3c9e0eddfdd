# Extraction and tags for pictures, with the real ViT-Tiny and real pictures.
source "$(dirname "$0")/support.sh"
backbone=$L3A_SHARED/backbones/vit_tiny_patch16_224.safetensors
pictures=$L3A_SHARED/data/voc2007-small/VOCdevkit/VOC2007/JPEGImages
[ -f "$backbone" ] && [ -d "$pictures" ] || { echo "skipped: $backbone or $pictures is not there"; exit 77; }
[ -z "${L3A_SANITIZE:-}" ] || { echo "skipped: too slow under sanitizers; tests/unit/test_net*.c run there"; exit 77; }

cd "$work"
l3a=$L3A_BUILD/l3a
mkdir pictures
{
  echo path,labels
  n=0
  for picture in $(ls "$pictures" | head -33); do
    cp "$pictures/$picture" pictures/
    n=$((n + 1))
    echo "pictures/$picture,$([ $((n % 2)) = 0 ] && echo even || echo odd);$([ $((n % 3)) = 0 ] && echo three)"
  done
} > list.csv
extract() { "$l3a" extract --backbone "$backbone" --data list:list.csv --quiet "$@"; }
extract_aloud() { "$l3a" extract --backbone "$backbone" --data list:list.csv "$@"; }

check "a list of pictures becomes a feature file" extract -o all.safetensors
check "the part file is gone" test ! -e all.safetensors.part
check "the file says how it was made" bash -c "'$l3a' info all.safetensors | grep -q 'preprocess: rgb 224x224 bilinear mean 0.5 std 0.5'"
check "info knows the network" bash -c "'$l3a' info '$backbone' | grep -q 'backbone: vit_tiny_patch16_224'"
check "info is JSON for a backbone, too" bash -c "'$l3a' info --format json '$backbone' | /usr/bin/python3 -c 'import json, sys; assert json.load(sys.stdin)[\"backbone\"][\"width\"] == 192'"
check "half precision takes half the room" bash -c "$(declare -f extract); l3a='$l3a' backbone='$backbone'; extract --float16 -o half.safetensors && '$l3a' info half.safetensors | grep -q 'features F16'"

# kill_extraction FILE [BYTES OPTION...]: killed after at least a batch of 16 pictures, and before all. Where it was over before the
# kill, as happens on a busy machine, it begins again.
kill_extraction() {
  for _ in $(seq 50); do
    "$l3a" extract --backbone "$backbone" --data "list:${list:-list.csv}" --quiet -o "$1" "${@:3}" > /dev/null 2>&1 &
    local process=$!
    while kill -0 $process 2> /dev/null && [ "$(stat -c %s "$1.part" 2> /dev/null || echo 0)" -le "${2:-13000}" ]; do
      sleep 0.02
    done
    kill -9 $process 2> /dev/null
    wait $process 2> /dev/null
    [ -e "$1" ] || return 0
    rm -f "$1"
  done
}
kill_extraction killed.safetensors
check "a killed extraction leaves no feature file" test ! -e killed.safetensors
check "it continues where it stopped" bash -c "$(declare -f extract); l3a='$l3a' backbone='$backbone'; extract -o killed.safetensors | grep -q 'from an earlier run'"
check "and gives the same bytes" cmp all.safetensors killed.safetensors

# pictures replaced between the kill and the resume
second=pictures/$(ls pictures | sed -n 2p)
kill_extraction replaced.safetensors
cp -p "$second" second.jpg
cp "pictures/$(ls pictures | sed -n 30p)" "$second"
touch -r second.jpg "$second"
expect 0 "$second has changed" extract_aloud -o replaced.safetensors
check "what did not change is kept" grep -q "from an earlier run" "$work/stdout"
check "the new picture from scratch" extract -o fresh.safetensors
check "a replaced picture is extracted again" cmp fresh.safetensors replaced.safetensors
cp second.jpg "$second"

kill_extraction touched.safetensors
touch pictures/*
expect 0 "" extract_aloud -o touched.safetensors
check "a new time alone changes nothing" test "$(grep -c changed "$work/stderr")" = 0
check "and nothing is extracted again" grep -q "from an earlier run" "$work/stdout"
check "the same bytes" cmp all.safetensors touched.safetensors

kill_extraction gone.safetensors
rm "$second"
expect 2 "$second" extract_aloud -o gone.safetensors
check "a picture that has gone is left out" bash -c "'$l3a' info gone.safetensors | grep -q 'bad: .*$second'"
cp second.jpg "$second"

{ printf 'l3a extraction 1'; head -c 20000 /dev/zero; } > old.safetensors.part
expect 0 "was written by an older version" extract_aloud -o old.safetensors
check "an old part file gives nothing" test "$(grep -c 'done before' "$work/stdout")" = 0
check "and the whole is right" cmp all.safetensors old.safetensors

# views: 24 pictures, so that every view is computed in a full batch of the network
head -25 list.csv > few.csv
views() { "$l3a" extract --backbone "$backbone" --data list:few.csv --quiet "$@"; }
check "the whole picture alone" views -o whole.safetensors --views 1
check "with five crops" views -o five.safetensors --views 5 --float32
check "with nine crops" views -o nine.safetensors --views 9 --float32
expect 0 "" views -o fourteen.safetensors --views 14 --float32
shows "fourteen.safetensors: 24 rows of 15 x 192 features (14 views) in"
expect 0 "" views -o half_five.safetensors --views 5
check "what the files contain" /usr/bin/python3 - <<'END'
import json
import numpy

def read(name):
    data = open(name + ".safetensors", "rb").read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    about = header["features"]
    first, last = about["data_offsets"]
    values = numpy.frombuffer(data[8 + size + first : 8 + size + last], {"F32": "<f4", "F16": "<f2"}[about["dtype"]])
    return values.reshape(about["shape"]), header

def record(header):
    return header["__metadata__"].get("views")

whole, five, nine, fourteen, half = (read(name) for name in ("whole", "five", "nine", "fourteen", "half_five"))
assert [array.shape for array, _ in (whole, five, nine, fourteen)] == [(24, 192), (24, 6, 192), (24, 10, 192), (24, 15, 192)]
assert [record(header) for _, header in (whole, five, nine, fourteen, half)] == [None, "5", "9", "14", "5"]
assert whole[0].dtype == five[0].dtype == numpy.float32 and half[0].dtype == numpy.float16
assert five[1]["labels"]["shape"] == whole[1]["labels"]["shape"] == [24, 3]
assert numpy.array_equal(fourteen[0][:, 0], whole[0]), "view 0 is not the whole picture"
assert numpy.array_equal(fourteen[0][:, :6], five[0]), "14 views do not begin with those of 5"
assert numpy.array_equal(fourteen[0][:, 6:], nine[0][:, 1:]), "14 views do not end with those of 9"
assert numpy.array_equal(half[0], five[0].astype(numpy.float16))
for view in range(1, 15):
    assert numpy.abs(fourteen[0][:, view] - whole[0]).max() > 0.1, f"view {view} looks like the whole picture"
END
list=few.csv kill_extraction resumed.safetensors 70000 --views 5
check "a killed extraction with views leaves no feature file" test ! -e resumed.safetensors
cp resumed.safetensors.part other.safetensors.part
expect 0 "" views -o resumed.safetensors --views 5
shows "from an earlier run"
check "and gives the same bytes" cmp half_five.safetensors resumed.safetensors
expect 0 "" views -o other.safetensors --views 9 --float32
check "a part file with other views is of no use" test "$(grep -c 'from an earlier run' "$work/stdout")" = 0
check "and does no harm" cmp nine.safetensors other.safetensors
expect 2 "--views: '3' is not one of 1|5|9|14" views -o no.safetensors --views 3
expect 2 "--views: '' is not one of" views -o no.safetensors --views ""
expect 2 "--float16 and --float32 exclude each other" views -o no.safetensors --views 5 --float16 --float32
check "nothing was written" test ! -e no.safetensors

cp list.csv broken.csv
head -c 1000 "pictures/$(ls pictures | head -1)" > pictures/cut.jpg
echo hello > pictures/text.jpg
printf '\377\330\377\300\0\021\010\352\140\352\140\003\001\042\0\002\021\001\003\021\001\377\332\0\014\003\001\0\002\021\003\021\0\077\0' > pictures/huge.jpg
printf 'pictures/cut.jpg,odd\npictures/text.jpg,even\npictures/nowhere.jpg,even\npictures/huge.jpg,odd\n' >> broken.csv
expect 2 "4 pictures could not be read and were skipped" "$l3a" extract --backbone "$backbone" --data list:broken.csv -o broken.safetensors
check "a picture that claims too much is left out, not the end" grep -q "claims to have 60000 x 60000 pixels" "$work/stderr"
check "the bad ones are on record" bash -c "'$l3a' info broken.safetensors | grep -q 'bad: 4: pictures/cut.jpg, pictures/text.jpg'"
cp broken.safetensors was.safetensors
expect 2 "cut.jpg" "$l3a" extract --strict --backbone "$backbone" --data list:broken.csv -o broken.safetensors
check "a strict extraction that fails leaves the old file" cmp was.safetensors broken.safetensors
expect 2 "cut.jpg" "$l3a" extract --strict --backbone "$backbone" --data list:broken.csv -o strict.safetensors
check "strict leaves no feature file" test ! -e strict.safetensors
expect 2 "not those of a known network" "$l3a" extract --backbone all.safetensors --data list:list.csv -o no.safetensors

check "a model learns from it" "$l3a" learn model.safetensors --features all.safetensors --classes odd,even --dim 256
first=pictures/$(ls pictures | head -1)
check "a picture gets tags" bash -c "'$l3a' predict model.safetensors --backbone '$backbone' '$first' --top 2 | grep -Eq '(odd|even) 0\.'"
check "pictures and features give the same tags" bash -c "
  ls pictures/0*.jpg | '$l3a' predict model.safetensors --backbone '$backbone' - --format csv --top 2 > by_picture.csv
  '$l3a' predict model.safetensors --features all.safetensors --format csv --top 2 > by_feature.csv
  diff by_picture.csv by_feature.csv"
expect 2 "text.jpg" "$l3a" predict model.safetensors --backbone "$backbone" pictures/text.jpg "$first"
expect 2 "preprocess" "$l3a" predict model.safetensors --backbone "$backbone" --mean 0 --std 1 "$first"
expect 2 "oriented" "$l3a" predict model.safetensors --backbone "$backbone" --orient "$first"
expect 2 "--mean and --std must be given together" "$l3a" predict model.safetensors --backbone "$backbone" --mean 0 "$first"
finish
