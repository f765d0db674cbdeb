//! A backup in a bucket of an S3-compatible store: Amazon's, MinIO, Ceph and others.
//!
//! Credentials, region and endpoint are those of the usual environment variables. No message
//! contains a credential.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use hyper::body::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{
    ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig,
};
use tokio::runtime::Runtime;

use super::https::Connector;
use super::{BUCKET_SCHEME, FILES, Lock, MANIFESTS, Place, Staged};
use crate::error::{At as _, BackupError, Result};

/// The size of the parts in which a longer file is sent.
const PART_BYTES: usize = 16 << 20;
/// How long a request is repeated.
const RETRIED_MAX: Duration = Duration::from_secs(60);
/// How often a request is repeated.
const RETRIES_MAX: usize = 5;

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The name of the backup does not contain a bucket.
    #[error("s3://BUCKET or s3://BUCKET/PREFIX is expected")]
    Name,
    /// The prefix is not valid for objects.
    #[error("{0}")]
    Prefix(#[from] object_store::path::Error),
    /// There is no such bucket or object.
    #[error("the store has no such bucket or object: {0}")]
    Missing(String),
    /// The store does not accept the credentials.
    #[error(
        "the store refuses access: {0}\nhint: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are the credentials, AWS_ENDPOINT_URL \
         and AWS_REGION say which store they are for"
    )]
    Refused(String),
    /// The store does not answer, or not as expected.
    #[error("{0}")]
    Store(String),
    /// The runtime for requests cannot be created.
    #[error("{0}")]
    Runtime(#[source] io::Error),
}

impl From<object_store::Error> for BucketError {
    fn from(error: object_store::Error) -> Self {
        let text = error.to_string();
        // The error of a list contains its status only as text.
        let has = |status: &str| text.contains(&format!("status code: {status}"));
        let said = match (element(&text, "Code"), element(&text, "Message")) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        match error {
            object_store::Error::NotFound { .. } => Self::Missing(said),
            object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => Self::Refused(said),
            _ if has("404") => Self::Missing(said),
            _ if has("401") || has("403") => Self::Refused(said),
            _ => Self::Store(said),
        }
    }
}

/// The content of the first XML element with this name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content.trim())
}

