#!/usr/bin/env bash
# l3a data as a user types it: what it shows of sound sets, and what it says and exits with about broken ones.
. "$(dirname "$0")/support.sh"

picture() { # the smallest valid PNG: one pixel
    mkdir -p "$(dirname "$1")"
    base64 -d >"$1" <<<'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC'
}

# A list with two splits: three pictures to learn from, two to measure on.
cat >"$work/set.csv" <<'END'
path,labels,split
a.png,cat;dog,train
b.png,dog,train
c.png,"cat; dog; zebra",train
d.png,zebra,test
e.png,,test
END
for name in a b c d e; do picture "$work/$name.png"; done

expect 0 '' l3a data "list:$work/set.csv" --protocol B0-C2
shows 'train, 3 pictures, 3 classes' 'labels: 6, 2.00 per picture, at most 3; 0 pictures without any' 'imbalance: dog 3, zebra 1, 3.0 to 1' \
    'cat and dog: 2, 100% of the pictures with cat' 'picture files: 5, 0 missing or empty'
# Phase 1, cat and dog: three pictures to learn, none to measure; phase 2, zebra: one and one.
grep -qE '^ +1 +3 +0 +cat … dog \(2\)$' "$work/stdout" && pass || fail 'phase 1' "$work/stdout"
grep -qE '^ +2 +1 +1 +zebra$' "$work/stdout" && pass || fail 'phase 2' "$work/stdout"

expect 0 '' l3a data "list:$work/set.csv" --split test --format json
check 'the JSON is JSON, and right' /usr/bin/python3 - "$work/stdout" <<'END'
import json, sys
about = json.load(open(sys.argv[1]))
assert about["split"] == "test" and about["test_split"] is None, about
assert about["pictures"] == 2 and about["labels"] == 1 and about["without_labels"] == 1, about
assert [c["pictures"] for c in about["classes"]] == [0, 0, 1], about
assert about["missing"] == {"count": 0, "first": []} and about["imbalance"] == 0, about
END

expect 0 '' l3a data "list:$work/set.csv" --check-pictures
shows '0 unreadable'
echo 'no picture' >"$work/b.png"
expect 0 '' l3a data "list:$work/set.csv"
expect 2 '1 of 5 pictures cannot be decoded' l3a data "list:$work/set.csv" --check-pictures
grep -q 'b.png' "$work/stderr" && pass || fail 'the text file is named' "$work/stderr"
: >"$work/c.png"
rm "$work/d.png"
expect 2 '2 of 5 pictures are missing or empty' l3a data "list:$work/set.csv"
for text in 'c.png: empty' 'd.png: not found'; do
    grep -q "$text" "$work/stderr" && pass || fail "stderr lacks '$text'" "$work/stderr"
done
shows '2 missing or empty'

printf 'cat\ndog\nzebra\n' >"$work/order"
expect 2 'missing or empty' l3a data "list:$work/set.csv" --class-order "$work/order" --protocol B0-C1
printf 'cat\ndog\nzebre\n' >"$work/order"
expect 2 "line 3: no class 'zebre' in the data" l3a data "list:$work/set.csv" --class-order "$work/order"
expect 2 "protocol 'X' is not of the form" l3a data "list:$work/set.csv" --protocol X
expect 2 "no split 'val'; the splits are: test train" l3a data "list:$work/set.csv" --split val
expect 2 "'maybe' is not one of absent|ignore" l3a data "list:$work/set.csv" --difficult maybe
expect 2 'name one data set' l3a data
expect 2 'the forms are voc:FOLDER, coco:FOLDER, list:FILE.csv, folders:FOLDER' l3a data "$work/set.csv"
expect 2 'none.csv: cannot open' l3a data "list:$work/none.csv"
printf 'file,labels\na,b\n' >"$work/bad.csv"
expect 2 "bad.csv: line 1: no column 'path'" l3a data "list:$work/bad.csv"

# CSV as spreadsheets write it, with semicolons or tabs between the columns.
printf '\357\273\277path;labels;split\r\na.png;cat,dog;train\r\n' >"$work/other.csv"
expect 0 '' l3a data "list:$work/other.csv"
shows 'train, 1 picture, 2 classes'
printf '"path";"labels"\n"a.png";"cat;dog"\n' >"$work/other.csv"
expect 0 '' l3a data "list:$work/other.csv"
shows 'all, 1 picture, 2 classes'
printf 'path\tlabels\na.png\tcat\tdog\n' >"$work/other.csv"
expect 0 '' l3a data "list:$work/other.csv"
shows 'all, 1 picture, 2 classes'
printf 'path,labels\na.png,"cat,dog"\n' >"$work/other.csv"
expect 0 "warning: $work/other.csv: labels in quotes are separated by ','" l3a data "list:$work/other.csv"
shows 'all, 1 picture, 2 classes'

