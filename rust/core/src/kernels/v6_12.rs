//! v6.12: the queue by deadline (EEVDF).

use super::{Kernel, eevdf, v5_7};

/// The generation.
pub const KERNEL: Kernel = Kernel {
    name: "v6.12",
    source: "kernel/sched/fair.c of Linux 6.12",
    summary: "v5.7 with the queue by eligibility and deadline.",
    queue: eevdf::QUEUE,
    ..v5_7::KERNEL
};
