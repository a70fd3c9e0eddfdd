#!/bin/bash
# Files and processes: commands that change one model at the same time, outputs and inputs that are no regular files, symbolic links,
# modes, what a kill leaves, limits, and signals.
. "$(dirname "$0")/support.sh"
cd "$work" || exit 1
l3a=$L3A_BUILD/l3a
make_features data --rows 300 --test-rows 60 --width 16 --classes 12 --ids
train=data/train.safetensors
settings=(--dim 64 --gamma 1 --privacy-limit 0)

# learn MODEL CLASS OPTION...
learn() {
    l3a learn "$1" --features $train --classes "$2" "${settings[@]}" "${@:3}"
}
phases() {
    l3a info "$1" | grep -c '^  phase '
}
mode() {
    stat -c %a "$1"
}
# nothing_else FOLDER NAME...: the folder holds these, hidden ones counted, and nothing else
nothing_else() {
    check "only ${*:2} in $1" diff <(ls -A "$1" | sort) <(printf '%s\n' "${@:2}" | sort)
}
# at_once COUNT COMMAND...: so many at the same time, each with its number as {}; exit codes in $codes, what they said in said.N
at_once() {
    local count=$1 i pids=()
    shift
    codes=()
    for ((i = 0; i < count; i++)); do
        "${@//\{\}/$(printf %02d $i)}" >said.$i 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do
        wait "$i"
        codes+=($?)
    done
}
# within COMMAND...: it ends by itself; 124 says that it hung
within() {
    timeout -k 5 60 "$@" 8>&- 9>&-
}
# A command does not inherit the descriptors that hold locks here: it would hold them, too.
l3a() {
    "$L3A_BUILD/l3a" "$@" 8>&- 9>&-
}
# hold MODEL: this shell holds the model's lock, until let_go
hold() {
    exec 9>"$(dirname "$1")/.$(basename "$1").l3a-lock"
    flock -n 9 || fail "cannot hold the lock of $1"
}
let_go() {
    exec 9>&-
}

# --- two at once ---
mkdir many
at_once 8 learn many/model class{} --wait
check 'learn --wait: every one of 8 succeeds' test "${codes[*]}" = '0 0 0 0 0 0 0 0'
check 'learn --wait: every phase is there' test "$(phases many/model)" -eq 8
nothing_else many model

mkdir race
learn race/model class08 >made 2>&1
at_once 8 learn race/model class{}
done_now=0
for ((i = 0; i < 8; i++)); do
    case ${codes[i]} in
    0) done_now=$((done_now + 1)) ;;
    2) check "number $i was refused because of another" grep -qE 'race/model: in use by another (l3a )?process' said.$i ;;
    *) fail "exit ${codes[i]}" said.$i ;;
    esac
done
echo "$done_now of 8 learned, the others were refused"
check 'learn: at least one succeeds' test $done_now -ge 1
check 'learn: what succeeded is there' test "$(phases race/model)" -eq $((1 + done_now))
nothing_else race model

# forgetting and merging beside learning
cp many/model many/both
at_once 7 l3a forget many/model --classes class{} --wait
check 'forget --wait: every one of 7 succeeds' test "${codes[*]}" = '0 0 0 0 0 0 0'
check 'forget --wait: one class of 8 is left' test "$(l3a info many/model | grep '^  phase ' | sed 's/.*: //')" = class07
learn site class10 >made 2>&1
hold many/both
expect 2 'many/both: in use by another process' learn many/both class11
check 'the hint names the wait option' grep -q 'use the wait option' "$work/stderr"
expect 2 'another process' l3a forget many/both --classes class01
if ! l3a serve many/both --listen 127.0.0.1:0 2>&1 | grep -q 'this build has no server'; then
    expect 2 'another process' l3a serve many/both --listen 127.0.0.1:0
    check 'the server has no wait option, and names none' grep -q 'stop the other server or command' "$work/stderr"
fi
expect 2 'another process' l3a merge many/both site -o many/both
expect 2 'another process' l3a merge many/both site -o many/../many/both
ln -s both many/link
expect 2 'another process' learn many/link class11
expect 0 '' l3a eval many/both --features data/test.safetensors
expect 0 '' l3a forget many/both --classes class01 -o many/other
learn many/both class11 --wait >waited 2>&1 9>&- &
waiting=$!
for ((i = 0; i < 600; i++)); do
    grep -q 'waiting for it' waited && break
    sleep 0.05
done
check 'learn --wait says that it waits' grep -q 'many/both: in use by another process; waiting for it' waited
let_go
wait $waiting
check 'learn --wait goes on when the lock is free' test $? -eq 0
check 'one more phase' test "$(phases many/both)" -eq 9

# a waiting command ends by a signal, and leaves the lock to its holder
for signal in INT TERM; do
    hold site
    : >waited
    "$l3a" learn site --features $train --classes class11 --wait >waited 2>&1 9>&- &
    waiting=$!
    for ((i = 0; i < 600; i++)); do
        grep -q 'waiting for it' waited && break
        sleep 0.05
    done
    kill -$signal $waiting
    wait $waiting
    check "exit after $signal while waiting" test $? -eq 130
    check "the holder's lock is still there after $signal" test -f .site.l3a-lock
    let_go
