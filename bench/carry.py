#!/usr/bin/env python3
"""Packs what is measured on a machine with a GPU that has no packages: programs with the libraries that they need, and a part of VOC.

    bench/carry.py FOLDER [--build FOLDER] [--old FOLDER] [--voc VOCdevkit] [--every N] [FILE…]

  programs.tar.xz  the command, the plug-in, the programs of bench/ and the tests on a device. Each finds its libraries beside itself, whatever
                   the machine has; only the C and C++ libraries and CUDA's are taken from it. A small build for this, in half a minute
                   of two cores after a full one:
                       cmake -B build-carry -DL3A_BENCH=ON -DL3A_TESTS=ON -DL3A_HEIF=OFF -DL3A_SERVE=OFF -DL3A_FIGURE=OFF -DL3A_MPI=OFF
                       cmake --build build-carry --target l3a_command l3a_cuda bench_gpu bench_device_network bench_device_training bench_load test_cuda test_cuda_networks \
                           test_cuda_training test_cuda_train training_numbers
  old.tar.xz       the same of an older version's build, which needs its command alone
  voc.tar.xz       each N-th picture of both splits, with its annotation
  FILE.xz          feature files, for example, compressed

There, if links and folders are slow to copy, once for each archive:
    tar xJf programs.tar.xz && L3A_BUILD=programs bench/gpu_pictures.py --voc voc …
    L3A_BUILD=programs bench/gpu.py …, L3A_BUILD=programs bench/gpu_networks.py …, L3A_BUILD=programs bench/gpu_training.py …,
    tools/sanitize-gpu programs
The bench scripts need NumPy; gpu_networks.py and gpu_training.py PyTorch and timm, and --side Pillow. If CUDA's libraries are not where the loader looks for them,
LD_LIBRARY_PATH says where. Needs patchelf."""
import argparse
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tools"))
from bundle_library import needed  # noqa: E402

PROGRAMS = ["l3a", "libl3a-cuda.so", "bench_gpu", "bench_device_network", "bench_device_training", "bench_load", "tests/test_cuda", "tests/test_cuda_networks",
            "tests/test_cuda_training", "tests/test_cuda_train", "tests/training_numbers"]
FROM_CUDA = ("libcublas", "libcusolver", "libcusparse", "libnvJitLink", "libcudart", "libcuda", "libcudnn")
CUDA_FOLDERS = "/usr/local/cuda/lib:/usr/local/cuda/lib64"
SPLITS = ("trainval", "test")


def run(*words):
    subprocess.run([str(word) for word in words], check=True)


def add_programs(build, folder):
    """Programs and libraries side by side, each looking there first."""
    folder.mkdir()
    for name in PROGRAMS:
        path = build / name
        if not path.exists():
            print(f"skipped: {path} (not built)")
            continue
        shutil.copy(path.resolve(), folder / path.name)
        for library, where in needed(path).items():
            if not library.startswith(FROM_CUDA):
                shutil.copy(where.resolve(), folder / library)
    for path in folder.iterdir():
        path.chmod(0o755)
        run("strip", "--strip-unneeded", path)
        run("patchelf", "--force-rpath", "--set-rpath", f"$ORIGIN:{CUDA_FOLDERS}", path)


def pack(folder, path):
    with tarfile.open(path, "w:xz", preset=6) as archive:
        archive.add(folder, folder.name)


def ids_of(voc, split, every):
    return (voc / "VOC2007" / "ImageSets" / "Main" / f"{split}.txt").read_text().split()[::every]


def pack_voc(voc, every, path):
    with tempfile.TemporaryDirectory() as work, tarfile.open(path, "w:xz", preset=1, dereference=True, format=tarfile.USTAR_FORMAT) as archive:
        for split in SPLITS:
            names = ids_of(voc, split, every)
            table = Path(work) / f"{split}.txt"
            table.write_text("".join(f"{name}\n" for name in names))
            archive.add(table, f"voc/VOC2007/ImageSets/Main/{table.name}")
            for name in names:
                for part in f"JPEGImages/{name}.jpg", f"Annotations/{name}.xml":
                    archive.add(voc / "VOC2007" / part, f"voc/VOC2007/{part}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--voc", type=Path)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("files", type=Path, nargs="*")
    options = parser.parse_intermixed_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for name, build in ("programs", options.build), ("old", options.old):
            if build:
                add_programs(build, Path(work) / name)
                pack(Path(work) / name, options.folder / f"{name}.tar.xz")
    if options.voc:
        pack_voc(options.voc, options.every, options.folder / "voc.tar.xz")
    for path in options.files:
        (options.folder / f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=6))
    for path in sorted(options.folder.iterdir()):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
