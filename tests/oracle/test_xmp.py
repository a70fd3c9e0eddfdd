"""Sidecars as other programs read them: Python's xml.etree, ExifTool and Adobe's XMP toolkit (exempi)."""
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from library import Library, sized, texts

os.environ["OPENBLAS_NUM_THREADS"] = "1"
library = Library()
RDF, DC = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://purl.org/dc/elements/1.1/"
TAGS = ["cat", "Käse & Brot", "日本", 'a "quoted" <tag>']


def write(picture, tags, remove=()):
    changed, removed = ctypes.c_int(-1), texts(remove)
    options = sized("l3a_sidecar_options", remove=ctypes.addressof(removed), remove_count=len(remove))
    library.sidecar_write(str(picture).encode(), texts(tags), len(tags), ctypes.byref(options), ctypes.byref(changed))
    return changed.value


def by_etree(path):
    root = ElementTree.parse(path).getroot()
    rdf = root if root.tag == f"{{{RDF}}}RDF" else root.find(f"{{{RDF}}}RDF")
    return [item.text for item in rdf.iterfind(f"{{{RDF}}}Description/{{{DC}}}subject/*/{{{RDF}}}li")]


def by_exiftool(path):
    said = subprocess.run(["exiftool", "-json", "-XMP-dc:Subject", path], check=True, capture_output=True).stdout
    subject = json.loads(said)[0].get("Subject", [])
    return [str(item) for item in (subject if isinstance(subject, list) else [subject])]


def by_exempi(path):
    """exempi writes the packet as Adobe's toolkit understood it."""
    packet = path.with_suffix(".packet")
    subprocess.run(["exempi", "-X", "-x", "-o", packet, path], check=True, capture_output=True)
    keywords = by_etree(packet)
    packet.unlink()  # exempi would append to it
    return keywords


readers = [by_etree]
for program, reader in (("exiftool", by_exiftool), ("exempi", by_exempi)):
    if shutil.which(program):
        readers.append(reader)
    else:
        print(f"skipped: sidecars as {program} reads them ({program} is not installed)")

ADOBE = f"""<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Adobe XMP Core 5.6-c140">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about=""
    xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:dc="{DC}"
    xmlns:lr="http://ns.adobe.com/lightroom/1.0/"
   xmp:Rating="3">
   <dc:creator>
    <rdf:Seq>
     <rdf:li>somebody</rdf:li>
    </rdf:Seq>
   </dc:creator>%s
   <lr:hierarchicalSubject>
    <rdf:Bag>
     <rdf:li>animal|dog</rdf:li>
    </rdf:Bag>
   </lr:hierarchicalSubject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""
SUBJECT = "\n   <dc:subject>\n    <rdf:Bag>\n     <rdf:li>dog</rdf:li>\n     <rdf:li>mine</rdf:li>\n    </rdf:Bag>\n   </dc:subject>"
# name: file, its keywords, whether it has a rating that must stay
FILES = {
    "adobe": (ADOBE % SUBJECT, ["dog", "mine"], True),
    "no subject": (ADOBE % "", [], True),
    "empty subject": (ADOBE % "\n   <dc:subject/>", [], True),
    "darktable": (f"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:darktable="http://darktable.sf.net/" xmp:Rating="3"
   darktable:xmp_version="4"/>
 </rdf:RDF>
</x:xmpmeta>
""", [], True),
    "no description": (f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{RDF}"/></x:xmpmeta>', [], False),
    "other prefixes": (f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r:RDF xmlns:r="{RDF}"><r:Description r:about="" xmlns:d="{DC}"><d:subject>'
                       '<r:Bag><r:li>dog</r:li></r:Bag></d:subject></r:Description></r:RDF></x:xmpmeta>', ["dog"], False),
    "packet": ('<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n' + ADOBE % SUBJECT + " " * 200 + '\n<?xpacket end="w"?>',
               ["dog", "mine"], True),
}
checked = 0


def check(path, expected, what):
    global checked
    for reader in readers:
        got = reader(path)
        assert got == expected, f"{what}, {reader.__name__}: {got} instead of {expected}"
        checked += 1


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    assert write(folder / "new.jpg", TAGS) == 1
    check(folder / "new.jpg.xmp", TAGS, "new")
    for number, (what, (before, keywords, rated)) in enumerate(FILES.items()):
        picture, sidecar = folder / f"{number}.jpg", folder / f"{number}.jpg.xmp"
        sidecar.write_text(before)
        assert write(picture, TAGS) == 1
        check(sidecar, keywords + TAGS, what)
        after = sidecar.read_bytes()
        assert write(picture, TAGS) == 0 and sidecar.read_bytes() == after, f"{what}: written twice"
        assert write(picture, ["cat"], TAGS + ["dog"]) == 1
        check(sidecar, [keyword for keyword in keywords if keyword != "dog"] + ["cat"], f"{what}, replaced")
        if rated and by_exiftool in readers:
            said = subprocess.run(["exiftool", "-s3", "-XMP-xmp:Rating", sidecar], check=True, capture_output=True).stdout
            assert said.strip() == b"3", f"{what}: {said}"
        # Without its lines for keywords, the file is what it was without its own.
        if what in ("adobe", "packet"):
            kept = sidecar.read_text().replace("     <rdf:li>cat</rdf:li>\n", "")
            assert kept == before.replace("     <rdf:li>dog</rdf:li>\n", ""), what
library.context_free(library.context)
print(f"{checked} readings agree")
