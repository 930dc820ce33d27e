//! Replays vectors taken from real kernels through the parts: exact equality, no tolerance.
//!
//! Each file is a group of families; its `check` takes a line of a vector file and says what differs.

pub mod balance;
