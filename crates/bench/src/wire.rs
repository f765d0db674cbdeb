//! The part of the wire protocol that a load generator needs: request frames are built once and
//! patched for each request, and only the header of a reply is read.
//!
//! The servers under test implement everything else of the protocol.

use zebu_jute::{Decoder, Encoder};

/// Opcodes this generator sends.
pub(crate) mod op {
    pub(crate) const SASL: i32 = 102;
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CLOSE_SESSION: i32 = -11;
}

/// The xid of a notification.
pub(crate) const XID_NOTIFICATION: i32 = -1;
/// The xid of a ping and of its reply.
pub(crate) const XID_PING: i32 = -2;

/// The flags of a znode that stays.
pub(crate) const PERSISTENT: i32 = 0;
/// The flags of a `create` of an ephemeral znode.
pub(crate) const EPHEMERAL: i32 = 1;
/// The same, for a sequential znode.
pub(crate) const SEQUENTIAL: i32 = 2;

/// The znode does not exist.
pub(crate) const ERR_NO_NODE: i32 = -101;
/// The znode exists already.
pub(crate) const ERR_NODE_EXISTS: i32 = -110;

/// Bytes of the length in front of every frame.
pub(crate) const LENGTH_BYTES: usize = 4;
/// Bytes of a reply's header, without the frame length: xid, zxid, err.
pub(crate) const REPLY_HEADER_BYTES: usize = 16;
/// The largest accepted reply. A longer one is a fault of the server.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 20;
/// Digits of a numbered path component.
pub(crate) const DIGITS: usize = 7;
/// The number of names that [`digits`] can form.
pub(crate) const NAMES_MAX: usize = 10_000_000;

/// The offset of the path in a request that begins with one: after the length, the xid, the opcode
/// and the length of the path.
const PATH_AT: usize = 16;

/// Appends one request frame: header and body.
pub(crate) fn frame(out: &mut Vec<u8>, xid: i32, opcode: i32, body: impl FnOnce(&mut Encoder<'_>)) {
    let start = out.len();
    let mut to = Encoder::new(out);
    to.int(0);
    to.int(xid);
    to.int(opcode);
    body(&mut to);
    seal(out, start);
}

/// Writes the length of the frame that starts at `start` and ends at the end of `out`.
pub(crate) fn seal(out: &mut [u8], start: usize) {
    let length = i32::try_from(out.len() - start - LENGTH_BYTES).expect("requests are small");
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// The identity of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionKey {
    pub(crate) id: i64,
    pub(crate) password: [u8; 16],
}

/// A framed connect request: for a new session, with the key of none, or to resume a session.
pub(crate) fn connect_request(timeout_ms: i32, session: &SessionKey) -> Vec<u8> {
    let mut out = Vec::with_capacity(49);
    let mut to = Encoder::new(&mut out);
    to.int(0); // length
    to.int(0); // protocol version
    to.long(0); // last zxid seen
    to.int(timeout_ms);
    to.long(session.id);
    to.buffer(Some(&session.password));
    to.boolean(false); // read-only
    seal(&mut out, 0);
    out
}

/// The session that a connect response grants. `None` if the server has refused, or if the bytes
/// are no connect response.
pub(crate) fn granted(payload: &[u8]) -> Option<SessionKey> {
    let mut from = Decoder::new(payload);
    from.int().ok()?; // protocol version
    let timeout = from.int().ok()?;
    let id = from.long().ok()?;
    let password = from.buffer().ok()??.try_into().ok()?;
    (timeout > 0 && id != 0).then_some(SessionKey { id, password })
}

/// A ping.
pub(crate) fn ping(out: &mut Vec<u8>) {
    frame(out, XID_PING, op::PING, |_| {});
}

/// The body of a `create` of a persistent znode with an open ACL.
pub(crate) fn create_body(to: &mut Encoder<'_>, path: &str, data: &[u8]) {
    create_body_of(to, path, data, PERSISTENT);
}

/// The same with other flags.
pub(crate) fn create_body_of(to: &mut Encoder<'_>, path: &str, data: &[u8], flags: i32) {
    to.text(path);
    to.buffer(Some(data));
    to.count(1); // one ACL entry
    to.int(31);
    to.text("world");
    to.text("anyone");
    to.int(flags);
}

/// The body of a `setData` for any version.
pub(crate) fn set_body(to: &mut Encoder<'_>, path: &str, data: &[u8]) {
    to.text(path);
    to.buffer(Some(data));
    to.int(-1);
}

/// The body of `exists` and `getData`.
pub(crate) fn read_body(to: &mut Encoder<'_>, path: &str, watch: bool) {
    to.text(path);
    to.boolean(watch);
}

/// The body of a `delete` for any version.
pub(crate) fn delete_body(to: &mut Encoder<'_>, path: &str) {
    to.text(path);
    to.int(-1);
}

/// A `multi` with the same operation for each of `paths`. `body` writes the body that a single
/// request would have.
pub(crate) fn multi_body<'p>(
    to: &mut Encoder<'_>,
    opcode: i32,
    paths: impl Iterator<Item = &'p str>,
    body: impl Fn(&mut Encoder<'_>, &str),
) {
    let header = |to: &mut Encoder<'_>, kind: i32, done: bool| {
        to.int(kind);
        to.boolean(done);
        to.int(-1);
    };
    for path in paths {
        header(to, opcode, false);
        body(to, path);
    }
    header(to, -1, true);
}

/// The names in the body of the reply to `getChildren`.
pub(crate) fn names(body: &[u8]) -> Option<Vec<String>> {
    let mut from = Decoder::new(body);
    let count = from.int().ok()?;
    let name = |from: &mut Decoder<'_>| {
        let name = from.buffer().ok()??;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    (0..count).map(|_| name(&mut from)).collect()
}

