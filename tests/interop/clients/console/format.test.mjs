// The pure part of the console, without a browser. Run by `node --test`.

import { strict as assert } from "node:assert";
import { test } from "node:test";

import * as format from "../../../../crates/admin/console/format.js";

test("numbers are short", () => {
  assert.deepEqual([0, 1.25, 9999, 12345, 2.5e6, null].map(format.count), ["0", "1.3", "9999", "12.3k", "2.5M", "-"]);
  assert.deepEqual([0, 1023, 1536, 5 * 2 ** 30].map(format.bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
});

test("session ids keep all 64 bits", () => {
  const found = format.exactSessions('{"session_id" : 72057594037927937, "last" : 5}');
  assert.deepEqual(found, { session_id: "72057594037927937", last: 5 });
  assert.equal(format.hexId(found.session_id), "0x100000000000001");
  assert.equal(format.hexId("-2"), "0xfffffffffffffffe");
});

test("bytes survive every form", () => {
  const data = Uint8Array.from({ length: 70000 }, (_, at) => at % 256);
  assert.deepEqual(format.fromBase64(format.toBase64(data)), data);
  assert.equal(format.asText(data), null, "bytes that are no text are not shown as text");
  assert.equal(format.asText(new TextEncoder().encode("\ufeffgrüße")), "\ufeffgrüße");
  assert.deepEqual(format.fromHex("00 ff\n7b"), Uint8Array.of(0, 255, 123));
  assert.equal(format.fromHex("0"), null);
  assert.equal(format.fromHex("zz"), null);
  assert.equal(format.asHex(Uint8Array.of(0x41, 0)), "00000000  41 00" + " ".repeat(42) + "  A.");
  assert.match(format.asHex(data), /4464 bytes more$/);
});

test("paths are joined and split", () => {
  assert.deepEqual([format.join("/", "a"), format.join("/a", "b")], ["/a", "/a/b"]);
  assert.deepEqual(["/a/b", "/a", "/"].map(format.parentOf), ["/a", "/", "/"]);
  assert.deepEqual(format.prefixOf("/a/b/pre"), { parent: "/a/b", prefix: "pre" });
  assert.deepEqual(format.prefixOf("pre"), { parent: "/", prefix: "pre" });
});

test("a counter that begins anew has no rate", () => {
  assert.equal(format.rate(100, 300, 2000), 100);
  assert.equal(format.rate(100, 5, 2000), null);
  assert.equal(format.rate(undefined, 5, 2000), null);
});

test("the difference of two configurations", () => {
  assert.deepEqual(format.difference(["a", "b"], ["b", "c"]), { removed: ["a"], added: ["c"] });
});
