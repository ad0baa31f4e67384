"""A chat server whose answers are drawn with known probabilities, which depend on the prompt."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


class Chats(ThreadingHTTPServer):
    """The server: ``answer`` maps messages, temperature and a generator to an answer.

    ``faults`` are what it does with the next requests instead of answering.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer, seed=0):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.rng, self.lock = answer, np.random.default_rng(seed), threading.Lock()
        self.faults, self.bodies, self.headers = [], [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def send(self, data):
        """Return status, headers and content of the reply to a request, without a network."""
        body = json.loads(data)
        self.bodies.append(body)
        return 200, {}, json.dumps(self.reply(body)).encode()

    def reply(self, body):
        with self.lock:
            content = self.answer(body["messages"], body["temperature"], self.rng)
        choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": len(str(body["messages"])) // 4}}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.bodies.append(body)
        server.headers.append(dict(self.headers))
        fault = server.faults.pop(0) if server.faults else None
        if fault == "drop":
            self.connection.close()
        elif fault == "slow":
            time.sleep(0.5)
        elif isinstance(fault, dict):
            self._send(200, fault)
        elif fault is not None:
            status, message, headers = fault
            self._send(status, {"error": {"message": message}}, headers)
        elif self.path != "/v1/chat/completions":
            self._send(404, {"error": {"message": "no such address"}})
        else:
            self._send(200, server.reply(body))

    def _send(self, status, content, headers=()):
        data = json.dumps(content).encode()
        self.send_response(status)
        for name, value in dict(headers, **{"Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def chats(answer, seed=0):
    """Start a server on a free port, and stop it."""
    with Chats(answer, seed) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
