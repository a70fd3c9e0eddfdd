#!/bin/bash
# Joins what the parts of a job have made: the shards to one feature file, and the models to one model.
#
#   sbatch --dependency=afterok:NUMBER join.sh JOB.conf
#
#SBATCH --job-name=l3a-join
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
set -euo pipefail
source "$1"

l3a merge "$work"/shards/*.safetensors -o "$work/features.safetensors"
models=("$work"/models/*.safetensors)
if [ ${#models[@]} -gt 1 ]; then
    l3a merge "${models[@]}" -o "$work/model.safetensors"
else
    cp "${models[0]}" "$work/model.safetensors"
fi