/// A part of a bucket.
pub struct Bucket {
    root: PathBuf,
    prefix: Key,
    store: AmazonS3,
    runtime: Arc<Runtime>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Bucket {
    /// Opens a bucket.
    ///
    /// # Errors
    /// It cannot be reached, or has no manifests.
    pub fn open(root: &Path) -> Result<Self> {
        let bucket = Self::reach(root).named(root)?;
        if bucket.list(MANIFESTS)?.is_empty() {
            return Err(BackupError::NoBackup(root.to_owned()));
        }
        Ok(bucket)
    }

    /// Opens a bucket, which may be empty.
    ///
    /// # Errors
    /// It cannot be reached, or has other content.
    pub fn create(root: &Path) -> Result<Self> {
        let bucket = Self::reach(root).named(root)?;
        let prefix = Some(&bucket.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let found =
            bucket.runtime.block_on(bucket.store.list_with_delimiter(prefix)).named(root)?;
        let has = |folder| found.common_prefixes.iter().any(|key| key.filename() == Some(folder));
        // Files without manifests belong to an interrupted first backup.
        let others = found.objects.len() + found.common_prefixes.len() - usize::from(has(FILES));
        if others > 0 && !has(MANIFESTS) {
            return Err(BackupError::NoBackup(root.to_owned()));
        }
        Ok(bucket)
    }

    fn reach(root: &Path) -> Result<Self, BucketError> {
        let name = root.to_str().and_then(|root| root.strip_prefix(BUCKET_SCHEME));
        let (name, prefix) =
            name.map(|name| name.split_once('/').unwrap_or((name, ""))).ok_or(BucketError::Name)?;
        if name.is_empty() {
            return Err(BucketError::Name);
        }
        let retry = RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: RETRIED_MAX,
            ..RetryConfig::default()
        };
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(name)
            .with_http_connector(Connector)
            .with_retry(retry)
            // Not every store can delete several objects in one request.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
            .build()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = Arc::new(runtime.map_err(BucketError::Runtime)?);
        let prefix = Key::parse(prefix)?;
        Ok(Self { root: root.to_owned(), prefix, store, runtime })
    }

    fn key(&self, folder: &str, name: &str) -> Key {
        self.prefix.clone().join(folder).join(name)
    }

    /// Sends a file that must not exist yet.
    async fn put_new(
        &self,
        key: &Key,
        from: &File,
        bytes: usize,
    ) -> io::Result<object_store::Result<bool>> {
        let content = read_part(from, bytes)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        Ok(match self.store.put_opts(key, PutPayload::from(content), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// Sends a file whose name contains its hash.
    async fn put_content(
        &self,
        key: &Key,
        from: &File,
        bytes: u64,
    ) -> io::Result<object_store::Result<bool>> {
        match self.store.head(key).await {
            Ok(_) => return Ok(Ok(false)),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Ok(Err(error)),
        }
        if bytes <= PART_BYTES as u64 {
            let content = read_part(from, PART_BYTES)?;
            return Ok(self.store.put(key, PutPayload::from(content)).await.map(|_| true));
        }
        let mut upload = match self.store.put_multipart(key).await {
            Ok(upload) => upload,
            Err(error) => return Ok(Err(error)),
        };
        let sent = loop {
            let part = match read_part(from, PART_BYTES) {
                Ok(part) => part,
                Err(error) => {
                    // Parts that remain use space until the store's own rules remove them.
                    let _ = upload.abort().await;
                    return Err(error);
                }
            };
            if part.is_empty() {
                break upload.complete().await.map(|_| true);
            }
            if let Err(error) = upload.put_part(PutPayload::from(part)).await {
                break Err(error);
            }
        };
        if sent.is_err() {
            let _ = upload.abort().await;
        }
        Ok(sent)
    }
}

/// Reads up to `most` bytes at the current position of a file.
fn read_part(mut from: &File, most: usize) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    Read::by_ref(&mut from).take(most as u64).read_to_end(&mut part)?;
    Ok(part)
}

impl Place for Bucket {
    fn path(&self, folder: &str, name: &str) -> PathBuf {
        self.root.join(folder).join(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = self.prefix.clone().join(folder);
        let found = self.store.list(Some(&prefix)).try_collect::<Vec<_>>();
        let found = self.runtime.block_on(found).named(&self.root)?;
        Ok(found
            .iter()
            .filter_map(|object| object.location.filename())
            .map(str::to_owned)
            .collect())
    }

    fn lock(&self) -> Result<Lock> {
        Ok(Lock { _file: None })
    }

    fn open(&self, folder: &str, name: &str) -> Result<Box<dyn Read + Send>> {
        let path = self.path(folder, name);
        let found = self.runtime.block_on(self.store.get(&self.key(folder, name))).named(&path)?;
        let stream = found.into_stream().boxed();
        Ok(Box::new(Object { runtime: Arc::clone(&self.runtime), stream, chunk: Bytes::new() }))
    }

    fn stage(&self, folder: &str) -> Result<Staged> {
        let file = tempfile::tempfile().at(&std::env::temp_dir())?;
        Ok(Staged::new(file, self.root.join(folder), false))
    }

    fn publish(&self, staged: Staged, folder: &str, name: &str) -> Result<bool> {
        let (key, path, bytes) = (self.key(folder, name), self.path(folder, name), staged.bytes());
        let from = staged.content()?;
        let sent = if folder == MANIFESTS {
            self.runtime.block_on(self.put_new(&key, from, bytes as usize))
        } else {
            self.runtime.block_on(self.put_content(&key, from, bytes))
        };
        sent.at(&path)?.named(&path)
    }

    fn remove(&self, folder: &str, name: &str) -> Result<()> {
        match self.runtime.block_on(self.store.delete(&self.key(folder, name))) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            done => done.named(&self.path(folder, name)),
        }
    }
}

/// An object that is read while it arrives.
struct Object {
    runtime: Arc<Runtime>,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    chunk: Bytes,
}

impl Read for Object {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.runtime.block_on(self.stream.try_next()).map_err(io::Error::other)? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let bytes = self.chunk.len().min(into.len());
        into[..bytes].copy_from_slice(&self.chunk.split_to(bytes));
        Ok(bytes)
    }
}

/// Adds an object's name to its error.
trait Named<T> {
    fn named(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<BucketError>> Named<T> for std::result::Result<T, E> {
    fn named(self, path: &Path) -> Result<T> {
        self.map_err(|source| BackupError::Bucket { path: path.to_owned(), source: source.into() })
    }
}