done
# nothing stale blocks
check 'the file of a lock that nobody holds' learn site class11
check 'it is gone' test ! -e .site.l3a-lock

# --- outputs that are no regular files ---
mkdir odd
mkfifo odd/pipe
mkdir odd/folder
# A device of our own where we may make one: whoever may could also lose the machine's to a fault that this test is there to find.
device=odd/device
mknod $device c 1 3 2>made || { [ "$(id -u)" != 0 ] && device=/dev/null; }
[ -c $device ] || { echo 'skipped: outputs that are devices (none can be made here)' && device=odd/pipe; }
ln -s "$(realpath $device)" odd/link
ln -s /proc/self/fd/1 odd/stdout
for output in odd/pipe odd/folder odd/link $device; do
    expect 2 "$output: is a" within "$l3a" learn $output --features $train --classes class00
    expect 2 "$output: is a" within "$l3a" merge many/both site -o $output
    expect 2 "$output: is a" within "$l3a" forget many/both --classes class00 -o $output
done
check 'they are what they were' test -p odd/pipe -a -d odd/folder -a -L odd/link -a ! -f $device
ls -A odd >names
run=(--train $train --test data/test.safetensors --protocol B0-C4 --method l3a --dim 64 --gamma 1 --quiet)
for file in run.json metrics.csv per_class.csv timings.csv samples.csv report.html model.safetensors; do
    mkdir run
    mkfifo run/$file
    within "$l3a" run "${run[@]}" -o run >said 2>&1
    code=$?
    check "run with a pipe as $file" test $code -eq 2 -a -p run/$file
    rm -r run
done
mkdir sweep
mkfifo sweep/sweep.csv
expect 2 'is a pipe' within "$l3a" sweep --train $train --test data/test.safetensors --protocol B0-C4 --dim 64 --gamma 1,10 --quiet -o sweep
check 'sweep leaves the pipe' test -p sweep/sweep.csv
expect 0 '' l3a run "${run[@]}" -o run
expect 2 'is a pipe' within bash -c '"$0" report run -o odd/pipe' "$l3a"
expect 2 'odd/stdout: is a pipe' within bash -c '"$0" report run -o odd/stdout | cat; exit ${PIPESTATUS[0]}' "$l3a"
check 'it says what to do' grep -q "write a file and use 'cat'" stderr
echo 'first line' >appended
expect 2 'is an open stream' bash -c '"$0" report run -o odd/stdout >>appended' "$l3a"
check 'a file that the output is appended to keeps what it has' test "$(head -n 1 appended)" = 'first line'

# --- inputs that are no regular files ---
for input in odd/pipe /dev/zero; do
    expect 2 'not a regular file' within "$l3a" eval many/both --features $input
    expect 2 'not a regular file' within "$l3a" eval $input --features $train
    expect 2 'not a regular file' within "$l3a" info $input
    expect 2 'not a regular file' within "$l3a" learn new --features $input --classes class00
    expect 2 'not a regular file' within "$l3a" run "${run[@]}" --class-order $input -o never
    expect 2 'not a regular file' within "$l3a" data list:$input
    expect 2 '' within "$l3a" learn new --features $train --classes @$input
done
check 'names through a pipe of the shell' learn piped @<(printf 'class00\nclass01\n')
check 'both names' test "$(l3a info piped | grep -c 'class00, class01')" -ge 1
check 'no model was made' test ! -e new -a ! -e never
# no hang in a data set, either
/usr/bin/python3 - <<'P'
from PIL import Image
for i in range(4):
    Image.new("RGB", (40, 30), (60 * i, 100, 200 - 50 * i)).save(f"{i}.png")
P
mkfifo 4.png
printf 'path,labels\n0.png,a\n1.png,b\n2.png,a;b\n3.png,b\n' >good.csv
printf 'path,labels\n0.png,a\n1.png,b\n4.png,a\n' >pipe.csv
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
extract() {
    within "$l3a" extract --backbone "$backbone" --data list:"$1" -o "$2" --quiet
}
expect 2 '1 picture could not be read' extract pipe.csv pipe.safetensors
expect 2 'not a regular file' within "$l3a" extract --backbone odd/pipe --data list:good.csv -o never

# --- extract: its output and its PART file ---
for output in odd/pipe odd/folder odd/link $device; do
    expect 2 "$output: is a" extract good.csv $output
done
check 'nothing is left beside them' diff names <(ls -A odd)
echo precious >victim
ln -s victim x.part
expect 2 'x.part: l3a needs this name for its intermediate results, but it is not a regular file' extract good.csv x
check 'a link is not followed' test "$(cat victim)" = precious -a -L x.part
rm x.part
mkfifo x.part
expect 2 'is not a regular file' extract good.csv x
rm x.part
for text in precious 'l3a' 'a text that is longer than the head of such a file'; do
    echo "$text" >x.part
    expect 2 'the file is not one of its own' extract good.csv x
    check 'a file of that name stays' test "$(cat x.part)" = "$text"
