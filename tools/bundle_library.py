"""Builds the library and puts it into the folder of the Python package: l3a/lib/libl3a.so.

The plug-ins that were built are put beside it. With --all, there are none; instead there are the libraries that it needs and that not
every Linux has, each under a name of its own, so that they do not get mixed up with others of the same name in one process, and their
licences. HEIC and AVIF pictures are left out then, because their codecs are large. Needs patchelf.

    python3 tools/bundle_library.py FOLDER [--all] [--library FILE]"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
# What every Linux with glibc has.
BASE = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so")
WITHOUT = ["-DL3A_HEIF=OFF", "-DL3A_CUDA=OFF", "-DL3A_FIGURE=OFF", "-DL3A_ONEDNN=ON", "-DL3A_WEBP=ON"]
PLUGINS = ["l3a_cuda", "l3a_figure"]


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, text=True, **more)


def build(all_inside):
    """The library, in a build folder of its own."""
    folder = Path(os.environ.get("L3A_CMAKE_BUILD", SOURCE / ("build/wheel" if all_inside else "build/python")))
    folder.mkdir(parents=True, exist_ok=True)
    run("cmake", "-S", SOURCE, "-B", folder, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DL3A_MPI=OFF", *WITHOUT * all_inside,
        stdout=subprocess.DEVNULL)
    targets = run("cmake", "--build", folder, "--target", "help", capture_output=True).stdout.split()
    run("cmake", "--build", folder, "-j", len(os.sched_getaffinity(0)), "--target", "l3a", *[p for p in PLUGINS if p in targets],
        stdout=subprocess.DEVNULL)
    return folder / "libl3a.so"


def needed(path):
    """{name: path} of the libraries that one needs, itself and through others."""
    lines = run("ldd", path, capture_output=True).stdout.splitlines()
    found = dict(re.findall(r"(\S+) => (\S+) \(", "\n".join(lines)))
    return {name: Path(where) for name, where in found.items() if not BASE.match(name)}


def own_name(name):
    """libz.so.1 becomes libz-l3a.so.1."""
    return re.sub(r"\.so", "-l3a.so", name, count=1)


def licence_of(path):
    """The licence of the Debian package that a library came from."""
    real = path.resolve()
    for candidate in (path, real, Path("/usr" + str(real)), Path(str(real).replace("/usr/", "/", 1))):
        found = subprocess.run(["dpkg-query", "-S", candidate], text=True, capture_output=True)
        if found.returncode == 0:
            package = found.stdout.split(":")[0]
            return package, Path(f"/usr/share/doc/{package}/copyright")
    sys.exit(f"{path}: no package has this library, so its licence is not known")


def bundle(folder):
    """Copies the libraries beside libl3a.so, and lets each find the others there."""
    lib, licences = folder / "lib", folder / "licences"
    licences.mkdir(parents=True, exist_ok=True)
    others = needed(lib / "libl3a.so")
    for name, path in others.items():
        shutil.copy(path.resolve(), lib / own_name(name))
        package, licence = licence_of(path)
        shutil.copy(licence, licences / f"{package}.txt")
    for path in [lib / "libl3a.so"] + [lib / own_name(name) for name in others]:
        path.chmod(0o755)
        change(path, others)
    for path in lib.iterdir():
        stray = [name for name, where in needed(path).items() if where.parent.resolve() != lib.resolve()]
        if stray:
            sys.exit(f"{path.name} still looks for {', '.join(stray)} elsewhere")


def change(path, others):
    """Renames what a library needs. One change at a time: patchelf mixes several up."""
    if path.name != "libl3a.so":
        run("patchelf", "--set-soname", path.name, path)
    for name in run("patchelf", "--print-needed", path, capture_output=True).stdout.split():
        if name in others:
            run("patchelf", "--replace-needed", name, own_name(name), path)
    run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--library", type=Path, help="one that is built already")
    arguments = parser.parse_args()
    library, lib = arguments.library or build(arguments.all), arguments.folder / "lib"
    shutil.rmtree(lib, ignore_errors=True)
    shutil.rmtree(arguments.folder / "licences", ignore_errors=True)
    lib.mkdir(parents=True)
    shutil.copy(library.resolve(), lib / "libl3a.so")
    run("strip", "--strip-unneeded", lib / "libl3a.so")
    if arguments.all:
        bundle(arguments.folder)
        return
    for plugin in library.parent.glob("libl3a-*.so"):
        if plugin.stem.replace("lib", "").replace("-", "_") in PLUGINS:
            shutil.copy(plugin, lib)


if __name__ == "__main__":
    main()
