//! The answers of a router to tests, without sockets.

use std::net::Ipv4Addr;
use std::pin::Pin;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use hyper::body::Body as _;
use tokio::runtime::Runtime;
use tower_service::Service as _;

use crate::http::Client;

/// A complete answer.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A runtime for the requests of one test.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

impl Answered {
    /// The answer to a request of a local client without a certificate.
    pub(crate) fn to(mut request: Request<Body>, router: &Router, runtime: &Runtime) -> Self {
        let address = (Ipv4Addr::LOCALHOST, 1).into();
        request.extensions_mut().insert(Client { address, subject: None });
        runtime.block_on(async {
            let response = router.clone().call(request).await.unwrap();
            let (parts, mut body) = response.into_parts();
            let mut bytes = Vec::new();
            while let Some(frame) =
                std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
            {
                bytes.extend(frame.unwrap().into_data().unwrap());
            }
            Self { status: parts.status.as_u16(), headers: parts.headers, body: bytes }
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON value of the body.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn error(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().unwrap_or("none").to_owned())
    }
}
