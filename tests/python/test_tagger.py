"""The tagger: the same scores and the same model as the command's, from every form of picture, on several threads."""
import copy
import io
import json
import os
import pickle
import struct
import subprocess
import sys
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


class OnADevice(Pictures):
    """With the plug-in that makes a device of the processor. It is loaded in a process of its own."""

    def records(self, *lines, device="cuda"):
        """What the record `network` says of a new model."""
        program = ["import l3a, sys", *lines, "l3a.Tagger.open('made.safetensors').close()"]
        plugins = {"LD_LIBRARY_PATH": str(support.BUILD / "tests/driver"), "L3A_PLUGIN_PATH": str(support.BUILD / "tests/fake")}
        Path("made.safetensors").unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-c", "\n".join(program), str(BACKBONE), device], text=True, capture_output=True,
                              env={**os.environ, **plugins, "PYTHONPATH": str(support.SOURCE / "python")})
        self.assertEqual(done.returncode, 0, done.stderr)
        return support.tensors("made.safetensors")[1].get("record.network")

    @unittest.skipUnless((support.BUILD / "tests/fake/libl3a-cuda.so").exists(), "the plug-in for tests was not built")
    def test_a_new_model_is_in_float16_on_a_device_alone(self):
        create = "tagger = l3a.Tagger.create('made.safetensors', sys.argv[1], device=sys.argv[2], threads=1, dim=64{})"
        teach = "tagger.teach('red0.jpg', 'red'); tagger.save(); tagger.close()"
        self.assertEqual(self.records(create.format(""), teach), "float16")
        self.assertEqual(self.records(create.format(""), teach, device="auto"), "float16")
        self.assertIsNone(self.records(create.format(""), teach, device="cpu"))
        self.assertIsNone(self.records(create.format(", backbone_precision='float32'"), teach))
        again = "l3a.Tagger.open('made.safetensors', device='cuda').tag('red1.jpg')"
        self.assertEqual(self.records(create.format(", backbone_precision='float16'"), teach, again), "float16")

    def test_precisions_that_there_are(self):
        with self.assertRaisesRegex(ValueError, "'float32', 'bf16' or 'float16'"):
            l3a.Tagger.create("model.safetensors", BACKBONE, backbone_precision="fp8")


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
        for call in (lambda: tagger.tag("x.jpg"), lambda: tagger.teach("x.jpg", "x"), tagger.save, tagger.history,
                     lambda: tagger.set_unlabelled("x"), lambda: tagger.unlabelled):
            with self.assertRaisesRegex(l3a.Error, "closed"):
                call()


