//! hackbench: groups of senders and receivers that spray each other with short messages.
//!
//! rt-tests' src/hackbench/hackbench.c. In each group every sender writes one message to every receiver, `loops` times
//! over. Each receiver has a pipe or a socket of its own, which all senders of its group write to.
//! Main forks all tasks, receivers before senders, group after group; each reports that it is ready and polls for the
//! start signal. Main then starts the clock and writes one byte that nobody reads, so that all wake at once.
//! The clock stops when main has reaped them all.

use serde::{Deserialize, Serialize};

use super::{Load, TaskSpec};
use crate::error::{Result, SimError};
use crate::load_weight::LoadWeight;
use crate::sim::channel::ChannelKind;
use crate::sim::program::{ChannelId, Op};
use crate::sim::rq::TaskId;

/// The most tasks one run may have.
const MAX_TASKS: u64 = 1 << 20;
/// The longest message, bytes: a page of a pipe.
const MAX_BYTES: u32 = 4096;

/// The arguments of a hackbench run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hackbench {
    /// `-g`: groups.
    pub groups: u32,
    /// `-l`: messages of each sender to each receiver.
    pub loops: u32,
    /// `-p` for pipes; AF_UNIX stream sockets otherwise.
    pub ipc: Ipc,
    /// `-T` for threads; processes otherwise.
    pub mode: Mode,
    /// Senders in a group.
    pub senders: u32,
    /// Receivers in a group (`-f`).
    pub receivers: u32,
    /// `-s`: bytes of a message.
    pub bytes: u32,
    /// All tasks but main are in one task group, of 1024 shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cgroup: bool,
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ipc {
    /// Pipes.
    Pipe,
    /// AF_UNIX stream sockets.
    Socket,
}

/// What the tasks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Processes.
    Process,
    /// Threads of one process.
    Thread,
}

impl Hackbench {
    /// Checks the arguments.
    pub fn validate(&self) -> Result<()> {
        for (name, value) in [
            ("groups", self.groups),
            ("loops", self.loops),
            ("senders", self.senders),
            ("receivers", self.receivers),
            ("bytes", self.bytes),
        ] {
            if value == 0 {
                return Err(SimError::invalid(name, value, "must be at least 1"));
            }
        }
        if self.bytes > MAX_BYTES {
            return Err(SimError::invalid(
                "bytes",
                self.bytes,
                format!("must be at most {MAX_BYTES}, a page of a pipe"),
            ));
        }
        let a_group = u64::from(self.senders) + u64::from(self.receivers);
        let tasks = u64::from(self.groups).saturating_mul(a_group);
        if tasks >= MAX_TASKS {
            let rule = format!(
                "with {} + {} tasks a group there must be fewer than {MAX_TASKS}",
                self.senders, self.receivers
            );
            return Err(SimError::invalid("groups", self.groups, rule));
        }
        if u64::from(self.loops) * u64::from(self.senders.max(self.receivers)) > u64::from(u32::MAX) {
            return Err(SimError::invalid(
                "loops",
                self.loops,
                "must leave each task fewer than 2^32 messages",
            ));
        }
        Ok(())
    }

    /// The tasks, programs and channels.
    pub fn load(&self) -> Load {
        const READY: ChannelId = 0;
        const WAKE: ChannelId = 1;
        let channel = match self.ipc {
            Ipc::Pipe => ChannelKind::Pipe,
            Ipc::Socket => ChannelKind::Socket,
        };
        let children = self.groups * (self.senders + self.receivers);
        let mut ops = vec![
            Op::Fork { first: 1, count: children, gap_ns: 0 },
            Op::Read { channel: READY, messages: children },
            Op::ClockStart,
            Op::Write { first: WAKE, count: 1, rounds: 1 },
            Op::Reap { children },
            Op::ClockStop,
        ];
        let thread = self.mode == Mode::Thread;
        let mut tasks = vec![TaskSpec { thread, ..TaskSpec::new(0, LoadWeight::NICE_0) }];
        let mut add = |ops: &mut Vec<Op>, op: Op, count: u32| {
            let program = ops.len() as u32;
            ops.extend([
                Op::Write { first: READY, count: 1, rounds: 1 },
                Op::Poll { channel: WAKE },
                op,
                Op::Exit,
            ]);
            for _ in 0..count {
                let id = tasks.len() as TaskId;
                let mm = if thread { 0 } else { id };
                let group = u16::from(self.cgroup);
                tasks.push(TaskSpec { mm, group, thread, ..TaskSpec::new(program, LoadWeight::NICE_0) });
            }
        };
        for group in 0..self.groups {
            let first = 2 + group * self.receivers;
            for receiver in 0..self.receivers {
                let messages = self.senders * self.loops;
                add(&mut ops, Op::Read { channel: first + receiver, messages }, 1);
            }
            add(&mut ops, Op::Write { first, count: self.receivers, rounds: self.loops }, self.senders);
        }
        Load {
            groups: super::one_group_if(self.cgroup),
            channels: vec![(channel, self.bytes); 2 + (self.groups * self.receivers) as usize],
            ..Load::new(tasks, ops)
        }
    }
}
