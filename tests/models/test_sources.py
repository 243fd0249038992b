"""Where models come from: digests, the hub, remote folders, and code that is never run."""

import hashlib
import json
import os
import pathlib
import re
import shutil
from typing import ClassVar

import fsspec
import huggingface_hub
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dlmeval.models import load_denoiser, load_scorer, loading, model_files, registry, sources

REVISION = "0123456789abcdef0123456789abcdef01234567"
HUB = f"hf:owner/name@{REVISION}"


@pytest.fixture
def folder(golden, tmp_path):
    shutil.copytree(golden("llada"), tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Digests


def test_digests_are_those_of_the_files(folder):
    (folder / "1_Pooling").mkdir()
    kept = {
        "config.json": None,
        "weights.safetensors": None,
        "vocab.txt": "a",
        "1_Pooling/config.json": "{}",
    }
    for name, text in kept.items():
        if text is not None:
            (folder / name).write_text(text)
    for name in ("card.json", "modeling.py", "pytorch_model.bin", "1_Pooling/other.json"):
        (folder / name).write_text("{}")
    expected = {name: sha256(folder / name) for name in kept}
    assert model_files.file_digests(folder) == expected
    assert model_files.start_hashing(folder).result() == expected
    one = folder / "weights.safetensors"
    assert model_files.file_digests(one) == {"weights.safetensors": expected["weights.safetensors"]}


def test_pinned_digests_must_hold(folder):
    pinned = {name: sha256(folder / name) for name in ("config.json", "weights.safetensors")}
    card = load_denoiser(str(folder), digests=pinned).card
    assert pinned.items() <= card.digests.items()
    wrong = pinned | {"config.json": "0" * 64, "model.safetensors": "1" * 64}
    with pytest.raises(ValueError) as caught:
        load_denoiser(str(folder), digests=wrong)
    for part in (
        f"config.json has sha256 {pinned['config.json']}, not {'0' * 64}",
        f"model.safetensors has sha256 nothing: it is missing, not {'1' * 64}",
        str(folder),
        "fetch the pinned revision again",
    ):
        assert part in str(caught.value)
    assert "weights.safetensors" not in str(caught.value)


def test_digests_of_another_revision_stop_the_load_before_any_tensor_is_placed(folder, monkeypatch):
    monkeypatch.setattr(loading.weights, "place_params", lambda *args, **options: 1 / 0)
    with pytest.raises(ValueError, match="other than those that were pinned"):
        load_denoiser(str(folder), digests={"weights.safetensors": "0" * 64})


def replace(path):
    """Another file of the same size in the place of one."""
    other = path.with_name("other.part")
    other.write_bytes(path.read_bytes()[:-4] + bytes(4))
    other.replace(path)


def meanwhile(monkeypatch, change):
    """Something that happens while weights are placed."""
    place = loading.weights.place_params

    def place_params(*arguments, **options):
        params = place(*arguments, **options)
        change()
        return params

    monkeypatch.setattr(loading.weights, "place_params", place_params)


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_file_that_changed_while_it_was_loaded_has_no_digest(folder, monkeypatch, name, how):
    path = folder / name
    meanwhile(monkeypatch, path.unlink if how == "removed" else lambda: replace(path))
    card = load_denoiser(str(folder)).card
    for _ in range(2):
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} changed while the model"):
            _ = card.digests


def test_a_file_that_changed_after_its_digest_was_checked_stops_the_load(folder, monkeypatch):
    path = folder / "weights.safetensors"
    meanwhile(monkeypatch, lambda: replace(path))
    with pytest.raises(ValueError, match=r"weights\.safetensors changed while the model"):
        load_denoiser(str(folder), digests={path.name: sha256(path)})


def test_a_file_that_came_later_was_not_read(folder, monkeypatch):
    before = model_files.file_digests(folder)
    meanwhile(monkeypatch, lambda: (folder / "vocab.txt").write_text("a"))
    assert load_denoiser(str(folder)).card.digests == before


# The hub


