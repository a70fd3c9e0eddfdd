#!/bin/bash
# Unlabelled pictures of a library, as people would use them: teach, look, correct, undo, pack, merge.
source "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work" || exit 1
demo=$L3A_SOURCE/models/demo_backbone.safetensors
/usr/bin/python3 "$here/make_pictures.py" . || { echo 'skipped: no pictures (python3-pil is not installed)'; exit 77; }
mkdir -p photos/disc photos/stripes 'my library/of, 2024' empty texts broken unreadable
cp taught/0[0-4].png photos/disc
cp taught/3[0-4].png photos/stripes
cp taught/0[5-9].png taught/1[01].png 'my library'
cp taught/3[5-9].png taught/4[01].png 'my library/of, 2024'
cp "$demo" backbone.safetensors
echo 'a text' >texts/text.txt
head -c 300 taught/00.png >unreadable/broken.png
cp unreadable/broken.png taught/1[0-3].png broken
settings=(--backbone backbone.safetensors --dim 64 --precision double)
library='my library'
teach() { l3a teach "$@" --quiet; }
copy() { cp "$1" "$2" && cp "$1.history" "$2.history"; }
check 'features to score' l3a extract --backbone backbone.safetensors --data list:list.csv --orient -o asked.features --quiet
scores() { l3a predict "$1" --features asked.features --top 9 --format csv --quiet; }
tags() { l3a predict "$1" --features asked.features --format csv --quiet; } # with the scores
# Whether two models score the same pictures alike, to four digits, and give them the same tags.
same_tags() { (scores "$1" && tags "$1") >tags1 && (scores "$2" && tags "$2") >tags2 && diff tags1 tags2; }
# close_scores A B MOST: whether no score differs by more.
close_scores() {
    scores "$1" >tags1 && scores "$2" >tags2 && /usr/bin/python3 - "$3" <<'END'
import csv, sys
one, two = ({(row["id"], row["class"]): float(row["score"]) for row in csv.DictReader(open(path))} for path in ("tags1", "tags2"))
assert one.keys() == two.keys() and len(one) == 140
most = max(abs(one[at] - two[at]) for at in one)
print("the largest difference is", most)
sys.exit(most > float(sys.argv[1]))
END
}
differ() { ! same_tags "$@"; }
# says WHAT EXPRESSION: of `data`, the JSON that the last command printed
says() {
    /usr/bin/python3 -c "import json; data = json.load(open('$work/stdout')); assert $2, data" >said 2>&1 && pass || fail "$1" said
}
# acting MODEL COUNT FROM: what info and history say
acting() {
    expect 0 '' l3a info "$1" --format json
    says "$1: info" "data['unlabelled']['images'] == $2 and data['unlabelled']['drawn_from'] == $3 and data['unlabelled']['weight'] > 0"
    expect 0 '' l3a info "$1"
    shows "$2 of $3 unlabelled images act, each with a weight of "
    expect 0 '' l3a history "$1" --format json
    says "$1: history" "data['unlabelled'] == $2"
    expect 0 '' l3a history "$1"
    shows "$2 of $3 unlabelled pictures act."
}

# ---- In one command ----
expect 0 '' teach plain.l3a folders:photos "${settings[@]}"
expect 0 '' teach pets.l3a folders:photos "${settings[@]}" --unlabelled "$library"
shows '14 of 14 unlabelled pictures act' 'taught 10 pictures; new tags: disc, stripes' 'made pets.l3a' 'tagged  before' \
    'Expect this in the library: on average' 'among 14 of the library' 'l3a tag pets.l3a FOLDER --sort uncertain'
check 'they act' differ pets.l3a plain.l3a
acting pets.l3a 14 14
expect 0 '' l3a info plain.l3a --format json
says 'none in info' "'unlabelled' not in data"
expect 0 '' l3a history plain.l3a
check 'none in the history' test "$(grep -c unlabelled "$work/stdout")" -eq 0
check 'the model has no path of a picture' test -z "$(grep -l 'my library' pets.l3a)"
expect 0 '' teach json.l3a folders:photos "${settings[@]}" --unlabelled "$library" --format json
says 'JSON of teach' "(data['taught'], data['unlabelled'], data['library'], data['background']) == (10, 14, 14, None)"
says 'JSON of the tags' "[(tag['tag'], tag['tagged_before'], 0 < tag['tagged'] < 14) for tag in data['tags']] == [('disc', 0, True), ('stripes', 0, True)]"

