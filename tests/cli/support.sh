# What the tests of the command share: a folder that goes at the end, checks that count, and the closing line.
set -u
: "${L3A_BUILD:?the build folder}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
passed=0
failed=0
trap '[ $BASHPID -ne $$ ] || rm -rf "$work"' EXIT # not in a child that a signal ends before it has become its command
export OMP_WAIT_POLICY=passive # other tests may share the processors

l3a() {
    "$L3A_BUILD/l3a" "$@"
}

make_features() {
    /usr/bin/python3 "$here/make_features.py" "$@"
}

pass() {
    passed=$((passed + 1))
}

# fail WHAT [FILE...]: with what the files hold
fail() {
    failed=$((failed + 1))
    echo "FAILED: $1"
    shift
    for file in "$@"; do
        sed 's/^/    /' "$file" | tail -n 12
    done
}

# check WHAT COMMAND...: the command succeeds
check() {
    local what=$1
    shift
    if "$@" >"$work/check" 2>&1; then
        pass
    else
        fail "$what" "$work/check"
    fi
}

# expect CODE TEXT COMMAND...: the exit code, and a text in what it says on stderr ('': any); both outputs stay in $work
expect() {
    local code=$1 text=$2 got
    shift 2
    "$@" >"$work/stdout" 2>"$work/stderr"
    got=$?
    if [ $got -ne "$code" ]; then
        fail "exit $got instead of $code: $*" "$work/stderr"
    elif [ -n "$text" ] && ! grep -qF -- "$text" "$work/stderr"; then
        fail "stderr lacks '$text': $*" "$work/stderr"
    elif grep -qE 'Sanitizer|runtime error' "$work/stderr"; then
        fail "a sanitizer complains: $*" "$work/stderr"
    else
        pass
    fi
}

# shows TEXT...: the last command printed each of these
shows() {
    local text
    for text in "$@"; do
        if grep -qF -- "$text" "$work/stdout"; then
            pass
        else
            fail "stdout lacks '$text'" "$work/stdout"
        fi
    done
}

no_leftovers() {
    local found
    found=$(find "$1" -name '*.tmp' -o -name '.*.l3a-*')
    [ -z "$found" ] && pass || fail "left behind: $found"
}

# A run's table of metrics without the seconds, the only column that may differ. Two tables that are missing are not the same.
metrics() {
    [ -s "$1/metrics.csv" ] || { echo "no metrics in $1" && return 1; }
    cut -d, -f1-15,17- "$1/metrics.csv"
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}
