# SPDX-License-Identifier: Apache-2.0
"""The context: where things lie, which VMM is used, where the log goes; what is here, what can be cleaned up."""
import json
import threading
from typing import NamedTuple, Optional

from . import _ffi, constants


class Finding(NamedTuple):
    """One line of a report; see cchv/findings.h."""
    name: str
    status: constants.Finding
    text: str
    advice: Optional[str]


def _findings(pointer):
    library = _ffi.lib()
    try:
        return [Finding(_ffi.to_str(library.cchv_findings_get_name(pointer, i)),
                        constants.named(constants.Finding, library.cchv_findings_get_status(pointer, i)),
                        _ffi.to_str(library.cchv_findings_get_text(pointer, i)),
                        _ffi.to_str(library.cchv_findings_get_advice(pointer, i)))
                for i in range(library.cchv_findings_get_count(pointer))]
    finally:
        library.cchv_findings_free(pointer)


class Context(_ffi.Handle):
    """Set it up in one thread, then share it. log is called as log(level, line) in the thread that caused the line.
    template_building: a template that a VM did not find is built by a process in the background; see cchv/ctx.h."""

    _free = "cchv_ctx_free"

    def __init__(self, *, runtime_dir=None, state_dir=None, vmm=None, log=None, log_fd=None,
                 log_level=constants.LogLevel.INFO, template_building=False):
        super().__init__(None)
        self._pointer = _ffi.call_for_handle("cchv_ctx_new")
        if runtime_dir is not None:
            self._set("cchv_ctx_set_runtime_dir", _ffi.to_bytes(runtime_dir))
        if state_dir is not None:
            self._set("cchv_ctx_set_state_dir", _ffi.to_bytes(state_dir))
        if vmm is not None:
            self._set("cchv_ctx_set_vmm", _ffi.to_bytes(vmm))
        if template_building:
            self._set("cchv_ctx_set_template_building", 1)
        if log is not None and log_fd is not None:
            raise ValueError("log and log_fd exclude each other")
        if log is not None:
            _ffi.set_log(self.pointer, log_level, log)
        if log_fd is not None:
            self._set("cchv_ctx_set_log_fd", log_level, log_fd)

    def probe(self):
        """What is here, what is missing and what to do: a list of Finding."""
        return _findings(_ffi.call_for_handle("cchv_ctx_probe", self.pointer))

    def versions(self):
        """What a VM would be made of now: a dict; see cchv_ctx_get_versions_json() in cchv/ctx.h."""
        return json.loads(_ffi.call_for_string("cchv_ctx_get_versions_json", self.pointer))

    def prune(self):
        """Remove what dead owners left: a list of Finding, one for each thing removed."""
        return _findings(_ffi.call_for_handle("cchv_ctx_prune", self.pointer))

    def list_vms(self):
        """Ids of the VMs of the runtime directory."""
        return _ffi.call_for_list("cchv_ctx_list_vms", self.pointer)

    def list_images(self):
        """Names of the images of the cache, and digests of those without a name."""
        return _ffi.call_for_list("cchv_image_list", self.pointer)

    def remove_image(self, name):
        """Remove a name, and the image with its last name."""
        _ffi.call("cchv_image_remove", self.pointer, _ffi.to_bytes(name))

    def prune_images(self, max_age_s=0):
        """Remove images without names that were not used for max_age_s seconds: a list of Finding."""
        return _findings(_ffi.call_for_handle("cchv_image_prune", self.pointer, max_age_s))

    def build_template(self, config=None, timeout=None):
        """Make the template that fits a VM (of the settings config, or of none) if it is not there: its key."""
        return _ffi.call_for_string("cchv_template_build", self.pointer, None if config is None else config.pointer,
                                    _ffi.to_ms(timeout))

    def list_templates(self):
        """Keys of the templates; see cchv/template.h."""
        return _ffi.call_for_list("cchv_template_list", self.pointer)

    def template_info(self, key):
        """What is known of a template."""
        return json.loads(_ffi.call_for_string("cchv_template_get_info_json", self.pointer, _ffi.to_bytes(key)))

    def remove_template(self, key):
        """Remove a template; VMs that have started from it keep what they need."""
        _ffi.call("cchv_template_remove", self.pointer, _ffi.to_bytes(key))


_default = None
_default_lock = threading.Lock()


def default_context():
    """The context that is used where none is given: all defaults, made at the first use."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = Context()
        return _default


def version():
    """Version of the loaded library."""
    return _ffi.to_str(_ffi.lib().cchv_version())
