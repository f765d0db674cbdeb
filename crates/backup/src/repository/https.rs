//! Requests to an object store: HTTP/1.1 over plain TCP or TLS, with one connection for each
//! request.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use hyper::Response;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use zebu_https::{Https, HttpsError, Patience, trust_of_the_system};
use zebu_proto::Causes;

/// The time limits for a connection and for the beginning of an answer.
const PATIENCE: Patience =
    Patience { connect: Duration::from_secs(5), answer: Duration::from_secs(120) };

/// Creates clients.
#[derive(Debug)]
pub struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = trust_of_the_system().map_err(|error| object_store::Error::Generic {
            store: "S3",
            source: Box::new(error),
        })?;
        Ok(HttpClient::new(Service(Https::new(tls, PATIENCE))))
    }
}

#[derive(Debug)]
struct Service(Https);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.0.send(request).await.map_err(|error| {
            let kind = match &error {
                HttpsError::Connect(_) => HttpErrorKind::Connect,
                HttpsError::Name(_) | HttpsError::Address(_) => HttpErrorKind::Unknown,
                HttpsError::Interrupted(_) => HttpErrorKind::Interrupted,
                HttpsError::Late => HttpErrorKind::Timeout,
            };
            // The store's errors do not show the causes of this one.
            HttpError::new(kind, io::Error::other(Causes(&error).to_string()))
        })?;
        let (head, body) = answer.into_parts();
        let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        Ok(Response::from_parts(head, HttpResponseBody::new(body.map_err(broken))))
    }
}
