# SPDX-License-Identifier: Apache-2.0
"""Images: read-only root file systems in a cache; see cchv/image.h."""
import json

from . import _ffi
from .context import default_context


class Progress(_ffi.Handle):
    """Tells another thread, or an event loop by fileno(), how far an import is, and can cancel it."""

    _free = "cchv_progress_free"

    def __init__(self):
        super().__init__(_ffi.new_handle("cchv_progress_new"))

    def fileno(self):
        """Readable when something has changed."""
        return _ffi.check(_ffi.lib().cchv_progress_get_fd(self.pointer), "cchv_progress_get_fd")

    @property
    def done(self):
        return _ffi.lib().cchv_progress_get_done(self.pointer)

    @property
    def total(self):
        return _ffi.lib().cchv_progress_get_total(self.pointer)

    @property
    def phase(self):
        return _ffi.to_str(_ffi.lib().cchv_progress_get_phase(self.pointer))

    def cancel(self):
        self._set("cchv_progress_cancel")


class _Source(_ffi.Handle):
    _free = "cchv_image_source_free"

    def __init__(self, texts):
        super().__init__(_ffi.new_handle("cchv_image_source_new"))
        for text in texts:
            self._set("cchv_image_source_add", _ffi.to_bytes(text))


class Image(_ffi.Handle):
    """An image of the cache, in use until it is closed. Image(name) opens one by name, digest or .erofs path."""

    _free = "cchv_image_free"

    def __init__(self, name, *, context=None):
        super().__init__(None)
        self._pointer = _ffi.call_for_handle("cchv_image_open", (context or default_context()).pointer,
                                             _ffi.to_bytes(name))

    @classmethod
    def load(cls, *sources, name=None, progress=None, context=None):
        """Import "dir:PATH", "oci:PATH[:TAG]", "docker://REF", or one or more "tar:PATH" layers, the lowest first."""
        image = cls.__new__(cls)
        with _Source(sources) as source:
            _ffi.Handle.__init__(image, _ffi.call_for_handle(
                "cchv_image_import", (context or default_context()).pointer, source.pointer, _ffi.to_bytes(name),
                None if progress is None else progress.pointer))
        return image

    @property
    def digest(self):
        return _ffi.to_str(_ffi.lib().cchv_image_get_digest(self.pointer))

    @property
    def name(self):
        return _ffi.to_str(_ffi.lib().cchv_image_get_name(self.pointer))

    @property
    def path(self):
        return _ffi.to_str(_ffi.lib().cchv_image_get_path(self.pointer))

    @property
    def config(self):
        """The image's OCI config: Entrypoint, Cmd, Env, ..."""
        return json.loads(_ffi.lib().cchv_image_get_config_json(self.pointer))

    @property
    def size(self):
        return _ffi.lib().cchv_image_get_size(self.pointer)

    @property
    def create_time_ns(self):
        return _ffi.lib().cchv_image_get_create_time(self.pointer)
