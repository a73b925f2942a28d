// A page that embeds the terminal of @sandbox-agent/react. The page's address names
// the server and the process.
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ProcessTerminal } from "@sandbox-agent/react";
import { SandboxAgent } from "sandbox-agent";

const query = new URLSearchParams(location.search);
const client = await SandboxAgent.connect({ baseUrl: query.get("url"), token: query.get("token") });

// The exits and errors that the component reported.
globalThis.told = [];
const tell = (event) => told.push(event.message ?? event);

createRoot(document.querySelector("#root")).render(
  <StrictMode>
    <ProcessTerminal client={client} processId={query.get("process")} onExit={tell} onError={tell} />
  </StrictMode>,
);
