"""Files as torch.save writes them, made by Python's own pickle and zipfile. torch is not needed: small classes stand in for its storages and
tensors under the same names, so that the pickles read like its own."""
import collections
import io
import pickle
import struct
import sys
import types
import zipfile

PACK = {"Half": "e", "BFloat16": None, "Float": "f", "Double": "d", "Char": "b", "Byte": "B", "Bool": "?", "Int": "i", "Long": "q",
        "Short": "h"}
torch, utils, storage_module = (types.ModuleType(name) for name in ("torch", "torch._utils", "torch.storage"))
sys.modules.update({"torch": torch, "torch._utils": utils, "torch.storage": storage_module})


def named(module, name, thing):
    thing.__module__, thing.__name__, thing.__qualname__ = module.__name__, name, name
    setattr(module, name, thing)
    return thing


CLASSES = {kind: named(torch, kind + "Storage", type(kind + "Storage", (), {})) for kind in PACK}
CLASSES["Untyped"] = named(storage_module, "UntypedStorage", type("UntypedStorage", (), {}))
rebuild = named(utils, "_rebuild_tensor_v2", lambda *arguments: None)
rebuild_parameter = named(utils, "_rebuild_parameter", lambda *arguments: None)


class Storage:
    def __init__(self, kind, values):
        self.kind, self.values = kind, values

    def __len__(self):
        return len(self.values)

    def bytes(self):
        if self.kind == "BFloat16":
            return b"".join(struct.pack("<f", value)[2:] for value in self.values)
        if self.kind == "Untyped":
            return bytes(self.values)
        return struct.pack(f"<{len(self.values)}{PACK[self.kind]}", *self.values)


class Tensor:
    def __init__(self, storage, shape, stride=None, first=0, parameter=False):
        self.storage, self.shape, self.first, self.parameter = storage, tuple(shape), first, parameter
        if stride is None:
            stride, step = [], 1
            for size in reversed(self.shape):
                stride.insert(0, step)
                step *= max(size, 1)
        self.stride = tuple(stride)

    def __reduce_ex__(self, protocol):
        if self.parameter:
            return rebuild_parameter, (Tensor(self.storage, self.shape, self.stride, self.first), True, collections.OrderedDict())
        return rebuild, (self.storage, self.first, self.shape, self.stride, False, collections.OrderedDict())

    def values(self):
        places = [self.first]
        for size, step in zip(self.shape, self.stride):
            places = [place + i * step for place in places for i in range(size)]
        return [float(self.storage.values[place]) for place in places]


class Pickler(pickle.Pickler):
    def __init__(self, file, protocol, legacy):
        super().__init__(file, protocol)
        self.legacy, self.storages = legacy, {}

    def persistent_id(self, thing):
        if not isinstance(thing, Storage):
            return None
        key = self.storages.setdefault(id(thing), (str(len(self.storages) + 7 * self.legacy), thing))[0]
        return ("storage", CLASSES[thing.kind], key, "cpu", len(thing)) + ((None,) if self.legacy else ())


def pickled(thing, protocol, legacy):
    file = io.BytesIO()
    pickler = Pickler(file, protocol, legacy)
    pickler.dump(thing)
    return file.getvalue(), list(pickler.storages.values())


def write_zip(path, thing, protocol=2, name="archive", wide=False, compression=zipfile.ZIP_STORED):
    data, storages = pickled(thing, protocol, False)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for entry, content in [("data.pkl", data), ("byteorder", b"little"),
                               *((f"data/{key}", storage.bytes()) for key, storage in storages), ("version", b"3\n")]:
            with archive.open(f"{name}/{entry}", "w", force_zip64=wide) as file:
                file.write(content)


def write_legacy(path, thing, protocol=2):
    data, storages = pickled(thing, protocol, True)
    with open(path, "wb") as file:
        for preamble in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}):
            pickle.dump(preamble, file, protocol)
        file.write(data)
        pickle.dump(sorted(key for key, _ in storages), file, protocol)
        for key, storage in sorted(storages, key=lambda pair: pair[0]):
            file.write(struct.pack("<q", len(storage)) + storage.bytes())
