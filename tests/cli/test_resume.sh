#!/bin/bash
# A run that is killed or interrupted, at any moment, and resumed ends with the files of one that was left in peace.
. "$(dirname "$0")/support.sh"

RANDOM=7
data=$work/data
make_features "$data" --rows 12000 --test-rows 3000 --width 32 --classes 20 --odd-names

# start FOLDER OPTION...: in the background; $pid is the command itself
start() {
    "$L3A_BUILD/l3a" run --train "$data/train.safetensors" --test "$data/test.safetensors" --protocol B0-C2 --gamma 10 -o "$1" --resume "${@:2}" >"$work/stdout" 2>"$work/stderr" &
    pid=$!
}
ended() {
    wait $pid 2>/dev/null
    code=$?
}
same_run() {
    check "$3: metrics" diff <(metrics "$1") <(metrics "$2")
    check "$3: AP of each class" cmp "$1/per_class.csv" "$2/per_class.csv"
    check "$3: model" cmp "$1/model.safetensors" "$2/model.safetensors"
    check "$3: files" diff <(ls -A "$1") <(ls -A "$2")
}

# reference FOLDER OPTION...: a run left in peace, and the seconds it takes
reference() {
    local from=$EPOCHREALTIME
    start "$@" --quiet
    ended
    check "the reference run in $1" test $code -eq 0
    seconds=$(awk -v from="$from" -v to="$EPOCHREALTIME" 'BEGIN { print to - from }')
}

# kill_often FOLDER OPTION...: killed after a random part of its time and resumed, until it is done. It is left longer each time,
# because it need not have saved anything by then.
kill_often() {
    local round=0
    kills=0
    for ((round = 0; round < 60; round++)); do
        start "$@" --quiet
        sleep "$(awk -v t="$seconds" -v r=$RANDOM -v n=$round 'BEGIN { print t * (0.03 + 0.37 * r / 32768) * (1 + n / 8) }')"
        kill -KILL $pid 2>/dev/null
        ended
        [ $code -eq 137 ] || break
        kills=$((kills + 1))
        if ! grep -q '^l3a,1,10,' "$1/metrics.csv" 2>/dev/null; then
            head -c 5000 /dev/urandom >"$1/.model.safetensors.0123456789abcdef.l3a-tmp"
        fi
    done
    check "done after $kills kills in $1" test $code -eq 0
    [ $code -eq 0 ] || cat "$work/stderr"
}

methods=(--dim 512 --method l3a,l3a-no-wac,joint --seed 1,2)
reference "$work/whole" "${methods[@]}"
total=0
for ((i = 0; i < 12 && total < 15; i++)); do
    kill_often "$work/killed-$i" "${methods[@]}"
    same_run "$work/whole" "$work/killed-$i" "killed $kills times"
    total=$((total + kills))
    [ $kills -ge 3 ] || seconds=$(awk -v t="$seconds" 'BEGIN { print t / 2 }')
done
echo "$total kills in $i runs"
check 'kills enough' test $total -ge 15

recursion=(--dim 256 --method l3a --seed 1 --solver recursive --precision double)
reference "$work/recursion" "${recursion[@]}"
kill_often "$work/recursion-killed" "${recursion[@]}"
same_run "$work/recursion" "$work/recursion-killed" "the recursion, killed $kills times"

# interrupt FOLDER SIGNAL TEXT: stopped by a signal once the text stands on stderr
interrupt() {
    start "$1" "${methods[@]}"
    for ((i = 0; i < 1200; i++)); do
        grep -q "$3" "$work/stderr" && break
        sleep 0.05
    done
    kill -"$2" $pid
    ended
    check "exit $code after $2 in '$3'" test $code -eq 130
    check "what $2 in '$3' says" grep -qF "finished phases, but for at most ten seconds of work, are saved in $1; resume with: $L3A_BUILD/l3a run --resume -o $1" "$work/stderr"
    no_leftovers "$1"
    [ ! -e "$1/model.safetensors" ] || check "the model after $2" "$L3A_BUILD/l3a" info "$1/model.safetensors"
}
interrupt "$work/interrupted" INT 'l3a, seed 1, phase 1 of'
interrupt "$work/interrupted" TERM 'l3a, seed 1, phase 6 of'
interrupt "$work/interrupted" INT 'l3a-no-wac, seed 1, phase 4 of'
start "$work/interrupted" "${methods[@]}"
ended
check 'resumed after interruptions' test $code -eq 0
check 'only what was not saved is done' test "$(grep -cE ' phase [0-9]+ of' "$work/stderr")" -le 22 # not the jobs of l3a
same_run "$work/whole" "$work/interrupted" interrupted