done
: >x.part
exec 8<>x.part
flock -n 8
expect 2 'another process is extracting to this file' extract good.csv x
exec 8>&-
expect 0 '' extract good.csv x
check 'the part file is gone' test ! -e x.part
printf 'l3a extraction 9 and what a later version adds' >x.part
expect 0 '' extract good.csv x

# --- links ---
mkdir far
learn far/real class00 >made 2>&1
ln -s far/real link
ln -s "$work/link" second
check 'learn through a link of a link' learn second class01
check 'the links are links' test -L link -a -L second
check 'the file behind them has the phase' test "$(phases far/real)" -eq 2
nothing_else far real
ln -s far/later dangling
check 'a link to nothing yet' learn dangling class00
check 'makes what it leads to' test -L dangling -a -f far/later
ln -s none/model lost
expect 2 'lost: cannot write: No such file' learn lost class00
ln -s ring ring
expect 2 'ring: cannot write' learn ring class00
rm -r run/report.html
echo old >page
ln -s ../page run/report.html
expect 0 '' l3a report run
check 'a page through a link' test -L run/report.html -a "$(head -c 9 page)" = '<!DOCTYPE'
# the names that 0.1 used
learn model class00 >made 2>&1
ln -s victim model.tmp
check 'beside a link of the old temporary name' learn model class01
check 'which is not touched' test -L model.tmp -a "$(cat victim)" = precious
rm model.tmp
echo mine >model.tmp
check 'beside a file of the old temporary name' learn model class02
check 'nor is that' test "$(cat model.tmp)" = mine
rm model.tmp
ln -s victim .model.l3a-lock
expect 2 '.model.l3a-lock: is in the way' learn model class03
check 'a link in place of the lock' test -L .model.l3a-lock -a "$(cat victim)" = precious
rm .model.l3a-lock

# --- modes ---
class=3
for wanted in 600 640 444 664; do
    chmod $wanted model
    check "learn into a file of mode $wanted" learn model class0$((class++))
    check "the mode is still $wanted" test "$(mode model)" = $wanted
done
chmod 600 x
check 'features again' extract good.csv x
check 'features of mode 600' test "$(mode x)" = 600
(umask 027 && learn masked class00 >made 2>&1)
check 'a new file follows the umask' test "$(mode masked)" = 640
if [ "$(id -u)" = 0 ]; then
    chown 1234:2345 model
    check 'learn into a file of another owner' learn model class10
    check 'the owner is kept' test "$(stat -c %u:%g model)" = 1234:2345
else
    echo 'skipped: the owner of a file (this user cannot change it)'
fi

# --- killed while it writes ---
mkdir killed
big=(--dim 3000 --gamma 1 --privacy-limit 0)
l3a learn killed/model --features $train --classes class00 "${big[@]}" >made 2>&1
cp killed/model old
chmod 600 killed/model
for ((i = 0; i < 40; i++)); do
    "$l3a" learn killed/model --features $train --classes class01 >said 2>&1 &
    victim=$!
    until compgen -G 'killed/.model.*.l3a-tmp' >found || ! kill -0 $victim 2>/dev/null; do :; done
    [ -s found ] && check 'the temporary file is its owner'"'"'s alone' test "$(stat -c %a "$(head -n 1 found)" 2>/dev/null || echo 600)" = 600
    kill -KILL $victim 2>/dev/null
    wait $victim 2>/dev/null
    compgen -G 'killed/.model.*.l3a-tmp' >found && break
    cp old killed/model
    chmod 600 killed/model
done
check 'a kill leaves a temporary file' test -s found
check 'and the old model' cmp old killed/model
check 'the next command is not disturbed' l3a learn killed/model --features $train --classes class01
nothing_else killed model
check 'the mode after all this' test "$(mode killed/model)" = 600

# --- limits ---
cp killed/model limited
expect 1 'ulimit -f' bash -c 'ulimit -f 100; "$0" learn limited --features "$1" --classes class02' "$l3a" $train
check 'a model beyond the limit for files: the old one stays' cmp killed/model limited
expect 1 'ulimit -f' bash -c 'ulimit -f 1; "$0" report run -o limited.html' "$l3a"
check 'a page beyond it' test ! -e limited.html
no_leftovers .

# --- signals ---
mkfifo pictures
for signal in INT TERM; do
    "$l3a" predict many/both --backbone "$backbone" - <pictures >said 2>&1 &
    reader=$!
    exec 7>pictures
    for ((i = 0; i < 600; i++)); do
        grep -q pipe_read "/proc/$reader/wchan" 2>/dev/null && break
        [ "$(awk '{ print $3 }' "/proc/$reader/stat" 2>/dev/null)" = S ] && [ $i -gt 40 ] && break
        sleep 0.05
    done
    kill -$signal $reader
    for ((i = 0; i < 600; i++)); do
        kill -0 $reader 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL $reader 2>/dev/null
    wait $reader
    check "exit after $signal while reading names" test $? -eq 130
    exec 7>&-
done
finish
