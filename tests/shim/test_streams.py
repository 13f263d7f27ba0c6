# SPDX-License-Identifier: Apache-2.0
"""Standard streams of tasks on a VM that is faked: fifos and their clients, files, loggers, terminals' sizes."""
import os
import threading
import time

import shim


class Streams(shim.Case):
    def test_input_and_outputs(self):
        out, err, path = self.fifo(), self.fifo("err"), self.input_fifo()
        task = self.running("io", ["sh", "-c", "cat; echo done >&2"], {"stdin": path, "stdout": out.path, "stderr": err.path})
        with open(path, "wb", buffering=0) as f:
            f.write(b"a" * 100000)
            # A client that leaves is no end of input.
        out.wait(lambda data, ended: len(data) == 100000, "what was written")
        with open(path, "wb", buffering=0) as f:
            f.write(b"b" * 10)
            task.close_stdin()
            f.write(b"c" * 10)
        self.assertEqual(out.all(), b"a" * 100000 + b"b" * 10 + b"c" * 10)
        self.assertEqual(err.all(), b"done\n")
        self.assertEqual(task.wait(), 0)
        self.end(task)

    def test_late_reader(self):
        """A client opens its end while the start is on its way: what has ended by then does not leave it waiting."""
        task, path, read = self.running("lr"), self.input_fifo(), []
        task.exec("e", ["echo", "words"], stdout=path)
        starter = threading.Thread(target=task.start, args=("e",))
        starter.start()
        # How late it is.
        time.sleep(0.5)

        def reader():
            with open(path, "rb") as f:
                read.append(f.read())
        thread = threading.Thread(target=reader, daemon=True)
        thread.start()
        thread.join(shim.PATIENCE)
        self.assertEqual(read, [b"words\n"])
        starter.join()
        self.assertEqual(task.wait("e"), 0)
        self.end(task)

    def test_readers_that_wait(self):
        """A client whose open waits for the shim's never reads an end of file before the words, however the two meet."""
        task, read = self.running("rw"), []

        def reader(path):
            with open(path, "rb") as f:
                read.append(f.read())
        for i in range(50):
            path = self.input_fifo()
            task.exec(f"e{i}", ["echo", "words"], stdout=path)
            thread = threading.Thread(target=reader, args=(path,), daemon=True)
            thread.start()
            task.start(f"e{i}")
            thread.join(shim.PATIENCE)
            task.wait(f"e{i}")
            task.delete(f"e{i}")
        self.assertEqual(read, [b"words\n"] * 50)
        self.end(task)

    def test_size_before_the_start(self):
        """That of init is known at its first instruction; that of an exec is part of its own specification."""
        out = self.fifo()
        task = self.created("sz", ["sh", "-c", "echo $TERMINAL; exec sleep 1000"], {"stdout": out.path, "terminal": True})
        task.resize(12, 34)
        task.start()
        out.wait(lambda data, ended: data.endswith(b"\n"), "its first words")
        self.assertEqual(out.data, b"True 34 12\n")
        self.end(task)

    def test_closed_before_the_start(self):
        out, path = self.fifo(), self.input_fifo()
        task = self.created("cb", ["cat"], {"stdin": path, "stdout": out.path})
        task.close_stdin()
        writer = threading.Thread(target=lambda: open(path, "wb").close())
        writer.start()
        task.start()
        self.assertEqual((out.all(), task.wait()), (b"", 0))
        writer.join()
        self.end(task)

    def test_last_words(self):
        """What was written right before the end is there, and the end of file, before Delete."""
        for i in range(10):
            out = self.fifo()
            if i == 0:
                task = self.running("lw")
            task.exec(f"e{i}", ["sh", "-c", "seq 1 5000"], stdout=out.path)
            task.start(f"e{i}")
            task.wait(f"e{i}")
            self.assertEqual(out.all(), b"".join(b"%d\n" % n for n in range(1, 5001)))
            task.delete(f"e{i}")
        self.end(task)

    def test_child_that_holds_the_output(self):
        """It delays the exit by a second at most; with Delete the client's fifo ends."""
        out = self.fifo()
        task = self.running("ho")
        task.exec("e", ["sh", "-c", "sleep 1000 & echo x"], stdout=out.path)
        start = time.monotonic()
        task.start("e")
        self.assertEqual(task.wait("e"), 0)
        self.assertLess(time.monotonic() - start, 10)
        out.wait(lambda data, ended: data == b"x\n", "what it wrote itself")
        out.attached()
        self.assertFalse(out.ended)
        task.delete("e")
        self.assertEqual(out.all(), b"x\n")
        self.end(task)

    def test_no_reader(self):
        """Output waits for a reader that is away, as much as a fifo holds; other processes do not."""
        out = self.fifo()
        task = self.running("nr")
        path = os.path.join(self.directory, "away")
        os.mkfifo(path)
        task.exec("slow", ["sh", "-c", "yes | head -c 3000000; exit 3"], stdout=path)
        task.start("slow")
        task.exec("quick", ["echo", "here"], stdout=out.path)
        task.start("quick")
        self.assertEqual((out.all(), task.wait("quick")), (b"here\n", 0))
        with open(path, "rb") as f:
            data = f.read()
        self.assertEqual((len(data), task.wait("slow")), (3000000, 3))
        self.end(task)

    def test_files(self):
        path = os.path.join(self.directory, "new", "log")
        task = self.running("fi", ["sh", "-c", "echo out; echo err >&2"], {"stdout": "file://" + path, "stderr": "file://" + path})
        self.assertEqual(task.wait(), 0)
        self.end(task)
        with open(path, "rb") as f:
            self.assertEqual(sorted(f.read().split()), [b"err", b"out"])

    def test_logger(self):
        program = self.file("logger", f"""#!/bin/sh
echo "$CONTAINER_ID $CONTAINER_NAMESPACE $*" > {self.directory}/words
env | wc -l >> {self.directory}/words
cat <&4 > {self.directory}/err &
echo x >&5
exec 5>&-
cat <&3 > {self.directory}/out
wait
""")
        os.chmod(program, 0o755)
        task = self.running("lo", ["sh", "-c", "echo out; echo err >&2"],
                            {"stdout": f"binary://{program}?key=a%20value&other=x", "stderr": f"binary://{program}"})
        self.assertEqual(task.wait(), 0)
        self.end(task)
        self.until(lambda: not [p for p in self.residents()], "the logger's end")
        read = {name: self.read(name) for name in ("words", "out", "err")}
        self.assertEqual(read["out"], b"out\n")
        self.assertEqual(read["err"], b"err\n")
        self.assertTrue(read["words"].startswith(b"lo test key a value other x\n"), read["words"])

    def test_logger_that_is_not_ready(self):
        program = self.file("logger", "#!/bin/sh\nexit 1\n")
        os.chmod(program, 0o755)
        task = self.task("lf")
        with self.refused(2, "/no/such/logger"):
            task.create(task.bundle, stdout="binary:///no/such/logger", rootfs=self.rootfs(), options=self.options())
        with self.refused(4, "logger"):
            task.create(task.bundle, stdout="binary-v2://" + program, rootfs=self.rootfs(), options=self.options())
        with self.refused(3, "npipe"):
            task.create(task.bundle, stdout="npipe://x", rootfs=self.rootfs(), options=self.options())
        task.shutdown()


if __name__ == "__main__":
    shim.main()
