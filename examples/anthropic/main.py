"""An agent of Anthropic's API on a desktop of deskhand, without other packages. Before it starts:
   export DESKHAND_URL=http://127.0.0.1:2468 DESKHAND_TOKEN=... ANTHROPIC_API_KEY=...
   python3 main.py "Open a terminal and tell me the kernel's version"
"""
import json
import os
import sys
import urllib.request


def post(url, headers, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def deskhand(path, body=None):
    return post(os.environ["DESKHAND_URL"] + path, {"authorization": "Bearer " + os.environ["DESKHAND_TOKEN"]}, body)


base = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01", "anthropic-beta": "computer-use-2025-11-24"}
deskhand("/v1/desktop/start", {})
tool = deskhand("/v1/desktop/computer/anthropic")
messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    answer = post(base + "/v1/messages", headers, {
        "model": os.environ.get("MODEL", "claude-opus-4-5"), "max_tokens": 4096, "tools": [tool], "messages": messages})
    messages.append({"role": "assistant", "content": answer["content"]})
    for block in answer["content"]:
        if block["type"] == "text":
            print(block["text"])
    results = [deskhand("/v1/desktop/computer/anthropic", b) for b in answer["content"] if b["type"] == "tool_use"]
    if not results:
        break
    messages.append({"role": "user", "content": results})
