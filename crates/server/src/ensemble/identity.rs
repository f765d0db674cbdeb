//! At a start, finds the id of the ensemble that the server's data belong to.

use tracing::{info, warn};
use zebu_proto::{EnsembleId, Identity};
use zebu_store::EnsembleFile;

use crate::error::StartError;

/// The id in the data; an unusable file counts as absent.
///
/// # Errors
/// The disk failed.
pub fn found(file: &EnsembleFile) -> Result<Identity, StartError> {
    file.settle().map_err(StartError::Ensemble)?;
    let found = file.read().map_err(StartError::Ensemble)?;
    if found.is_none() {
        warn!(
            "{} is damaged: which ensemble these data belong to is not known; this server takes the id of the ensemble \
             that it joins",
            file.path().display()
        );
    }
    let identity = found.unwrap_or_default();
    if let Some(id) = identity.settled() {
        info!("the data belong to ensemble {id}");
    }
    Ok(identity)
}

/// The id for a standalone server, which creates the id itself if there is none.
///
/// # Errors
/// The disk failed, or the system provides no random bytes.
pub fn of_one(file: &EnsembleFile) -> Result<Identity, StartError> {
    let settled = match found(file)? {
        Identity::Settled(id) => return Ok(Identity::Settled(id)),
        Identity::Proposed { id, .. } => Identity::Settled(id),
        Identity::Unknown => Identity::Settled(new()?),
    };
    file.write(settled).map_err(StartError::Ensemble)?;
    if let Some(id) = settled.settled() {
        info!("the data belong to ensemble {id} from now on");
    }
    Ok(settled)
}

/// An id that no other ensemble has.
///
/// # Errors
/// The system provides no random bytes.
pub fn new() -> Result<EnsembleId, StartError> {
    let bytes = zebu_auth::random::bytes().ok_or(StartError::NoRandomBytes)?;
    Ok(EnsembleId(u128::from_be_bytes(bytes)))
}
