"""A server of the Model Context Protocol that can do everything wrong. Needs nothing but Python.

    stand_in.py [HOW]       over stdin and stdout; HOW it begins (see `answer` and `over_lines`)
    stand_in.py files DIR   the same, and it also reads files of a folder
    stand_in.py http HOW    over streamable HTTP, at a port that the first line says; answers are events, or JSON if HOW
                            is `json`; if it is `key`, only to those who have the key
"""

import json
import os
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def tool(name, **arguments):
    properties = {key: {"type": kind} for key, kind in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"name": name, "description": f"Stand-in tool {name}.", "inputSchema": schema}


TOOLS = [
    tool("echo", text="string"),
    tool("next", number="integer"),
    tool("count", by="integer"),
    tool("where"),
    tool("key"),
    tool("huge", bytes="integer"),
    tool("fail"),
    tool("refuse"),
    tool("ask"),
    tool("change"),
    tool("crash"),
    tool("hang"),
    tool("flood"),
    tool("garbage"),
    tool("malformed"),
    tool("odd"),
    tool("forget"),
]


class Session:
    """What one client sees. `write` takes a line."""

    def __init__(self, how):
        self.how, self.count, self.changed, self.forgotten = how, 0, False, False

    def take(self, message, write):
        """Answers a message of the client."""
        self.write = write
        if "method" in message:
            self.answer(message.get("id"), message["method"], message.get("params") or {})

    def send(self, message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def answer(self, ident, method, params):
        if method == "initialize" and self.how == "refuse":
            self.send({"id": ident, "error": {"code": -32600, "message": "not today"}})
        elif method == "initialize":
            self.send({
                "id": ident,
                "result": {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "stand-in", "version": "1"},
                },
            })
        elif method == "tools/list":
            self.send({"id": ident, "result": self.listed(params)})
        elif method == "tools/call":
            result = self.call(ident, params)
            if result is not None:
                self.send({"id": ident, "result": result})
        elif ident is not None:
            self.send({"id": ident, "error": {"code": -32601, "message": f"no method {method}"}})

    def listed(self, params):
        tools = [] if self.how == "no_tools" else TOOLS + [tool("new")] * self.changed
        if self.how == "files":
            tools = [tool("read_text_file", path="string"), tool("list_directory", path="string"), *tools]
        if self.how == "drift" and os.path.exists("drift"):
            tools = tools[1:]
        elif self.how == "drift":
            open("drift", "w").close()
        if self.how == "pages":
            at = int(params.get("cursor", 0))
            more = {"nextCursor": str(at + 1)} if at + 1 < len(tools) else {}
            return {"tools": tools[at : at + 1], **more}
        if self.how == "endless":
            return {"tools": [], "nextCursor": "again"}
        return {"tools": tools}

    def call(self, ident, params):
        """Runs a tool. Returns its result, or None if it has answered in its own way."""
        name, arguments = params["name"], params.get("arguments", {})
        if name == "echo":
            return text(arguments["text"])
        if name == "next":
            return {"content": [], "structuredContent": {"next": arguments["number"] + 1}}
        if name == "read_text_file":
            with open(os.path.join(sys.argv[2], arguments["path"])) as file:
                return text(file.read())
        if name == "count":
            self.count += arguments["by"]
            return text(str(self.count))
        if name == "where":
            return text(f"{os.getcwd()} {os.environ.get('STAND_IN', '')}")
        if name == "key":
            return text(params["_meta"]["burnish/call"])
        if name == "huge":
            return text("x" * arguments["bytes"])
        if name == "fail":
            return text("no such thing", isError=True)
        if name == "refuse":
            self.send({"id": ident, "error": {"code": -32602, "message": "not like this", "data": {"at": 1}}})
        elif name == "ask":
            self.send({"id": "mine", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
            return text("refused" if "error" in json.loads(sys.stdin.readline()) else "answered")
        elif name == "change":
            self.changed = True
            self.send({"method": "notifications/tools/list_changed"})
            return text("changed")
        elif name == "crash":
            print("it broke", file=sys.stderr, flush=True)
            os._exit(3)
        elif name == "hang":
            time.sleep(600)
        elif name == "flood":
            while True:
                self.send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})
        elif name == "garbage":
            self.write("listening ...")
            return text("late")
        elif name == "malformed":
            self.write(json.dumps({"jsonrpc": "2.0", "id": [ident], "result": 3}))
        elif name == "odd":
            self.send({"id": ident, "result": {"content": "a text instead of a list"}})
        elif name == "forget":
            self.forgotten = True
            return text("forgotten")
        return None


def over_lines(how):
    def write(line):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    if how == "crash":
        print("no licence", file=sys.stderr, flush=True)
        sys.exit(1)
    if how == "hang":
        time.sleep(600)
    if how == "banner":
        write("Welcome to the server!")
    session = Session(how)
    for line in sys.stdin:
        session.take(json.loads(line), write)


def over_http(how):
    sessions = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def say(self, status, body=b"", **headers):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def session(self, begun=None):
            """The session that has begun, or that the client names; None once it has been refused."""
            if how == "key" and self.headers.get("Authorization") != "Bearer open sesame":
                return self.say(401, b'{"error": {"message": "no key"}}')
            if how == "key" and self.headers.get("X-Team") != "seven":
                return self.say(403, b'{"error": {"message": "no team"}}')
            session = sessions.get(begun or self.headers.get("Mcp-Session-Id"))
            if session is None or session.forgotten:
                return self.say(404)
            return session

        def do_GET(self):
            self.say(405)

        def do_DELETE(self):
            print("deleted", flush=True)
            if self.session() is not None:
                self.say(204)

        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {}
            if message.get("method") == "initialize":
                headers["Mcp-Session-Id"] = str(uuid.uuid4())
                sessions[headers["Mcp-Session-Id"]] = Session(how)
            session = self.session(headers.get("Mcp-Session-Id"))
            if session is None:
                return
            if "id" not in message or "method" not in message:
                session.take(message, print)
                self.say(202)
            elif how == "json":
                lines = []
                session.take(message, lines.append)
                self.say(200, lines[-1].encode(), Content_Type="application/json", **headers)
            else:
                self.send_response(200)
                for name, value in {**headers, "Content-Type": "text/event-stream", "Connection": "close"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.close_connection = True
                session.take(message, lambda line: self.wfile.write(f"event: message\ndata: {line}\n\n".encode()))

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            """A client that has gone is nothing to tell about."""

    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    words = sys.argv[1:] + ["", ""]
    if words[0] == "http":
        over_http(words[1])
    else:
        over_lines(words[0])
