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

# A file that is there is complete: both commands write files in one step. So a part that is repeated does only what is missing,
# and an extraction that was interrupted continues.
if [ ! -e "$features" ]; then
    # The exit code is 2 if some pictures could not be read. They are listed in the file, which is there nevertheless.
    code=0
    l3a extract --backbone "$backbone" --data "$data" ${split:+--split "$split"} --shard "$part/$shards" \
        "${extract_options[@]}" -o "$features" || code=$?
    [ -e "$features" ] || exit $code
fi
if [ ! -e "$model" ]; then
    # A shard that shows none of the classes leaves no model.
    l3a learn "$model" --features "$features" --classes "$classes" "${learn_options[@]}"
fi