/// The xid and the error of a reply's header. This generator does not need the zxid.
///
/// `None` if the frame is too short for a reply.
pub(crate) fn reply_header(payload: &[u8]) -> Option<(i32, i32)> {
    let header = payload.first_chunk::<REPLY_HEADER_BYTES>()?;
    let xid = i32::from_be_bytes(*header.first_chunk().expect("16 bytes hold 4"));
    let err = i32::from_be_bytes(*header.last_chunk().expect("16 bytes hold 4"));
    Some((xid, err))
}

/// `number` as the fixed-width digits of a path component.
pub(crate) fn digits(number: usize) -> [u8; DIGITS] {
    let mut rest = number;
    let mut text = [b'0'; DIGITS];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

/// A request frame that is encoded once. Only the xid and the numbers in its path differ between
/// requests.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Offsets of the numbers in the path, in the order of the path.
    slots: Vec<usize>,
}

impl Template {
    /// A request whose body begins with the path `pattern`, in which each `#` stands for a number
    /// of [`DIGITS`] digits.
    pub(crate) fn new(
        opcode: i32,
        pattern: &str,
        body: impl FnOnce(&mut Encoder<'_>, &str),
    ) -> Self {
        let path = path(pattern, &[]);
        let slots = pattern
            .match_indices('#')
            .enumerate()
            .map(|(earlier, (at, _))| PATH_AT + at + earlier * (DIGITS - 1))
            .collect();
        let mut bytes = Vec::new();
        frame(&mut bytes, 0, opcode, |to| body(to, &path));
        Self { bytes, slots }
    }

    /// Appends the request with this xid and these digits.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>, xid: i32, numbers: &[[u8; DIGITS]]) {
        debug_assert_eq!(numbers.len(), self.slots.len());
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let copy = &mut out[start..];
        copy[LENGTH_BYTES..LENGTH_BYTES + 4].copy_from_slice(&xid.to_be_bytes());
        for (&slot, number) in self.slots.iter().zip(numbers) {
            copy[slot..slot + DIGITS].copy_from_slice(number);
        }
    }
}

/// The path of `pattern`, with each `#` replaced by one of `numbers`, or by zeros.
pub(crate) fn path(pattern: &str, numbers: &[usize]) -> String {
    let mut numbers = numbers.iter().copied();
    let mut path = String::with_capacity(pattern.len() + 2 * DIGITS);
    for part in pattern.chars() {
        match part {
            '#' => path.extend(digits(numbers.next().unwrap_or(0)).map(char::from)),
            other => path.push(other),
        }
    }
    path
}

/// `bytes` bytes that differ from each other and are the same in every run.
pub(crate) fn value(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(bytes as u64);
    (0..bytes).map(|_| random.u8(..)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_data_of_the_root_is_the_documented_frame() {
        // The example bytes of the protocol's reference: getData "/" without a watch, xid 1.
        let mut out = Vec::new();
        frame(&mut out, 1, op::GET_DATA, |to| read_body(to, "/", false));
        let payload = [0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0x2f, 0];
        assert_eq!(out, [&[0, 0, 0, payload.len() as u8], &payload[..]].concat());
    }

    #[test]
    fn connect_request_and_response_are_the_documented_ones() {
        let request = connect_request(10_000, &SessionKey::default());
        assert_eq!(request[..4], 45_i32.to_be_bytes());
        assert_eq!(request[4..28], [&[0; 12][..], &[0, 0, 0x27, 0x10], &[0; 8]].concat());
        assert_eq!(request[28..], [&[0, 0, 0, 16][..], &[0; 16], &[0]].concat());

        let response = [
            0, 0, 0, 0, 0, 0, 0x27, 0x10, 1, 0, 0, 0x1e, 0xc8, 0x93, 0, 2, 0, 0, 0, 16, 0x89, 0xd7,
            0xe6, 0x41, 0xd0, 0xc3, 0x87, 0x95, 0xbb, 0x6b, 0xb7, 0xaa, 0x32, 0x58, 0xb7, 0xd2, 0,
        ];
        let key = granted(&response).unwrap();
        assert_eq!(key.id, 0x0100_001e_c893_0002);
        assert_eq!(key.password[..], response[20..36]);
        assert_eq!(connect_request(10_000, &key)[20..28], key.id.to_be_bytes());
        assert_eq!(connect_request(10_000, &key)[32..48], key.password);
        let refused = [&[0; 16][..], &[0, 0, 0, 16], &[0; 17]].concat();
        assert_eq!(granted(&refused), None);
        assert_eq!(granted(&response[..7]), None);
    }

    #[test]
    fn a_template_gives_the_same_bytes_as_a_frame_built_for_the_path() {
        let template = Template::new(op::EXISTS, "/b/p#/n#", |to, path| read_body(to, path, true));
        let mut patched = b"before".to_vec();
        template.put(&mut patched, 77, &[digits(12), digits(9_876_543)]);
        let mut built = b"before".to_vec();
        let path = path("/b/p#/n#", &[12, 9_876_543]);
        assert_eq!(path, "/b/p0000012/n9876543");
        frame(&mut built, 77, op::EXISTS, |to| read_body(to, &path, true));
        assert_eq!(patched, built);
    }

    #[test]
    fn reply_header_is_read_from_documented_bytes() {
        let no_node = [0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0x9b];
        assert_eq!(reply_header(&no_node), Some((7, ERR_NO_NODE)));
        assert_eq!(reply_header(&no_node[..15]), None);
    }
}