# ---- In any order ----
copy plain.l3a later.l3a
expect 0 '' teach later.l3a --unlabelled "$library"
shows '14 of 14 unlabelled pictures act' 'Expect this in the library'
check 'it does not say that nothing changed' test "$(grep -c 'as it was\|nothing new' "$work/stdout")" -eq 0
expect 0 '' teach later.l3a --unlabelled "$library" --format json
says 'JSON without a lesson' "(data['taught'], data['exact'], data['unlabelled'], data['skipped']) == (0, True, 14, [])"
check 'after the lessons' same_tags later.l3a pets.l3a
expect 0 '' teach first.l3a --unlabelled "$library" "${settings[@]}"
shows '14 of 14 unlabelled pictures act' 'made first.l3a'
check 'no table without tags' test "$(grep -c precision "$work/stdout")" -eq 0
expect 0 '' l3a history first.l3a
shows 'no history' '14 of 14 unlabelled pictures act.'
expect 0 '' l3a info first.l3a
shows '14 of 14 unlabelled images act'
expect 0 '' teach first.l3a folders:photos
shows '14 of 14 unlabelled pictures act' 'To see what to expect in the library, name it again: l3a teach first.l3a --unlabelled FOLDER'
check 'before the lessons' same_tags first.l3a pets.l3a
expect 0 '' teach mixed1.l3a folders:photos "${settings[@]:0:4}" --unlabelled "$library"
expect 0 '' teach mixed2.l3a folders:photos "${settings[@]:0:4}"
expect 0 '' teach mixed2.l3a --unlabelled "$library"
check 'in mixed precision' close_scores mixed1.l3a mixed2.l3a 1e-3
expect 0 'taught before in the same way' teach later.l3a folders:photos --unlabelled "$library"
shows '14 of 14 unlabelled pictures act' 'nothing new was taught'
check 'something was, to the library' test "$(grep -c 'as it was' "$work/stdout")" -eq 0
check 'the same library again' same_tags later.l3a pets.l3a

# ---- A picture that is taught leaves them, and returns ----
copy pets.l3a undone.l3a
expect 0 '' teach undone.l3a taught/10.png "$library/of, 2024/40.png" --tags stripes --only
shows '12 of 14 unlabelled pictures act' 'taught 2 pictures'
acting undone.l3a 12 14
expect 0 '' teach undone.l3a taught/10.png --tags disc --instead
shows '12 of 14 unlabelled pictures act'
expect 0 '' teach undone.l3a taught/61.png --tags disc
shows '12 of 14 unlabelled pictures act'
copy undone.l3a again.l3a
expect 0 '' teach again.l3a --unlabelled "$library"
shows '12 of 14 unlabelled pictures act'
check 'pictures that were taught do not act' same_tags again.l3a undone.l3a
for expected in 12 12 14; do
    expect 0 '' l3a undo undone.l3a
    acting undone.l3a $expected 14
done
check 'as if nothing had been taught' same_tags undone.l3a pets.l3a
check 'pictures are tagged as before' diff <(l3a tag pets.l3a mixed --top 2) <(l3a tag undone.l3a mixed --top 2)
expect 0 '' teach undone.l3a taught/06.png --tags disc --no-undo
shows '13 of 14 unlabelled pictures act'
expect 0 '' teach small.l3a folders:photos "${settings[@]}" --unlabelled taught/10.png
shows '1 of 1 unlabelled picture acts'
expect 0 '' l3a history small.l3a
shows '1 of 1 unlabelled picture acts.'
expect 0 '' l3a info small.l3a
shows '1 of 1 unlabelled image acts, each'
expect 0 '' teach small.l3a taught/10.png --tags disc
check 'the last one leaves' test "$(grep -c 'unlabelled pict' "$work/stdout")" -eq 0
expect 0 '' teach plain10.l3a folders:photos "${settings[@]}"
expect 0 '' teach plain10.l3a taught/10.png --tags disc
check 'and nothing of it is left' same_tags small.l3a plain10.l3a
expect 0 '' l3a undo small.l3a
expect 0 '' l3a history small.l3a
shows '1 of 1 unlabelled picture acts.'

