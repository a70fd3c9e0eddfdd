#!/bin/bash
# Help, manual pages and the completion of shells: every command and every option is in each of them, and they work.
. "$(dirname "$0")/support.sh"
mapfile -t commands < <(l3a help | sed -n 's/^  l3a \([a-z]*\).*/\1/p')
check 'the overview lists the commands' test ${#commands[@]} -ge 10
for shell in bash zsh fish; do
    l3a help --format $shell >"$work/l3a.$shell" || fail "l3a help --format $shell"
done
for command in "${commands[@]}"; do
    l3a help "$command" >"$work/$command.txt" || fail "l3a help $command"
    l3a help --format man "$command" >"$work/l3a-$command.1" || fail "l3a help --format man $command"
    sed -n "/^    $command)/,/^        ;;/p" "$work/l3a.bash" >"$work/$command.bash"
    sed -n "/^    $command)/,/^        ;;/p" "$work/l3a.zsh" >"$work/$command.zsh"
    grep "__l3a_in $command'" "$work/l3a.fish" >"$work/$command.fish"
done
l3a help --format man >"$work/l3a.1"

# has FILE TEXT...
has() {
    local file=$1 text
    shift
    for text in "$@"; do
        grep -qF -e "$text" "$file" || { echo "no '$text' in ${file##*/}" && return 1; }
    done
}

# The options, as the help lists them, in the other forms.
knows_all_options() {
    local option name words
    words=$(sed -n '/^options:/,/^examples:/s/^  \(-[-a-z0-9]*\).*/\1/p' "$work/$1.txt")
    [ "$(wc -w <<<"$words")" -ge 3 ] || { echo "few options: $words" && return 1; }
    for option in $words; do
        name=${option##*-}
        case $option in --*) name=${option#--} ;; esac
        has "$work/l3a-$1.1" "\\fB$(sed 's/-/\\-/g' <<<"$option")\\fR" || return 1
        grep -qE "^        -\*\).*[' ]$option[' ]" "$work/$1.bash" || { echo "no $option in bash" && return 1; }
        grep -qE -e "'$option(=?)\[" "$work/$1.zsh" || { echo "no $option in zsh" && return 1; }
        grep -qE -e " (-l|-s) $name " "$work/$1.fish" || { echo "no $option in fish" && return 1; }
    done
}

for command in "${commands[@]}"; do
    check "help of $command is complete" has "$work/$command.txt" "usage: l3a $command" examples: "    l3a $command" 'exit codes:' options:
    check "every option of $command everywhere" knows_all_options "$command"
    check "the page of $command" has "$work/l3a-$command.1" '.SH SYNOPSIS' '.SH DESCRIPTION' '.SH EXAMPLES' '.SH EXIT STATUS'
    check "l3a(1) names $command" has "$work/l3a.1" "\\fBl3a $command\\fR"
done
check 'settings have a range and a default' has "$work/learn.txt" '(1 to 1048576) [8192]' '(above 0) [1000]' '(above 0, below 1) [0.7]'
expect 2 'name one command only' l3a help run learn
expect 2 "'troff' is not one of" l3a help --format troff
expect 0 '' l3a --help run
check 'l3a --help COMMAND' cmp "$work/stdout" "$work/run.txt"

# Manual pages
if command -v groff >"$work/which"; then
    for page in "$work"/*.1; do
        groff -man -ww -z "$page" >"$work/said" 2>&1
        [ ! -s "$work/said" ] && pass || fail "groff about ${page##*/}" "$work/said"
        groff -man -Tutf8 "$page" >"$work/said" 2>"$work/which" || fail "groff prints ${page##*/}" "$work/which"
    done
    groff -man -Tutf8 "$work/l3a-predict.1" 2>"$work/which" | sed 's/\x1b\[[0-9;]*m//g' >"$work/said"
    check 'quotes and dashes stay as they are to be typed' has "$work/said" "find photos -name '*.jpg' | l3a predict" '--top 3'
else
    echo "skipped: manual pages (groff is not installed)"
fi

# bash: complete WORD... prints what it offers for the last word
mkdir "$work/folder" "$work/folder/sub one"
touch "$work/folder/a file.csv" "$work/folder/b.npy"
complete_words() {
    (cd "$work/folder" && bash -c '
        . "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _l3a
        printf "%s\n" "${COMPREPLY[@]}"' "$work/l3a.bash" "$@" | sort | xargs -d '\n')
}
# offers EXPECTED WORD...
offers() {
    local expected=$1 got
    shift
    got=$(complete_words "$@")
    [ "$got" = "$expected" ] && pass || fail "completion of '$*': '$got' instead of '$expected'"
}
offers 'predict' l3a pre
offers "$(printf '%s\n' "${commands[@]}" --citation --help --version | sort | xargs)" l3a ''
offers '--test --test-data --test-labels --test-split' l3a run --te
offers 'csv json latex markdown table' l3a run --format ''
offers 'json' l3a run --format = j
offers 'dynamic fixed off' l3a learn model --pseudo ''
offers "$(l3a help run | sed -n '/^methods/,$p' | awk 'NR > 1 { print $1 }' | sort | xargs)" l3a run --method ''
offers 'l3a,l3a-no-wac' l3a run --method l3a,l3a-no-w
offers 'ablation buffer gamma memory methods threshold weighting' l3a sweep --preset ''
offers 'a file.csv b.npy sub one' l3a run --train ''
offers 'sub one' l3a run -o ''
offers 'coco: folders: list: tar: voc:' l3a data ''
offers 'a file.csv' l3a data list : a
offers 'a file.csv b.npy sub one' l3a extract --data list :
offers 'sub one' l3a extract --data = voc : s
offers 'sub one' l3a data folders : s
offers 'b.npy' l3a info b
offers 'learn' l3a help lea
offers '' l3a run --seed ''
offers '' l3a nonsense ''

if command -v zsh >"$work/which"; then
    check 'zsh reads its script' zsh -n "$work/l3a.zsh"
else
    echo 'skipped: completion in zsh (zsh is not installed)'
fi
if command -v fish >"$work/which"; then
    fish_offers() {
        local expected=$1
        shift
        [ "$(cd "$work/folder" && fish --no-config -c "source $work/l3a.fish; complete -C '$*'" | cut -f1 | sort | xargs)" = "$expected" ]
    }
    export HOME=$work
    check 'fish reads its script' fish -n "$work/l3a.fish"
    check 'fish offers options' fish_offers '--test --test-data --test-labels --test-split' l3a run --te
    check 'fish offers choices' fish_offers 'csv json latex markdown table' l3a run --format ''
    check 'fish offers commands' fish_offers predict l3a pre
    check 'fish offers data sets' fish_offers 'coco: folders: list: tar: voc:' l3a extract --data ''
else
    echo 'skipped: completion in fish (fish is not installed)'
fi
finish
