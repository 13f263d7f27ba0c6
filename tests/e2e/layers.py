# SPDX-License-Identifier: Apache-2.0
"""Layers and layouts to import: tar files with whiteouts, OCI image layouts made by umoci."""
import io
import os
import subprocess
import tarfile


def layer(path, *entries):
    """A tar of (name, content): None is a directory, ("link", to) a symbolic link, ("hard", to) a hard link."""
    with tarfile.open(path, "w") as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            elif isinstance(content, tuple):
                info.type = {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}[content[0]]
                info.linkname = content[1]
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def base_layer(t):
    """The tiny root file system as a layer."""
    path = os.path.join(t.dir("layer"), "base.tar")
    subprocess.run(["tar", "-C", t.tiny_root(), "-cf", path, "."], check=True)
    return path


def oci_layout(t, root, config, name="layout"):
    """An OCI image layout of one layer with the tag v1: its path. config: words of `umoci config`."""
    where = os.path.join(t.dir("oci"), name)
    bundle = t.dir("bundle")
    for words in (["init", "--layout", where], ["new", "--image", f"{where}:v1"],
                  ["unpack", "--image", f"{where}:v1", bundle + "/b"]):
        subprocess.run(["umoci", *words], check=True, capture_output=True)
    subprocess.run(["cp", "-a", root + "/.", bundle + "/b/rootfs"], check=True)
    subprocess.run(["umoci", "repack", "--image", f"{where}:v1", bundle + "/b"], check=True, capture_output=True)
    subprocess.run(["umoci", "config", "--image", f"{where}:v1", *config], check=True, capture_output=True)
    return where
