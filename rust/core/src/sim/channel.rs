//! Pipes and AF_UNIX stream sockets: how much fits, who sleeps, who is woken. And barriers.

use std::collections::VecDeque;

use super::rq::TaskId;

/// Slots of a pipe's ring (`PIPE_DEF_BUFFERS`) and bytes in each.
const PIPE_BUFFERS: usize = 16;
const PAGE_SIZE: u32 = 4096;
/// `net.core.wmem_default`: the send buffer of a socket.
const SOCKET_SNDBUF: u32 = 212_992;
/// Bytes that a socket buffer takes beside its data block: the `sk_buff`, and the shared info inside the block.
const SK_BUFF_BYTES: u32 = 256;
const SKB_SHARED_INFO_BYTES: u32 = 320;

/// Which kind of channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelKind {
    /// A pipe: fs/pipe.c as of v5.6, sixteen pages, small writes merge into the last one.
    Pipe,
    /// A connected pair of AF_UNIX stream sockets: net/unix/af_unix.c, one buffer a message.
    Socket,
    /// One direction of a loopback TCP connection: one buffer a message.
    Tcp,
}

/// A meeting point of a fixed number of tasks.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// How many meet.
    pub size: u32,
    /// Who has come.
    pub waiting: Vec<TaskId>,
}

/// A one-way channel of equal messages.
#[derive(Clone, Debug)]
pub struct Channel {
    kind: ChannelKind,
    /// Messages inside.
    queued: u32,
    /// Pipe: messages a page holds. Socket: memory one message takes.
    unit: u32,
    /// Pipe: messages left in each page of the ring, first to be read first.
    pages: VecDeque<u32>,
    /// Pipe: messages ever put into the last page.
    last_page_filled: u32,
    /// Readers asleep, in order.
    pub readers: VecDeque<TaskId>,
    /// Writers asleep, in order.
    pub writers: VecDeque<TaskId>,
    /// Tasks in poll(), in order.
    pub pollers: VecDeque<TaskId>,
    /// Until when the lock of the channel is held.
    pub locked_until_ns: u64,
    /// CPU that touched it last.
    pub last_cpu: u16,
    /// Copying one message, ns.
    pub copy_ns: u64,
}

/// Whom an operation on a channel wakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wakes {
    /// Sleeping readers to wake.
    pub readers: usize,
    /// Sleeping writers to wake.
    pub writers: usize,
}

impl Channel {
    /// An empty channel for messages of `bytes` (1 to 4,096), each copied in `copy_ns`.
    pub fn new(kind: ChannelKind, bytes: u32, copy_ns: u64) -> Self {
        let unit = match kind {
            ChannelKind::Pipe => PAGE_SIZE / bytes,
            ChannelKind::Socket | ChannelKind::Tcp => socket_truesize(bytes),
        };
        Self {
            kind,
            queued: 0,
            unit,
            pages: VecDeque::with_capacity(PIPE_BUFFERS),
            last_page_filled: 0,
            readers: VecDeque::new(),
            writers: VecDeque::new(),
            pollers: VecDeque::new(),
            locked_until_ns: 0,
            last_cpu: u16::MAX,
            copy_ns,
        }
    }

    /// The kind.
    pub fn kind(&self) -> ChannelKind {
        self.kind
    }

    /// Whether a read would sleep.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Whether a write sleeps. `slept`: it slept before, and then a pipe's last page is no longer merged into.
    #[inline]
    pub fn is_full(&self, slept: bool) -> bool {
        match self.kind {
            ChannelKind::Pipe => self.ring_is_full() && (slept || self.last_page_filled == self.unit),
            ChannelKind::Socket | ChannelKind::Tcp => self.queued * self.unit >= SOCKET_SNDBUF,
        }
    }

    /// Whether every slot of a pipe's ring is in use (`pipe_full()`).
    fn ring_is_full(&self) -> bool {
        self.pages.len() == PIPE_BUFFERS
    }