# a run that is done, and one killed while it saved its last model
cp -r "$work/whole" "$work/done"
start "$work/done" "${methods[@]}"
ended
check 'resuming what is done' test $code -eq 0
check 'nothing is done again' test "$(grep -cE ' phase [0-9]+ of' "$work/stderr")" -eq 0
cut -d, -f1-3 "$work/done/metrics.csv" >"$work/rows"
check 'the table again' test "$(grep -cE '^(l3a|joint)[^ ]* +[0-9]' "$work/stdout")" -eq $(($(wc -l <"$work/rows") - 1 + 3))

# rows and files that somebody edited
edited() { # edited FILE SED-EXPRESSION WHAT: run --resume and report say so, and leave the file alone
    rm -rf "$work/edited"
    cp -r "$work/whole" "$work/edited"
    sed -i "$2" "$work/edited/$1"
    cp "$work/edited/$1" "$work/before"
    start "$work/edited" "${methods[@]}"
    ended
    check "exit $code with an edited $1" test $code -eq 2
    check "which line of $1 was edited" grep -qF "$work/edited/$1: $3" "$work/stderr"
    check 'what to do about it' grep -qF 'put the file back' "$work/stderr"
    check "$1 stays as it is" cmp "$work/before" "$work/edited/$1"
    expect 2 "$work/edited/$1: $3" l3a report "$work/edited"
}
edited metrics.csv '7s/^\(\([^,]*,\)\{8\}\)[^,]*/\199.9/' 'line 7 is not as it was written'
edited metrics.csv '$d' 'line 43 is missing'
edited metrics.csv '5d' 'line 5 is not as it was written'
edited metrics.csv '2s/[0-9.]*$/0.001/' 'line 2 is not as it was written'
edited per_class.csv '100s/^\(\([^,]*,\)\{5\}\)[^,]*/\17/' 'line 100 is not as it was written'
edited per_class.csv '$s/^joint,/jointly,/' "line $(wc -l <"$work/whole/per_class.csv") is not as it was written"
edited timings.csv '3s/[0-9]*$/1/' 'line 3 is not as it was written'
make_features "$work/named" --rows 200 --test-rows 60 --width 8 --classes 4 --ids
l3a run --train "$work/named/train.safetensors" --test "$work/named/test.safetensors" --protocol B0-C2 --dim 32 --quiet -o "$work/with-ids" >/dev/null
expect 0 '' l3a report "$work/with-ids"
sed -i '2s/,[01],/,2,/' "$work/with-ids/samples.csv"
expect 2 'samples.csv: line 2 is not as it was written' l3a report "$work/with-ids"

# the way out, and folders of version 0.1: without checksums the tables are taken as they are, and the next ones are recorded
cp -r "$work/whole" "$work/accepted"
sed -i '7s/^\(\([^,]*,\)\{8\}\)[^,]*/\199.9/' "$work/accepted/metrics.csv"
rm "$work/accepted/checksums.csv"
start "$work/accepted" "${methods[@]}"
ended
check 'without checksums the tables are taken' test $code -eq 0
check 'with a warning' grep -qF 'has no checksums.csv' "$work/stderr"
check 'and what they hold is recorded' test -s "$work/accepted/checksums.csv"
expect 0 '' l3a report "$work/accepted"
sed -i '7s/99.9/98.8/' "$work/accepted/metrics.csv"
expect 2 'line 7 is not as it was written' l3a report "$work/accepted"

# the order of rows does not depend on what was done again: the first job anew, and two of those after it
again() { # again WHAT: the run in $work/again, done again in part, has the tables of the whole
    start "$work/again" "${methods[@]}" --quiet
    ended
    check "$1: done" test $code -eq 0
    same_run "$work/whole" "$work/again" "$1"
    check "$1: the order of the timings" diff <(cut -d, -f1-4 "$work/whole/timings.csv") <(cut -d, -f1-4 "$work/again/timings.csv")
}
cp -r "$work/whole" "$work/again"
rm "$work/again/model.safetensors"
again 'the first job anew'
for job in l3a,2 l3a-no-wac,1; do
    rm "$work/again/checksums.csv"
    sed -i "/^$job,/d" "$work/again/metrics.csv" "$work/again/per_class.csv" "$work/again/timings.csv"
    again "$job anew"
done
rm "$work/again/model.safetensors"
for ((i = 0; i < 4; i++)); do # killed while rows in the middle are replaced
    start "$work/again" "${methods[@]}" --quiet
    sleep "$(awk -v t="$seconds" -v r=$RANDOM 'BEGIN { print t * (0.03 + 0.2 * r / 32768) }')"
    kill -KILL $pid 2>/dev/null
    ended
done
again 'the first job anew, killed four times'

head -c 5000 /dev/urandom >"$work/done/.partial.safetensors.0123456789abcdef.l3a-tmp"
: >"$work/done/.metrics.csv.l3a-lock"
start "$work/done" "${methods[@]}" --quiet
ended
check 'resuming with a piece of a model' test $code -eq 0
same_run "$work/whole" "$work/done" 'killed in its last save'
finish
