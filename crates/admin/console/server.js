// What the page asks the server. The token is in this tab only, and in a header that no other site can send.

const KEY = "zebu-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let token = sessionStorage.getItem(KEY);
let signedOut = () => {};
export let me = null;

export function onSignedOut(work) {
  signedOut = work;
}

function forget() {
  token = null;
  me = null;
  sessionStorage.removeItem(KEY);
}

async function send(method, path, body) {
  const headers = {};
  if (token !== null) headers["x-zebu-token"] = token;
  if (body !== undefined) headers["content-type"] = "application/json";
  const options = { method, headers, cache: "no-store", credentials: "omit" };
  if (body !== undefined) options.body = JSON.stringify(body);
  const response = await fetch("api/" + path, options);
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 401 && token !== null) {
    forget();
    signedOut();
  }
  throw new Refused(response.status, answer.error ?? `HTTP ${response.status}`);
}

export function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return send("GET", query === "" ? path : `${path}?${query}`);
}

export function post(path, body = {}) {
  return send("POST", path, body);
}

export async function signIn(scheme, credentials) {
  me = await post("sign-in", { scheme, credentials });
  token = me.token;
  sessionStorage.setItem(KEY, token);
}

export async function resume() {
  if (token === null) return false;
  try {
    me = await get("me");
    return true;
  } catch {
    return false;
  }
}

export async function signOut() {
  await post("sign-out").catch(() => {});
  forget();
  signedOut();
}

// What everybody may read on the admin port.
export async function page(path) {
  const response = await fetch(path, { cache: "no-store", credentials: "omit" });
  const text = await response.text();
  if (!response.ok && response.status !== 503) throw new Refused(response.status, `${path}: HTTP ${response.status}`);
  return text;
}
