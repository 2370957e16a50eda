"""Sets that are made lie in the cache folder that the user chose, else in the user's own."""

from pathlib import Path

from trainer.image_records import default_folder


def no_home():
    raise RuntimeError("Could not determine home directory.")


def test_a_chosen_cache_folder_needs_no_home(monkeypatch):
    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setenv("SCALEMARK_CACHE", "/cache")
    assert default_folder("photos") == Path("/cache/photos-v1")


def test_without_a_choice_it_is_in_the_users_cache_folder(monkeypatch):
    monkeypatch.delenv("SCALEMARK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/mine")
    assert default_folder("photos") == Path("/mine/scalemark/photos-v1")
