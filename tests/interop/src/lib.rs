//! Real third-party clients and servers against ours.
