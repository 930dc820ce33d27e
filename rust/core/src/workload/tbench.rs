//! tbench: clients that send requests to a server of their own over loopback TCP, one at a time, without think time.
//!
//! dbench's tbench.c, sockio.c and tbench_srv.c. A client sends the request, and reads the header of the reply, then its
//! body; its server process reads the header, then the body, and sends the reply in one write. Only the data of ReadX
//! and WriteX count as throughput. The clients replay a load file; here each goes through the same operations in the
//! proportions of that file, evenly mixed.
//!
//! # Deviates
//! Connecting, and the stop and continuation of the clients before the start, are left out.

use serde::{Deserialize, Serialize};

use super::{Action, Load, TaskSpec};
use crate::error::{Result, SimError};
use crate::load_weight::LoadWeight;
use crate::sim::channel::ChannelKind;
use crate::sim::cost::CostModel;
use crate::sim::program::{ChannelId, HOG_NS, Op};
use crate::workload::tasks::SETTLE_NS;

/// The most clients of one run.
const MAX_CLIENTS: i64 = 1 << 16;
/// Length of a request or a reply without data, bytes: 39 to about 100.
const MESSAGE_BYTES: u32 = 70;
/// Data of a ReadX or a WriteX, KiB: what was read and written over how often, in real runs of the load file.
pub const PAYLOAD_KIB: u64 = 18;

/// Operations of the load file in 64, by what moves: nothing, data to the client, data to the server.
const MIX: [(Payload, u32); 3] = [(Payload::None, 41), (Payload::Read, 17), (Payload::Write, 6)];
/// Operations that the programs go round in.
pub const ROUND: u32 = 64;
/// Those among them that move data.
pub const PAYLOAD_OPS: u32 = 23;

/// Which way data goes in an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Payload {
    None,
    Read,
    Write,
}

/// The arguments of a tbench run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tbench {
    /// Clients, each with its server process.
    pub clients: i64,
    /// Time that is measured, ms.
    pub duration_ms: i64,
    /// Time before it, ms.
    pub warmup_ms: i64,
    /// All tasks are in one task group, of 1024 shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cgroup: bool,
}

impl Tbench {
    /// Checks the arguments.
    pub fn validate(&self) -> Result<()> {
        for (name, value, least, most) in [
            ("clients", self.clients, 1, MAX_CLIENTS),
            ("duration_ms", self.duration_ms, 1, 3_600_000),
            ("warmup_ms", self.warmup_ms, 0, 3_600_000),
        ] {
            if !(least..=most).contains(&value) {
                return Err(SimError::invalid(name, value, format!("must be {least} to {most}")));
            }
        }
        Ok(())
    }

    /// The tasks, programs and connections.
    pub fn load(&self, cost: &CostModel) -> Load {
        let mut ops = vec![Op::Fork { first: 1, count: 2 * self.clients as u32, gap_ns: 0 }, ENDLESS_SLEEP];
        let mut tasks = vec![TaskSpec::new(0, LoadWeight::NICE_0)];
        let spec = |program: usize, id: usize| TaskSpec {
            mm: id as u32,
            group: u16::from(self.cgroup),
            start_ns: SETTLE_NS,
            ..TaskSpec::new(program as u32, LoadWeight::NICE_0)
        };
        for client in 0..self.clients as u32 {
            let (request, reply): (ChannelId, ChannelId) = (2 * client, 2 * client + 1);
            tasks.push(spec(ops.len(), tasks.len()));
            let start = ops.len() as u32;
            for payload in round() {
                ops.push(Op::Read { channel: request, messages: 1 });
                ops.push(compute(server_ns(payload, cost)));
                ops.push(write(reply));
            }
            ops.push(Op::Jump { to: start });
            tasks.push(spec(ops.len(), tasks.len()));
            ops.push(Op::WaitStart);
            let start = ops.len() as u32;
            for payload in round() {
                ops.push(compute(client_ns(payload, cost)));
                ops.push(write(request));
                ops.push(Op::Read { channel: reply, messages: 1 });
            }
            ops.push(Op::Jump { to: start });
        }
        let begin = SETTLE_NS + self.warmup_ms as u64 * 1_000_000;
        let end = begin + self.duration_ms as u64 * 1_000_000;
        Load {
            groups: super::one_group_if(self.cgroup),
            channels: vec![(ChannelKind::Tcp, MESSAGE_BYTES); 2 * self.clients as usize],
            actions: vec![(begin, Action::ClockStart), (end, Action::ClockStop)],
            ..Load::new(tasks, ops)
        }
    }
}

const ENDLESS_SLEEP: Op = Op::Sleep { ns: HOG_NS, spread_permille: 0 };

fn write(first: ChannelId) -> Op {
    Op::Write { first, count: 1, rounds: 1 }
}

fn compute(ns: u64) -> Op {
    Op::Compute { ns, spread_permille: WORK_SPREAD_PERMILLE }
}

/// Even spread of what the programs do between two calls.
const WORK_SPREAD_PERMILLE: u32 = 100;

/// What a client does before a request: the last reply's body, the new request, and the copies of data.
fn client_ns(payload: Payload, cost: &CostModel) -> u64 {
    cost.tcp_read_ns + cost.tbench_client_ns + payload_ns(payload, cost)
}

/// What a server does before a reply: the body of the request, the operation, and the copies of data.
fn server_ns(payload: Payload, cost: &CostModel) -> u64 {
    cost.tcp_read_ns + cost.tbench_server_ns + payload_ns(payload, cost)
}

/// Data is copied into the socket at one end and out of it at the other.
fn payload_ns(payload: Payload, cost: &CostModel) -> u64 {
    if payload == Payload::None { 0 } else { PAYLOAD_KIB * cost.copy_kib_ns }
}

/// The operations of a round, each kind as evenly spread as its number allows.
fn round() -> impl Iterator<Item = Payload> {
    let mut due = MIX.map(|(payload, count)| (payload, count, 0));
    (0..ROUND).map(move |_| {
        for (_, count, credit) in &mut due {
            *credit += *count as i32;
        }
        let next = (0..due.len()).max_by_key(|&kind| (due[kind].2, usize::MAX - kind)).unwrap_or(0);
        due[next].2 -= ROUND as i32;
        due[next].0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_the_operations_of_the_load_file_evenly_mixed() {
        let operations: Vec<Payload> = round().collect();
        for (payload, count) in MIX {
            assert_eq!(operations.iter().filter(|&&other| other == payload).count() as u32, count);
        }
        assert_eq!(MIX.iter().map(|&(_, count)| count).sum::<u32>(), ROUND);
        assert_eq!(MIX[1].1 + MIX[2].1, PAYLOAD_OPS);
        let writes: Vec<usize> = (0..64).filter(|&at| operations[at] == Payload::Write).collect();
        assert!(writes.windows(2).all(|pair| (9..=12).contains(&(pair[1] - pair[0]))), "{writes:?}");
    }
}
