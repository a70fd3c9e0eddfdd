#!/bin/bash
# Tagging pictures and folders: every format, every picture, whatever its name, and sidecars for photo programs.
source "$(dirname "$0")/support.sh"
cd "$work"
l3a=$L3A_BUILD/l3a
demo=$L3A_SOURCE/models/demo_backbone.safetensors
/usr/bin/python3 "$here/make_pictures.py" . || { echo 'skipped: no pictures (python3-pil is not installed)'; exit 77; }
l3a extract --backbone "$demo" --data list:list.csv -o features --quiet >said || fail 'extract' said
learn() { l3a learn "$1" --features "$2" --classes "${3:-stripes,Scheibe & Co}" --dim 256 --method l3a+ --quiet >said || fail 'learn' said; }
learn model features
tag() { l3a tag model "$@" --backbone "$demo"; }
# holds WHAT PROGRAM: Python about the last output, as `data`
holds() {
    /usr/bin/python3 -c "import csv, json
text = open('$work/stdout', newline='').read()
data = json.loads(text) if text.startswith('[') else list(csv.reader(text.splitlines(keepends=True)))
$2" >said 2>&1 && pass || fail "$1" said "$work/stdout"
}
apples='mixed/Überraschung mit Leerzeichen/Äpfel, "gestreift".png'

