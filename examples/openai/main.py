"""An agent of OpenAI's API on a desktop of deskhand, without other packages. Before it starts:
   export DESKHAND_URL=http://127.0.0.1:2468 DESKHAND_TOKEN=... OPENAI_API_KEY=...
   python3 main.py "Open a terminal and tell me the kernel's version"
"""
import json
import os
import sys
import urllib.request


def post(url, token, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", "authorization": "Bearer " + token})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def deskhand(path, body=None):
    return post(os.environ["DESKHAND_URL"] + path, os.environ["DESKHAND_TOKEN"], body)


base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
deskhand("/v1/desktop/start", {})
tool = deskhand("/v1/desktop/computer/openai")
items = [{"role": "user", "content": sys.argv[1]}]
while True:
    answer = post(base + "/responses", os.environ["OPENAI_API_KEY"], {
        "model": os.environ.get("MODEL", "gpt-5.4"), "tools": [tool], "input": items, "truncation": "auto"})
    items += answer["output"]
    for item in answer["output"]:
        print(*[part["text"] for part in item.get("content", []) if part["type"] == "output_text"], end="", sep="\n")
    # Ask the user about pending_safety_checks, and add those they agree to as acknowledged_safety_checks.
    results = [deskhand("/v1/desktop/computer/openai", item) for item in answer["output"] if item["type"] == "computer_call"]
    if not results:
        break
    items += results