class Unlabelled(Pictures):
    """Pictures of a library that nobody has judged."""

    def setUp(self):
        super().setUp()
        os.mkdir("library")
        self.library = [f"library/{i}.jpg" for i in range(12)]
        for i, path in enumerate(self.library):
            Image.fromarray(draw(i % 3, 100 + i)).save(path)
        self.asked = [paths[3] for paths in self.paths.values()]

    def scores(self, tagger):
        """{class: score} of each picture, and what is predicted."""
        return [({tag.name: tag.score for tag in tags.all}, sorted(tags.names)) for tags in tagger.tag(self.asked)]

    def assert_same(self, one, two):
        for (first, named), (second, also_named) in zip(one, two):
            self.assertEqual(named, also_named)
            self.assertEqual(first.keys(), second.keys())
            self.assertLess(max(abs(first[name] - second[name]) for name in first), 1e-4)

    def features(self, paths=None):
        """A feature file of pictures, as the command extracts them for a tagger."""
        Path("library.csv").write_text("path,labels\n" + "".join(f"{path},any\n" for path in paths or self.library))
        command("extract", "--backbone", BACKBONE, "--data", "list:library.csv", "--orient", "-o", "library.features", "--quiet")
        return "library.features"

    def test_every_form_of_a_library_gives_the_same_model(self):
        path = self.features()
        rows = numpy.frombuffer(support.tensors(path)[0]["features"], "f4").reshape(12, -1)
        tagger, expected = self.taught(precision="double"), None
        plain = self.scores(tagger)
        forms = {"folder": "library", "Path": Path("library"), "list": self.library, "generator": (path for path in self.library),
                 "feature file": path, "Path of features": Path(path), "array": rows, "float64": rows.astype("f8"),
                 "other order": numpy.asfortranarray(rows), "views": numpy.stack([rows] + 5 * [0 * rows], axis=1)}
        for name, form in forms.items():
            with self.subTest(name):
                tagger.set_unlabelled(None)
                told = tagger.set_unlabelled(form)
                self.assertEqual((told.images, told.drawn_from), (12, 12))
                self.assertGreater(told.weight, 0)
                self.assertEqual(told, tagger.unlabelled)
                expected = expected or self.scores(tagger)
                self.assert_same(self.scores(tagger), expected)
        self.assertGreater(abs(expected[0][0]["red"] - plain[0][0]["red"]), 1e-3)

    def test_the_command_does_the_same(self):
        self.by_command()
        command("teach", "theirs.safetensors", "--unlabelled", "library", "--threads", 1)
        tagger = l3a.Tagger.create("model.safetensors", BACKBONE, threads=1)
        for name in self.colours:
            tagger.teach(self.paths[name][:3], name)
        tagger.set_unlabelled("library")
        theirs = l3a.Tagger.open("theirs.safetensors", threads=1)
        self.assertEqual(theirs.unlabelled[:2], (12, 12))
        for (ours, _), (others, _) in zip(self.scores(tagger), self.scores(theirs)):  # each has searched for a solution
            self.assertLess(max(abs(ours[name] - others[name]) for name in ours), 1e-3)

    def test_none_is_as_if_there_had_never_been_any(self):
        tagger = self.taught(precision="double")
        self.assertEqual(tagger.unlabelled, (0, 0, 0))
        before = self.scores(tagger)
        tagger.set_unlabelled("library")
        self.assertEqual(tagger.set_unlabelled(None), (0, 0, 0))
        self.assert_same(self.scores(tagger), before)
        with self.assertRaisesRegex(l3a.Error, "no unlabelled pictures at hand"):
            tagger.expect_in_library()

    def test_a_sample(self):
        tagger = self.taught()
        self.assertEqual(tagger.set_unlabelled("library", most=5)[:2], (5, 12))
        self.assertEqual(tagger.set_unlabelled(self.features(), most=5)[:2], (5, 12))
        self.assertEqual(sum(one.tagged <= 5 for one in tagger.expect_in_library().values()), 3)
        self.assertEqual(tagger.set_unlabelled(self.library[:2])[:2], (2, 2))

    def test_a_picture_that_is_taught_leaves_and_returns(self):
        tagger = self.taught(precision="double")
        tagger.set_unlabelled("library")
        before = self.scores(tagger)
        tagger.teach(self.library[0], "red")
        self.assertEqual(tagger.unlabelled[:2], (11, 12))
        tagger.teach(Path(self.library[1]).read_bytes(), "green")  # the same picture, wherever it comes from
        self.assertEqual(tagger.unlabelled[:2], (10, 12))
        tagger.teach(self.asked[0], "red")
        self.assertEqual(tagger.unlabelled[:2], (10, 12))
        for left in (10, 11, 12):
            tagger.undo()
            self.assertEqual(tagger.unlabelled[:2], (left, 12))
        self.assert_same(self.scores(tagger), before)
        tagger.teach(self.library[0], "red")
        self.assertEqual(tagger.set_unlabelled("library")[:2], (11, 12))

    def test_they_are_saved(self):
        tagger = self.taught()
        tagger.save()
        self.assertNotIn("not saved", repr(tagger))
        told = tagger.set_unlabelled("library")
        self.assertIn("not saved", repr(tagger))
        expected = self.scores(tagger)
        tagger.save()
        tagger.close()
        with l3a.Tagger.open("model.safetensors", threads=1) as again:
            self.assertEqual(again.unlabelled, told)
            self.assertEqual(self.scores(again), expected)
            with self.assertRaisesRegex(l3a.Error, "no unlabelled pictures at hand"):  # the model has none of their features
                again.expect_in_library()
            again.set_unlabelled(None)
            again.reload()
            self.assertEqual(again.unlabelled, told)

    def test_what_to_expect_in_the_library(self):
        tagger = self.taught()
        with self.assertRaisesRegex(l3a.Error, "no unlabelled pictures at hand"):
            tagger.expect_in_library()
        tagger.set_unlabelled("library")
        expected = tagger.expect_in_library()
        self.assertEqual(list(expected), ["red", "green", "blue"])
        tagged = tagger.tag(self.library)
        for name, channel in self.colours.items():
            self.assertEqual(expected[name].tagged, sum(name in tags.names for tags in tagged))
            self.assertEqual(tagged[channel].all[0].name, name)
            self.assertTrue(0 <= expected[name].precision <= 100 and 0 <= expected[name].recall <= 100, expected)
        tagger.teach(self.library[0], "new")
        self.assertIsNone(tagger.expect_in_library()["new"].recall)  # one picture is too few to tell

    def test_what_cannot_be_a_library(self):
        tagger = self.taught()
        tagger.set_unlabelled("library")
        before, told = self.scores(tagger), tagger.unlabelled
        os.mkdir("empty")
        Path("text.txt").write_text("no picture")
        Path("bad.jpg").write_bytes(Path(self.library[0]).read_bytes()[:200])
        command("extract", "--backbone", BACKBONE, "--data", f"list:{Path(self.features()).with_suffix('.csv')}", "-o", "stored", "--quiet")
        for form, text in (("empty", "there are no unlabelled pictures"), ([], "there are no unlabelled pictures"),
                           ("nowhere", "nowhere: cannot open"), (["text.txt"], "text.txt: this is a text, not a picture"),
                           ("stored", "oriented"), (numpy.zeros((4, 7), "f4"), "7"), (numpy.zeros((0, 512), "f4"), "0 sample")):
            with self.subTest(str(form)[:20]):
                with self.assertRaisesRegex(l3a.Error, text):
                    tagger.set_unlabelled(form)
        with self.assertWarnsRegex(l3a.L3AWarning, "left out: bad.jpg"), self.assertRaisesRegex(l3a.Error, "none of the unlabelled"):
            tagger.set_unlabelled("bad.jpg")
        with self.assertRaisesRegex(ValueError, "1D array"):
            tagger.set_unlabelled(numpy.zeros(512, "f4"))
        for rows in (1, 2):
            with self.assertRaisesRegex(ValueError, f"several crops, not {rows} "):
                tagger.set_unlabelled(numpy.zeros((4, rows, 512), "f4"))
        self.assertEqual(tagger.unlabelled, told)
        self.assertEqual(self.scores(tagger), before)
        for name, count in (("bad.jpg", 13), ("text.txt", 12), ("nowhere", 12)):
            with self.assertWarnsRegex(l3a.L3AWarning, f"left out: {name}: "):
                self.assertEqual(tagger.set_unlabelled([*self.library, name])[:2], (12, count))

    def test_packed_models_have_none(self):
        tagger = self.taught()
        tagger.set_unlabelled("library")
        tagger.save()
        command("pack", "model.safetensors", "-o", "packed.safetensors", "--with-backbone")
        with l3a.Tagger.open("packed.safetensors", threads=1) as packed:
            self.assertEqual([tags for _, tags in self.scores(packed)], [tags for _, tags in self.scores(tagger)])
            self.assertEqual(packed.unlabelled, (0, 0, 0))
            with self.assertRaises(l3a.Error):
                packed.set_unlabelled("library")


unittest.main()
