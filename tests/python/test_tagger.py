"""The tagger: the same scores and the same model as the command's, from every form of picture, on several threads."""
import copy
import io
import json
import os
import pickle
import struct
import subprocess
import tarfile
import tempfile
import threading
import tracemalloc
import unittest
import zlib
from pathlib import Path

import support

support.need("numpy", "PIL")
import numpy
from PIL import Image

import l3a
from l3a._tagger import png_bytes

BACKBONE = support.SOURCE / "models/demo_backbone.safetensors"


def command(*arguments):
    return subprocess.run([support.COMMAND, *map(str, arguments)], check=True, text=True, capture_output=True).stdout


def draw(channel, seed):
    """A noisy picture of one colour."""
    made = numpy.random.default_rng(seed).integers(0, 60, (90, 120, 3)).astype(numpy.uint8)
    made[..., channel] += 150
    return made


class Pictures(unittest.TestCase):
    def setUp(self):
        self.held = tempfile.TemporaryDirectory()
        self.folder = Path(self.held.name)
        self.before = os.getcwd()
        os.chdir(self.folder)
        self.colours = {"red": 0, "green": 1, "blue": 2}
        self.paths = {}
        for name, channel in self.colours.items():
            self.paths[name] = [f"{name}{i}.jpg" for i in range(4)]
            for i, path in enumerate(self.paths[name]):
                Image.fromarray(draw(channel, 10 * channel + i)).save(path)

    def tearDown(self):
        os.chdir(self.before)
        self.held.cleanup()

    def taught(self, path="model.safetensors", **more):
        tagger = l3a.Tagger.create(path, BACKBONE, threads=1, dim=256, **more)
        for name in self.colours:
            tagger.teach(self.paths[name][:3], name)
        return tagger

    def by_command(self):
        for name in self.colours:
            command("teach", "theirs.safetensors", *self.paths[name][:3], "--tags", name, "--backbone", BACKBONE, "--threads", 1)


class AsTheCommand(Pictures):
    def test_teaches_the_same_model(self):
        tagger = l3a.Tagger.create("model.safetensors", BACKBONE, threads=1)
        for name in self.colours:
            tagger.teach(self.paths[name][:3], name)
            tagger.save()
        self.by_command()
        (ours, said), (theirs, also_said) = support.tensors("model.safetensors"), support.tensors("theirs.safetensors")
        self.assertEqual([name for name in theirs if ours.get(name) != theirs[name]], [])
        different = {key for key in said if said[key] != also_said.get(key)} | set(also_said) - set(said)
        self.assertLessEqual(different, {"record.lesson", "xxh3.header"})  # a lesson has a number of its own

    def test_tags_with_the_same_scores(self):
        self.by_command()
        paths = [paths[3] for paths in self.paths.values()]
        said = json.loads(command("tag", "theirs.safetensors", *paths, "--top", 3, "--format", "json", "--threads", 1))
        with l3a.Tagger.open("theirs.safetensors", threads=1) as tagger:
            for theirs, ours in zip(said, tagger.tag(paths)):
                self.assertEqual([(tag["tag"] if "tag" in tag else tag["name"], f"{tag['score']:.4f}") for tag in theirs["tags"]],
                                 [(tag.name, f"{tag.score:.4f}") for tag in ours.all])

    def test_undoes_and_renames_as_the_command_does(self):
        self.by_command()
        with l3a.Tagger.open("theirs.safetensors", threads=1) as tagger:
            self.assertEqual([list(entry.classes) for entry in tagger.history()], [["red"], ["green"], ["blue"]])
            self.assertEqual(tagger.undo().images, 3)
            self.assertTrue(tagger.rename("red", "rouge"))
            tagger.save()
            self.assertEqual(tagger.classes, ["rouge", "green"])
        self.assertIn("rouge", command("history", "theirs.safetensors"))
        command("undo", "theirs.safetensors")
        self.assertEqual(l3a.Tagger.open("theirs.safetensors", threads=1).classes, ["red", "green"])


