// The words of sessions: their states, times and errors.

/** states has the icon, the word and the look of each state of a session. */
export const states = {
  waiting: { icon: "shield", word: "Needs you", look: "warn" },
  running: { icon: "busy", word: "Working", look: "works" },
  starting: { icon: "busy", word: "Starting", look: "works" },
  idle: { icon: "check", word: "Ready", look: "" },
  interrupted: { icon: "warning", word: "Interrupted", look: "warn" },
  failed: { icon: "warning", word: "Failed", look: "bad" },
  ended: { icon: "stop", word: "Ended", look: "dim" },
};

/** order sorts sessions: those that wait for a person, those that run, and the latest of the others. */
export function order(a, b) {
  const rank = ({ state }) => ["waiting", "running", "starting"].indexOf(state) + 1 || 9;
  return rank(a) - rank(b) || b.updatedAt - a.updatedAt;
}

/** titleOf returns the title of a session. */
export function titleOf({ title, agentName, agent, directory, sessionId }) {
  if (title) return title;
  const folder = directory?.split("/").filter(Boolean).pop();
  return folder ? `${agentName ?? agent} in ${folder}` : sessionId;
}

/** duration formats milliseconds as 0.4 s, 12 s or 2 min 5 s. */
export function duration(ms) {
  const seconds = ms / 1000;
  if (seconds < 0.05) return "";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = Math.round(seconds % 60);
  return minutes < 60 ? `${minutes} min ${rest} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** ago formats a time for lists: now, 5 min, 14:05, Nov 3. */
export function ago(time, now = Date.now()) {
  const minutes = Math.floor((now - time) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  const at = new Date(time);
  if (at.toDateString() === new Date(now).toDateString()) return at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return at.toLocaleDateString([], { month: "short", day: "numeric" });
}

/** notices has the texts of notices in a transcript. */
export const notices = {
  restored: "The agent was started again. It continues this session.",
  ended: "The session was ended.",
  cancelled: "Stopped",
  max_tokens: "The agent reached its limit of output. Send a message to continue.",
  max_turn_requests: "The agent reached its limit of steps. Send a message to continue.",
  refusal: "The model declined to answer.",
};

/** answers has the texts of the answers to permission requests. */
export const answers = { accept: "Allowed", accept_for_session: "Always allowed", reject: "Rejected" };

const logins = {
  claude: ["ANTHROPIC_API_KEY", "claude"],
  codex: ["OPENAI_API_KEY", "codex login"],
  opencode: ["ANTHROPIC_API_KEY", "opencode auth login"],
  amp: ["AMP_API_KEY", "amp login"],
  cursor: ["CURSOR_API_KEY", "cursor-agent login"],
  gemini: ["GEMINI_API_KEY", "gemini"],
  pi: ["ANTHROPIC_API_KEY", "pi"],
};

/** signIn explains how to sign in to an agent: { what, why, fix, command }. */
export function signIn({ id, name }) {
  const [variable, command] = logins[id] ?? [];
  return {
    what: `Sign in to ${name}`,
    why: "The server has no API key and no login for this agent.",
    fix: variable
      ? `Set ${variable} where the server runs and start the server again, or run this command as the server's user:`
      : "Sign in with the agent's own program, as the server's user.",
    command,
  };
}

/** failure explains the end of a turn, or of a session, that failed: { what, why, fix, command, details }. */
export function failure({ message, code, details }, agent) {
  if (code === "-32000" || /authentication required/i.test(message)) return { ...signIn(agent), details: message };
  if (code === "agent_exited") {
    return {
      what: `${agent.name} stopped`,
      why: `Its process ended${exit(details)} during the turn.`,
      fix: "Continue starts it again, with this conversation.",
      details: details?.stderr,
    };
  }
  if (code === "configuration") return { what: "A part of the configuration doesn't work", why: message, fix: "" };
  return { what: `${agent.name} reported an error`, why: message, fix: "", details: detailsOf(details) };
}

const exit = (details) => (details?.signal ? ` with signal ${details.signal}` : details?.code != null ? ` with code ${details.code}` : "");

function detailsOf(details) {
  if (!details) return "";
  return typeof details === "string" ? details : JSON.stringify(details, null, 2);
}
