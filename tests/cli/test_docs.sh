#!/bin/bash
# What the documentation says to type: its links lead somewhere, and its commands work. A block that begins with ```sh or ```python is
# run, in the order it stands in, unless the line above it says that it is not.
. "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
export PATH=$L3A_BUILD:$PATH

# extract_blocks FILE: as a script of bash
extract_blocks() {
    awk '/^```(sh|python)$/ && before !~ /not run/ { inside = $0 == "```sh" ? 1 : 2; if (inside == 2) print "/usr/bin/python3 - <<\"PYTHON\""; next }
         /^```$/ && inside { if (inside == 2) print "PYTHON"; inside = 0; next }
         inside { print }
         { before = $0 }' "$1"
}

works_as_written() {
    extract_blocks "$L3A_SOURCE/docs/$1" >"$work/script.sh"
    [ -s "$work/script.sh" ] && bash -e -o pipefail "$work/script.sh"
}

leads_somewhere() {
    local link good=0
    for link in $(grep -oE '\]\([^)# ]+' "$L3A_SOURCE/$1" | cut -c3- | grep -v '^https:'); do
        [ -e "$(dirname "$L3A_SOURCE/$1")/$link" ] || { echo "$1: $link is not there" && good=1; }
    done
    return $good
}

for page in README.md CONTRIBUTING.md $(cd "$L3A_SOURCE" && ls docs/*.md); do
    check "links of $page" leads_somewhere "$page"
done
check 'getting started' works_as_written getting-started.md
check 'your own features' works_as_written your-own-features.md

# Forty pictures of VOC 2007 stand for one's own: twenty with cats and dogs, twenty with horses and sheep, and four to be tagged.
devkit=$L3A_SHARED/data/voc2007-small/VOCdevkit/VOC2007 backbone=$L3A_SHARED/backbones/vit_tiny_patch16_224.safetensors
if [ -d "$devkit" ] && [ -f "$backbone" ] && [ -z "${L3A_SANITIZE:-}" ]; then
    ln -s "$backbone" backbone.safetensors
    /usr/bin/python3 - "$devkit" <<'P'
import os, re, shutil, sys
devkit, known = sys.argv[1], {"cat", "dog", "horse", "sheep"}


def pictures(split):
    """Each picture with those of the four it shows."""
    for picture in open(f"{devkit}/ImageSets/Main/{split}.txt").read().split():
        objects = re.findall(r"<object>(.*?)</object>", open(f"{devkit}/Annotations/{picture}.xml").read(), re.S)
        yield f"{devkit}/JPEGImages/{picture}.jpg", {re.search(r"<name>(.*?)</name>", o).group(1) for o in objects} & known


os.makedirs("photos"), os.makedirs("new")
alone = {label: [] for label in sorted(known)}
for path, shown in pictures("trainval"):
    if len(shown) == 1:
        alone[min(shown)].append(path)
count = 0
for name, pair in (("photos.csv", ("cat", "dog")), ("more.csv", ("horse", "sheep"))):
    with open(name, "w") as table:
        table.write("path,labels\n")
        for label, path in [(label, path) for label in pair for path in alone[label][:10]]:
            count += 1
            shutil.copy(path, f"photos/{count:02}.jpg")
            table.write(f"photos/{count:02}.jpg,{label}\n")
for label in known:
    shutil.copy([path for path, shown in pictures("test") if shown == {label}][1], f"new/{label}.jpg")
P
    mkdir first && cp -r photos new photos.csv more.csv first
    check 'your own pictures' works_as_written your-own-pictures.md
    for label in cat dog horse sheep; do
        check "new/$label.jpg gets its tag" grep -qE "^new/$label.jpg +$label " tags.txt
    done
    # The same pictures in a folder of their own, where nothing was taught yet.
    mkdir library && cd library && ln -s "$backbone" backbone.safetensors && cp -r ../first/* . || fail 'the pictures of library.md'
    check 'a library' works_as_written library.md
    check 'what was found is copied' test "$(ls horses | wc -l)" -eq 11
    check 'a list to teach from' grep -q 'photos/3[0-9].jpg,,sheep,' sheep.csv
    mkdir ../training && cd ../training && ln -s "$backbone" backbone.safetensors && cp -r ../first/* . || fail 'the pictures of training.md'
    if l3a train --backbone backbone.safetensors --data list:photos.csv --train head --epochs 1 -o probe.safetensors 2>&1 | grep -q 'trained on BLAS'; then
        echo 'skipped: the commands of training.md (this build has no oneDNN)'
    else
        check 'training' works_as_written training.md
    fi
else
    echo "skipped: the commands of your-own-pictures.md, library.md and training.md need VOC 2007 and the ViT-Tiny, and a build without sanitizers"
fi
finish