class Tagging(Pictures):
    def test_pictures_in_tar_files(self):
        tagger = self.taught()
        paths = [path for paths in self.paths.values() for path in paths]
        Path("bad.jpg").write_text("no picture")
        for name, inside in {"a.tar": paths[:5] + ["bad.jpg"], "b.tar": paths[5:]}.items():
            with tarfile.open(name, "w") as archive:
                for path in inside:
                    archive.add(path)
        Path("c.tar").write_bytes(Path("a.tar").read_bytes()[:2000])
        found = list(tagger.tag_archive("tar:[abc].tar"))
        self.assertEqual([path for path, _ in found], [f"a.tar/{path}" for path in paths[:5]] + [f"b.tar/{path}" for path in paths[5:]]
                         + ["a.tar/bad.jpg", "c.tar"])
        self.assertEqual([tags.all for _, tags in found[:12]], [tags.all for tags in tagger.tag(paths)])
        self.assertIn("this is a text, not a picture", str(found[12][1]))
        self.assertIn(f"'{paths[0]}' should have", str(found[13][1]))
        self.assertEqual(len(list(tagger.tag_archive(Path("a.tar")))), 6)
        with self.assertRaisesRegex(l3a.Error, "no file has such a name"):
            list(tagger.tag_archive("none-*.tar"))

    def test_every_form_of_a_picture_gives_the_same_tags(self):
        tagger, path = self.taught(), self.paths["green"][3]
        expected = tagger.tag(path).all
        opened = Image.open(path).convert("RGB")
        forms = {"Path": Path(path), "bytes": Path(path).read_bytes(), "bytearray": bytearray(Path(path).read_bytes()),
                 "Pillow": Image.open(path), "array": numpy.asarray(opened), "PNG": png_bytes(opened),
                 "reversed twice": numpy.asarray(opened)[::-1][::-1]}
        for name, form in forms.items():
            with self.subTest(name):
                self.assertEqual(tagger.tag(form).all, expected)
        self.assertEqual([tags.all for tags in tagger.tag([forms["Pillow"], forms["bytes"]])], [expected] * 2)
        self.assertEqual(tagger.tag([]), [])
        self.assertEqual(tagger.tag(path for path in [path])[0].all, expected)

    def test_png_is_what_pillow_reads(self):
        for shape in ((5, 7), (5, 7, 1), (5, 7, 3), (5, 7, 4)):
            pixels = numpy.random.default_rng(1).integers(0, 256, shape).astype(numpy.uint8)
            read = numpy.asarray(Image.open(io.BytesIO(png_bytes(pixels))))
            self.assertTrue((read == pixels.reshape(read.shape)).all(), shape)

    def test_tags_say_what_they_are(self):
        tags = self.taught().tag(self.paths["red"][3])
        self.assertEqual(tags.names[0], "red")
        self.assertEqual(len(tags.all), 3)
        self.assertEqual([tag.predicted for tag in tags], [True] * len(tags))
        self.assertTrue(repr(tags).startswith("[red 0."), repr(tags))
        self.assertEqual(pickle.loads(pickle.dumps(tags)).all, tags.all)

    def test_boxes_of_views(self):
        tag = self.taught(views=5).tag(self.paths["red"][3]).all[0]
        self.assertEqual(len(tag.box), 4)
        self.assertTrue(all(0 <= share <= 1 for share in tag.box))

    def test_pictures_that_cannot_be_read(self):
        tagger = self.taught()
        Path("bad.jpg").write_bytes(b"no picture")
        good = self.paths["red"][3]
        for listed in ([good, "bad.jpg", "nothing.jpg"], [b"no picture", good]):
            with self.assertRaises(l3a.Error):
                tagger.tag(listed)
            found = tagger.tag(listed, errors="return")
            self.assertEqual([isinstance(one, l3a.Error) for one in found], [one != good for one in listed])
        with self.assertRaises(FileNotFoundError):
            tagger.tag("nothing.jpg")
        with self.assertRaisesRegex(ValueError, r"shape \(3, 3, 7\)"):
            tagger.tag(numpy.zeros((3, 3, 7), dtype=numpy.uint8))
        with self.assertRaisesRegex(ValueError, "float64"):
            tagger.tag(numpy.zeros((3, 3, 3)))

    def test_a_picture_with_too_many_pixels_is_refused_before_it_is_copied(self):
        tagger = self.taught()
        pixel = numpy.zeros((1, 1, 3), dtype=numpy.uint8)
        tracemalloc.start()
        with self.assertRaisesRegex(ValueError, "100000 x 100000 pixels.*the limit is 64000000"):
            tagger.tag(numpy.broadcast_to(pixel, (100000, 100000, 3)))
        with self.assertRaisesRegex(ValueError, "8000 x 8001 pixels"):
            tagger.teach(numpy.broadcast_to(pixel, (8001, 8000, 3)), "red")
        self.assertLess(tracemalloc.get_traced_memory()[1], 1 << 20)
        tracemalloc.stop()
        # The library refuses the same number of pixels, so no picture that it would take is refused here.
        chunks = [(b"IHDR", struct.pack(">IIBBBBB", 8000, 8001, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
        Path("large.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content)) for name, content in chunks))
        with self.assertRaisesRegex(l3a.Error, "8000 x 8001 pixels; the limit is 64000000"):
            tagger.tag("large.png")
        with self.assertRaisesRegex(ValueError, "8001 x 8000 pixels"):
            tagger.tag(Image.new("L", (8001, 8000)))

    def test_threads_tag_at_the_same_time_while_one_teaches(self):
        tagger, found = self.taught(), []
        expected = {path: tagger.tag(path).all[0].name for paths in self.paths.values() for path in paths}

        def work():
            for path, name in expected.items():
                found.append(tagger.tag(path).all[0].name == name)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        tagger.teach(self.paths["red"][3], "red")
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 4 * len(expected))
        self.assertGreater(sum(found), 3 * len(expected))
        self.assertLessEqual(len(tagger._idle), 5)


class Teaching(Pictures):
    def test_tags_of_each_picture(self):
        tagger = l3a.Tagger.create("model.safetensors", BACKBONE, threads=1)
        lesson = tagger.teach([draw(0, 1), draw(1, 1), Image.fromarray(draw(2, 1))], [["red", "warm"], ["green"], []])
        self.assertEqual((lesson.images, lesson.new_classes, lesson.skipped, lesson.repeated), (3, 3, [], []))
        self.assertEqual(tagger.history()[0].classes, {"red": 1, "warm": 1, "green": 1})
        with self.assertRaisesRegex(ValueError, "tags are given twice"):
            tagger.teach({"red": draw(0, 9)}, "red")
        with self.assertRaisesRegex(ValueError, "2 lists of tags are given for 1 pictures"):
            tagger.teach(draw(0, 2), [["red"], ["green"]])

    def test_pictures_of_each_tag(self):
        tagger, shared = l3a.Tagger.create("model.safetensors", BACKBONE, threads=1, dim=256), draw(0, 7)
        reds = [Path(path) for path in self.paths["red"]]
        lesson = tagger.teach({"red": reds, "warm": [*self.paths["red"][:2], shared], "seen": shared})
        self.assertEqual((lesson.images, lesson.new_classes), (5, 3))
        self.assertEqual(tagger.history()[0].classes, {"red": 4, "warm": 3, "seen": 1})

    def test_again_instead_and_strict(self):
        tagger, red = self.taught(), self.paths["red"][0]
        self.assertEqual(tagger.teach([red, self.paths["red"][3]], "red").repeated, [red])
        with self.assertRaises(FileExistsError):
            tagger.teach(red, "green")
        self.assertEqual(tagger.teach(red, "green", instead=True).images, 1)
        Path("bad.jpg").write_bytes(b"no picture")
        Image.fromarray(draw(2, 99)).save("new.jpg")
        with self.assertRaisesRegex(l3a.Error, "bad.jpg"):
            tagger.teach(["bad.jpg", "new.jpg"], "blue")
        lesson = tagger.teach(["bad.jpg", "new.jpg"], "blue", strict=False)
        self.assertEqual((lesson.images, [name for name, _ in lesson.skipped]), (1, ["bad.jpg"]))

    def test_absent_and_only(self):
        tagger = self.taught()
        self.assertEqual(tagger.teach(draw(0, 50), absent="blue").images, 1)
        self.assertEqual(tagger.teach(draw(0, 51), "red", only=True).images, 1)
        with self.assertRaisesRegex(ValueError, "red"):
            tagger.teach(draw(0, 52), "red", absent=["red"])

    def test_nothing_is_written_before_save(self):
        tagger = self.taught()
        self.assertFalse(Path("model.safetensors").exists())
        self.assertIn("not saved", repr(tagger))
        tagger.save()
        self.assertEqual(repr(tagger), "<l3a.Tagger model.safetensors: 3 tags: red, green, blue>")
        saved = Path("model.safetensors").read_bytes()
        tagger.undo()
        self.assertEqual(tagger.classes, ["red", "green"])
        tagger.reload()
        self.assertEqual(tagger.classes, ["red", "green", "blue"])
        self.assertTrue(Path("model.safetensors").read_bytes() == saved)
        with self.assertRaises(FileExistsError):
            l3a.Tagger.create("model.safetensors", BACKBONE, threads=1)

    def test_two_taggers_do_not_lose_each_others_lessons(self):
        self.taught().save()
        one, two = (l3a.Tagger.open("model.safetensors", threads=1) for _ in range(2))
        one.teach(self.paths["red"][3], "red")
        one.save()
        two.teach(self.paths["blue"][3], "blue")  # after reading what the other has saved
        two.save()
        self.assertEqual(len(l3a.Tagger.open("model.safetensors", threads=1).history()), 5)

    def test_two_taggers_do_not_wait_for_each_other_for_ever(self):
        self.taught().save()
        one, two = (l3a.Tagger.open("model.safetensors", threads=1) for _ in range(2))
        one.teach(self.paths["red"][3], "red")  # and not saved
        found = []

        def work():
            try:
                two.teach(self.paths["blue"][3], "blue")
            except l3a.Error as error:
                found.append(error)
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        self.assertEqual(len(found), 2)
        for error in found:
            self.assertIn("this process is already changing this file", str(error))
        one.save()
        two.teach(self.paths["blue"][3], "blue")
        two.save()
        self.assertEqual(len(l3a.Tagger.open("model.safetensors", threads=1).history()), 5)

    def test_a_damaged_history_is_repaired(self):
        tagger = self.taught()
        tagger.save()
        self.assertEqual(l3a.Tagger.repair("model.safetensors"), (0, 0, 0))
        path = Path("model.safetensors.history")
        good = path.read_bytes()
        path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
        with self.assertRaises(l3a.Error) as caught:
            l3a.Tagger.open("model.safetensors", threads=1).history()
        self.assertIn("damaged at byte 16", str(caught.exception))
        with self.assertWarnsRegex(l3a.L3AWarning, "damaged-1"):
            done = l3a.Tagger.repair("model.safetensors")
        self.assertEqual((done.applied, done.lost), (0, 0))
        self.assertEqual(Path("model.safetensors.history.damaged-1").read_bytes()[:16], good[:16])
        again = l3a.Tagger.open("model.safetensors", threads=1)
        self.assertEqual(again.classes, tagger.classes)
        self.assertGreater(len(again.history()), 0)

    def test_a_clock_that_was_far_off(self):
        self.taught().save()
        path = Path("model.safetensors.history")
        self.assertEqual(l3a.Tagger.open("model.safetensors", threads=1).history()[0].time.year > 2020, True)
        for seconds, year in ((1 << 60, 9999), (-(1 << 60), 1)):
            self.assertEqual(l3a._tagger._when(seconds).year, year)
        self.assertTrue(path.exists())

    def test_expectation(self):
        expected = self.taught().expect()
        self.assertEqual(list(expected), ["red", "green", "blue"])
        self.assertEqual((expected["red"].shown, expected["red"].judged), (3, 9))

    def test_packed_models_tag_but_do_not_learn(self):
        self.taught().save()
        command("pack", "model.safetensors", "-o", "packed.safetensors", "--with-backbone")
        with l3a.Tagger.open("packed.safetensors", threads=1) as tagger:
            self.assertEqual(tagger.classes, ["red", "green", "blue"])
            self.assertEqual(tagger.tag(self.paths["red"][3]).all[0].name, "red")
            with self.assertRaises(l3a.Error):
                tagger.teach(self.paths["red"][3], "red")

    def test_a_copy_is_refused(self):
        """It would share the tagger of the library, and close it."""
        tagger = self.taught()
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "Tagger.open"):
                make(tagger)
        self.assertTrue(tagger.tag(self.paths["red"][3]).all)

    def test_a_closed_tagger_says_so(self):
        with self.taught() as tagger:
            pass
        self.assertEqual(repr(tagger), "<l3a.Tagger model.safetensors, closed>")
        for call in (lambda: tagger.tag("x.jpg"), lambda: tagger.teach("x.jpg", "x"), tagger.save, tagger.history):
            with self.assertRaisesRegex(l3a.Error, "closed"):
                call()


unittest.main()
