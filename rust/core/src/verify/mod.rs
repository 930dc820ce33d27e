//! Replays vectors taken from real kernels through the parts: one file a family group.
//!
//! Each offers `check(family, line)`: one JSON line in; the error says the case's id and what differs.

pub mod domains;
