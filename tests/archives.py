"""Archives like that of the IMDB reviews, and a server that hands them out on localhost."""

import hashlib
import io
import tarfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from limelight.data.imdb import Archive


def pack_archive(members):
    """A .tar.gz of ``{name: content}``; a content of None is a folder, a str a link's target."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


REVIEWS = {
    "aclImdb": None,
    "aclImdb/train/neg/0_1.txt": b"dull",
    "aclImdb/train/pos/0_9.txt": b"fine",
    "aclImdb/test/neg/0_2.txt": b"poor",
    "aclImdb/test/pos/0_8.txt": b"good",
}
GOOD = pack_archive(REVIEWS)


@contextmanager
def serve_content(content, *, stop_at=None, ranges=True):
    """Serve ``content`` up to byte ``stop_at``; yield its address and the ranges asked for."""
    request = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            wanted = self.headers.get("Range")
            request.append(wanted)
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and ranges else 0
            if self.path != "/imdb.tar.gz":
                self.send_error(404, "Not Found")
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:stop_at])

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/imdb.tar.gz", request
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def describe_archive(url, content=GOOD):
    return Archive(url, len(content), hashlib.md5(content).hexdigest())
