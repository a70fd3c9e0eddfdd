# examples/cluster: the scripts as a Slurm array and as an indexed Kubernetes Job would run them, and the manifest.
source "$(dirname "$0")/support.sh"
: "${L3A_SOURCE:?the source folder}"
cd "$work"
cluster=$L3A_SOURCE/examples/cluster
backbone=$L3A_SOURCE/models/demo_backbone.safetensors
check 'pictures' /usr/bin/python3 "$here/make_pictures.py" .
sed -i 's/Scheibe & Co/disc/' list.csv
mkdir bin && ln -s "$L3A_BUILD/l3a" bin/l3a
export PATH=$PWD/bin:$PATH
unset SLURM_ARRAY_TASK_ID JOB_COMPLETION_INDEX

# job FOLDER CLASSES: a job of 7 shards, two of which are empty
job() {
    sed -e 's/^shards=.*/shards=7/' -e "s|^work=.*|work='$PWD/$1'|" -e 's/^data=.*/data=list:list.csv/' -e 's/^split=.*/split=/' \
        -e "s|^backbone=.*|backbone='$backbone'|" -e "s/^classes=.*/classes=$2/" \
        -e 's/^\(learn_options=(.*\))\( .*\)*$/\1 --dim 64 --privacy-limit 0 --precision double)/' "$cluster/job.conf"
}
slurm() { SLURM_ARRAY_TASK_ID=$1 bash "$cluster/part.sh" "$2"; }
kubernetes() { JOB_COMPLETION_INDEX=$1 bash "$cluster/part.sh" "$2"; }
files() { (cd "$1" && find . -type f | sort | xargs sha256sum); }

job 'a job' disc,stripes >job.conf
check 'every line of the settings was replaced' test "$(grep -c /shared job.conf)" -eq 0
check 'the settings are shell' bash -n job.conf
check 'the whole' l3a extract --backbone "$backbone" --data list:list.csv --quiet -o whole.st
check 'a model of the whole' l3a learn whole.model --features whole.st --classes disc,stripes --method l3a+ --weights none --gamma-from sums \
    --dim 64 --privacy-limit 0 --precision double --quiet
for part in 7 3 1 2 6 4 5; do
    check "part $part" slurm $part job.conf
done
check 'all shards' test "$(ls 'a job/shards' | wc -l)" -eq 7
check 'models of those that have pictures' test "$(ls 'a job/models' | wc -l)" -eq 5
expect 0 'note: shard 4 of 7 is not in the model' bash "$cluster/join.sh" job.conf
shows '7 feature files, 70 rows' '5 models, 2 classes in 1 phase' 'The model equals one that learned from all the pictures in one place.'
check 'the features of one machine' cmp whole.st 'a job/features.safetensors'
cat >compare.py <<'P'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import numpy as np
import feature_file
one, other = (feature_file.load(path)[0] for path in sys.argv[2:])
assert one.keys() == other.keys(), (list(one), list(other))
for name in one:
    off = np.abs(one[name] - other[name]).max() / np.abs(other[name]).max()
    assert off < 1e-9, f"{name} is off by {off}"
P
check 'the model of one machine' /usr/bin/python3 compare.py "$L3A_SOURCE/tests/oracle" 'a job/model.safetensors' whole.model

# repeated parts
files 'a job' >before
for part in 1 3 7; do
    check "part $part once more" slurm $part job.conf
