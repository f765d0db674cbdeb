// Numbers, times and bytes as people read them. Pure: the tests run it outside a browser.

export function count(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "-";
  if (Math.abs(number) >= 1e9) return (number / 1e9).toFixed(1) + "G";
  if (Math.abs(number) >= 1e6) return (number / 1e6).toFixed(1) + "M";
  if (Math.abs(number) >= 1e4) return (number / 1e3).toFixed(1) + "k";
  return Number.isInteger(number) ? String(number) : number.toFixed(1);
}

export function bytes(number) {
  if (number === null || number === undefined) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (Math.abs(number) >= 1024 && at + 1 < units.length) { number /= 1024; at += 1; }
  return (at === 0 ? String(number) : number.toFixed(1)) + " " + units[at];
}

export function time(ms) {
  return new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC");
}

export function span(ms) {
  const seconds = Math.floor(ms / 1000);
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${seconds % 60} s`;
  return `${seconds} s`;
}

// Ids have 64 bits; a number of JavaScript has 53.
export function exactSessions(text) {
  return JSON.parse(text.replace(/("session_id" : )(-?\d+)/g, '$1"$2"'));
}

export function hexId(decimal) {
  return "0x" + BigInt.asUintN(64, BigInt(decimal)).toString(16);
}

export function fromBase64(text) {
  const binary = atob(text);
  const data = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) data[at] = binary.charCodeAt(at);
  return data;
}

export function toBase64(data) {
  let binary = "";
  for (let at = 0; at < data.length; at += 0x8000) {
    binary += String.fromCharCode(...data.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}

// The text, or null where the bytes are none: such data must not be edited as text, or bytes would be lost.
export function asText(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

export function asJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

export function asHex(data, most = 65536) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const row = [...data.subarray(at, Math.min(at + 16, most))];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const shown = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(at.toString(16).padStart(8, "0") + "  " + hex + "  " + shown);
  }
  if (data.length > most) lines.push(`... ${data.length - most} bytes more`);
  return lines.join("\n");
}

// Bytes written as hex, or null.
export function fromHex(text) {
  const digits = text.replace(/\s+/g, "");
  if (digits.length % 2 !== 0 || /[^0-9a-fA-F]/.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function join(parent, name) {
  return parent === "/" ? "/" + name : parent + "/" + name;
}

export function parentOf(path) {
  const at = path.lastIndexOf("/");
  return at <= 0 ? "/" : path.slice(0, at);
}

// Where a search by prefix looks, and for which names.
export function prefixOf(search) {
  const path = search.startsWith("/") ? search : "/" + search;
  const at = path.lastIndexOf("/");
  return { parent: at === 0 ? "/" : path.slice(0, at), prefix: path.slice(at + 1) };
}

// How much a number that only grows has grown each second; null where there is nothing to compare, or it began anew.
export function rate(before, after, ms) {
  if (before === undefined || after === undefined || ms <= 0 || after < before) return null;
  return ((after - before) * 1000) / ms;
}

// What two lists of lines do not have in common.
export function difference(before, after) {
  return {
    removed: before.filter((line) => !after.includes(line)),
    added: after.filter((line) => !before.includes(line)),
  };
}
