#!/bin/bash
# One part of a job: extracts a shard of the pictures, and learns from it. Part I of N is the task I of a Slurm array, or the pod
# with index I - 1 of an indexed Kubernetes Job.
#
#   sbatch part.sh JOB.conf
#
#SBATCH --job-name=l3a-part
#SBATCH --array=1-64%16
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --requeue
set -euo pipefail
source "$1"

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    part=$SLURM_ARRAY_TASK_ID
else
    part=$((${JOB_COMPLETION_INDEX:?neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set} + 1))
fi
mkdir -p "$work/shards" "$work/models"
name=$(printf '%06d' "$part")
features=$work/shards/$name.safetensors
model=$work/models/$name.safetensors

extract() { l3a extract --backbone "$backbone" --data "$data" ${split:+--split "$split"} "${extract_options[@]}" "$@"; }

# entry FILE NAME: what the file says about itself. l3a info also verifies its checksums, and fails if it is damaged.
entry() { l3a info "$1" | sed -n "s/^  $2: //p"; }

# Which extraction this is. Shard 1 of a million has no pictures, or very few, and says it in no time.
this_extraction() {
    local folder code=0
    folder=$(mktemp -d)
    extract --shard 1/1000000 --quiet -o "$folder/probe" >"$folder/said" 2>&1 || code=$?
    if [ -e "$folder/probe" ]; then
        code=0
        entry "$folder/probe" extraction
    else
        cat "$folder/said" >&2
    fi
    rm -r "$folder"
    return $code
}

# Both commands write files in one step, so a part that is repeated does only what is missing, and an extraction that was
# interrupted continues. A file that is there may have been damaged since, and is made again; one of another job is not touched.
if [ -e "$features" ] && ! found=$(entry "$features" shard && entry "$features" extraction); then
    echo "$features is damaged, and is made again" >&2
    rm "$features"
fi
if [ -e "$features" ]; then
    extraction=$(this_extraction)
    if [ "$found" != "$part/$shards"$'\n'"$extraction" ]; then
        echo "$features is not shard $part/$shards of this job: another backbone, other pictures, options or number of shards" >&2
        echo "use another 'work' folder in the settings of the job, or remove the file" >&2
        exit 2
    fi
fi
if [ ! -e "$features" ]; then
    # The exit code is 2 if some pictures could not be read. They are listed in the file, which is there nevertheless.
    code=0
    extract --shard "$part/$shards" -o "$features" || code=$?
    [ -e "$features" ] || exit $code
fi
if [ -e "$model" ] && ! l3a info "$model" >/dev/null; then
    echo "$model is damaged, and is made again" >&2
    rm "$model"
fi
if [ ! -e "$model" ]; then
    # A shard that shows none of the classes leaves no model.
    l3a learn "$model" --features "$features" --classes "$classes" "${learn_options[@]}"
fi