# ---- Without them ----
copy pets.l3a none.l3a
expect 0 '' teach none.l3a --no-unlabelled
shows 'no unlabelled pictures act any more'
check 'it does not say that nothing changed' test "$(grep -c 'as it was\|nothing new' "$work/stdout")" -eq 0
check 'as if there had never been any' same_tags none.l3a plain.l3a
expect 0 '' l3a info none.l3a
check 'info names none' test "$(grep -c unlabelled "$work/stdout")" -eq 0
expect 0 '' teach none.l3a --no-unlabelled
expect 0 '' teach none.l3a taught/10.png --tags disc --no-unlabelled
shows 'no unlabelled pictures act any more' 'taught 1 picture' '--unlabelled FOLDER'
check 'a lesson at the same time' same_tags none.l3a plain10.l3a
expect 0 '' teach one.l3a photos/disc --tags disc "${settings[@]}" --unlabelled "$library"
shows 'Expect this in the library'
expect 0 '' teach one.l3a taught/61.png --tags disc
shows 'one must be known not to show it' 'name it again'
check 'it can tell a single tag from the rest' test "$(grep -c 'cannot tell' "$work/stdout")" -eq 0

# ---- Features ----
{ echo path,labels; find "$library" -name '*.png' | sort | sed 's/.*/"&",any/'; } >library.csv # a data set has labels
extract() { l3a extract --backbone "${3:-backbone.safetensors}" --data "list:$1" -o "$2" --quiet "${@:4}"; }
check 'features' extract library.csv library.features '' --orient
check 'features without orientation' extract library.csv stored.features
check 'features of several views' extract library.csv views.features '' --orient --views 5 --float32
copy plain.l3a features.l3a
expect 0 '' teach features.l3a --unlabelled library.features
shows '14 of 14 unlabelled pictures act' 'Expect this in the library' 'among 14 of the library'
check 'features and pictures are the same' same_tags features.l3a pets.l3a
copy plain.l3a views.l3a
expect 0 '' teach views.l3a --unlabelled views.features
shows '14 of 14 unlabelled pictures act'
check 'only whole pictures count' close_scores views.l3a pets.l3a 1e-3
tar cf library.tar "$library"
copy plain.l3a tar.l3a
expect 0 '' teach tar.l3a --unlabelled tar:library.tar
shows '14 of 14 unlabelled pictures act'
check 'pictures in a tar file, too' close_scores tar.l3a pets.l3a 1e-3

# ---- What does not work leaves the model as it was ----
/usr/bin/python3 - <<'END'
import json, struct
content = open("backbone.safetensors", "rb").read()
length = struct.unpack("<Q", content[:8])[0]
first = min(tensor["data_offsets"][0] for name, tensor in json.loads(content[8:8 + length]).items()
            if name != "__metadata__" and tensor["shape"])
numbers = bytearray(content)
numbers[8 + length + first] ^= 1
open("other.safetensors", "wb").write(numbers)
END
check 'features of another backbone' extract library.csv other.features other.safetensors --orient
copy pets.l3a before.l3a
refused() { # refused TEXT ARGUMENTS...: exit 2, and nothing changes
    expect 2 "$1" teach pets.l3a "${@:2}"
    check "the model stays: ${*:2}" cmp pets.l3a before.l3a
    check "the history stays: ${*:2}" cmp pets.l3a.history before.l3a.history
}
refused 'there are no pictures in empty' --unlabelled empty
refused 'there are no pictures in texts' --unlabelled texts
refused 'skipped: nowhere: cannot open: No such file or directory' --unlabelled nowhere
refused 'there are no pictures in nowhere' taught/10.png --tags disc --unlabelled nowhere
refused 'skipped: texts/text.txt: this is a text, not a picture' --unlabelled texts/text.txt
refused 'there are no pictures in before.l3a' --unlabelled before.l3a
refused 'none of the unlabelled pictures can be read' --unlabelled unreadable
expect 2 '--unlabelled needs a value' l3a teach pets.l3a --unlabelled
refused '--unlabelled and --no-unlabelled cannot be used together' --unlabelled "$library" --no-unlabelled
for option in '--tags disc' '--not disc' '--judged disc' --only --instead --no-undo --strict; do
    # shellcheck disable=SC2086
    refused "there are no pictures to teach, and ${option%% *} is about these" --unlabelled "$library" $option
