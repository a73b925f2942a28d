"""An agent of the Gemini API on a desktop of deskhand, without other packages. Before it starts:
   export DESKHAND_URL=http://127.0.0.1:2468 DESKHAND_TOKEN=... GEMINI_API_KEY=...
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


base = os.environ.get("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
url = base + "/v1beta/models/" + os.environ.get("MODEL", "gemini-3.5-flash") + ":generateContent"
deskhand("/v1/desktop/start", {})
tool = deskhand("/v1/desktop/computer/gemini")
contents = [{"role": "user", "parts": [{"text": sys.argv[1]}]}]
while True:
    answer = post(url, {"x-goog-api-key": os.environ["GEMINI_API_KEY"]}, {"contents": contents, "tools": [tool]})
    content = answer["candidates"][0]["content"]
    contents.append(content)
    print(*[part["text"] for part in content["parts"] if "text" in part], end="", sep="\n")
    # A call whose safety_decision is require_confirmation needs the user's consent, and then safety_acknowledgement: true.
    results = [{"functionResponse": deskhand("/v1/desktop/computer/gemini", part["functionCall"])}
               for part in content["parts"] if "functionCall" in part]
    if not results:
        break
    contents.append({"role": "user", "parts": results})
