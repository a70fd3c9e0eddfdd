"""Makes pictures that even a small network tells apart: make_pictures.py FOLDER, with discs and stripes in it, and list.csv.

The list has 30 pictures of discs, 30 of stripes and 10 of both; the folder "mixed" has pictures that are not in it."""
import os
import sys
import numpy as np
from PIL import Image

folder = sys.argv[1]
rng = np.random.default_rng(1)
ys, xs = np.mgrid[:96, :128]


def picture(disc, stripes):
    values = rng.integers(90, 130, (96, 128, 3)).astype("u1")
    if stripes:
        values[(xs + rng.integers(0, 12)) % 12 < 6] = (20, 40, 200)
    if disc:
        values[(ys - rng.integers(30, 60)) ** 2 + (xs - rng.integers(40, 90)) ** 2 < 700] = (220, 40, 30)
    return Image.fromarray(values)


os.makedirs(f"{folder}/taught", exist_ok=True)
os.makedirs(f"{folder}/mixed/Überraschung mit Leerzeichen", exist_ok=True)
with open(f"{folder}/list.csv", "w") as rows:
    print("path,labels", file=rows)
    for i in range(70):
        labels = ["Scheibe & Co"] * (i < 30 or i >= 60) + ["stripes"] * (i >= 30)
        picture("stripes" not in labels or len(labels) == 2, "stripes" in labels).save(f"{folder}/taught/{i:02}.png")
        print(f"taught/{i:02}.png,{';'.join(labels)}", file=rows)
for name, disc, stripes in (("a disc.jpg", True, False), ("Überraschung mit Leerzeichen/Äpfel, \"gestreift\".png", False, True),
                            ("both\nnew line.png", True, True), ("nothing.png", False, False), ("z.jpg", True, True)):
    picture(disc, stripes).save(f"{folder}/mixed/{name}", quality=95)
