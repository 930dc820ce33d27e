//! What tasks do: programs of a few operations, walked by a small interpreter (`exec`).
//!
//! A program is a span of `Sim::ops`, shared by all tasks that do the same; a task keeps its place and its counters.

use super::rq::TaskId;

/// A channel's index in `Sim::channels`.
pub type ChannelId = u32;

/// Work, or sleep, that no run sees the end of: 2.4 hours, as much as can be scaled by a speed in 64 bits.
pub const HOG_NS: u64 = 1 << 43;

/// One operation of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// fork() or clone() of the tasks `first .. first + count`, one after another.
    Fork {
        /// The first child.
        first: TaskId,
        /// How many.
        count: u32,
        /// Sleep after each, ns.
        gap_ns: u64,
    },
    /// Work of its own, ns at full speed.
    Compute {
        /// The mean.
        ns: u64,
        /// Even spread, plus or minus per mille.
        spread_permille: u32,
    },
    /// Work inside the kernel, ns at full speed: system calls and page faults that need no step of their own.
    System {
        /// The mean.
        ns: u64,
        /// Even spread, plus or minus per mille.
        spread_permille: u32,
    },
    /// A sleep on a timer.
    Sleep {
        /// The mean.
        ns: u64,
        /// Even spread, plus or minus per mille.
        spread_permille: u32,
    },
    /// A sleep until the task's own start.
    WaitStart,
    /// The program goes on elsewhere.
    Jump {
        /// Index into `Sim::ops`.
        to: u32,
    },
    /// Waits until all of a barrier's tasks have come.
    Barrier {
        /// The barrier.
        barrier: u32,
        /// So much work is spent spinning in user space, then the task sleeps on a futex.
        spin_ns: u64,
    },
    /// Spins in user space until a flag is set, then clears it.
    TakeFlag {
        /// The flag; no other task takes it.
        flag: u32,
    },
    /// Spins in user space until a flag is clear, then sets it.
    SetFlag {
        /// The flag; no other task sets it.
        flag: u32,
    },
    /// The end of a loop: the program goes back to its start until it has gone through it often enough. Some operation
    /// of a loop must take time.
    Repeat {
        /// Start of the loop, an index into `Sim::ops`.
        to: u32,
        /// How often.
        times: u32,
        /// Loops around this one.
        depth: u8,
    },
    /// write() of one message to each of `count` channels, in order, `rounds` times over.
    Write {
        /// The first channel.
        first: ChannelId,
        /// How many channels.
        count: u32,
        /// How often.
        rounds: u32,
    },
    /// read() of `messages` messages.
    Read {
        /// From where.
        channel: ChannelId,
        /// How many.
        messages: u32,
    },
    /// poll() until the channel has a message, which stays there.
    Poll {
        /// The channel.
        channel: ChannelId,
    },
    /// wait() for `children` children to end.
    Reap {
        /// How many.
        children: u32,
    },
    /// make -j: keeps up to `slots` children at work, each in the first free of the slots `first`, `first + tasks`, ..., and
    /// waits for any of them, until `total` have been forked and have ended.
    Jobs {
        /// The first slot: its child, with the tasks that this one forks behind it.
        first: TaskId,
        /// Tasks of a slot.
        tasks: u32,
        /// How many slots.
        slots: u32,
        /// Children in all.
        total: u32,
    },
    /// The benchmark's clock starts.
    ClockStart,
    /// The benchmark's clock stops, and with it the run.
    ClockStop,
    /// The task goes to a CPU drawn evenly: what it starts next is started from there.
    Roam,
    /// execve(): the task may first go to an idler CPU.
    Exec,
    /// exit().
    Exit,
}

/// How far the present operation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing done yet: the next look decides what it costs.
    Begin,
    /// The work of the operation is under way; its effect comes at the end.
    Work,
    /// Looking at a file that was not ready; sleeps at the end if it still is not.
    Look,
    /// Spinning until another task ends it.
    Spin,
    /// Waking the pollers of a channel one by one, interrupts off.
    Herd(ChannelId),
}

/// A task's place in its program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The present operation, an index into `Sim::ops`.
    pub at: u32,
    /// Its phase.
    pub phase: Phase,
    /// Slept inside the present operation (a pipe then passes the wake-up on).
    pub slept: bool,
    /// Channels written in this round, jobs forked.
    pub step: u32,
    /// Rounds, messages, children done.
    pub done: u32,
    /// The parent, woken at exit.
    pub parent: TaskId,
}

impl Program {
    /// At the start of the program at `at`.
    pub fn new(at: u32, parent: TaskId) -> Self {
        Self { at, phase: Phase::Begin, slept: false, step: 0, done: 0, parent }
    }
}
