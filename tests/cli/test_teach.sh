#!/bin/bash
# Teaching pictures, taking lessons back, correcting and renaming, as people would.
source "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work" || exit 1
demo=$L3A_SOURCE/models/demo_backbone.safetensors
/usr/bin/python3 "$here/make_pictures.py" . || { echo 'skipped: no pictures (python3-pil is not installed)'; exit 77; }
mkdir -p 'photos/discs, red' photos/stripes photos/plain 'by tag' more
cp "$demo" backbone.safetensors
cp taught/0?.png 'photos/discs, red'
cp taught/3?.png photos/stripes
cp -r 'photos/discs, red' 'by tag/disc'
cp -r photos/stripes 'by tag/Streifen ü'
head -c 300 taught/00.png >more/broken.png
cp taught/10.png more/good.png
teach() { l3a teach "$@" --quiet; }
# Whether two models score the same pictures alike, to four digits.
same_tags() {
    l3a tag "$1" taught mixed --top 9 --format csv --quiet >tags1 && l3a tag "$2" taught mixed --top 9 --format csv --quiet >tags2 && diff tags1 tags2
}
lessons() { l3a history "$1" --format json | /usr/bin/python3 -c 'import json, sys; print(len(json.load(sys.stdin)["lessons"]))'; }

# ---- The first lesson makes the model ----
expect 2 'there is no such model yet, and a new one needs a backbone' teach pets.l3a photos/stripes --tags stripes
expect 2 'say what the pictures show' teach pets.l3a photos/stripes
expect 2 'name a model file and at least one picture' teach pets.l3a
check 'nothing was made' test ! -e pets.l3a
expect 0 '' teach pets.l3a 'photos/discs, red' --tags disc --backbone backbone.safetensors --dim 64 --precision double
shows 'taught 10 pictures; new tag: disc' 'made pets.l3a' 'It remembers its backbone, backbone.safetensors' \
    'Every picture so far shows disc, so the model cannot tell it from anything else yet' 'pets.l3a.history' 'Only you can read it'
check 'the history is private' test "$(stat -c %a pets.l3a.history)" = 600
check 'the model is small' test "$(stat -c %s pets.l3a)" -lt 500000
check 'the model has no path of a picture' test -z "$(grep -l photos pets.l3a)"
cp pets.l3a first.l3a
expect 0 '' teach pets.l3a photos/stripes --tags stripes
shows 'taught 10 pictures; new tag: stripes' "too few pictures to tell"
check 'a model tags without being told its backbone' l3a tag pets.l3a mixed
expect 0 '' l3a undo pets.l3a
shows 'undone: lesson 2, 10 pictures' 'pets.l3a: 1 tag'
check 'undo after teach changes nothing' same_tags pets.l3a first.l3a
expect 0 '' l3a undo pets.l3a
shows 'undone: lesson 1' 'pets.l3a: 0 tags; nothing is left to undo'
check 'nothing of the pictures is left' test ! -e pets.l3a.history
expect 2 'there is nothing to undo' l3a undo pets.l3a
expect 0 '' l3a history pets.l3a
shows 'no history'
expect 0 '' teach pets.l3a photos/stripes --tags stripes
check 'and it can be taught again' test "$(lessons pets.l3a)" -eq 1

# ---- Many tags at once: folders and lists ----
expect 0 '' teach tags.l3a 'folders:by tag' --backbone backbone.safetensors --dim 64 --precision double
shows 'taught 20 pictures; new tags: Streifen ü, disc' ' %' 'if half of them show none of your tags'
expect 0 '' teach list.l3a --list list.csv --backbone backbone.safetensors --dim 64 --precision double --format json
/usr/bin/python3 - >said 2>&1 <<'END' && pass || fail 'JSON of teach' said "$work/stdout"
import json
data = json.load(open("stdout"))
assert data["taught"] == 70 and data["new_tags"] == 2 and data["exact"] is True and data["skipped"] == []
assert [tag["pictures"] for tag in data["tags"]] == [40, 40] and all(tag["recall"] > 80 for tag in data["tags"]), data
END
expect 2 'if a folder has one folder of pictures for each tag, use folders:DIR' teach tags.l3a 'by tag'

