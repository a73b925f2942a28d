// Plays the desktop by WHEP and reconnects after an error.

const video = document.querySelector("video");
const status = document.querySelector("[role=status]");
const say = (text) => { status.textContent = text; };
const pause = (time) => new Promise((done) => { setTimeout(done, time); });

/** gathered resolves when the offer has all addresses of this browser. */
const gathered = (pc) => new Promise((done) => {
  const look = () => { if (pc.iceGatheringState === "complete") done(); };
  pc.addEventListener("icegatheringstatechange", look);
  look();
});

/** play shows the desktop until the connection fails. */
async function play() {
  const pc = new RTCPeerConnection();
  try {
    pc.addTransceiver("video", { direction: "recvonly" });
    pc.ontrack = ({ streams }) => { [video.srcObject] = streams; };
    await pc.setLocalDescription();
    await gathered(pc);
    const answer = await fetch("whep", {
      method: "POST", headers: { "Content-Type": "application/sdp" }, body: pc.localDescription.sdp,
    });
    if (!answer.ok) throw new Error(await answer.text());
    const session = answer.headers.get("Location");
    const leave = () => { fetch(session, { method: "DELETE", keepalive: true }); };
    addEventListener("pagehide", leave, { once: true });
    await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    await new Promise((done, fail) => {
      pc.onconnectionstatechange = () => {
        if (pc.connectionState === "connected") say("");
        if (pc.connectionState === "failed") fail(new Error("the connection failed"));
      };
    });
  } finally {
    pc.close();
  }
}

for (let wait = 1; ; wait = Math.min(2 * wait, 15)) {
  const begun = Date.now();
  try {
    await play();
  } catch (error) {
    if (Date.now() - begun > 30_000) wait = 1;
    say(`No picture: ${error.message}. Trying again in ${wait} s.`);
  }
  await pause(1000 * wait);
}
