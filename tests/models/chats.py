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
        super().__init__(("127.0.0.1", 0), Handler)
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


class Handler(BaseHTTPRequestHandler):
    """Answers requests. The next fault of the server comes first."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.server.headers.append(dict(self.headers))
        self.react(body, self.server.faults.pop(0) if self.server.faults else None)

    def react(self, body, fault):
        if fault == "drop":
            self.connection.close()
        elif fault == "slow":
            time.sleep(0.5)
        elif isinstance(fault, dict | bytes):
            self.send(200, fault)
        elif fault is not None:
            status, message, headers = fault
            self.send(status, {"error": {"message": message}}, headers)
        else:
            self.answer(body)

    def answer(self, body):
        if self.path != "/v1/chat/completions":
            self.send(404, {"error": {"message": "no such address"}})
        else:
            self.send(200, self.server.reply(body))

    def send(self, status, content, headers=()):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in dict(headers, **{"Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def running(server):
    """Answer requests to a server in a thread, and stop it."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def chats(answer, seed=0):
    """Start a server on a free port, and stop it."""
    return running(Chats(answer, seed))