# Every picture, in every format
expect 0 '' tag mixed
check 'a line for each picture, however it is named' test "$(wc -l <stdout)" -eq 5
check 'tags with scores' grep -Eq '^mixed/a disc.jpg +Scheibe & Co 0\.[0-9]{3}$' stdout
check 'a line break in a name is shown' grep -Eq '^mixed/both\\x0anew line.png +[^-]' stdout
check 'no tag' grep -Eq '^mixed/nothing.png +-$' stdout
check 'umlauts, spaces, quotes' grep -Eq "^$apples  stripes 0\." stdout
cp stdout table
expect 0 '' tag mixed --format json
holds 'JSON has the same pictures and tags' "
assert [row['path'] for row in data] == ['mixed/a disc.jpg', 'mixed/both\nnew line.png', 'mixed/nothing.png', 'mixed/z.jpg', '$apples'], data
tags = [[tag['tag'] for tag in row['tags']] for row in data]
assert tags[0] == ['Scheibe & Co'] and sorted(tags[1]) == sorted(tags[3]) == ['Scheibe & Co', 'stripes'] and tags[2] == [] and tags[4] == ['stripes']
lines = open('table').read().splitlines()
assert all(all(tag['tag'] + ' 0.' in line for tag in row['tags']) for row, line in zip(data, lines))"
cp stdout json
expect 0 '' tag mixed --json
check '--json is --format json' cmp stdout json
expect 0 '' tag mixed --csv
holds 'CSV has the same as JSON' "
rows = json.load(open('json'))
assert data[0] == ['path', 'labels', 'scores', 'error']
assert data[1:] == [[row['path'], ';'.join(tag['tag'] for tag in row['tags']), ';'.join(f\"{tag['score']:.4f}\" for tag in row['tags']), ''] for row in rows]"
cp stdout csv
expect 0 '' tag mixed --format csv
check '--csv is --format csv' cmp stdout csv
expect 0 '' tag 'mixed/a disc.jpg' mixed/nothing.png mixed/z.jpg mixed/both* "$apples" --csv
check 'files in the order given' test "$(sed -n 2p stdout | cut -d, -f1)-$(sed -n 4p stdout | cut -d, -f1)" = 'mixed/a disc.jpg-mixed/z.jpg'
expect 0 '' bash -c 'ls mixed/*.jpg | "$0" tag model - --backbone "$1"' "$l3a" "$demo"
check 'paths from the standard input' test "$(wc -l <stdout)" -eq 2

# predict and tag agree
expect 0 '' bash -c '"$0" predict model --backbone "$1" mixed/z.jpg --format json --top 2' "$l3a" "$demo"
cp stdout predicted
expect 0 '' tag mixed/z.jpg --format json --top 2
holds 'the same scores as predict' "
old = json.load(open('predicted'))[0]
assert [(tag['class'], round(tag['score'], 3)) for tag in old['tags']] == [(tag['tag'], round(tag['score'], 3)) for tag in data[0]['tags']]"
expect 0 '' tag mixed --top 1 --json
holds 'one tag each' "assert all(len(row['tags']) == 1 for row in data)"
expect 0 '' tag mixed --threshold -100 --json
holds 'all tags, the highest first' "assert all(len(row['tags']) == 2 and row['tags'][0]['score'] >= row['tags'][1]['score'] for row in data)"
expect 0 '' tag mixed --threshold 100
check 'no tag at all' test "$(grep -c ' -$' stdout)" -eq 5

# Order
expect 0 '' tag mixed --sort name --csv
holds 'by name' "assert [row[0] for row in data[1:]] == sorted(row[0] for row in data[1:]) and len(data) == 6"
expect 0 '' tag mixed --sort uncertain --threshold 0.5 --json
holds 'those most in doubt first' "
doubts = [row['doubtful'] for row in data]
distances = [abs(doubt['score'] - 0.5) for doubt in doubts]
assert distances == sorted(distances) and all(doubt['threshold'] == 0.5 for doubt in doubts), distances
every = {row['path']: row['tags'] for row in json.loads(__import__('subprocess').check_output(['$l3a', 'tag', 'model', 'mixed', '--backbone', '$demo', '--top', '2', '--json']))}
for row in data:
    assert abs(abs(row['doubtful']['score'] - 0.5) - min(abs(tag['score'] - 0.5) for tag in every[row['path']])) < 1e-9"
expect 0 '' tag mixed --sort uncertain
check 'the tag that is in doubt' test "$(grep -Ec 'in doubt: (stripes|Scheibe & Co) -?[0-9.]+ \(threshold [0-9.]+\)$' stdout)" -eq 5
expect 0 '' tag mixed --sort uncertain --csv
holds 'in CSV' "assert data[0] == ['path', 'labels', 'scores', 'doubtful', 'error'] and all(row[3] in ('stripes', 'Scheibe & Co') for row in data[1:])"

# Pictures that cannot be read
cp -r mixed broken
echo hello >broken/text.jpg
head -c 400 broken/z.jpg >broken/cut.jpg
echo notes >broken/notes.txt
expect 2 '2 of 7 pictures could not be read' tag broken
check 'the others are tagged' test "$(wc -l <stdout)" -eq 7
check 'with the reason' grep -Eq '^broken/cut.jpg +cannot be read: the JPEG file ends at byte 400' stdout
check 'a text that is named like a picture' grep -Eq '^broken/text.jpg +cannot be read: ' stdout
check 'other files are counted' grep -q '1 other file' stderr
expect 2 '2 of 7 pictures' tag broken --json --sort uncertain
holds 'errors in JSON, at the end' "
assert len(data) == 7 and sorted(row['path'] for row in data[-2:]) == ['broken/cut.jpg', 'broken/text.jpg']
assert all(('error' in row) == (i > 4) and not (row['tags'] and 'error' in row) for i, row in enumerate(data))"
expect 2 '2 of 7 pictures' tag broken --csv
holds 'errors in CSV' "assert len(data) == 8 and sum(row[3] != '' for row in data[1:]) == 2 and all(len(row) == 4 for row in data)"
expect 2 '1 of 2 pictures' tag nowhere.jpg mixed/z.jpg
check 'a missing file has a line' grep -Eq '^nowhere.jpg +cannot be read: No such file' stdout
mkdir empty
expect 2 'no pictures in empty' tag empty

# JSON lines, and the long form
expect 0 '' tag mixed --format jsonl
holds_lines() {
    /usr/bin/python3 -c "import json
data = [json.loads(line) for line in open('$work/stdout', newline='').read().split('\n')[:-1]]
$2" >said 2>&1 && pass || fail "$1" said "$work/stdout"
}
holds_lines 'a line is what JSON has' "assert data == json.load(open('json'))"
expect 0 '' tag mixed -o tags.jsonl
check 'JSON lines by their name' cmp stdout /dev/null
expect 0 '' cat tags.jsonl
holds_lines 'as on the standard output' "assert data == json.load(open('json'))"
expect 0 '' tag mixed --threshold -100 --json
cp stdout every
expect 0 '' tag mixed --long
holds 'a line for each tag of each picture' "
wide, given = json.load(open('every')), {(row['path'], tag['tag']) for row in json.load(open('json')) for tag in row['tags']}
assert data[0] == ['path', 'tag', 'score', 'given', 'error'], data[0]
assert data[1:] == [[row['path'], tag['tag'], f\"{tag['score']:.4f}\", str(int((row['path'], tag['tag']) in given)), ''] for row in wide for tag in row['tags']]
assert 0 < len(given) < len(data) - 1"
cp stdout long
for options in '--long --csv' '--long --format csv' '--long --fields path,tag,score,given,error'; do
    expect 0 '' tag mixed $options
    check "the same with $options" cmp stdout long
done
expect 0 '' tag mixed --long -o long.csv
check 'to a file' cmp long.csv long
expect 0 '' tag mixed --long --given --top 1 --json
holds 'only the tags that are given, as JSON' "
assert data == [{'path': row['path'], 'tag': row['tags'][0]['tag'], 'score': row['tags'][0]['score'], 'given': True} for row in json.load(open('every'))], data"
expect 0 '' tag mixed --long --threshold 0.5 --format jsonl --fields rank,threshold,given,tag,path
holds_lines 'fields in the order that was asked for' "
assert [list(row) for row in data] == [['rank', 'threshold', 'given', 'tag', 'path']] * 10
assert all(row['threshold'] == 0.5 and row['given'] == (tag['score'] > 0.5) and row['rank'] == i % 2 + 1 and row['tag'] == tag['tag']
           for i, (row, tag) in enumerate(zip(data, (tag for row in json.load(open('every')) for tag in row['tags']))))"
expect 0 '' tag mixed --long --views 5 --fields tag,left,top,right,bottom
holds 'where a tag was found' "assert all(0 <= float(row[1]) < float(row[3]) <= 1 and 0 <= float(row[2]) < float(row[4]) <= 1 for row in data[1:]) and len(data) == 11"
expect 0 '' tag mixed --long --sort uncertain --json
holds 'sorted' "
assert len(data) == 10 and all(data[i]['path'] == data[i + 1]['path'] for i in range(0, 10, 2))"
expect 0 '' tag mixed --long --given --threshold 100 --sort name --json
holds 'no tag is given' "assert data == []"
for order in given name; do
    expect 2 '2 of 7 pictures' tag broken --long --sort $order
    holds 'errors have a line, in CSV' "
bad = [row for row in data[1:] if row[4]]
assert [row[:4] for row in sorted(bad)] == [['broken/cut.jpg', '', '', ''], ['broken/text.jpg', '', '', '']] and len(data) == 13 and 'JPEG' in sorted(bad)[0][4], bad"
done
expect 2 '2 of 7 pictures' tag broken --long --given --format jsonl
holds_lines 'errors have a line, as JSON' "
bad = [row for row in data if 'error' in row]
assert sorted(row['path'] for row in bad) == ['broken/cut.jpg', 'broken/text.jpg'] and all(list(row) == ['path', 'error'] for row in bad), bad"
mkdir odd && cp mixed/z.jpg odd/=1+1.jpg && (cd odd && "$l3a" tag ../model =1+1.jpg --backbone "$demo" --long >../stdout)
holds 'a name that a spreadsheet would take for a formula' "assert [row[0] for row in data[1:]] == ['./=1+1.jpg'] * 2, data"
expect 2 "--fields: there is no field 'scor'" tag mixed --long --fields path,scor
check 'the closest name' grep -q "did you mean 'score'" stderr
check 'and all of them' grep -q 'the fields are path, tag, score, given, threshold, rank, left, top, right, bottom and error' stderr
expect 2 "--fields: 'tag' is listed twice" tag mixed --long --fields tag,path,tag
expect 2 'name at least one field' tag mixed --long --fields ,
expect 2 '--fields has no effect without --long' tag mixed --fields tag
expect 2 '--given has no effect without --long' tag mixed --given
expect 2 'use it with --format csv, json or jsonl' tag mixed --long --format table

# Output files
expect 0 '' tag mixed -o tags.csv
check 'CSV by its name' cmp tags.csv csv
expect 0 '' tag mixed -o tags.json
check 'JSON by its name' cmp tags.json json
expect 0 '' tag mixed -o tags.txt
check 'a table' cmp tags.txt table
expect 0 '' tag mixed -o again.csv --format table
check 'a format that is given counts' cmp again.csv table
check 'nothing on stdout' test ! -s stdout
rm mixed/both* broken/both*
mkdir out
cp mixed/z.jpg other.jpg
for file in plain.csv mixed/inside.csv out/beside.csv "$work/out/absolute.csv"; do
    expect 0 '' tag mixed "$work/other.jpg" -o "$file"
    expect 0 '' l3a data "list:$file" --check-pictures
    shows '5 pictures, 2 classes' '0 missing or empty, 0 unreadable'
done
check 'relative to the file' grep -q '^a disc.jpg,' mixed/inside.csv
rm mixed/inside.csv
chmod 640 tags.csv
ln -s tags.csv link.csv
expect 2 'could not be read' tag broken -o link.csv
check 'a link stays, and the mode' test -L link.csv -a "$(stat -c %a tags.csv)" = 640
check 'written in spite of unreadable pictures' grep -q 'broken/cut.jpg' tags.csv
cp tags.csv before
expect 2 'out: is a folder' tag mixed -o out
expect 2 'nowhere/tags.csv' tag mixed -o nowhere/tags.csv
expect 1 'ulimit -f' bash -c 'ulimit -f 1; "$0" tag model taught --backbone "$1" -o tags.csv' "$l3a" "$demo"
check 'the old file stays if the new one cannot be written' cmp tags.csv before
expect 1 'cannot write the results to the standard output' bash -c '"$0" tag model mixed --backbone "$1" >/dev/full' "$l3a" "$demo"

# Sidecars, read by Python
keywords() {
    /usr/bin/python3 -c "import sys, xml.etree.ElementTree as tree
print('|'.join(sorted(item.text for item in tree.parse(sys.argv[1]).getroot().iter('{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li'))))" "$1"
}
# has_keywords FILE KEYWORDS
has_keywords() { [ "$(keywords "$1")" = "$2" ] || { keywords "$1"; cat "$1"; return 1; }; }
expect 0 'XMP files: 3 written, 1 unchanged, 0 failed' tag mixed --xmp
check 'the keywords of a picture' has_keywords 'mixed/a disc.jpg.xmp' 'Scheibe & Co'
check 'of one with a difficult name' has_keywords "$apples.xmp" stripes
check 'none for a picture without a tag' test ! -e mixed/nothing.png.xmp -a ! -e mixed/nothing.xmp
find mixed -name '*.xmp' -exec stat -c '%n %i %y' {} + | sort >first
expect 0 'XMP files: 0 written, 4 unchanged, 0 failed' tag mixed --xmp
find mixed -name '*.xmp' -exec stat -c '%n %i %y' {} + | sort >second
check 'a second time writes nothing' cmp first second
sidecar='<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" rdf:about=""><dc:subject><rdf:Bag><rdf:li>mine</rdf:li><rdf:li>stripes</rdf:li></rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>'
rm mixed/*.xmp
printf %s "$sidecar" >'mixed/a disc.xmp'
expect 0 '1 written' tag 'mixed/a disc.jpg' --xmp
check 'the name that Adobe uses' has_keywords 'mixed/a disc.xmp' 'Scheibe & Co|mine|stripes'
check 'one sidecar, not two' test ! -e 'mixed/a disc.jpg.xmp'
expect 0 '1 written' tag 'mixed/a disc.jpg' --xmp-replace
check 'replace removes what the model knows and did not give' has_keywords 'mixed/a disc.xmp' 'Scheibe & Co|mine'
expect 0 '' tag mixed/z.jpg --xmp --xmp-name photo.xmp
check 'a new one by that name' test -e mixed/z.xmp -a ! -e mixed/z.jpg.xmp
expect 2 'has no effect without --xmp' tag mixed/z.jpg --xmp-name photo.xmp
printf '<broken' >'mixed/a disc.xmp'
expect 2 '1 failed' tag 'mixed/a disc.jpg' mixed/z.jpg --xmp
check 'a damaged sidecar is named' grep -q 'a disc.xmp: line 1' stderr
check 'and stays' test "$(cat 'mixed/a disc.xmp')" = '<broken'
rm mixed/*.xmp
printf '%s%2000s' "$sidecar" '' >mixed/z.xmp
expect 1 'ulimit -f' bash -c 'ulimit -f 1; "$0" tag model mixed/z.jpg --xmp --backbone "$1"' "$l3a" "$demo"
check 'the old sidecar stays' test "$(stat -c %s mixed/z.xmp)" -eq $((${#sidecar} + 2000))
no_leftovers "$work"

# Orientation comes from the model. The second picture is the first, stored on its side.
/usr/bin/python3 -c "
from PIL import Image
picture = Image.open('mixed/z.jpg')
picture.save('upright.png')
exif = Image.Exif()
exif[0x112] = 6
picture.transpose(Image.ROTATE_90).save('turned.png', exif=exif)"
l3a extract --orient --backbone "$demo" --data list:list.csv -o oriented --quiet >said || fail 'extract --orient' said
learn upright-model oriented
for model in model upright-model; do
    for picture in upright turned; do
        expect 0 '' l3a tag $model $picture.png --backbone "$demo" --top 2 --json
        sed 's/[a-z]*.png//' stdout >$model.$picture
    done
done
check 'a model that was taught upright pictures gets them' cmp upright-model.upright upright-model.turned
check 'one that was not does not' test "$(cat model.upright)" != "$(cat model.turned)"
expect 0 '' l3a tag upright-model turned.png --backbone "$demo" --orient 1
expect 2 'oriented' l3a tag upright-model turned.png --backbone "$demo" --orient 0
expect 2 'oriented' l3a tag model turned.png --backbone "$demo" --orient 1

# Views: a crop speaks for each tag
l3a teach cropped --list list.csv --backbone "$demo" --dim 256 --views 5 --quiet >said || fail 'teach --views' said
expect 0 '' l3a tag cropped mixed --top 2 --json
holds 'a box for each tag' "
sides = {(0.0, 0.6), (0.2, 0.8), (0.4, 1.0)}
assert all(len(row['tags']) == 2 for row in data)
boxes = [tag['box'] for row in data for tag in row['tags']]
assert all((left, right) in sides and (top, bottom) in sides for left, top, right, bottom in boxes), boxes
assert len(set(map(tuple, boxes))) > 1, boxes
assert [row['tags'][0]['tag'] for row in (data[0], data[-1])] == ['Scheibe & Co', 'stripes'], data"
cp stdout with_views
expect 0 '' tag mixed --top 2 --json
holds 'none without views' "assert not any('box' in tag for row in data for tag in row['tags'])"
expect 0 '' l3a tag cropped mixed/z.jpg --top 2 --json
holds 'one picture alone' "
old = [row for row in json.load(open('with_views')) if row['path'] == 'mixed/z.jpg'][0]
assert [(tag['tag'], tag['box'], round(tag['score'], 2)) for tag in old['tags']] == [(tag['tag'], tag['box'], round(tag['score'], 2)) for tag in data[0]['tags']]"
expect 0 '' l3a pack cropped -o packed --with-backbone
expect 0 '' l3a tag packed mixed --top 2 --json
holds 'a packed model has the same views' "
old = json.load(open('with_views'))
assert [[(tag['tag'], tag['box']) for tag in row['tags']] for row in old] == [[(tag['tag'], tag['box']) for tag in row['tags']] for row in data]
assert all(abs(a['score'] - b['score']) < 0.01 for x, y in zip(old, data) for a, b in zip(x['tags'], y['tags']))"
expect 0 '' l3a tag packed mixed --top 2 --json --views 5
expect 2 'packed with 5' l3a tag packed mixed --views 14

# Pictures can be tagged with other views than the model was taught with
expect 0 '' tag mixed --top 2 --json --views 14
holds 'crops of a model without them' "assert len(data) > 1 and all('box' in tag for row in data for tag in row['tags'])"
expect 0 '' l3a tag cropped mixed --top 2 --json --views 1
holds 'a model with crops without them' "assert not any('box' in tag for row in data for tag in row['tags'])"
expect 2 "--views: '6' is not one of 1|5|9|14" tag mixed --views 6
before=$(cksum <cropped)
expect 0 '' l3a tag cropped mixed --views 14
check 'the model stays as it was' test "$(cksum <cropped)" = "$before"
l3a extract --backbone "$demo" --data list:list.csv -o cropped_features --views 5 --orient --quiet >said || fail 'extract --views' said
expect 0 '' l3a pack cropped -o packed2 --features cropped_features
shows '70 images: the largest change of a score is'
expect 2 'views' l3a pack cropped -o packed3 --features oriented

# Arguments
expect 2 'name a model file and at least one picture or folder' tag
expect 2 'cannot be used together' tag mixed --top 1 --threshold 0
expect 2 'cannot be used together' tag mixed --csv --json
expect 2 'cannot be used together' tag mixed --csv --format csv
expect 2 'is not one of' tag mixed --sort size
expect 2 'is not one of' tag mixed --orient 2
expect 2 "'0' is not a whole number" tag mixed --top 0
expect 2 'nowhere' l3a tag nowhere mixed --backbone "$demo"
expect 2 'backbone' l3a tag model mixed
finish
