// What a hostile page tries with SERVER, CANCEL and ORDER.  Each attempt gives a word on what it got;
// "nothing" is the only good one.

const read = async (path, options) => {
  const response = await fetch(SERVER + path, {credentials: "include", ...options});
  const text = await response.text();
  return response.type === "opaque" && text === "" ? "nothing" : `${response.status} ${text}`;
};
const json = {"Content-Type": "application/json"};
const framed = () => new Promise(resolve => {
  const frame = document.createElement("iframe");
  frame.onload = () => {
    try { resolve(frame.contentDocument.body.innerText || "nothing"); }
    catch { resolve("nothing"); }
  };
  frame.src = SERVER + "/console/";
  document.body.append(frame);
});
const opened = async () => {
  const other = open(SERVER + "/console/");
  await new Promise(resolve => setTimeout(resolve, 300));
  try { return other === null ? "nothing" : other.document.body.innerText; }
  catch { return "nothing"; }
};
const image = path => new Promise(resolve => {
  const element = new Image();
  element.onload = () => resolve("an image");
  element.onerror = () => resolve("nothing");
  element.src = SERVER + path;
});
const script = path => new Promise(resolve => {
  const element = document.createElement("script");
  element.onload = () => resolve("a script");
  element.onerror = () => resolve("nothing");
  element.src = SERVER + path;
  document.head.append(element);
});
const TRIES = {
  "read a list": () => read("/trainshed/v1/projects/-/jobs"),
  "read a list without CORS": () => read("/trainshed/v1/projects/-/jobs", {mode: "no-cors"}),
  "read the sign-in": () => read("/trainshed/v1/signin"),
  "cancel with JSON": () => read(CANCEL, {method: "POST", headers: json, body: ORDER}),
  "cancel without a preflight": () => read(CANCEL, {method: "POST", mode: "no-cors", body: ORDER}),
  "sign out": () => read("/trainshed/v1/signin", {method: "DELETE"}),
  "sign in as another": () => read("/trainshed/v1/signin", {method: "POST", mode: "no-cors", body: "{}"}),
  "follow the stream": () => read("/trainshed/v1/stream?topic=queue:-"),
  "forge the header": () => read("/trainshed/v1/projects", {headers: {"X-Trainshed-Csrf": "x"}}),
  "read Google's route": () => read("/v1/projects/demo-proj/jobs", {mode: "no-cors"}),
  "frame the console": framed,
  "look into a window": opened,
  "load an answer as a script": () => script("/trainshed/v1/projects/-/jobs"),
  "load an answer as an image": () => image("/trainshed/v1/projects/-/jobs"),
};
const results = {};
for (const [name, attempt] of Object.entries(TRIES)) {
  try { results[name] = await attempt(); }
  catch { results[name] = "nothing"; }
}
const answer = document.createElement("pre");
answer.id = "done";
answer.textContent = JSON.stringify(results);
document.body.append(answer);
