//! The interfaces for operators of a running server: four-letter words, and over HTTP commands,
//! health and metrics.
//!
//! Owns the requests and the format of the answers. The server provides its state through the
//! traits [`four_letter::Facts`] and [`Served`]. This crate changes a server only through a few
//! methods of these traits.

#[cfg(test)]
mod answered;
mod commands;
mod console;
#[cfg(test)]
mod fake;
mod figures;
pub mod four_letter;
pub mod health;
mod http;
mod inside;
mod json;
mod loggers;
mod management;
mod pages;
mod prometheus;
mod received;
mod served;
mod site;
mod uncounted;

pub use commands::Started;
pub use console::ConsoleOptions;
pub use health::Progress;
pub use http::{BindError, Client, OnPlain, Running, Site, bind};
pub use inside::{
    Child, Children, ChildrenPage, InsideSession, Lost, NotOpened, Opening, QuotaFacts, Reply,
};
pub use prometheus::PageOptions;
pub use served::{
    Acked, DataFile, Denied, Ended, EnsembleFacts, HandOverDenied, HandingOver, HistoryFacts,
    LearnerFacts, NoHistory, NotTaken, ObserverFacts, RestoreDenied, Restored, Served,
    SnapshotFacts, TakenSnapshot,
};
pub use site::{Options, Watched, admin, prometheus};
