//! Several reads in one request.

use bytes::Bytes;
use zebu_jute::{Encode, Encoder};
use zebu_proto::request::{MultiHeader, MultiOp, PathWatch};
use zebu_proto::{OpCode, Stat};
use zebu_session::{Effect, Frame};

use crate::transaction::check_path;
use crate::{Client, Error, Pending, Result, answer};

/// Several reads in one request, with one answer. Each read succeeds or fails by itself.
///
/// The client also sends separate reads together if they are made one after the other. One request
/// saves their headers. Servers from 3.6 on support it.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::{ErrorKind, ReadResult};
///
/// let results = client.reads().data("/").data("/none").children("/").send().await?;
/// let [root, none, children] = results.as_slice() else { panic!("three reads, three results") };
/// assert!(matches!(root, Ok(ReadResult::Data(data, _)) if data.is_empty()));
/// assert!(matches!(none, Err(error) if error.kind() == ErrorKind::Gone));
/// assert!(matches!(children, Ok(ReadResult::Children(names)) if names == &["zookeeper"]));
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "nothing is read before it is sent"]
pub struct Reads {
    client: Client,
    ops: Vec<u8>,
    paths: Vec<Box<str>>,
    refused: Option<Error>,
}

/// The result of one of several [`Reads`].
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::ReadResult;
///
/// let results = client.reads().children("/").send().await?;
/// assert_eq!(results.as_slice(), [Ok(ReadResult::Children(vec!["zookeeper".to_owned()]))]);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// Data and stat.
    Data(Bytes, Stat),
    /// Names of the children, in no order.
    Children(Vec<String>),
}

/// The results of several [`Reads`], in their order.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// let results = client.reads().data("/").send().await?;
/// for result in results {
///     println!("{:?}", result?);
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResults(pub(crate) Vec<Result<ReadResult>>);

impl ReadResults {
    /// The results.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// assert_eq!(client.reads().data("/").send().await?.as_slice().len(), 1);
    /// # Ok(()) });
    /// ```
    pub fn as_slice(&self) -> &[Result<ReadResult>] {
        &self.0
    }
}

impl IntoIterator for ReadResults {
    type Item = Result<ReadResult>;
    type IntoIter = std::vec::IntoIter<Result<ReadResult>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Reads {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, ops: Vec::new(), paths: Vec::new(), refused: None }
    }

    /// Reads a znode's data and stat.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let results = client.reads().data("/").data("/zookeeper").send().await?;
    /// assert_eq!(results.as_slice().len(), 2);
    /// # Ok(()) });
    /// ```
    pub fn data(self, path: &str) -> Self {
        self.add(path, MultiOp::GetData)
    }

    /// Reads the names of a znode's children.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let results = client.reads().children("/zookeeper").send().await?;
    /// assert!(results.as_slice()[0].is_ok());
    /// # Ok(()) });
    /// ```
    pub fn children(self, path: &str) -> Self {
        self.add(path, MultiOp::GetChildren)
    }

    /// Sends the request. Its place in the order is that of this call.
    ///
    /// # Errors
    /// Errors of the whole request. The result of each read contains its own error, such as a
    /// missing znode or permission.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// let results = client.reads().data("/none").send().await?;
    /// assert!(results.as_slice()[0].is_err());
    /// # Ok(()) });
    /// ```
    pub fn send(self) -> Pending<ReadResults> {
        if let Some(error) = self.refused {
            return Pending::failed(error);
        }
        let frame = Frame::new(OpCode::MULTI_READ, |out| {
            out.raw(&self.ops);
            MultiHeader::END.encode(out);
        });
        self.client.submit_many(frame, self.paths, Effect::None, answer::reads)
    }

    fn add<'a>(mut self, path: &'a str, op: fn(PathWatch<'a>) -> MultiOp<'a>) -> Self {
        if let Err(error) = check_path(path, false) {
            self.refused.get_or_insert(error);
        }
        let absolute = self.client.absolute(path).into_owned();
        let watch = false;
        op(PathWatch { path: Some(absolute.into()), watch })
            .encode(&mut Encoder::new(&mut self.ops));
        self.paths.push(path.into());
        self
    }
}