# ---- The order of lessons does not matter ----
for tag in a b; do cp first.l3a $tag.l3a; done
expect 0 '' teach a.l3a photos/stripes --tags stripes --only
expect 0 '' teach a.l3a taught/1?.png --tags stripes --only
expect 0 '' teach b.l3a taught/1?.png --tags stripes --only
expect 0 '' teach b.l3a photos/stripes --tags stripes --only
check 'any order' same_tags a.l3a b.l3a

ls taught/2?.png | expect 0 '' teach tags.l3a - --tags disc
shows 'taught 10 pictures'
expect 0 '' l3a undo tags.l3a

# ---- Tags, corrected and taught ----
expect 0 '' l3a tag tags.l3a mixed/z.jpg taught/40.png -o tagged.csv --quiet
expect 0 '' teach tags.l3a --list tagged.csv
shows 'taught 2 pictures'
expect 0 '' l3a undo tags.l3a

# ---- What cannot be read ----
expect 2 'broken.png' teach tags.l3a more --tags disc
shows 'taught 1 picture'
expect 0 '' l3a undo tags.l3a
cp tags.l3a before
expect 2 'broken.png' teach tags.l3a more --tags disc --strict
check 'strict: nothing is taught' cmp tags.l3a before
expect 2 'there are no pictures to teach' teach tags.l3a list.csv --tags disc
expect 2 '' teach tags.l3a more/broken.png --tags disc
expect 2 'cannot open' teach tags.l3a no-such.png --tags disc

# ---- The same picture again ----
expect 0 'skipped: 10 pictures that were taught before in the same way' teach tags.l3a photos/stripes --tags 'Streifen ü'
shows 'nothing new was taught'
check 'and nothing is written' cmp tags.l3a before
expect 2 'taught this picture with the tags disc' teach tags.l3a 'photos/discs, red/00.png' --tags 'Streifen ü'
grep -qF -- '--instead' "$work/stderr" && pass || fail 'the hint names --instead' "$work/stderr"
expect 0 '' teach tags.l3a 'photos/discs, red/00.png' --tags 'Streifen ü' --instead
expect 0 '' l3a history tags.l3a --files
shows 'Streifen ü 1; replaced the old tags' "$work/photos/discs, red/00.png: Streifen ü" 'can take everything back'
expect 0 '' l3a undo tags.l3a
shows 'the old tags are back'
check 'the correction is undone' same_tags tags.l3a before

# ---- Names ----
expect 0 "'DISC' is new, although there is 'disc'; did you mean that?" l3a teach tags.l3a more/good.png --tags DISC
expect 0 '' l3a rename tags.l3a DISC disc
shows "'DISC' is now part of 'disc'; 2 tags"
expect 0 '' l3a history tags.l3a
shows "'DISC' merged into 'disc'"
expect 0 '' l3a undo tags.l3a
shows "undone: lesson 3, 'DISC' merged into 'disc'" '3 tags'
expect 0 '' l3a undo tags.l3a
check 'merging is undone' same_tags tags.l3a before
expect 0 '' l3a rename tags.l3a 'Streifen ü' stripes
shows "'Streifen ü' is now 'stripes'; 2 tags"
check 'tags have the new name' grep -q stripes <(l3a tag tags.l3a mixed)
expect 0 '' l3a undo tags.l3a
check 'renaming is undone' same_tags tags.l3a before
expect 2 "did you mean 'disc'?" l3a rename tags.l3a dsic x
expect 2 "contains ';'" l3a rename tags.l3a disc 'a;b'
expect 2 'name a model file, a tag, and its new name' l3a rename tags.l3a disc
expect 2 'listed both as shown and as not shown' teach tags.l3a more/good.png --tags disc --not disc
expect 2 "did you mean 'disc'?" teach tags.l3a more/good.png --not dics
expect 2 '--only and --judged' teach tags.l3a more/good.png --tags disc --only --judged disc
expect 2 '--was has no effect without --instead' teach tags.l3a more/good.png --tags disc --was stripes

