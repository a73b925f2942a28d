// The notifications of this browser.

import { make, setText } from "../dom.js";
import { notifies, obstacle, setNotifies } from "../shell/notify.js";

/** notifications fills box with the choice whether the browser tells of agents that wait. */
export function notifications(box) {
  const check = make("input", { type: "checkbox" });
  const note = make("p", { className: "dim", role: "status" });
  box.append(make("label", { className: "choice" }, check, make("span", {}, "Notify me when an agent waits for an answer",
    make("small", {}, "In this browser, while the page is in the background. A notification names the agent, and nothing that was written."))), note);

  function look() {
    check.checked = notifies();
    setText(note, obstacle());
  }

  check.addEventListener("change", async () => {
    await setNotifies(check.checked);
    look();
  });
  return { show: look };
}
