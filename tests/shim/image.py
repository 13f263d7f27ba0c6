# SPDX-License-Identifier: Apache-2.0
"""An image of busybox as an archive that a daemon imports: one layer, made here, from the machine's own static busybox."""
import hashlib
import io
import json
import os
import subprocess
import tarfile

BUSYBOX = "/bin/busybox"
NAME = "localhost/busybox:test"


def add(tar, name, data=b"", mode=0o644, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname = kind, mode, len(data), link
    tar.addfile(info, io.BytesIO(data))


def layer(extra=None):
    """The bytes of a root file system with busybox under all of its names, and more files {name: (mode, bytes)}."""
    out = io.BytesIO()
    with open(BUSYBOX, "rb") as file:
        program = file.read()
    names = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for directory in ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var"):
            add(tar, directory, mode=0o1777 if directory == "tmp" else 0o755, kind=tarfile.DIRTYPE)
        add(tar, "bin/busybox", program, 0o755)
        for name in names:
            if name != "busybox":
                add(tar, "bin/" + name, mode=0o777, kind=tarfile.SYMTYPE, link="busybox")
        add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        add(tar, "etc/group", b"root:x:0:\nnobody:x:65534:\n")
        for name, (mode, data) in (extra or {}).items():
            add(tar, name, data, mode)
    return out.getvalue()


def write(path, command=("/bin/sh",), extra=None):
    """An OCI archive at path, of one image called NAME."""
    blobs = {}

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": kind, "digest": "sha256:" + digest, "size": len(data)}

    content = layer(extra)
    top = blob(content, "application/vnd.oci.image.layer.v1.tar")
    config = {"architecture": os.uname().machine.replace("x86_64", "amd64"), "os": "linux",
              "config": {"Cmd": list(command), "Env": ["PATH=/bin:/usr/bin"]},
              "rootfs": {"type": "layers", "diff_ids": [top["digest"]]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"), "layers": [top]}
    entry = blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    entry["annotations"] = {"io.containerd.image.name": NAME, "org.opencontainers.image.ref.name": "test"}
    with tarfile.open(path, "w") as tar:
        add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
        for digest, data in blobs.items():
            add(tar, "blobs/sha256/" + digest, data)