@pytest.fixture
def hub(golden, tmp_path, monkeypatch):
    """A repository on a hub without a network, in the layout of the hub's cache."""
    remote = tmp_path / "remote"
    shutil.copytree(golden("llada"), remote)
    (remote / "modeling_llada.py").write_text("raise SystemExit")
    (remote / "pytorch_model.bin").write_bytes(b"\x80")
    cache = tmp_path / "cache" / "models--owner--name"
    calls = []

    def snapshot_download(repository, *, revision, allow_patterns):
        calls.append((repository, revision, list(allow_patterns)))
        snapshot = cache / "snapshots" / revision
        snapshot.mkdir(parents=True, exist_ok=True)
        (cache / "blobs").mkdir(exist_ok=True)
        names = [path.relative_to(remote).as_posix() for path in remote.rglob("*")]
        for name in huggingface_hub.utils.filter_repo_objects(names, allow_patterns=allow_patterns):
            if (remote / name).is_file() and not (snapshot / name).exists():
                blob = cache / "blobs" / sha256(remote / name)
                shutil.copy(remote / name, blob)
                (snapshot / name).symlink_to(os.path.relpath(blob, snapshot))
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return remote, cache / "snapshots" / REVISION, calls


def test_the_hub_gives_data_alone(hub, golden):
    _, snapshot, calls = hub
    model = load_denoiser(HUB)
    assert model.card.source == HUB
    assert model.card.digests == model_files.file_digests(golden("llada"))
    assert {path.name for path in snapshot.iterdir()} == {"config.json", "weights.safetensors"}
    assert {call[:2] for call in calls} == {("owner/name", REVISION)}
    for pattern in {pattern for call in calls for pattern in call[2]}:
        suffix = pathlib.PurePath(pattern).suffix
        assert suffix in {".safetensors", ".json", ".txt", ".model"}


def test_faults_of_the_config_are_told_before_weights_are_fetched(hub):
    remote, snapshot, calls = hub
    edit_config(remote, quantum=3)
    with pytest.raises(ValueError, match="unknown field 'quantum'"):
        load_denoiser(HUB)
    assert not list(snapshot.glob("*.safetensors"))
    assert all("*.safetensors" not in call[2] for call in calls)


def test_a_tokenizer_of_another_model_is_told_before_weights_are_fetched(hub, tmp_path):
    remote, snapshot, _ = hub
    (remote / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    (remote / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert load_denoiser(HUB).num_ids == 5
    shutil.rmtree(snapshot)
    words = [f"w{i}" for i in range(70)]
    (remote / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]))
    with pytest.raises(ValueError, match=r"ids up to 7[34], but the llada network has 64 embed"):
        load_denoiser(HUB)
    assert not list(snapshot.glob("*.safetensors"))


@pytest.mark.parametrize(
    "revision", ["", "@", "@a b", "@x@y", "@main", "@v1.0", "@abcdef", "@" + "0" * 41, "@refs/pr/1"]
)
def test_a_revision_is_asked_for(hub, revision):
    with pytest.raises(ValueError, match="must pin a revision: hf:OWNER/REPO@REVISION"):
        load_denoiser(f"hf:owner/name{revision}")
    assert hub[2] == []


def test_the_registry_pins_commits():
    pins = [entry.source.partition("@")[2] for entry in registry.list_models() if entry.revision]
    assert pins
    assert all(re.fullmatch("[0-9a-f]{40}", pin) for pin in pins)


def test_an_unreachable_hub(monkeypatch):
    def unreachable(*args, **options):
        raise ConnectionError("name resolution failed")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(ValueError) as caught:
        load_denoiser(HUB)
    for part in (HUB, "ConnectionError: name resolution failed", "check the name and the network"):
        assert part in str(caught.value)
    assert f"hf download owner/name --revision {REVISION}" in str(caught.value)