    /// Puts one message in; the channel is not full. `slept`: the writer slept for room in this very write.
    ///
    /// A pipe wakes its reader only when it was empty, and a writer that slept passes the wake-up on while there is room
    /// (fs/pipe.c, v5.6, pipe_write()). A socket wakes a sleeping reader each time (unix_stream_sendmsg()).
    pub fn put(&mut self, slept: bool) -> Wakes {
        debug_assert!(!self.is_full(slept));
        let was_empty = self.is_empty();
        self.queued += 1;
        match self.kind {
            ChannelKind::Pipe => {
                match self.pages.back_mut() {
                    Some(last) if !slept && self.last_page_filled < self.unit => {
                        *last += 1;
                        self.last_page_filled += 1;
                    }
                    _ => {
                        self.pages.push_back(1);
                        self.last_page_filled = 1;
                    }
                }
                Wakes { readers: usize::from(was_empty), writers: usize::from(slept && !self.ring_is_full()) }
            }
            ChannelKind::Socket | ChannelKind::Tcp => Wakes { readers: self.readers.len(), writers: 0 },
        }
    }

    /// Takes one message out; the channel is not empty. `slept`: the reader slept for it in this very read.
    ///
    /// A pipe wakes one writer if its ring was full, even when no page came free (pipe_read()); the writer then looks and
    /// sleeps again. A socket wakes all its writers once three quarters of the send buffer are free (unix_write_space()).
    pub fn take(&mut self, slept: bool) -> Wakes {
        debug_assert!(!self.is_empty());
        let was_full = self.ring_is_full();
        self.queued -= 1;
        match self.kind {
            ChannelKind::Pipe => {
                let first = &mut self.pages[0];
                *first -= 1;
                if *first == 0 {
                    self.pages.pop_front();
                }
                Wakes { readers: usize::from(slept && !self.is_empty()), writers: usize::from(was_full) }
            }
            ChannelKind::Socket | ChannelKind::Tcp => {
                let writable = 4 * self.queued * self.unit <= SOCKET_SNDBUF;
                Wakes { readers: 0, writers: if writable { self.writers.len() } else { 0 } }
            }
        }
    }
}

/// `skb->truesize` of a message: its data block, rounded up as kmalloc() does, and the `sk_buff`.
fn socket_truesize(bytes: u32) -> u32 {
    (bytes.next_multiple_of(64) + SKB_SHARED_INFO_BYTES).next_power_of_two() + SK_BUFF_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(channel: &mut Channel) -> u32 {
        let mut count = 0;
        while !channel.is_full(false) {
            channel.put(false);
            count += 1;
        }
        count
    }

    #[test]
    fn a_pipe_holds_forty_messages_a_page_and_a_socket_what_its_send_buffer_takes() {
        assert_eq!(fill(&mut Channel::new(ChannelKind::Pipe, 100, 0)), 640);
        assert_eq!(fill(&mut Channel::new(ChannelKind::Pipe, 4096, 0)), 16);
        assert_eq!(fill(&mut Channel::new(ChannelKind::Socket, 100, 0)), 278);
    }

    #[test]
    fn a_full_pipe_has_room_only_when_a_page_is_read_out() {
        let mut pipe = Channel::new(ChannelKind::Pipe, 100, 0);
        fill(&mut pipe);
        for read in 1..40 {
            assert_eq!(pipe.take(false), Wakes { readers: 0, writers: 1 }, "read {read}");
            assert!(pipe.is_full(false), "read {read}");
        }
        pipe.take(false);
        assert!(!pipe.is_full(false));
        assert_eq!(fill(&mut pipe), 40);
    }

    #[test]
    fn a_pipe_drains_and_fills_by_any_mix_without_losing_count() {
        let mut pipe = Channel::new(ChannelKind::Pipe, 100, 0);
        let mut inside = 0;
        for step in 0..10_000u32 {
            if !pipe.is_full(false) && (step * 7919) % 5 < 3 {
                pipe.put(false);
                inside += 1;
            } else if !pipe.is_empty() {
                pipe.take(false);
                inside -= 1;
            }
            assert_eq!(pipe.queued, inside);
            assert!(pipe.pages.len() <= PIPE_BUFFERS);
            assert_eq!(pipe.pages.iter().sum::<u32>(), inside);
        }
    }

    #[test]
    fn a_pipe_wakes_on_edges_and_a_socket_on_its_quarter() {
        let mut pipe = Channel::new(ChannelKind::Pipe, 100, 0);
        assert_eq!(pipe.put(false).readers, 1);
        assert_eq!(pipe.put(false).readers, 0);
        let mut socket = Channel::new(ChannelKind::Socket, 100, 0);
        let full = fill(&mut socket);
        socket.writers.extend([1, 2, 3]);
        let woken: Vec<usize> = (0..full).map(|_| socket.take(false).writers).collect();
        let first = woken.iter().position(|&writers| writers == 3).unwrap();
        assert_eq!(full as usize - first - 1, 69);
    }
}
