# The example programs: on drawn pictures with the demo's backbone, and on photographs with ViT-Tiny where they are there.
source "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
tag=$L3A_BUILD/examples/tag teach=$L3A_BUILD/examples/teach threads=$L3A_BUILD/examples/threads learn_and_tag=$L3A_BUILD/examples/learn_and_tag

# list FOLDER CLASS...: a list of the pictures of a VOC folder that show one of the classes
list() {
    local devkit=$1/VOC2007 class
    shift
    echo path,labels
    for class in "$@"; do
        awk -v class="$class" '$2 == 1 { print $1, class }' "$devkit/ImageSets/Main/${class}_trainval.txt"
    done | awk -v folder="$devkit/JPEGImages" '{ labels[$1] = labels[$1] ";" $2 }
        END { for (name in labels) print folder "/" name ".jpg," substr(labels[name], 2) }' | sort
}

# the tags of `l3a predict`, as the example prints them
as_predicted() {
    l3a predict "$@" | sed 's/\.jpg  */.jpg: /; s/, / /g; s/: -$/:/'
}

# try MODEL BACKBONE PICTURE...: one at a time, and the same as the command
try() {
    local model=$1 backbone=$2
    shift 2
    expect 0 '' "$tag" "$model" "$backbone" "$@"
    as_predicted "$model" --backbone "$backbone" "$@" >expected
    check 'the example and the command say the same' cmp expected "$work/stdout"
    check 'there are tags' grep -qE '\.jpg: [a-z]' "$work/stdout"
}

# learns BACKBONE PICTURE: learns list.csv, and tags
learns() {
    rm -f model model.features
    expect 0 '' "$learn_and_tag" list:list.csv "$1" model "$2"
    check 'every class has a line' test "$(wc -l <"$work/stdout")" -eq "$(cut -d, -f2 list.csv | tail -n +2 | tr ';' '\n' | sort -u | wc -l)"
    grep -F '*' "$work/stdout" | cut -d' ' -f1,2 | xargs >tagged
    as_predicted model --backbone "$1" "$2" | cut -d' ' -f2- >expected
    check 'the model that it saved says the same' cmp expected tagged
}

check 'a demo' l3a demo --pictures 400 -o demo --quiet
pictures=demo/pictures/VOC2007/JPEGImages
try demo/tagger.safetensors demo/backbone.safetensors $pictures/00001?.jpg
list demo/pictures apple bricks kite star >list.csv
learns demo/backbone.safetensors $pictures/000001.jpg
head -c 500 $pictures/000001.jpg >cut.jpg
expect 1 'cut.jpg' "$tag" demo/tagger.safetensors demo/backbone.safetensors cut.jpg $pictures/000002.jpg
shows 000002.jpg
expect 1 'nowhere' "$tag" model nowhere $pictures/000001.jpg
expect 2 'usage' "$tag"

# two lessons of the example, and the same of the command
for folder in disc kite; do
    mkdir $folder
done
cp $pictures/00001?.jpg disc
cp $pictures/00002?.jpg kite
expect 0 '' "$teach" example.l3a demo/backbone.safetensors disc disc/*.jpg
shows 'taught 10, new tags: 1'
expect 1 'left out: cut.jpg' "$teach" example.l3a demo/backbone.safetensors kite kite/*.jpg cut.jpg
shows 'taught 10, new tags: 1'
expect 0 'was taught before' "$teach" example.l3a demo/backbone.safetensors kite kite/000020.jpg
l3a teach command.l3a disc --tags disc --backbone demo/backbone.safetensors --quiet >"$work/made"
l3a teach command.l3a kite --tags kite --quiet >"$work/made"
check 'the example and the command teach the same' cmp <(l3a tag example.l3a $pictures/00003?.jpg --top 2) <(l3a tag command.l3a $pictures/00003?.jpg --top 2)
check 'both have two lessons' test "$(l3a history example.l3a | grep -c '10  ')" -eq 2
expect 0 '' l3a undo example.l3a

# from memory, eight pictures a lesson, with readers at work
expect 0 'taught 10 pictures' "$threads" threads.l3a demo/backbone.safetensors disc disc/*.jpg
expect 0 'taught 10 pictures' "$threads" threads.l3a demo/backbone.safetensors kite kite/*.jpg
check 'each picture is tagged' test "$(grep -c '^kite/.*: kite' "$work/stdout")" -eq 10
# names MODEL: the tags in the order of their scores, which differ a little: the search for a solution goes on where the last one ended
names() {
    l3a tag "$1" $pictures/00003?.jpg --top 2 --format csv | cut -d, -f1,2
}
check 'pictures in memory teach the same' cmp <(names threads.l3a) <(names command.l3a)
expect 1 'cut.jpg' "$threads" threads.l3a demo/backbone.safetensors disc cut.jpg
expect 1 'nowhere' "$threads" threads.l3a demo/backbone.safetensors disc nowhere
expect 2 'usage' "$threads"
expect 1 'nowhere' "$teach" example.l3a nowhere disc disc/000010.jpg
expect 2 'usage' "$teach"
expect 2 'usage' "$learn_and_tag"

backbone=$L3A_SHARED/backbones/vit_tiny_patch16_224.safetensors devkit=$L3A_SHARED/data/voc2007-small/VOCdevkit
if [ ! -f "$backbone" ] || [ ! -d "$devkit" ]; then
    echo "skipped: photographs: $backbone or $devkit is not there"
elif [ -n "${L3A_SANITIZE:-}" ]; then
    echo 'skipped: photographs: too slow under sanitizers'
else
    list "$devkit" cat car dog | awk 'NR == 1 || NR % 16 == 0' >list.csv
    learns "$backbone" "$(sed -n 5p list.csv | cut -d, -f1)"
    try model "$backbone" $(sed -n 6,12p list.csv | cut -d, -f1)
fi
finish