# ---- Another width ----
cp tags.l3a narrow.l3a
cp tags.l3a.history narrow.l3a.history
expect 0 'learned again from the history, 32 wide instead of 64' l3a teach narrow.l3a more/good.png --tags disc --dim 32
shows 'taught 1 picture'
expect 0 '' l3a undo narrow.l3a
expect 0 '' teach direct.l3a 'folders:by tag' --backbone backbone.safetensors --dim 32 --precision double
check 'as if it had been so from the start' same_tags narrow.l3a direct.l3a
cp direct.l3a again.l3a
cp direct.l3a.history again.l3a.history
expect 0 '' l3a teach again.l3a 'folders:by tag' --dim 16
shows 'nothing new was taught; again.l3a has dim 16'
rm tags.l3a.history
expect 2 'another width needs every picture again' teach tags.l3a more/good.png --tags disc --dim 32
expect 2 'the model was made with --seed 2025, which cannot be changed to 7' teach tags.l3a more/good.png --tags disc --seed 7
expect 2 '--pool is for a new model' teach tags.l3a more/good.png --tags disc --pool mean

# ---- Views ----
expect 2 "--views: '3' is not one of 1|5|9|14" teach views.l3a 'folders:by tag' --backbone backbone.safetensors --views 3
check 'nothing was made' test ! -e views.l3a
expect 0 '' teach views.l3a 'folders:by tag' --backbone backbone.safetensors --dim 64 --precision double --views 5
shows 'taught 20 pictures; new tags: Streifen ü, disc' '100 %'
check 'six times the features are kept' test "$(stat -c %s views.l3a.history)" -gt "$((4 * $(stat -c %s direct.l3a.history)))"
cp views.l3a before
cp views.l3a.history before.history
expect 0 '' teach views.l3a taught/2?.png --tags ring
shows 'taught 10 pictures; new tag: ring'
check 'a lesson changes something' bash -c '! cmp -s views.l3a before'
expect 0 '' l3a undo views.l3a
shows 'undone: lesson 2, 10 pictures'
check 'a lesson with views is undone' same_tags views.l3a before
expect 0 '' teach views.l3a 'photos/discs, red/00.png' --tags 'Streifen ü' --instead
expect 0 '' l3a history views.l3a
shows 'Streifen ü 1; replaced the old tags' 'can take everything back'
expect 0 '' l3a undo views.l3a
check 'a correction with views is undone' same_tags views.l3a before
expect 0 '' teach views.l3a taught/6?.png --tags disc,ring
expect 0 '' l3a rename views.l3a ring disc
expect 0 '' l3a undo views.l3a
expect 0 '' l3a undo views.l3a
check 'merging with views is undone' same_tags views.l3a before
expect 0 '' teach views.l3a more/good.png --tags disc --views 5
expect 0 '' l3a undo views.l3a
expect 2 'the model was made with --views 5, which cannot be changed to 14' teach views.l3a more/good.png --tags disc --views 14
expect 2 'the model was made with --views 1, which cannot be changed to 5' teach direct.l3a more/good.png --tags disc --views 5
expect 0 'learned again from the history, 32 wide instead of 64' l3a teach views.l3a more/good.png --tags disc --dim 32
expect 0 '' l3a undo views.l3a
expect 0 '' teach views32.l3a 'folders:by tag' --backbone backbone.safetensors --dim 32 --precision double --views 5
check 'another width keeps the views' same_tags views.l3a views32.l3a

# ---- Without a history ----
expect 2 'there is no history of what was taught before' l3a undo tags.l3a
expect 2 'the history does not say how this picture was taught' teach tags.l3a 'photos/discs, red/00.png' --tags 'Streifen ü' --instead
grep -qF -- '--was' "$work/stderr" && pass || fail 'the hint names --was' "$work/stderr"
expect 0 '' teach tags.l3a 'photos/discs, red/00.png' --tags 'Streifen ü' --instead --was disc
expect 0 '' teach fixed.l3a 'folders:by tag' --backbone backbone.safetensors --dim 64 --precision double
expect 0 '' teach fixed.l3a 'photos/discs, red/00.png' --tags 'Streifen ü' --instead
check '--was does what the history would' same_tags tags.l3a fixed.l3a
expect 0 '' teach secret.l3a 'folders:by tag' --backbone backbone.safetensors --dim 64 --precision double --no-undo
shows 'Nothing was kept of the pictures'
check 'no history is written' test ! -e secret.l3a.history
expect 0 '' teach fixed.l3a more/good.png --tags disc --no-undo
expect 2 'cannot be undone, because it was taught without a history' l3a undo fixed.l3a
expect 0 '' l3a history fixed.l3a
shows 'not kept, cannot be undone' 'can take back 0 lessons'