def test_an_offline_machine(monkeypatch, tmp_path):
    # The hub's own code, told to stay offline, with nothing or with the configs alone in its cache.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    real = huggingface_hub.snapshot_download
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda *args, **options: real(*args, cache_dir=tmp_path, **options),
    )
    with pytest.raises(ValueError) as caught:
        load_denoiser(HUB)
    for part in (HUB, "HF_HUB_OFFLINE is set and it is not in the local cache", "hf download"):
        assert part in str(caught.value)
    assert not list(tmp_path.rglob("*.json"))


def test_an_offline_machine_with_a_config_alone(monkeypatch, golden, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.copy(golden("llada/config.json"), tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **options: str(tmp_path))
    with pytest.raises(ValueError, match=r"no \*\.safetensors file found; fetch the model's"):
        load_denoiser(HUB)


# Folders of other filesystems


class Bucket(MemoryFileSystem):
    """Cloud storage in memory that counts what is opened and may break off."""

    protocol = "gcs"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    cachable = False
    opened: ClassVar[list[str]] = []
    times: ClassVar[dict[str, float]] = {}
    broken: ClassVar[set[str]] = set()

    def __init__(self, **options):
        super().__init__()

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("gs://").removeprefix("gcs://"))

    def glob(self, path, **options):
        return [found.removeprefix("/") for found in super().glob(path, **options)]

    def info(self, path, **options):
        found = super().info(path, **options)
        return found | {"mtime": self.times.get(self._strip_protocol(path), 1e9)}

    def _open(self, path, mode="rb", **options):
        file = super()._open(path, mode, **options)
        if mode == "rb":
            name = pathlib.PurePath(path).name
            self.opened.append(name)
            if name in self.broken:
                raise ConnectionResetError(f"{name} broke off")
        return file


@pytest.fixture
def bucket(golden, tmp_path, monkeypatch):
    fsspec.register_implementation("gcs", Bucket, clobber=True)
    Bucket.store.clear()
    for state in (Bucket.opened, Bucket.times, Bucket.broken):
        state.clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    put(golden("llada"), "/bucket/model")
    yield lambda: sorted(p for p in (tmp_path / "cache").rglob("*") if p.is_file())
    Bucket.store.clear()


def put(folder, where):
    for path in folder.iterdir():
        write(f"{where}/{path.name}", path.read_bytes())


def write(name, content):
    with Bucket().open(name, "wb") as file:
        file.write(content)


def test_a_bucket_is_copied_once(bucket, golden):
    write("/bucket/model/modeling.py", b"raise SystemExit")
    write("/bucket/model/pytorch_model.bin", b"\x80")
    for _ in range(2):
        model = load_denoiser("gs://bucket/model")
        assert model.card.source == "gs://bucket/model"
        assert model.card.digests == model_files.file_digests(golden("llada"))
    assert sorted(Bucket.opened) == ["config.json", "weights.safetensors"]
    assert [path.name for path in bucket()] == ["config.json", "weights.safetensors"]


def test_a_changed_file_is_copied_again(bucket, golden):
    first = load_denoiser("gs://bucket/model").card.digests
    content = bytearray((golden("llada") / "weights.safetensors").read_bytes())
    content[-4:] = b"\0\0\0\0"  # a later checkpoint has the same size
    write("/bucket/model/weights.safetensors", bytes(content))
    Bucket.times["/bucket/model/weights.safetensors"] = 1e9 + 60
    second = load_denoiser("gs://bucket/model").card.digests
    assert Bucket.opened.count("weights.safetensors") == 2
    assert Bucket.opened.count("config.json") == 1
    assert second["weights.safetensors"] == hashlib.sha256(content).hexdigest()
    assert second != first


def test_a_file_that_is_gone_leaves_no_copy(bucket, golden):
    # As when a checkpoint is written anew in fewer shards.
    load_denoiser("gs://bucket/model")
    write("/bucket/model/model.safetensors", (golden("llada/weights.safetensors")).read_bytes())
    Bucket().rm("/bucket/model/weights.safetensors")
    assert "model.safetensors" in load_denoiser("gs://bucket/model").card.digests
    assert [path.name for path in bucket()] == ["config.json", "model.safetensors"]


