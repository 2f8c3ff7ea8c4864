"""A program that a test has started: what it says is collected, and it ends with the test."""
import subprocess
import threading


class ProgramError(Exception):
    """It did not say or do what it should; the text has all that it said."""


class Program:
    PATIENCE = 240  # seconds; far more than anything takes

    def __init__(self, command, environment=None):
        self.command = [str(word) for word in command]
        self.process = subprocess.Popen(self.command, env=environment, text=True, errors="replace",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.text = ""
        self.said = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.said:
                self.text += line
                self.said.notify_all()
        with self.said:
            self.said.notify_all()

    def fail(self, what):
        raise ProgramError(f"{' '.join(self.command)} {what}; it said:\n{self.text}")

    def wait_for(self, words):
        """Until it has said them."""
        with self.said:
            self.said.wait_for(lambda: words in self.text or not self.reader.is_alive(),
                               self.PATIENCE)
        if words not in self.text:
            self.fail(f"never said {words!r}")

    def end(self):
        """Its exit code, and all that it said."""
        try:
            code = self.process.wait(self.PATIENCE)
        except subprocess.TimeoutExpired:
            self.fail("did not end")
        self.reader.join(self.PATIENCE)
        return code, self.text

    def finish(self, code=0):
        """All that it said; it must end with this exit code."""
        ended, text = self.end()
        if ended != code:
            self.fail(f"ended with {ended}, not {code}")
        return text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join(self.PATIENCE)
        self.process.stdout.close()