# ---- Changed by another command, moved, damaged ----
cp direct.l3a other.l3a
cp direct.l3a.history other.l3a.history
expect 0 '' l3a forget other.l3a --classes disc
expect 2 'another command has changed the model since' l3a undo other.l3a
expect 0 '' teach other.l3a more/good.png --tags disc
shows 'What was taught before cannot be undone: another command has changed the model since'
expect 0 '' l3a undo other.l3a
mkdir moved
mv direct.l3a direct.l3a.history moved
expect 0 '' l3a tag moved/direct.l3a mixed
mv backbone.safetensors 'new name'
expect 2 'cannot find the model' teach moved/direct.l3a more/good.png --tags disc
expect 0 '' teach moved/direct.l3a more/good.png --tags disc --backbone 'new name'
check 'it remembers where the backbone is now' l3a tag moved/direct.l3a mixed
mv 'new name' backbone.safetensors
expect 0 '' teach moved/direct.l3a taught/13.png --tags disc --backbone backbone.safetensors
printf 'x' | dd of=moved/direct.l3a.history bs=1 seek=3000 conv=notrunc status=none
expect 2 'the history is damaged at byte' l3a undo moved/direct.l3a
expect 2 'the history is damaged at byte' teach moved/direct.l3a photos/stripes/30.png --tags disc
mv moved/direct.l3a.history away
expect 0 '' teach moved/direct.l3a taught/11.png --tags disc
expect 2 '' l3a undo no-such.l3a
expect 2 'name one model file' l3a undo a b
expect 2 'name one model file' l3a history
expect 2 'is not one of' l3a history fixed.l3a --format xml
ln -s fixed.l3a link.l3a
expect 0 '' teach link.l3a taught/12.png --tags disc
check 'a link shares the history of its target' test ! -e link.l3a.history

# ---- A full disk ----
expect 0 '' teach disk.l3a photos/stripes --tags stripes --backbone backbone.safetensors --dim 64 --precision double
cp disk.l3a disk.l3a.history more
for blocks in 1 8 16 64; do
    (ulimit -f $blocks; teach disk.l3a 'photos/discs, red' --tags disc) >"$work/stdout" 2>"$work/stderr"
    [ $? -eq 1 ] && pass || fail "a limit of $blocks KiB" "$work/stderr"
    check 'the model stays' cmp disk.l3a more/disk.l3a
    check 'the history is still its own' test "$(lessons disk.l3a)" -eq 1
done
expect 0 '' teach disk.l3a 'photos/discs, red' --tags disc
check 'and goes on' test "$(lessons disk.l3a)" -eq 2
no_leftovers "$work"

# ---- Real pictures and a real network ----
voc=${L3A_SHARED:-}/data/voc2007-small/VOCdevkit/VOC2007 vit=${L3A_SHARED:-}/backbones/vit_tiny_patch16_224.safetensors
if [ -d "$voc" ] && [ -f "$vit" ]; then
    # pictures NAME FIRST COUNT: to the folder of that name
    pictures() {
        mkdir -p "$4/$1"
        awk '$2 == 1 { print $1 }' "$voc/ImageSets/Main/$1_trainval.txt" | tail -n "+$2" | head -n "$3" |
            while read -r id; do cp "$voc/JPEGImages/$id.jpg" "$4/$1/"; done
    }
    for class in aeroplane cat bus; do
        pictures $class 1 8 'echte Fotos'
        pictures $class 20 6 unseen
    done
    expect 0 '' teach voc.l3a 'folders:echte Fotos' --backbone "$vit"
    shows 'taught 24 pictures; new tags: aeroplane, bus, cat'
    expect 0 '' l3a tag voc.l3a unseen --format csv
    check 'most pictures not seen before get their tag' test "$(grep -cE '^unseen/([a-z]+)/[0-9]*.jpg,\1,' stdout)" -ge 13
    check 'a wrong tag is rare' test "$(grep -vE '^unseen/([a-z]+)/[0-9]*.jpg,(\1)?,' stdout | wc -l)" -le 4
else
    echo 'skipped: real pictures (no VOC pictures in ../shared)'
fi
finish
