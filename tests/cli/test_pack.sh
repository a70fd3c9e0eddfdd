#!/usr/bin/env bash
# l3a pack as a user types it: smaller files that tag as the model does, and cannot learn.
source "$(dirname "$0")/support.sh"
cd "$work"
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
mkdir pictures
/usr/bin/python3 - <<'END'
from PIL import Image
import random
rng = random.Random(3)
with open("list.csv", "w") as table:
    print("path,labels", file=table)
    for i in range(24):
        red = i % 2 == 0
        colour = (200 if red else 30, rng.randrange(60), 30 if red else 200)
        Image.new("RGB", (60, 40), colour).save(f"pictures/{i:02}.png")
        print(f"pictures/{i:02}.png,{'red' if red else 'blue'}", file=table)
END
check "extract" l3a extract --backbone "$backbone" --data list:list.csv -o table --quiet
check "learn" l3a learn model --features table --classes red,blue --method l3a+ --dim 64 --quiet
tags() { l3a predict "$1" --backbone "$backbone" pictures/0?.png --quiet --format csv | sed 's/[0-9.-]*$//'; }
tags model >expected
[ "$(wc -l <expected)" -gt 5 ] && pass || fail 'the model tags nothing' expected

# pack FILE OPTIONS...
pack() { l3a pack model -o "$@"; }
expect 0 '' pack half
shows 'half: '
expect 0 '' pack small --type int8 --features table
shows '24 images: the largest change of a score is'
expect 0 '' pack whole --with-backbone --backbone "$backbone"
shows 'whole: ' ', with the backbone'
expect 0 '' pack narrow --with-backbone --backbone "$backbone" --backbone-type float16
for file in half small whole narrow; do
    tags $file | cmp -s - expected && pass || fail "$file tags otherwise"
    expect 0 '' l3a info $file
    shows "$file: packed" 'format: l3a-packed' 'classes: 2: red, blue' 'record.sha256'
    grep -qE 'gram|cross|counts|phases|pictures' "$work/stdout" && fail "$file holds more than tagging needs" "$work/stdout" || pass
done
size() { stat -c %s "$1"; }
[ "$(size small)" -lt "$(size half)" ] && [ "$(size half)" -lt 8192 ] && [ "$(size half)" -lt "$(size model)" ] && pass || fail 'sizes'
[ "$(size narrow)" -lt "$(($(size whole) * 6 / 10))" ] && [ "$(size whole)" -gt "$(size "$backbone")" ] && pass || fail 'sizes with a backbone'
expect 0 '' l3a info --format json small
check "info is JSON" /usr/bin/python3 -c 'import json; assert json.load(open("'"$work/stdout"'"))["kind"] == "packed"'
no_leftovers .

# what a packed file cannot do
for command in 'learn half --features table --classes red' 'eval half --features table' 'forget half --classes red' \
    'merge half model -o both' 'merge model half -o both' 'predict half --features table' 'pack half -o again'; do
    expect 2 'half: a packed model can only tag pictures' l3a $command
    grep -qF 'use the model that it was packed from' "$work/stderr" && pass || fail "no hint: $command" "$work/stderr"
done

# what cannot be packed
expect 2 'name one model' l3a pack -o half
expect 2 '-o' l3a pack model
expect 2 'nowhere' l3a pack nowhere -o half
expect 2 'would overwrite model' pack model
expect 2 'does not name its backbone' pack again --with-backbone
expect 2 '--backbone-type needs --with-backbone' pack again --backbone-type float16
expect 2 'int4' pack again --type int4
expect 2 "$backbone" l3a pack "$backbone" -o again
cp "$backbone" other && printf '\1' | dd of=other bs=1 seek=$(($(size other) - 1)) conv=notrunc 2>/dev/null
expect 2 'sha256' pack again --with-backbone --backbone other
expect 2 'list.csv: not a safetensors file' pack again --features list.csv
[ ! -e again ] && [ ! -e both ] && pass || fail 'something was written'
expect 1 'whole: cannot write' bash -c "ulimit -f 64; exec '$L3A_BUILD/l3a' pack model -o whole --with-backbone --backbone '$backbone'"
tags whole | cmp -s - expected && pass || fail 'a full disk damaged the old file'
no_leftovers .
finish