def test_an_interrupted_copy_starts_again(bucket, monkeypatch):
    copy = shutil.copyfileobj

    def break_off(start, end, size):
        end.write(start.read(1000))
        raise ConnectionResetError("the line broke off")

    monkeypatch.setattr(sources.shutil, "copyfileobj", break_off)
    with pytest.raises(ValueError, match=r"gs://bucket/model.*ConnectionResetError: the line"):
        load_denoiser("gs://bucket/model")
    assert bucket() == []
    # A line that closes early without an error is told too.
    monkeypatch.setattr(
        sources.shutil, "copyfileobj", lambda start, end, size: end.write(start.read(1000))
    )
    with pytest.raises(ValueError, match="broke off after 1000 bytes"):
        load_denoiser("gs://bucket/model")
    assert bucket() == []
    monkeypatch.setattr(sources.shutil, "copyfileobj", copy)
    Bucket.broken.add("weights.safetensors")
    with pytest.raises(ValueError, match=r"weights\.safetensors broke off"):
        load_denoiser("gs://bucket/model")
    assert [path.name for path in bucket()] == ["config.json"]
    Bucket.broken.clear()
    assert load_denoiser("gs://bucket/model").mask_id == 60
    assert all(path.suffix != ".part" for path in bucket())


def test_names_that_look_alike_have_copies_of_their_own(bucket, golden):
    put(golden("llada"), "/a/b_c")
    put(golden("llama"), "/a_b/c")
    assert load_denoiser("gs://a/b_c").card.architecture == "llada"
    assert load_scorer("gs://a_b/c").card.architecture == "llama"
    assert load_denoiser("gs://a/b_c").card.architecture == "llada"
    assert len({path.parent for path in bucket()}) == 2


def test_a_bucket_without_a_model(bucket):
    with pytest.raises(ValueError, match=r"gs://bucket/other.*no config\.json.*credentials"):
        load_denoiser("gs://bucket/other")
    with pytest.raises(ValueError, match=r"ftp://bucket/model.* could not be read"):
        load_denoiser("ftp://bucket/model")


# Local paths and code


def test_a_file_instead_of_a_folder(folder):
    file = folder / "weights.safetensors"
    with pytest.raises(ValueError, match=f"{file}' is a file; name its folder, or gguf:{file}"):
        load_denoiser(str(file))


def test_paths_of_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load_denoiser("~/model").mask_id == 60


@pytest.mark.parametrize("path", ["~nosuchuserxyz/m", "m" * 5000, "m/" * 3000, "a\0b"])
def test_paths_that_no_system_has(path):
    with pytest.raises(ValueError, match="no folder with a config"):
        sources.resolve(path)
    with pytest.raises(ValueError, match="there is no file"):
        sources.resolve(f"gguf:{path}")


@pytest.fixture
def poison(folder, tmp_path):
    """Code in the repository that leaves a trace when anything runs it."""
    trace = tmp_path / "trace"
    for name in ("modeling_llada", "configuration_llada", "tokenization_llada", "__init__"):
        (folder / f"{name}.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    maps = {"AutoConfig": "configuration_llada.C", "AutoModel": "modeling_llada.M"}
    edit_config(folder, auto_map=maps)
    tokenizer = {
        "tokenizer_class": "LLaDATokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_llada.T", None]},
    }
    return trace, tokenizer


def test_a_known_family_runs_none_of_its_repository_code(folder, poison, monkeypatch):
    trace, tokenizer = poison
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    assert load_denoiser(str(folder)).mask_id == 60
    assert not trace.exists()


def test_an_unknown_family_with_code_of_its_own_is_refused(folder, poison):
    edit_config(folder, model_type="mystery")
    with pytest.raises(ValueError) as caught:
        load_denoiser(str(folder))
    for part in (str(folder), "'mystery' is not implemented", "code of its own (auto_map)"):
        assert part in str(caught.value)
    assert "never run" in str(caught.value)
    assert not poison[0].exists()