# The message says what was found, the hint what is expected.
says() { grep -qF -- "$1" "$work/stderr" && pass || fail "stderr lacks '$1'" "$work/stderr"; }
form="separate the columns by commas (path,labels,split) and the labels of a picture by ';'"
printf 'path,labels,split\na.png;cat;train\n' >"$work/bad.csv"
expect 2 'line 2: 1 fields, but the first line has 3' l3a data "list:$work/bad.csv"
says "$form"
printf 'path,labels,split\na.png,cat,dog,train\n' >"$work/bad.csv"
expect 2 'line 2: 4 fields, but the first line has 3' l3a data "list:$work/bad.csv"
says "separate the labels of a picture by ';'"
printf 'path\na.png\n' >"$work/bad.csv"
expect 2 "line 1: no column 'labels' or 'label'" l3a data "list:$work/bad.csv"

printf 'path;labels;split\na.png;cat;dog;train\n' >"$work/bad.csv"
expect 2 'line 2: 4 fields, but the first line has 3' l3a data "list:$work/bad.csv"
says 'separate the labels of a picture by commas, or put them in quotes'
printf 'path;labels\na.png;c"at\n' >"$work/bad.csv"
expect 2 'bad.csv: line 2, column 8: a quote inside a field that does not begin with one' l3a data "list:$work/bad.csv"
says 'separate fields by semicolons'

# A VOC with an annotation cut in half, then with one for which there is no picture.
voc=$work/devkit/VOC2007
mkdir -p "$voc/ImageSets/Main" "$voc/Annotations"
echo 000001 >"$voc/ImageSets/Main/trainval.txt"
echo 000001 >"$voc/ImageSets/Main/test.txt"
echo '<annotation><object><name>cat</name></obj' >"$voc/Annotations/000001.xml"
expect 2 '000001.xml: line 1' l3a data "voc:$work/devkit"
echo '<annotation><object><name>cat</name><difficult>1</difficult></object></annotation>' >"$voc/Annotations/000001.xml"
expect 2 'JPEGImages/000001.jpg: not found' l3a data "voc:$work/devkit"
shows 'trainval, 1 picture, 1 class' 'labels: 0, 0.00 per picture' '1 picture without any'
expect 2 '' l3a data "voc:$work/devkit" --difficult ignore
shows '1 picture without any; 1 unknown'
expect 2 'cannot list this folder' l3a data "voc:$work/nowhere"
echo '000001 -1' >"$voc/ImageSets/Main/cat_trainval.txt"
expect 2 'warning: ' l3a data "voc:$work/devkit"
grep -q '1 picture-class pairs differ between Annotations and ImageSets/Main' "$work/stderr" && pass || fail 'the lists are compared' "$work/stderr"

# A COCO with a crowd, cut in half, and with a wrong type.
coco=$work/coco
mkdir -p "$coco/annotations"
whole='{"images": [{"id": 5, "file_name": "a.png"}, {"id": 6, "file_name": "b.png"}],
"annotations": [{"image_id": 5, "category_id": 1, "iscrowd": 0}, {"image_id": 6, "category_id": 1, "iscrowd": 1}],
"categories": [{"id": 1, "name": "cat"}]}'
for split in train2014 val2014; do
    echo "$whole" >"$coco/annotations/instances_$split.json"
    for name in a b; do picture "$coco/$split/$name.png"; done
done
expect 0 '' l3a data "coco:$coco" --protocol B0-C1
shows 'train2014, 2 pictures, 1 class' '(2 with crowds)' 'picture files: 4, 0 missing or empty'
grep -qE '^ +1 +2 +1 +cat$' "$work/stdout" && pass || fail 'a crowd is learned from and not measured on' "$work/stdout"
rm "$coco/val2014/b.png"
expect 2 'val2014/b.png: not found' l3a data "coco:$coco"
head -c 120 <<<"$whole" >"$coco/annotations/instances_train2014.json"
expect 2 'instances_train2014.json: line 2, column ' l3a data "coco:$coco"
echo '{"images": [{"id": "five", "file_name": "a.png"}]}' >"$coco/annotations/instances_train2014.json"
expect 2 'instances_train2014.json: line 1, column 20: a number is expected' l3a data "coco:$coco"
expect 2 "no split 'test'; the splits are: train2014 val2014" l3a data "coco:$coco" --split test

finish
