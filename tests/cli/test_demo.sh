# The demonstration, with few pictures: what it says, what it leaves, and that the commands it ends with work.
source "$(dirname "$0")/support.sh"
cd "$work"

expect 2 'not a whole number from 400' l3a demo -o few --pictures 10
check 'no folder for a refused demo' test ! -e few
expect 2 'not expected here' l3a demo somewhere
mkdir there
expect 2 'choose a new folder with -o' l3a demo -o there
expect 2 'No such file' l3a demo -o no/where

# The program and the folder have names that a shell takes apart, and the program is not on the PATH.
ln -s "$L3A_BUILD" 'a build'
ln -s 'the demo' demo
expect 0 '' './a build/l3a' demo -o 'the demo' --pictures 400
check 'no warnings about the privacy of drawings' test "$(grep -c 'learn more images together' "$work/stderr")" -eq 0
shows '400 training and 200 test pictures' 'l3a  ' finetune joint 'run/report.html' 'has not learned' umbrella
cp stdout said
sed '/one more phase/,$d' said | grep '^ *tags ' >tags_before
sed '1,/one more phase/d' said | grep '^ *tags ' >tags_after
check 'tags before and after one more phase' test "$(wc -l <tags_before)" -eq 6 -a "$(wc -l <tags_after)" -eq 3
check 'an umbrella after it' grep -q 'umbrella 0' tags_after
check 'no umbrella before it' test "$(grep -c umbrella tags_before)" -eq 0
check 'fine-tuning forgets, l3a does not' awk 'NF == 15 && $1 == "l3a" { l3a = $9 } $1 == "finetune" { tuned = $9 } END { exit !(l3a > tuned + 20) }' said
check 'the report' test -s demo/run/report.html

expect 0 '' l3a data voc:demo/pictures --check-pictures
shows '400 pictures, 24 classes' '0 missing or empty, 0 unreadable'
check 'no complaint about the data set' test ! -s "$work/stderr"
expect 0 '' l3a data voc:demo/umbrella --split test --check-pictures
shows '6 pictures, 25 classes'
expect 0 '' l3a info demo/backbone.safetensors
shows 'backbone: resnet, width 16, blocks 2 2 2 1' 'tools/train_demo_backbone.py'
check 'the backbone is the one in the repository' cmp demo/backbone.safetensors "$L3A_SOURCE/models/demo_backbone.safetensors"
check 'its record is true' bash -c "grep -q \"\$(sha256sum < demo/backbone.safetensors | cut -d' ' -f1)\" '$L3A_SOURCE/models/demo_backbone.json'"

# The backbone has seen other things than it is shown here.
"$L3A_BUILD/tests/draw_training" | sort >trained
ls demo/umbrella/VOC2007/ImageSets/Main | sed -n 's/_test.txt//p' | sort >shown
check '256 things in training, 25 here' test "$(wc -l <trained)" -eq 256 -a "$(wc -l <shown)" -eq 25
check 'none of them the same' test -z "$(comm -12 trained shown)"

# Pillow and another reader of XML agree with what was drawn.
check 'pictures and annotations' /usr/bin/python3 - <<'P'
import glob, os
from xml.etree import ElementTree
from PIL import Image
root = "demo/pictures/VOC2007"
ids = [line.split()[0] for split in ("trainval", "test") for line in open(f"{root}/ImageSets/Main/{split}.txt")]
assert len(ids) == len(set(ids)) == 600 == len(glob.glob(f"{root}/JPEGImages/*.jpg"))
flags = {}
for path in glob.glob(f"{root}/ImageSets/Main/*_*.txt"):
    name = os.path.basename(path).rsplit("_", 1)[0]
    for line in open(path):
        flags[line.split()[0], name] = int(line.split()[1])
assert len({name for _, name in flags}) == 24
for i in ids:
    picture = Image.open(f"{root}/JPEGImages/{i}.jpg").convert("RGB")
    assert picture.size == (160, 160)
    things = ElementTree.parse(f"{root}/Annotations/{i}.xml").findall("object")
    names = {thing.find("name").text for thing in things}
    assert 1 <= len(things) == len(names) <= 5
    assert names == {name for (other, name), flag in flags.items() if other == i and flag == 1}
    for thing in things:
        left, top, right, bottom = (int(thing.find(f"bndbox/{edge}").text) for edge in ("xmin", "ymin", "xmax", "ymax"))
        assert 1 <= left < right <= 160 and 1 <= top < bottom <= 160
P

# what it says to type next
mkdir -p photos/cat photos/sofa others
cp demo/pictures/VOC2007/JPEGImages/00000[12].jpg photos/cat
cp demo/pictures/VOC2007/JPEGImages/00000[34].jpg photos/sofa
cp demo/pictures/VOC2007/JPEGImages/000005.jpg others
grep "^  './a build/l3a' " said | grep -v ' serve ' >next.sh # a server does not end
check 'four commands' test "$(wc -l <next.sh)" -eq 4
check 'all of them by the name that was typed' test "$(wc -l <next.sh)" -eq "$(grep -cE '^  .*l3a.? (tag|teach|undo) ' said)"
expect 0 '' bash -e next.sh
shows 'JPEGImages/000009.jpg' 'new tags: cat, sofa' 'others/000005.jpg' 'undone: lesson 1'

# as many pictures as a shell names
expect 0 '' l3a predict demo/run/model.safetensors --backbone demo/backbone.safetensors --format csv demo/pictures/VOC2007/JPEGImages/*.jpg
check 'all 600 pictures have a row' test "$(tail -n +2 "$work/stdout" | cut -d, -f1 | sort -u | wc -l)" -eq 600

# Ctrl-C
"$L3A_BUILD/l3a" demo -o stopped >"$work/stdout" 2>"$work/stderr" &
process=$!
for ((i = 0; i < 600; i++)); do
    [ -e stopped/pictures/VOC2007/JPEGImages/000001.jpg ] && break
    sleep 0.1
done
kill -INT $process
wait $process
check 'Ctrl-C is an exit code of its own' test $? -eq 130
expect 2 'no VOC2007 or other year' l3a data voc:stopped/pictures
finish
