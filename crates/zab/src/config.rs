//! Membership: who belongs to the ensemble, in which role, and which servers are a quorum.
