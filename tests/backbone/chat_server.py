"""A small real HTTP server that speaks the OpenAI chat API, for tests; it can also misbehave."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import PIL.Image

MODEL = "Qwen/Qwen3-VL-4B-Instruct"


class ChatServer(ThreadingHTTPServer):
    """Answers with what it saw: sizes and mean colours of the images, then the last text, one word a token."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port=0):
        self.models = [{"id": MODEL, "owned_by": "vllm", "root": MODEL, "parent": None}]
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.images: list[np.ndarray] = []
        self.fault = None  # a function of the handler that answers a chat request instead, for `fault_count` requests
        self.fault_count = 10**9
        self.with_logprobs, self.with_usage, self.streams, self.delay_s = True, True, True, 0.0
        self.reply = None  # fixed words instead of the echo
        self.active, self.most_active, self.broken_pipes = 0, 0, 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)

    def handle_error(self, request, client_address):  # a client that hangs up is part of the tests
        with self.lock:
            self.broken_pipes += 1

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def log_message(self, *args):
        pass

    def send(self, status, content_type, body, **headers):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, value, status=200, **headers):
        self.send(status, "application/json", json.dumps(value).encode(), **headers)

    def do_GET(self):
        self.server.headers.append(dict(self.headers))
        if self.path == "/v1/models":
            self.send_json({"object": "list", "data": self.server.models})
        else:
            self.send(404, "text/html", b"<!doctype html><html>not here</html>")

    def do_POST(self):
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append(request)
            server.active += 1
            server.most_active = max(server.most_active, server.active)
            faulty = server.fault is not None and server.fault_count > 0
            server.fault_count -= faulty
        try:
            if faulty:
                server.fault(self)
            else:
                self.answer(request)
        finally:
            with server.lock:
                server.active -= 1

    def answer(self, request):
        server = self.server
        time.sleep(server.delay_s)
        if request["model"] not in [m["id"] for m in server.models]:
            self.send_json({"error": {"message": f"The model `{request['model']}` does not exist."}}, 404)
            return
        words, images = self.read(request["messages"])
        if request["temperature"] == 0 and request["n"] > 1:
            self.send_json({"error": {"message": "n must be 1 when using greedy sampling"}}, 400)
            return
        samples = [self.sample(request, words, i) for i in range(request["n"])]
        prompt = sum((w // 32) * (h // 32) for w, h in images) + 7
        usage = {"prompt_tokens": prompt, "completion_tokens": sum(len(t) for t, _ in samples)}
        usage = {**usage, "prompt_tokens_details": {"cached_tokens": 3}} if server.with_usage else None
        if server.streams and request["stream"]:
            self.stream(request, samples, usage)
        else:
            choices = [
                {"index": i, "message": {"role": "assistant", "content": "".join(t for t in tokens if t != END)}}
                | self.extras(request, tokens)
                | {"finish_reason": finish}
                for i, (tokens, finish) in enumerate(samples)
            ]
            self.send_json({"choices": choices, "usage": usage})

    def read(self, messages):
        words, images = [], []
        for message in messages:
            parts = message["content"]
            for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
                if part["type"] == "text":
                    words = part["text"].split()
                    continue
                head, data = part["image_url"]["url"].split(",", 1)
                assert head == "data:image/png;base64"
                image = PIL.Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
                array = np.asarray(image)
                self.server.images.append(array)
                images.append(image.size)
                words = [f"{image.width}x{image.height}"]
        return [f"{w}x{h}" for w, h in images] + words, images

    def sample(self, request, words, index):
        allowed = request.get("structured_outputs", {}).get("choice")
        if self.server.reply is not None:
            words = self.server.reply.split(" ")
        elif allowed:
            words = allowed[-1].split(" ")
        elif request["temperature"] > 0:
            words = [*words, f"seed{request['seed'] + index}"]
        tokens = [w if i == 0 else " " + w for i, w in enumerate(words)]
        for stop in request.get("stop", []):
            cut = next((i for i, token in enumerate(tokens) if stop in token), None)
            if cut is not None:
                return tokens[:cut], "stop"
        if len(tokens) >= request["max_tokens"]:
            return tokens[: request["max_tokens"]], "length"
        return [*tokens, END], "stop"

    def extras(self, request, tokens):
        if not (self.server.with_logprobs and request["logprobs"]):
            return {}
        content = [{"token": t, "logprob": -0.5 * (i + 1), "bytes": list(t.encode())} for i, t in enumerate(tokens)]
        return {"logprobs": {"content": content}, "token_ids": [len(t) for t in tokens]}

    def stream(self, request, samples, usage):
        self.begin_stream()
        for step in range(max(len(tokens) for tokens, _ in samples)):
            for index, (tokens, finish) in enumerate(samples):
                if step < len(tokens):
                    self.event(self.chunk(request, tokens, step, index, finish))
            self.comment()
            time.sleep(self.server.delay_s)
        if usage:
            self.event({"choices": [], "usage": usage})
        self.event("[DONE]")
        self.end_stream()

    def chunk(self, request, tokens, step, index, finish):
        extras = self.extras(request, tokens)
        if extras:
            extras["logprobs"] = {"content": extras["logprobs"]["content"][step : step + 1]}
            extras["token_ids"] = extras["token_ids"][step : step + 1]
        content = "" if tokens[step] == END else tokens[step]
        reason = finish if step == len(tokens) - 1 else None
        return {"choices": [{"index": index, "delta": {"content": content}, "finish_reason": reason} | extras]}

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, value):
        self.raw(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())

    def comment(self):
        self.raw(b": keep-alive\n\n")

    def raw(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")


END = "<|im_end|>"


@contextmanager
def serving(**attributes):
    """A running server with the given attributes set."""
    server = ChatServer(attributes.pop("port", 0))
    for name, value in attributes.items():
        setattr(server, name, value)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(2)
