"""A Hub on this machine: just enough of its HTTP interface to make a repository, commit to it and read it back."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

COMMIT = "c0ffee" + "0" * 34


class Hub:
    """Repositories by id, each its files; and how to reach them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.messages: list[str] = []


@contextmanager
def hub_server() -> Iterator[Hub]:
    """A Hub that listens on a free port until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.hub = Hub(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)  # looks for the end so often
    thread.start()
    try:
        yield server.hub  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts == ["api", "repos", "create"]:
            self._create(json.loads(body))
        elif parts == ["api", "validate-yaml"]:
            self._json({"errors": [], "warnings": []})
        elif parts[:2] == ["api", "models"] and parts[4] == "preupload":
            paths = [one["path"] for one in json.loads(body)["files"]]
            self._json({"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]})
        elif parts[:2] == ["api", "models"] and parts[4] == "commit":
            self._commit("/".join(parts[2:4]), body)
        else:
            self._send(404, b"")

    def _create(self, asked: dict[str, Any]) -> None:
        name = asked["name"] if asked.get("organization") is None else f"{asked['organization']}/{asked['name']}"
        self.hub.repositories.setdefault(name, {})
        self._json({"url": f"{self.hub.address}/{name}", "name": name})

    def _commit(self, repository: str, body: bytes) -> None:
        for line in map(json.loads, body.decode().splitlines()):
            value = line["value"]
            if line["key"] == "header":
                self.hub.messages.append(value["summary"])
            elif line["key"] == "file":
                assert value["encoding"] == "base64"
                self.hub.repositories[repository][value["path"]] = base64.b64decode(value["content"])
        url = f"{self.hub.address}/{repository}/commit/{COMMIT}"
        self._json({"success": True, "commitOid": COMMIT, "commitUrl": url, "hookOutput": ""})

    def do_HEAD(self) -> None:
        self._read(with_body=False)

    def do_GET(self) -> None:
        self._read(with_body=True)

    def _read(self, with_body: bool) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        repository = "/".join(parts[2:4] if is_api else parts[:2])
        files = self.hub.repositories.get(repository)
        if files is None:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
        elif is_api and parts[4:5] == ["tree"]:
            oids = {name: hashlib.sha1(content).hexdigest() for name, content in files.items()}
            self._json([{"type": "file", "path": name, "size": len(files[name]), "oid": oids[name]} for name in files])
        elif is_api:
            siblings = [{"rfilename": name} for name in sorted(files)]
            self._json({"id": repository, "modelId": repository, "sha": COMMIT, "siblings": siblings})
        elif (content := files.get("/".join(parts[4:]))) is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        else:
            etag = hashlib.sha256(content).hexdigest()
            self._send(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}, with_body)

    def _json(self, answer: dict[str, Any] | list[dict[str, Any]]) -> None:
        self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, with_body: bool = True) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)
