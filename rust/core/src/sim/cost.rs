//! What the kernel does not decide and a machine needs time for: the cost model.
//!
//! One set of numbers a machine, blind to the kernel: nothing here may know a kernel's name or a patch.
//! A value is a guess about hardware, measured or fitted; each states its unit in its name.

use serde::{Deserialize, Serialize};

use crate::error::{Result, SimError};

/// Declares [`CostModel`] with a default and a description a field, and the table Python shows.
macro_rules! cost_model {
    ($( $(#[doc = $doc:literal])+ $name:ident: $default:literal, )+) => {
        /// Costs of a machine, in ns where the name says so, per mille of full speed otherwise.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct CostModel {
            $( $(#[doc = $doc])+ pub $name: u64, )+
        }

        impl Default for CostModel {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        /// Name, default and description of every cost.
        pub const COST_TABLE: &[(&str, u64, &str)] = &[ $( (stringify!($name), $default, concat!($($doc),+)), )+ ];

        impl CostModel {
            fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [ $( (stringify!($name), self.$name), )+ ].into_iter()
            }
        }
    };
}

cost_model! {
    /// Context switch between two tasks, from the decision to the first instruction of the next.
    context_switch_ns: 900,
    /// What a switch to another address space costs on top (processes, not threads).
    mm_switch_ns: 150,
    /// try_to_wake_up() on the waker's CPU, placement scan excluded.
    wakeup_ns: 600,
    /// Looking at one CPU while searching an idle one.
    scan_cpu_ns: 25,
    /// Reschedule interrupt from one busy CPU to another.
    ipi_ns: 1_000,
    /// Leaving the idle state after the interrupt.
    idle_exit_ns: 3_000,
    /// Timer tick with its accounting.
    tick_ns: 1_200,
    /// A balance pass, before it looks at any CPU.
    balance_pass_ns: 600,
    /// A balance pass, for each CPU of the domain.
    balance_cpu_ns: 60,
    /// Moving one task in a balance pass.
    balance_move_ns: 800,
    /// Starting and finishing the stopper for an active balance.
    active_balance_ns: 3_000,
    /// fork() in the parent.
    fork_ns: 60_000,
    /// Creation of a thread in the parent.
    thread_create_ns: 12_000,
    /// execve(), the move to another CPU excluded.
    exec_ns: 250_000,
    /// exit() of a process.
    exit_ns: 45_000,
    /// exit() of a thread.
    thread_exit_ns: 6_000,
    /// wait() for one child that has ended.
    reap_ns: 5_000,
    /// poll() or an interrupted look at a file that is not ready.
    poll_ns: 500,
    /// write() of a message into a pipe, its copy excluded.
    pipe_write_ns: 400,
    /// read() of a message from a pipe, its copy excluded.
    pipe_read_ns: 400,
    /// Part of a pipe operation that holds the pipe's mutex.
    pipe_locked_ns: 250,
    /// write() of a message into an AF_UNIX stream socket, its copy excluded.
    socket_write_ns: 900,
    /// read() of a message from an AF_UNIX stream socket, its copy excluded.
    socket_read_ns: 900,
    /// Part of a socket operation that holds the receive queue's lock.
    socket_locked_ns: 60,
    /// send() of a message over loopback TCP, through the stack to the receiver's queue, its copy excluded.
    tcp_write_ns: 2_500,
    /// recv() of a message from a TCP socket, its copy excluded.
    tcp_read_ns: 600,
    /// Part of a TCP operation that holds the socket's lock.
    tcp_locked_ns: 60,
    /// tbench: what a client does between a reply and the next request, its system calls excluded.
    tbench_client_ns: 1_000,
    /// tbench: what a server does with a request, its system calls excluded.
    tbench_server_ns: 500,
    /// LU: one point of the grid in one of a step's two sweeps, its block of the Jacobian and its solution.
    lu_point_ns: 600,
    /// kernbench: compiler and assembler on one file, system calls and page faults excluded.
    kernbench_file_us: 300_000,
    /// kernbench: work in the kernel of each process of a job: page faults, system calls; fork, exec and exit excluded.
    kernbench_process_us: 10_000,
    /// kernbench: the end of the build, which nothing runs beside, for each file that was compiled.
    kernbench_link_us: 5_000,
    /// kernbench: assembly text of a file, which goes through a pipe by the page; a page at least.
    kernbench_asm_kib: 96,
    /// One turn of libgomp's loop in which a thread spins at a barrier.
    omp_spin_turn_ns: 6,
    /// Copy of 1,024 bytes.
    copy_kib_ns: 100,
    /// A message or a lock last touched by another CPU of the same LLC.
    transfer_llc_ns: 60,
    /// The same from another LLC of the node.
    transfer_node_ns: 200,
    /// The same from another node.
    transfer_remote_ns: 400,
    /// First run after a move to another core of the same LLC: a KiB of the task's footprint comes from the shared cache.
    refill_llc_kib_ns: 64,
    /// The same after a move to another LLC of the node: it comes from memory or from the other cache.
    refill_node_kib_ns: 190,
    /// The same after a move to another node.
    refill_remote_kib_ns: 380,
    /// Speed of a hardware thread while one sibling is busy.
    smt2_speed_permille: 620,
    /// Speed of a hardware thread while two siblings are busy.
    smt3_speed_permille: 460,
    /// Speed of a hardware thread while three or more siblings are busy.
    smt4_speed_permille: 370,
    /// A NUMA hinting fault, a migration of its page excluded.
    numa_fault_ns: 1_500,
    /// Migration of a page to another node, its copy excluded.
    page_migrate_ns: 2_500,
    /// Marking one page in a NUMA scan.
    numa_scan_page_ns: 30,
    /// How much of a distance's excess in the table of distances is latency: 1000 takes it at its word.
    remote_latency_permille: 1_000,
    /// Even spread of every piece of work around its mean, plus or minus.
    work_jitter_permille: 150,
    /// Largest offset of one CPU's tick from the others', drawn for each CPU and seed.
    tick_skew_ns: 20_000,
}

impl CostModel {
    /// Speed of a hardware thread with so many busy siblings, per mille.
    pub fn busy_thread_permille(&self, busy_siblings: usize) -> u64 {
        match busy_siblings {
            0 => 1000,
            1 => self.smt2_speed_permille,
            2 => self.smt3_speed_permille,
            _ => self.smt4_speed_permille,
        }
    }

    /// Reads the costs from JSON and checks them.
    pub fn from_json(json: &str) -> Result<Self> {
        let costs: Self = serde_json::from_str(json)
            .map_err(|error| SimError::invalid("costs", "the JSON given", error.to_string()))?;
        costs.validate()?;
        Ok(costs)
    }

    /// Checks the ranges that the engine relies on.
    pub fn validate(&self) -> Result<()> {
        for (name, value) in self.values() {
            let argument = format!("costs.{name}");
            if name.ends_with("speed_permille") && !(1..=1000).contains(&value) {
                return Err(SimError::invalid(argument, value, "a speed is 1 to 1000 per mille"));
            }
            if name == "work_jitter_permille" && value > 1000 {
                return Err(SimError::invalid(argument, value, "a spread is 0 to 1000 per mille"));
            }
            if name == "remote_latency_permille" && value > 10_000 {
                return Err(SimError::invalid(
                    argument,
                    value,
                    "a part of the excess is 0 to 10000 per mille",
                ));
            }
            if name.ends_with("_us") && value > 60_000_000 {
                return Err(SimError::invalid(argument, value, "a piece of work is at most 60000000 us"));
            }
            if name == "kernbench_asm_kib" && value > 65_536 {
                return Err(SimError::invalid(
                    argument,
                    value,
                    "a file's assembly text is at most 65536 KiB",
                ));
            }
            if name.ends_with("_ns") && value > 10_000_000 {
                return Err(SimError::invalid(argument, value, "a cost is at most 10000000 ns"));
            }
        }
        Ok(())
    }
}
