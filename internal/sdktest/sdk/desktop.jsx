// A page that embeds the desktop viewer of @sandbox-agent/react. The page's address
// names the server.
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { DesktopViewer } from "@sandbox-agent/react";
import { SandboxAgent } from "sandbox-agent";

const query = new URLSearchParams(location.search);
const client = await SandboxAgent.connect({ baseUrl: query.get("url"), token: query.get("token") });

// The messages of the component.
globalThis.told = [];
const tell = (event) => told.push(event?.message ?? event);

createRoot(document.querySelector("#root")).render(
  <StrictMode>
    <DesktopViewer client={client} height={600} onError={tell} />
  </StrictMode>,
);

// How many levels of grey the video and a picture are apart, on average.
globalThis.difference = async (address) => {
  const image = await createImageBitmap(await (await fetch(address)).blob());
  const levels = (source) => {
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(source, 0, 0);
    return context.getImageData(0, 0, image.width, image.height).data;
  };
  const [a, b] = [levels(document.querySelector("video")), levels(image)];
  let total = 0;
  for (let i = 0; i < a.length; i++) total += Math.abs(a[i] - b[i]);
  return total / (image.width * image.height * 3);
};