done
refused 'there are no pictures to teach, and --tags is about these' --no-unlabelled --tags disc
refused 'say what the pictures show' taught/10.png --unlabelled "$library"
refused 'taught this picture with the tags disc' taught/00.png --tags stripes --unlabelled broken
refused 'sha256' --unlabelled other.features
refused 'oriented' --unlabelled stored.features
expect 2 'there is no such model yet' teach new.l3a --unlabelled "$library"
expect 2 'there are no pictures in empty' teach new.l3a folders:photos "${settings[@]}" --unlabelled empty
check 'nothing was made' test ! -e new.l3a -a ! -e new.l3a.history

# ---- A picture that cannot be read ----
copy plain.l3a rest.l3a
expect 0 'warning: left out: broken/broken.png: ' l3a teach rest.l3a --unlabelled broken
shows '4 of 5 unlabelled pictures act' 'among 4 of the library'
acting rest.l3a 4 5

# ---- Other commands ----
expect 0 '' l3a pack pets.l3a -o packed.l3a
named() { l3a tag "$@" mixed photos --format csv --quiet | sed 's/,[^,]*,$//'; }
check 'a packed model gives the same tags' diff <(named pets.l3a) <(named packed.l3a --backbone backbone.safetensors)
check 'it tags' test "$(named packed.l3a --backbone backbone.safetensors | grep -cE '/(disc|stripes)/.*,(disc|stripes)')" -ge 8
copy pets.l3a renamed.l3a
expect 0 '' l3a rename renamed.l3a stripes bars
acting renamed.l3a 14 14
check 'renaming changes no score' diff <(scores pets.l3a) <(scores renamed.l3a | sed 's/,bars,/,stripes,/')
check 'and there are scores' grep -q ',bars,' <(scores renamed.l3a)
expect 0 '' l3a rename renamed.l3a bars disc
acting renamed.l3a 14 14
expect 0 '' l3a undo renamed.l3a
expect 0 '' l3a undo renamed.l3a
acting renamed.l3a 14 14
check 'names that became one are two again' same_tags renamed.l3a pets.l3a
copy pets.l3a forgotten.l3a
expect 0 '' l3a forget forgotten.l3a --classes stripes
expect 0 '' l3a info forgotten.l3a
shows '14 of 14 unlabelled images act'
expect 0 'the unlabelled pictures no longer act' l3a teach renamed.l3a taught/61.png --tags disc --dim 32
expect 0 '' l3a info renamed.l3a
check 'another width has none' test "$(grep -c unlabelled "$work/stdout")" -eq 0
for part in disc stripes; do
    expect 0 '' teach $part.l3a photos/$part --tags $part "${settings[@]}" --gamma 1000
done
expect 0 '' teach disc.l3a --unlabelled "$library"
expect 0 '' teach stripes.l3a --unlabelled mixed
expect 0 '' l3a merge disc.l3a stripes.l3a -o both.l3a
shows 'The model equals one that learned from all the pictures in one place'
expect 0 '' l3a info both.l3a
shows '19 of 19 unlabelled images act'
cp -r mixed "$library/mixed"
for order in 'disc stripes' 'stripes disc'; do
    rm -f whole.l3a whole.l3a.history
    for part in $order; do
        expect 0 '' teach whole.l3a photos/$part --tags $part --only "${settings[@]}" --gamma 1000
    done
    expect 0 '' teach whole.l3a --unlabelled "$library"
    shows '19 of 19 unlabelled pictures act'
    check "as if taught in one place: $order" close_scores both.l3a whole.l3a 1e-3
done
no_leftovers "$work"
finish