done
check 'and the join' bash "$cluster/join.sh" job.conf
files 'a job' >after
check 'repeating changes nothing' cmp before after
rm 'a job/models/000003.safetensors' 'a job/shards/000006.safetensors' 'a job/models/000006.safetensors'
expect 2 'shard 6 of 7 is missing' bash "$cluster/join.sh" job.conf
check 'a lost shard' slurm 6 job.conf
check 'a lost model' slurm 3 job.conf
check 'the join' bash "$cluster/join.sh" job.conf
files 'a job' >after
check 'and it is whole again' cmp before after
# files that are there, but are not what they should be
change() { /usr/bin/python3 -c "
import sys
data = bytearray(open(sys.argv[1], 'rb').read()); data[int(sys.argv[2])] ^= 1; open(sys.argv[1], 'wb').write(data)" "$@"; }
shard='a job/shards/000006.safetensors'
change "$shard" -4000
expect 0 '000006.safetensors is damaged, and is made again' slurm 6 job.conf
truncate -s 900 "$shard"
expect 0 '000006.safetensors is damaged, and is made again' slurm 6 job.conf
: >"$shard"
expect 0 '000006.safetensors is damaged, and is made again' slurm 6 job.conf
change 'a job/models/000003.safetensors' -100
expect 0 'models/000003.safetensors is damaged, and is made again' slurm 3 job.conf
files 'a job' >after
check 'damaged files are made again' cmp before after
cp "$shard" kept
cp 'a job/shards/000005.safetensors' "$shard"
expect 2 'is not shard 6/7 of this job' slurm 6 job.conf
check 'another shard is not touched' cmp 'a job/shards/000005.safetensors' "$shard"
cp kept "$shard"
for other in 's/^shards=.*/shards=8/' 's/^extract_options=.*/extract_options=(--float16)/' 's/list:list.csv/list:relabelled.csv/'; do
    sed 's/60.png,disc;stripes/60.png,stripes/' list.csv >relabelled.csv
    sed "$other" job.conf >other.conf
    expect 2 "use another 'work' folder" slurm 6 other.conf
done
files 'a job' >after
check 'nor those of another job' cmp before after
sed 's/list:list.csv/list:nowhere.csv/' job.conf >other.conf
expect 2 'nowhere.csv' slurm 6 other.conf
check 'data that is missing is no other job' test "$(grep -c 'of this job' stderr)" -eq 0

cp 'a job/models/000003.safetensors' 'a job/models/copy.safetensors'
expect 2 'would count them twice' bash "$cluster/join.sh" job.conf

# Kubernetes counts from 0
job pods disc,stripes >pods.conf
for index in 0 1 2 3 4 5 6; do
    check "pod $index" kubernetes $index pods.conf
done
check 'the join of the pods' bash "$cluster/join.sh" pods.conf
check 'pods make the same model' cmp 'a job/model.safetensors' pods/model.safetensors
expect 1 'neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set' bash "$cluster/part.sh" pods.conf
expect 2 "--shard: '8/7' is not a shard" slurm 8 pods.conf

# pictures that cannot be read do not end a part, and a wrong class does
echo broken >taught/40.png
job bad disc,stripes >bad.conf
expect 0 '1 picture could not be read' slurm 5 bad.conf
check 'it learned the others' test -s bad/models/000005.safetensors
job wrong disc,strips >wrong.conf
expect 2 "no class 'strips'" slurm 5 wrong.conf
check 'no model' test ! -e wrong/models/000005.safetensors

if ! command -v shellcheck >/dev/null; then
    echo 'skipped: shellcheck is not installed'
else
    check 'shellcheck' shellcheck --exclude=SC1090,SC2154 "$cluster/part.sh" "$cluster/join.sh"
fi
if ! /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
    echo 'skipped: python3-yaml is not installed, so the manifest is not checked'
else
    check 'the manifest' /usr/bin/python3 - "$cluster" <<'P'
import sys
import yaml
parts, join = yaml.safe_load_all(open(sys.argv[1] + "/kubernetes.yaml"))
settings = dict(line.split("#")[0].strip().split("=", 1) for line in open(sys.argv[1] + "/job.conf") if not line.startswith("#"))
assert parts["kind"] == join["kind"] == "Job" and parts["apiVersion"] == "batch/v1"
assert parts["spec"]["completionMode"] == "Indexed" and str(parts["spec"]["completions"]) == settings["shards"]
assert f"--array=1-{settings['shards']}%{parts['spec']['parallelism']}\n" in open(sys.argv[1] + "/part.sh").read()
for job, script, step in (parts, "part.sh", "parts"), (join, "join.sh", "join"):
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never" and job["metadata"]["labels"] == {"step": step}
    container, = pod["containers"]
    assert container["command"] == ["/bin/bash", f"/job/{script}", "/job/job.conf"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]} == {"job", "shared"} and mounts["job"] == "/job"
P
fi
finish
