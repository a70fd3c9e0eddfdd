"""The library that remembers: what it finds against NumPy, Python's sets and the tagger, and what becomes of it when it is interrupted,
when others use the same index, and when somebody else has the model's lock."""
import copy
import datetime
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings
from pathlib import Path

import support

support.need("numpy", "PIL")
import numpy
from PIL import Image

import l3a

BACKBONE = support.SOURCE / "models/demo_backbone.safetensors"
SHARED = Path(os.environ.get("L3A_SHARED", support.SOURCE.parent / "shared"))
LONG_AGO = 1_000_000_000  # so that no picture may be changing just now
COLOURS = ("red", "green", "blue")


def draw(channel, seed, side=(90, 120)):
    """A noisy picture of one colour."""
    made = numpy.random.default_rng(seed).integers(0, 90, (*side, 3)).astype(numpy.uint8)
    made[..., channel] += 120
    return Image.fromarray(made)


def keep(picture, path, taken=None):
    exif = Image.Exif()
    if taken is not None:
        exif._ifds[0x8769] = {0x9003: taken.strftime("%Y:%m:%d %H:%M:%S")}
        exif[0x8769] = exif._ifds[0x8769]
    picture.save(path, exif=exif)
    os.utime(path, (LONG_AGO, LONG_AGO))


def unit(rows):
    rows = numpy.asarray(rows, dtype=numpy.float64)
    return rows / numpy.linalg.norm(rows, axis=-1, keepdims=True)


class InAFolder(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(held.name)
        os.mkdir("photos")

    def tagger(self, path="pets.l3a", **more):
        made = l3a.Tagger.create(path, BACKBONE, threads=1, dim=256, **more)
        self.addCleanup(made.close)
        return made

    def library(self, *model, **more):
        made = l3a.Library(*model, threads=1, **more)
        self.addCleanup(made.close)
        return made


class WithoutTags(InAFolder):
    """A model that knows no tag yet finds pictures, and none has a tag."""

    def test_pictures_are_found(self):
        for i in range(3):
            keep(draw(i, i), f"photos/{i}.png")
        library = self.library(self.tagger())
        library.add("photos")
        library.index(progress=None)
        found = library.find(like="photos/1.png")
        self.assertEqual([len(found), os.path.basename(found[0].path), found[0].tags.names], [3, "1.png", []])
        self.assertEqual(list(library.find("is:untagged").to_frame()["tags"]), [""] * 3)


class Photos(InAFolder):
    """18 pictures of three colours in three folders, of which three are taught; and two files that are no pictures."""

    def setUp(self):
        super().setUp()
        self.taken = {}
        for channel, colour in enumerate(COLOURS):
            os.makedirs(f"photos/{colour} things")
            for i in range(6):
                path = os.path.realpath(f"photos/{colour} things/{i}.jpg")
                self.taken[path] = datetime.datetime(2022 + i // 2, 1 + 3 * channel, 10 + i, 12, 30, i) if i else None
                keep(draw(channel, 10 * channel + i), path, self.taken[path])
        Path("photos/text.jpg").write_text("no picture")
        Path("photos/film.mp4").write_bytes(bytes(100))
        for name in "text.jpg", "film.mp4":
            os.utime(f"photos/{name}", (LONG_AGO, LONG_AGO))
        self.paths = sorted(self.taken)
        self.own = self.tagger()
        self.taught = {os.path.realpath(f"photos/{colour} things/0.jpg"): colour for colour in COLOURS}
        self.own.teach(list(self.taught), [[colour] for colour in self.taught.values()])
        self.own.save()
        self.found = self.library(self.own)
        self.found.add("photos")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.report = self.found.index(progress=False)

    def scores(self):
        """{path: {tag: score}} of the tagger."""
        return {path: {tag.name: tag.score for tag in tags.all} for path, tags in zip(self.paths, self.own.tag(self.paths))}

    def shown(self):
        """{tag: paths} as an expression sees them."""
        made = {colour: set() for colour in COLOURS}
        for path, tags in zip(self.paths, self.own.tag(self.paths)):
            for tag in tags.all:
                if self.taught.get(path) == tag.name or (path not in self.taught and tag.predicted):
                    made[tag.name].add(path)
        return made


class Novel(Photos):
    def order(self, taught, asked):
        """What to judge next, as docs/teaching.md has it."""
        rows = {found.path: self.found.features(found.id).astype(float) for found in self.found.find("is:done")}
        every = numpy.array(list(rows.values()))
        mean = every.mean(0)
        scale = numpy.sqrt(((every - mean) ** 2).sum(1).mean())
        paths = [path for path in rows if path not in taught]
        z, known = (numpy.array([(rows[path] - mean) / scale for path in which]) for which in (paths, taught))
        k = z @ numpy.linalg.inv(numpy.eye(z.shape[1]) + known.T @ known) @ z.T
        chosen, worths = [], []
        for _ in range(asked):
            worth = (k * k).sum(1) / (1 + numpy.diag(k))
            worth[chosen] = -1
            chosen.append(int(numpy.argmax(worth)))
            worths.append(worth[chosen[-1]])
            row = k[chosen[-1]].copy()
            k -= numpy.outer(row, row) / (1 + row[chosen[-1]])
        return [paths[i] for i in chosen], worths

    def test_follows_the_rule(self):
        """Few pictures are all in doubt; those that were judged are not asked for."""
        for asked in 1, 6, 15:
            found = self.found.find(sort="novel", most=asked)
            paths, worths = self.order(list(self.taught), asked)
            self.assertEqual(list(found.paths), paths)
            numpy.testing.assert_allclose(found.ranks, worths, rtol=1e-4)
        self.assertEqual(len(self.found.find(sort="novel")), 15)
        self.assertEqual(len(self.found.find("name:1.jpg", sort="novel")), 3)

    def test_a_copy_is_asked_for_once(self):
        for i, path in enumerate(path for path in self.paths if path not in self.taught):
            Path(f"photos/again-{i}.jpg").write_bytes(Path(path).read_bytes())
        self.found.index(progress=False)
        self.assertEqual(len(self.found.find(sort="novel")), 15)


class Index(Photos):
    def test_says_what_it_did(self):
        report = self.report
        self.assertEqual((report.pictures, report.added, report.looked, report.failed, report.waiting, report.scored, report.held),
                         (20, 20, 18, 1, 0, 18, ""))
        again = self.found.index(progress=False)
        self.assertEqual(sum(again[1:13]), 0, again)
        info = self.found.info
        self.assertEqual((info.pictures, info.done, info.failed, info.others, info.scored, info.said), (19, 18, 1, 1, 18, 3))
        self.assertEqual([os.path.relpath(found.path) for found in self.found.folders], ["photos"])
        problems = {os.path.basename(one.path): one for one in self.found.problems}
        self.assertEqual({name: one.state for name, one in problems.items()}, {"text.jpg": "failed", "film.mp4": "other"})
        self.assertIn("text", problems["text.jpg"].problem)
        self.assertEqual((self.found.retry(), self.found.info.waiting, self.found.index(progress=False).failed), (1, 1, 1))
        self.assertTrue(problems["film.mp4"].problem)
        self.assertIn("19 pictures, 18 looked at", repr(self.found))

    def test_follows_the_folders(self):
        os.rename("photos/red things/1.jpg", "photos/moved.jpg")
        os.remove("photos/red things/2.jpg")
        keep(draw(1, 77), "photos/new.jpg")
        keep(Image.open("photos/new.jpg"), "photos/red things/3.jpg")
        report = self.found.index(progress=False)
        self.assertEqual((report.added, report.changed, report.gone, report.moved), (2, 1, 2, 1), report)
        names = [os.path.basename(path) for path in self.found.find("name:jpg", sort="name").paths]
        self.assertEqual(len(names), 18 + 1)
        self.assertIn("moved.jpg", names)
        self.found.remove("photos")
        self.assertEqual((len(self.found.find()), self.found.folders), (0, []))

    def test_a_lesson_changes_the_scores(self):
        other = os.path.realpath("photos/green things/3.jpg")
        self.assertNotIn(other, self.found.find("red is:said").paths)
        self.own.teach(other, "red")
        report = self.found.index(progress=False)  # nothing is saved, but this tagger has the lock
        self.assertEqual((report.looked, report.scored, report.held), (0, 18, ""))
        self.assertIn(other, self.found.find("red is:said").paths)
        self.assertEqual(self.found.tags["red"].said, 2)
        self.own.undo()
        self.own.save()
        self.assertEqual(self.found.index(progress=False).scored, 18)
        self.assertNotIn(other, self.found.find("red is:said").paths)

    def test_a_model_that_others_have_saved(self):
        another = l3a.Tagger.open("pets.l3a", threads=1)
        another.rename("red", "rouge")
        another.save()
        another.close()
        self.assertEqual(self.found.index(progress=False).scored, 18)
        self.assertEqual(sorted(self.found.tags), ["blue", "green", "rouge"])
        with self.assertRaisesRegex(l3a.Error, "no tag 'red'"):
            self.found.find("red")

    def test_another_network_begins_the_features_anew(self):
        with self.assertWarnsRegex(l3a.L3AWarning, "made in another way"):
            views = self.library("pets.l3a", views=5)
        self.assertEqual(views.info.waiting, 18)
        with self.assertRaises(l3a.Error) as caught:
            l3a.Library(self.own, keep=True)
        self.assertEqual(caught.exception.status, l3a.Status.ERROR_MISMATCH)
        with self.assertRaisesRegex(l3a.Error, "those of 5 views"):  # nobody has asked for others
            l3a.Library(self.own)
        views.index(progress=False)
        views.close()
        again = self.library("pets.l3a")  # as the index has them
        self.assertEqual((again.info.waiting, again.info.done, again.info.views), (0, 18, 5))
        again.close()
        with self.assertWarnsRegex(l3a.L3AWarning, "made in another way"):
            self.assertEqual(self.library("pets.l3a", views=1).info.waiting, 18)

    def test_a_damaged_index_is_made_again(self):
        self.own.close()
        content = bytearray(Path("pets.l3a.library").read_bytes())
        content[:4096] = os.urandom(4096)
        Path("pets.l3a.library").write_bytes(content)
        with self.assertWarnsRegex(l3a.L3AWarning, "damaged"):
            again = self.library("pets.l3a")
        again.add("photos")
        self.assertEqual((again.index(progress=False).looked, again.info.done), (0, 18))


class Finding(Photos):
    def test_expressions_are_those_of_sets(self):
        shown, every = self.shown(), set(self.paths)
        red, green, blue = (shown[colour] for colour in COLOURS)
        self.assertTrue(all(0 < len(one) < 18 for one in shown.values()), {name: len(one) for name, one in shown.items()})
        below = {path for path in self.paths if "/red things/" in path}
        expected = {"": every, "red": red, "not red": every - red, "red and not green": red - green, "red or blue": red | blue,
                    "not (red or blue)": every - red - blue, "red green or blue": (red & green) | blue, "not not red": red,
                    'folder:"red things"': below, "not folder:photos/x name:2.jpg": {path for path in every if path.endswith("/2.jpg")},
                    "is:said": set(self.taught), "is:untagged": every - red - green - blue, "is:tagged": red | green | blue}
        for where, paths in expected.items():
            with self.subTest(where):
                found = self.found.find(where)
                self.assertEqual({path for path in found.paths if path in every}, paths)
                self.assertEqual(len(found), len(found.ids))

    def test_doubt_is_near_the_threshold(self):
        for colour in COLOURS:
            tags = {path: next(tag for tag in found.all if tag.name == colour) for path, found in zip(self.paths, self.own.tag(self.paths))}
            far = {path: abs(tag.score - tag.threshold) for path, tag in tags.items() if path not in self.taught}
            found = set(self.found.find(f"unsure:{colour}").paths)
            self.assertTrue({path for path, distance in far.items() if distance < 0.04} <= found)
            self.assertTrue(found <= {path for path, distance in far.items() if distance < 0.046})

    def test_the_order_is_that_of_the_scores(self):
        scores = self.scores()
        for colour in COLOURS:
            found = [one for one in self.found.find(f"{colour} or not {colour}", sort="score")]
            self.assertEqual({one.path for one in found}, set(self.paths))
            self.assertEqual(found[0].path, next(path for path, name in self.taught.items() if name == colour))
            self.assertEqual((found[0].rank, found[-1].rank), (float("inf"), float("-inf")))  # said to show it, and not to
            ranked = [(one.rank, scores[one.path][colour]) for one in found if one.path not in self.taught]
            self.assertTrue(all(abs(a - b) < 2e-3 for a, b in ranked), ranked)
            self.assertEqual([a for a, _ in ranked], sorted((a for a, _ in ranked), reverse=True))

    def test_tags_are_those_of_the_tagger(self):
        shown = self.shown()
        for found, theirs in zip(self.found.find("is:done", sort="name"), self.own.tag(self.paths)):
            ours = {tag.name: tag for tag in found.tags.all}
            self.assertTrue(all(abs(ours[tag.name].score - tag.score) < 2e-3 for tag in theirs.all))
            self.assertEqual(set(found.tags.names), {name for name, paths in shown.items() if found.path in paths})
        self.assertEqual([len(found.tags) for found in self.found.find("is:failed")], [0])
        counts = self.found.tags
        self.assertEqual({name: (one.said, one.said + one.predicted) for name, one in counts.items()},
                         {name: (1, len(paths)) for name, paths in shown.items()})

    def test_likeness_is_the_cosine(self):
        everything = self.found.find("is:done", sort="name")
        features = unit(self.found.features(everything.ids))
        place = {number: i for i, number in enumerate(everything.ids)}
        outside = draw(2, 99)
        outside.save("outside.png")
        other = unit(self.found._look_at("outside.png"))
        cases = {"an id": (int(everything.ids[3]), features[3]),
                 "paths and ids": ([everything[2].path, int(everything.ids[9])], unit(features[2] + features[9])),
                 "a picture that was found": (everything[5], features[5]),
                 "a path from here": ("photos/blue things/4.jpg", features[4]),
                 "a picture elsewhere": ("outside.png", other), "one in memory": (outside, other),
                 "features": (self.found.features(int(everything.ids[7])), features[7])}
        for name, (like, direction) in cases.items():
            with self.subTest(name):
                found = self.found.find(like=like)
                cosines = features[[place[number] for number in found.ids]] @ direction
                numpy.testing.assert_allclose(found.ranks, cosines, atol=2e-3)
                self.assertEqual(len(found), 18)
                self.assertTrue((numpy.diff(cosines) < 1e-5).all(), cosines)
        self.assertEqual(len(self.found.find("red", like=3, most=2)), 2)

    def test_features_are_those_of_the_network(self):
        found = self.found.find("is:done", sort="name")
        for one in found[:4]:
            numpy.testing.assert_allclose(self.found.features(one.id), self.found._look_at(one.path), rtol=1e-3, atol=1e-3)
        self.assertEqual(self.found.features(found[:3]).shape, (3, *self.found.features(int(found.ids[0])).shape))

    def test_dates(self):
        def after(path, first, last):
            return self.taken[path] is not None and first <= self.taken[path] < last
        long, day = datetime.datetime(9000, 1, 1), datetime.timedelta(days=1)
        for since in ("2023", "2023-04", "2023-04-12", datetime.date(2023, 4, 12), datetime.datetime(2023, 4, 12, 23)):
            text = str(since)[:10]
            first = datetime.datetime.strptime((text + "-01-01")[:10] if len(text) < 10 else text, "%Y-%m-%d")
            self.assertEqual({path for path in self.found.find(since=since).paths if self.taken.get(path)},
                             {path for path in self.paths if after(path, first, long)}, since)
        found = self.found.find("red or not red", since="2023-04-12", until=datetime.date(2023, 4, 13))
        self.assertEqual({path for path in found.paths}, {path for path in self.paths if after(
            path, datetime.datetime(2023, 4, 12), datetime.datetime(2023, 4, 13) + day)})
        self.assertEqual({found.path: found.taken for found in self.found.find("is:done")}, self.taken)
        newest = [found.taken for found in self.found.find("is:done", sort="date") if found.taken]
        self.assertEqual(newest, sorted(newest, reverse=True))

    def test_duplicates(self):
        with Image.open("photos/red things/1.jpg") as picture:
            keep(picture, "photos/nearly.png")
        Path("photos/copy.jpg").write_bytes(Path("photos/blue things/1.jpg").read_bytes())
        self.found.index(progress=False)
        groups = [set(map(os.path.relpath, group.paths)) for group in self.found.duplicates(0.99999)]
        self.assertIn({"photos/copy.jpg", "photos/blue things/1.jpg"}, groups)
        self.assertIn({"photos/nearly.png", "photos/red things/1.jpg"}, groups)
        self.assertEqual(self.found.picture("photos/copy.jpg").copies, 1)
        everything = self.found.find("is:done")
        cosines = unit(self.found.features(everything.ids)) @ unit(self.found.features(everything.ids)).T
        for group in self.found.duplicates(0.99):
            places = [list(everything.ids).index(number) for number in group.ids]
            inside = cosines[numpy.ix_(places, places)] - 2 * numpy.eye(len(places))
            self.assertTrue((inside.max(axis=1) >= 0.989).all(), inside)
        self.assertEqual(self.found.duplicates(1.0)[0][0].rank, None)

    def test_a_table_for_a_classifier(self):
        table = self.found.table()
        self.assertEqual((table.paths, table.classes), (self.paths, list(self.own.classes)))
        expected = numpy.full((18, 3), -1)
        for path, colour in self.taught.items():
            expected[self.paths.index(path)] = [name == colour for name in table.classes]
        self.assertEqual(table.labels.tolist(), expected.tolist())
        numpy.testing.assert_array_equal(table.features, self.found.features(table.ids))
        some = self.found.table(self.found.find("name:1.jpg", sort="name"))
        self.assertEqual([path for path in self.paths if path.endswith("/1.jpg")], some.paths)
        if not support.has("sklearn"):
            return
        colours = [path.split("/")[-2].split()[0] for path in self.paths]
        model = l3a.L3AClassifier(dim=256, threads=1).fit(table.features, colours)
        self.assertEqual(list(model.predict(table.features)), colours)

    def test_frames(self):
        found = self.found.find("red", sort="name")
        frame = found.to_frame()
        self.assertEqual(list(frame["path"]), found.paths)
        self.assertEqual(list(frame["tags"]), [", ".join(one.tags.names) for one in found])
        with unittest.mock.patch.dict(sys.modules, {"pandas": None}):
            plain = self.found.find("red or is:failed", sort="name").to_frame()
        self.assertEqual((plain["path"][1:], plain["state"][:2], plain["tags"][0]), (found.paths, ["failed", "done"], ""))
        self.assertIn("done", repr(plain))

    def test_a_picture_that_left_meanwhile(self):
        found = self.found.find("is:done", sort="name")
        os.remove(found[0].path)
        self.found.index(progress=False)
        self.assertEqual(len(list(found)), 17)
        with self.assertRaises(FileNotFoundError):
            found[0]

    def test_pictures_can_be_pickled_and_a_library_cannot(self):
        one = self.found.find("red")[0]
        again = pickle.loads(pickle.dumps(one))
        self.assertEqual((again, again.tags.all, again.taken, again.rank), (one, one.tags.all, one.taken, one.rank))
        for copied in pickle.dumps, copy.copy, copy.deepcopy:
            with self.assertRaisesRegex(TypeError, "open it again"):
                copied(self.found)
            with self.assertRaisesRegex(TypeError, "pickle list"):
                copied(self.found.find())


class Errors(Photos):
    def test_have_a_hint(self):
        first = int(self.found.find("is:done").ids[0])
        failed = int(self.found.find("is:failed").ids[0])
        cases = [
            (lambda: self.found.find("rde"), "no tag 'rde'", "'red'"),
            (lambda: self.found.find("(red"), "not closed", ")"),
            (lambda: self.found.find(sort="size"), "'size'", "score, date"),
            (lambda: self.found.find(since="last year"), "date", "2024"),
            (lambda: self.found.find(like=[]), "no picture", "at least one"),
            (lambda: self.found.find(like=12345), "12345", ""),
            (lambda: self.found.find(like=-1), "id is -1", "0"),
            (lambda: self.found.find(most=-1), "most is -1", "0"),
            (lambda: self.found.find(like="nothing.jpg"), "nothing.jpg: No such file", ""),
            (lambda: self.found.find(like="photos/text.jpg"), "text", ""),
            (lambda: self.found.find(like=first, word="dog"), "word", "one"),
            (lambda: self.found.find(like=numpy.zeros(3, "float32")), r"shape \(3,\)", "library.features"),
            (lambda: self.found.features(failed), "no features", "looked at"),
            (lambda: self.found.find(word="dog"), "classifier", "Image"),
            (lambda: self.found.words("dog"), "classifier", "ImageNet"),
            (lambda: self.found.find("red\0"), "zero byte", ""),
            (lambda: self.found.add("nowhere"), "nowhere", ""),
            (lambda: self.found.add("pets.l3a"), "not a folder", "folder"),
            (lambda: self.found.remove("nowhere"), "not in the index", "l3a index"),
            (lambda: self.found.duplicates(2), "closeness", "1"),
            (lambda: l3a.Library("pets.l3a", index="other", existing=True), "other", ""),
            (lambda: l3a.Library("nothing.l3a"), "nothing.l3a", ""),
            (lambda: l3a.Library(self.own, views=5), "already", "path"),
            (lambda: l3a.Library("pets.l3a", index="photos/text.jpg"), "text.jpg: this is not an index", "another file"),
        ]
        for call, text, hint in cases:
            with self.subTest(text), self.assertRaisesRegex(l3a.Error, text) as caught:
                call()
            self.assertIn(hint, caught.exception.hint)
        with self.assertRaises(FileNotFoundError):
            l3a.Library("pets.l3a", index="other", existing=True)
        self.assertFalse(os.path.exists("other"))

    def test_closed(self):
        found = self.found.find()
        other = self.library("pets.l3a")
        self.own.close()  # and with it, its libraries
        for call in (self.found.find, lambda: self.found.info, lambda: found[0], self.found.index, lambda: list(found)):
            with self.assertRaisesRegex(l3a.Error, "the library is closed"):
                call()
        self.assertIn("closed", repr(self.found))
        self.found.close()
        with other as again:
            self.assertEqual(len(again.find("is:done")), 18)
        with self.assertRaisesRegex(l3a.Error, "the tagger is closed"):
            other.tagger.tag("photos/red things/0.jpg")


class Many(InAFolder):
    """More pictures than are looked at in one go."""
    COUNT = 80

    def setUp(self):
        super().setUp()
        for i in range(self.COUNT):
            keep(draw(i % 3, i, (40, 40)), f"photos/{i:03}.png")
        own = self.tagger()
        own.teach(["photos/000.png", "photos/001.png"], [["red"], ["green"]])
        own.save()
        own.close()

    def test_ctrl_c_stops_and_the_next_call_goes_on(self):
        found, seen = self.library("pets.l3a"), []

        def stop(event):
            seen.append(event.stage)
            if event.stage == "look":
                signal.raise_signal(signal.SIGINT)
        found.add("photos")
        with self.assertRaises(KeyboardInterrupt):
            found.index(progress=stop)
        self.assertEqual(seen.count("look"), 1)
        first = found.info
        self.assertTrue(0 < first.done < self.COUNT and first.waiting == self.COUNT - first.done, first)
        with self.assertRaises(l3a.Error) as caught:
            found.index(progress=lambda event: event.stage == "look")
        self.assertEqual(caught.exception.status, l3a.Status.ERROR_CANCELLED)
        second = found.info
        report = found.index(progress=False)
        self.assertEqual((report.added, report.looked), (0, self.COUNT - second.done))
        self.assertEqual((found.info.done, found.info.scored), (self.COUNT, self.COUNT))
        self.assertEqual(len(found.find("red or not red")), self.COUNT)

    def test_a_progress_function_that_raises_or_calls_the_library(self):
        found = self.library("pets.l3a")
        found.add("photos")

        def search(event):
            self.assertIn("busy", repr(found))
            found.find()
        for function, text in (search, "at work"), (lambda event: found.close(), "at work"), (lambda event: 1 / 0, "division"):
            with self.assertRaisesRegex(Exception, text):
                found.index(progress=function)
        self.assertEqual(found.index(most=10, progress=False).waiting, self.COUNT - 10)

    def test_killed(self):
        script = ["import os, l3a", "library = l3a.Library('pets.l3a', threads=1)", "library.add('photos')",
                  "library.index(progress=lambda event: event.stage == 'look' and os._exit(9))"]
        said = subprocess.run([sys.executable, "-c", "\n".join(script)], env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")})
        self.assertEqual(said.returncode, 9)
        found = self.library("pets.l3a")
        done = found.info.done
        self.assertTrue(0 < done < self.COUNT)
        self.assertEqual(found.index(progress=False).looked, self.COUNT - done)

    def test_two_libraries_at_the_same_time(self):
        first, second = self.library("pets.l3a"), self.library("pets.l3a")
        first.add("photos")
        first.index(most=1, progress=False)
        reports, failures = [], []

        def work(library):
            try:
                reports.append(library.index(progress=False))
                for _ in range(5):
                    library.find("is:done").ids
            except Exception as raised:
                failures.append(raised)
        threads = [threading.Thread(target=work, args=(library,)) for library in (first, second, self.library(first.tagger))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        first.index(progress=False)
        for library in first, second:
            self.assertEqual((library.info.done, library.info.scored), (self.COUNT, self.COUNT))
            self.assertEqual(sorted(library.find("red").ids), sorted(first.find("red").ids))
        features = first.features(first.find("is:done", sort="name").ids)
        numpy.testing.assert_array_equal(features, second.features(second.find("is:done", sort="name").ids))
        self.assertEqual(len(numpy.unique(features, axis=0)), self.COUNT)

    def test_somebody_else_has_the_lock(self):
        found = self.library("pets.l3a")
        found.add("photos")
        script = ["import sys, l3a", "tagger = l3a.Tagger.open('pets.l3a', threads=1)", "tagger.teach('photos/002.png', 'blue')",
                  "print('taught', flush=True)", "sys.stdin.readline()", "tagger.save()"]
        with subprocess.Popen([sys.executable, "-c", "\n".join(script)], env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            self.assertEqual(other.stdout.readline(), "taught\n")
            report = found.index(progress=False)
            self.assertEqual((report.looked, report.scored, found.info.scored), (self.COUNT, 0, 0))
            self.assertIn("pets.l3a", report.held)
            self.assertEqual(len(found.find(like="photos/000.png", most=5)), 5)  # needs no scores
            other.communicate("\n")
        report = found.index(progress=False)
        self.assertEqual((report.looked, report.scored, report.held), (0, self.COUNT, ""))
        self.assertEqual(found.tags["blue"].said, 1)
        with l3a.Tagger.open("pets.l3a", threads=1) as mine:  # of this process, with something to save
            mine.rename("blue", "azure")
            self.assertTrue(found.index(progress=False).held)
            self.assertEqual(self.library(mine).index(progress=False).held, "")

    def test_threads_and_the_default_bar(self):
        with l3a.Library("pets.l3a", index="elsewhere.index", threads=2) as found:
            self.assertEqual(found.path, "elsewhere.index")
            found.add("photos")
            with open(os.devnull, "w") as nothing, unittest.mock.patch.object(sys, "stderr", nothing):
                self.assertEqual(found.index().looked, self.COUNT)
        self.assertFalse(os.path.exists("pets.l3a.library"))

    def test_a_packed_model(self):
        subprocess.run([support.COMMAND, "pack", "pets.l3a", "-o", "packed.l3a"], check=True, capture_output=True)
        found = self.library("packed.l3a", BACKBONE)
        found.add("photos")
        self.assertEqual(found.index(progress=False).scored, self.COUNT)
        self.assertEqual(list(found.tags), ["red", "green"])
        self.assertEqual(found.info.said, 0)

    def test_views(self):
        own = self.tagger("views.l3a", views=5)
        own.teach(["photos/000.png", "photos/001.png"], [["red"], ["green"]])
        found = self.library(own)
        found.add("photos")
        found.index(most=40, progress=False)
        one = found.find("is:done", sort="name")[5]
        features = found.features(one.id)
        self.assertEqual((features.shape[0], features.ndim), (6, 2))
        self.assertTrue(all(tag.box for tag in one.tags.all))
        self.assertTrue(all(abs(tag.score - other.score) < 2e-3 for tag, other in zip(
            sorted(one.tags.all), sorted(own.tag(one.path).all))))
        found_like = found.find(like=[one, features])
        self.assertEqual(found_like[0], one)
        best = (unit(found.features(found_like.ids)) @ unit(features[0])).max(axis=1)  # of the whole picture and its crops
        numpy.testing.assert_allclose(found_like.ranks, best, atol=2e-3)
        self.assertEqual(found.table(found_like[:3]).features.shape, (3, *features.shape))


class Words(InAFolder):
    def test_a_word_is_a_probability_of_the_network(self):
        checkpoint, pictures = SHARED / "backbones/vit_tiny_patch16_224.safetensors", SHARED / "data/voc2007-small"
        listed = sorted(pictures.rglob("*.jpg"))[:24]
        if not checkpoint.is_file() or not listed:
            print(f"skipped: {checkpoint.name} or {pictures.name} is missing")
            return
        for path in listed:
            os.symlink(path, f"photos/{path.name}")
        own = l3a.Tagger.create("words.l3a", checkpoint, threads=1, dim=64)
        with self.library(own) as found:
            for path in listed:
                with open(f"photos/copy-{path.name}", "wb") as file:
                    file.write(path.read_bytes())
            found.add("photos")
            found.index(progress=False)
            self.assertGreaterEqual(found.info.done, 24)
            tensors, _ = support.tensors(checkpoint)
            weight = numpy.frombuffer(tensors["head.weight"], "<f4").reshape(1000, -1)
            bias = numpy.frombuffer(tensors["head.bias"], "<f4")
            every = found.words()
            self.assertEqual(len(every), 1000)
            self.assertEqual(found.words("qwertyuiop"), [])
            for word in ("dog", "bicycle"):
                chosen = [every.index(name) for name in found.words(word)]
                self.assertTrue(chosen)
                ranked = found.find(word=word)
                logits = found.features(ranked.ids).astype(float) @ weight.T + bias
                shares = numpy.exp(logits - logits.max(axis=1, keepdims=True))
                expected = (shares / shares.sum(axis=1, keepdims=True))[:, chosen].sum(axis=1)
                numpy.testing.assert_allclose(ranked.ranks, expected, atol=5e-3)
                self.assertTrue((numpy.diff(ranked.ranks) <= 0).all())
        own.close()


unittest.main()
